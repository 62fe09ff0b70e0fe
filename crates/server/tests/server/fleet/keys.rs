//! Keys that the store keeps for its backends.

use super::{Backend, pause};
use bowline_proto::cursor::Keyring;
use bowline_store::{KeyStore as _, MemoryStore};
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn they_are_made_once_and_outlive_their_maker() {
    let store = MemoryStore::default();
    let (a, b) = (Backend::new(&store), Backend::new(&store));
    let client = a.server.client("2025-11-25").await;
    let mut there = b.serves(&client);
    let mut call = there.call("gate", json!({})).await;
    call.event().await;
    let keys = store.shared_keys().await.unwrap();
    assert_eq!(keys.len(), 1);
    // A backend that comes later.
    let c = Backend::new(&store);
    assert!(c.serves(&client).get(call.last_id.as_deref()).await.event().await.unwrap().is_priming());
    pause(60.0).await;
    assert_eq!(store.shared_keys().await.unwrap(), keys, "nobody replaces them unasked");
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_given_leave_the_store_alone() {
    let store = MemoryStore::default();
    let keys = Keyring::from_bytes(&[[7_u8; 32]]).unwrap();
    let a = Backend::with(&store, |builder| builder.keyring(keys));
    a.server.client("2025-11-25").await;
    pause(60.0).await;
    assert_eq!(store.shared_keys().await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn they_are_replaced_and_nobody_notices() {
    let store = MemoryStore::default();
    let rotating =
        || Backend::options(&store, |options| options.rotate_key_every = Some(Duration::from_secs(600)));
    let (a, b) = (rotating(), rotating());
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("count", json!({ "n": 100, "every": 10 })).await;
    call.event().await;
    let first = store.shared_keys().await.unwrap();
    let mut cursor = call.last_id.clone();
    drop(call);
    let mut seen = 0;
    let mut lists = vec![first.clone()];
    // Every poll elsewhere than the one before, over more than one replacement.
    for round in 0..32 {
        let backend = if round % 2 == 0 { &b } else { &a };
        let mut poll = backend.serves(&client).get(cursor.as_deref()).await;
        assert_eq!(poll.status, 200, "round {round}");
        for message in poll.messages().await {
            if let Some(n) = message["params"]["progress"].as_u64() {
                seen += 1;
                assert_eq!(n, seen);
            }
        }
        cursor = poll.last_id;
        let keys = store.shared_keys().await.unwrap();
        assert!(keys.len() <= 2, "two are valid at a time");
        if lists.last() != Some(&keys) {
            lists.push(keys);
        }
        pause(5.0).await;
    }
    assert!(seen > 80);
    // Known before it signs: behind the old one first, then in front of it.
    assert_eq!(lists.len(), 3, "one replacement in a quarter of an hour");
    assert_eq!((lists[1].len(), &lists[1][0]), (2, &first[0]));
    assert_eq!((&lists[2][0], &lists[2][1]), (&lists[1][1], &first[0]));
}
