//! Bounds: those of the server's memory, of a mailbox, of an event; and that every key ends by itself.

use crate::support::{ALL, LONG, OWNER, at, call, connect, event, figure, made, options, stream_id};
use bowline_store::{
    Appended, BackendRegistry as _, CreateError, Event, EventClass, Mailbox as _, SessionStore as _,
    StreamKind, StreamLog as _, WakeBus as _, WriteError,
};
use bowline_store_redis::Options;
use bowline_testkit::Redis;
use bytes::Bytes;

fn droppable(length: usize) -> Event {
    Event { payload: vec![b'x'; length].into(), class: EventClass::Droppable }
}

#[tokio::test]
async fn a_server_without_memory_still_ends_calls() {
    let server = Redis::start("maxmemory-policy noeviction").await;
    let store = connect(&server.url(), Options::default()).await;
    let id = made(&store, 2).await;
    store.put_letter(id, "k", "l".into(), LONG).await.expect("a letter");
    server.ask(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let create = store.create(call(stream_id())).await;
    assert!(matches!(create, Err(CreateError::Full { .. })), "{create:?}");
    let append = store.append(at(id, 1, 3), droppable(10)).await;
    assert!(matches!(append, Err(WriteError::Full { .. })), "{append:?}");
    let append = store.append(at(id, 1, 3), event(3)).await;
    assert!(matches!(append, Err(WriteError::Unavailable(_))), "{append:?}");
    assert_eq!((figure(&store, "store_refused"), figure(&store, "store_events_dropped")), (1, 1));
    // What is there is read, and what runs comes to its end.
    assert_eq!(store.read_after(id, 0, ALL).await.map(|page| page.tail), Ok(2));
    assert_eq!(store.letters_after(id, 0).await.map(|letters| letters.len()), Ok(1));
    store.renew(OWNER, false, LONG).await.expect("a lease");
    assert_eq!(store.seal(at(id, 1, 3), Some("last".into()), LONG).await, Ok(Appended::New));
    store.remove(id).await.expect("removing");
    assert_eq!(figure(&store, "store_redis_breaker_opens"), 0);
}

#[tokio::test]
async fn an_event_and_a_mailbox_have_bounds() {
    let server = Redis::start("").await;
    let store = connect(
        &server.url(),
        options(|o| {
            o.event_bytes = 100;
            o.letters = 2;
            o.letter_bytes = 50;
        }),
    )
    .await;
    let id = made(&store, 0).await;
    let too_large = Event { payload: vec![b'x'; 101].into(), class: EventClass::Kept };
    assert!(matches!(store.append(at(id, 1, 1), too_large).await, Err(WriteError::Full { limit: 100, .. })));
    let sealed = store.seal(at(id, 1, 1), Some(vec![b'x'; 101].into()), LONG).await;
    assert!(matches!(sealed, Err(WriteError::Full { limit: 100, .. })), "{sealed:?}");
    let full = store.put_letter(id, "k", vec![b'x'; 50].into(), LONG).await.expect_err("too many bytes");
    assert!(full.0.contains("limited to 50"), "{full}");
    for key in ["a", "b"] {
        assert_eq!(store.put_letter(id, key, Bytes::new(), LONG).await, Ok(true));
    }
    let full = store.put_letter(id, "c", Bytes::new(), LONG).await.expect_err("too many letters");
    assert!(full.0.contains("limited to 2"), "{full}");
    assert_eq!(store.put_letter(id, "a", Bytes::new(), LONG).await, Ok(false));
}

/// Whatever a store does, nothing stays for good but the shared keys.
#[tokio::test]
async fn every_key_ends_by_itself() {
    let server = Redis::start("").await;
    let store = connect(&server.url(), Options::default()).await;
    store.renew(OWNER, false, LONG).await.expect("a lease");
    let mut wakeups = Vec::new();
    for kind in [StreamKind::Call, StreamKind::Standalone] {
        let id = stream_id();
        wakeups.push(store.subscribe(id));
        store.create(bowline_store::NewStream { kind, ..call(id) }).await.expect("making a stream");
        store.append(at(id, 1, 1), event(1)).await.expect("appending");
        store.put_letter(id, "k", "l".into(), LONG).await.expect("a letter");
        store.attach(id).await.expect("attaching");
        store.trim(id, 1);
        store.append(at(id, 1, 2), event(2)).await.expect("appending");
        if kind == StreamKind::Call {
            store.seal(at(id, 1, 3), Some("last".into()), LONG).await.expect("sealing");
        }
    }
    let record = bowline_store::SessionRecord {
        principal: None,
        revision: bowline_proto::revision::Revision::NEWEST_LEGACY,
        initialize: bowline_proto::jsonrpc::Raw::empty_object(),
        initialized: false,
        log_level: None,
        subscriptions: std::collections::BTreeSet::new(),
        standalone: stream_id(),
        notes: bowline_store::Notes::new(),
    };
    for id in ["one", "two"] {
        let version = store.create_session(id, record.clone(), LONG).await.expect("a session");
        store.update_session(id, version, record.clone()).await.expect("changing it");
    }
    store.delete_session("two", LONG).await.expect("ending it");
    crate::support::until("the waiters are registered", async || server.keys("*:w:*").await.len() == 2).await;
    let keys = server.keys("*").await;
    assert!(keys.len() >= 15, "{keys:?}");
    for key in keys {
        let ttl = server.ask(&["PTTL", &key]).await.number();
        assert!(ttl > 0, "{key} stays for good: {ttl}");
    }
}
