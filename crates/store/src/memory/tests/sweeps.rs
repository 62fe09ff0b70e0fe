use super::*;
use crate::{BackendRegistry, Mailbox, MemoryStats, SessionStore, Swept, WakeBus};

/// One of each, all of which end a minute from now.
fn fill(store: &MemoryStore, n: u64) {
    create(store, n).unwrap();
    append(store, n, 1, 100, EventClass::Kept).unwrap();
    create(store, n + 1_000_000).unwrap();
    seal(store, n + 1_000_000, 1, 100).unwrap();
    ready(store.create_session(&format!("live {n}"), record(), MINUTE)).unwrap();
    ready(store.create_session(&format!("dead {n}"), record(), MINUTE)).unwrap();
    ready(store.delete_session(&format!("dead {n}"), MINUTE)).unwrap();
    ready(store.put_letter(id(n), "key", Bytes::from_static(b"letter"), MINUTE)).unwrap();
    ready(store.renew(BackendId(n), false, MINUTE)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sweep_frees_everything_that_expired_and_the_accounts_are_even() {
    let store = MemoryStore::default();
    for n in 0..100 {
        fill(&store, n);
    }
    assert_eq!(store.sweep(10_000), Swept::default(), "nothing has ended");
    tokio::time::advance(MINUTE).await;
    let swept = store.sweep(10_000);
    assert_eq!(
        swept,
        Swept { streams: 200, sessions: 100, tombstones: 100, mailboxes: 100, leases: 100, more: false }
    );
    assert_eq!(store.stats(), MemoryStats::default());
    assert_eq!(store.sweep(10_000), Swept::default());
    assert!(!store.inner.evict_oldest_seal(), "nothing is left in the order of seals");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_keeps_to_its_budget_and_reaches_every_shard() {
    let store = MemoryStore::default();
    for n in 0..100 {
        fill(&store, n);
    }
    tokio::time::advance(MINUTE).await;
    let mut total = 0;
    for round in 0.. {
        let swept = store.sweep(7);
        assert!(swept.total() <= 7);
        total += swept.total();
        if !swept.more {
            break;
        }
        assert!(round < 100, "swept {total} of 600");
    }
    assert_eq!(total, 600);
    assert_eq!(store.stats(), MemoryStats::default());
}

#[tokio::test(start_paused = true)]
async fn what_is_prolonged_is_looked_at_once_in_its_time() {
    let store = MemoryStore::default();
    create(&store, 1).unwrap();
    for _ in 0..10 {
        tokio::time::advance(MINUTE / 2).await;
        store.keep(id(1), MINUTE);
        // The first look may come too early; another one in the same moment finds nothing to do.
        store.sweep(1);
        assert!(!store.sweep(1).more);
    }
    assert!(read(&store, 1, 0).is_ok());
    tokio::time::advance(MINUTE).await;
    assert_eq!(store.sweep(10).streams, 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_stream_can_be_made_anew_without_a_sweep() {
    let store = MemoryStore::default();
    create(&store, 1).unwrap();
    seal(&store, 1, 1, 100).unwrap();
    tokio::time::advance(MINUTE).await;
    create(&store, 1).unwrap();
    assert_eq!(read(&store, 1, 0).unwrap().tail, 0);
    let stats = store.stats();
    assert_eq!((stats.streams_open, stats.streams_sealed, stats.bytes), (1, 0, 0));
    assert_eq!(store.sweep(10).streams, 0);
}

#[tokio::test(start_paused = true)]
async fn what_goes_wakes_and_a_subscription_leaves_nothing() {
    let store = MemoryStore::new(MemoryLimits { streams: 3, ..MemoryLimits::default() });
    let mut waiting = Vec::new();
    for n in 1..=3 {
        create(&store, n).unwrap();
    }
    seal(&store, 3, 1, 10).unwrap();
    for n in 1..=3 {
        waiting.push(store.subscribe(id(n)));
    }
    assert_eq!(store.stats().subscriptions, 3);
    ready(store.remove(id(1))).unwrap();
    waiting[0].changed().await;
    create(&store, 4).unwrap();
    create(&store, 5).unwrap();
    assert_eq!(read(&store, 3, 0), Err(ReadError::Gone), "evicted for the fifth");
    waiting[2].changed().await;
    tokio::time::advance(MINUTE).await;
    store.sweep(10);
    waiting[1].changed().await;
    drop(waiting);
    assert_eq!(store.stats().subscriptions, 0);
    assert!(store.inner.shards.iter().all(|shard| shard.lock().waiters.is_empty()));
}
