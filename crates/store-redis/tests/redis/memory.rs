//! What a parked call costs in Redis.

use crate::support::{OWNER, at, call, connect, event, options, random, stream_id};
use bowline_store::{BackendRegistry as _, StreamLog as _, WakeBus as _};
use bowline_testkit::{Redis, RedisKind};
use futures_util::{StreamExt as _, stream};
use std::time::Duration;

/// So many calls, each with one message, and its owner waiting for letters.
const CALLS: usize = 10_000;

/// The most bytes of the server's memory for each of them.
const BOUND: u64 = 1_536;

async fn used(server: &Redis) -> u64 {
    server.info("used_memory").await.parse().expect("a number")
}

async fn measure(kind: RedisKind) {
    let server = Redis::start_kind(kind, "").await;
    let store = connect(&server.url(), options(|o| o.deadline = Duration::from_secs(10))).await;
    store.renew(OWNER, false, Duration::from_hours(1)).await.expect("a lease");
    let before = used(&server).await;
    let wakeups: Vec<_> = stream::iter(0..CALLS)
        .map(|_| {
            let store = store.clone();
            async move {
                let id = stream_id();
                store.create(call(id)).await.expect("making a stream");
                store.append(at(id, 1, 1), event(random() % 1_000)).await.expect("appending");
                store.subscribe(id)
            }
        })
        .buffer_unordered(64)
        .collect()
        .await;
    crate::support::until("every owner is registered", async || {
        // Record, events, waiters of each.
        server.ask(&["DBSIZE"]).await.number() >= 3 * i64::try_from(CALLS).expect("small")
    })
    .await;
    let each = (used(&server).await - before) / CALLS as u64;
    let mut parts = Vec::new();
    for pattern in ["*:s:*", "*:l:*", "*:w:*"] {
        let key = server.keys(pattern).await.into_iter().next().expect("there are some");
        parts.push((pattern, server.ask(&["MEMORY", "USAGE", &key]).await.number()));
    }
    eprintln!("{kind:?}: {each} bytes for each parked call (MEMORY USAGE: {parts:?})");
    assert!(each <= BOUND, "a parked call costs {each} bytes ({parts:?}); {BOUND} are allowed");
    drop(wakeups);
}

#[tokio::test]
async fn a_parked_call_is_small_in_redis() {
    measure(RedisKind::Redis).await;
}

#[tokio::test]
async fn a_parked_call_is_small_in_valkey() {
    measure(RedisKind::Valkey).await;
}
