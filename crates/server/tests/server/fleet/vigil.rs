//! Who may say that a backend is dead, and when.

use super::{Backend, link::Way, pause};
use bowline_store::MemoryStore;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, timeout};

#[tokio::test(start_paused = true)]
async fn a_death_is_told_in_time_though_no_backend_lives_as_long_as_a_lease() {
    let store = MemoryStore::default();
    let a = Backend::new(&store);
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    let mut cursor = call.last_id.clone();
    a.link.set(Way::Cut);
    let died = Instant::now();
    let told = loop {
        pause(1.0).await;
        // Each of them is there for 4 s, and then dead as well.
        let next = Backend::new(&store);
        let mut there = next.serves(&client).get(cursor.as_deref()).await;
        let messages = timeout(Duration::from_secs(4), there.messages()).await;
        next.link.set(Way::Cut);
        match messages {
            Ok(messages) => break messages,
            Err(_) => cursor = there.last_id.clone().or(cursor),
        }
        assert!((Instant::now() - died).as_secs() < 60, "never told");
    };
    assert_eq!(told[0]["error"]["data"], json!({ "reason": "owner_lost", "outcome": "unknown" }), "{told:?}");
    let after = (Instant::now() - died).as_secs();
    assert!((6..=20).contains(&after), "{after} s");
}

/// One that nobody reads is ended by a search, which does not wait for a client or for a lease either.
#[tokio::test(start_paused = true)]
async fn nor_does_anybody_have_to_come_for_it() {
    let store = MemoryStore::default();
    let a = Backend::new(&store);
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    client.call("stubborn", json!({})).await.event().await;
    a.link.set(Way::Cut);
    for _ in 0..6 {
        let next = Backend::new(&store);
        pause(3.0).await;
        next.link.set(Way::Cut);
    }
    assert_eq!((store.stats().streams_open, store.stats().streams_sealed), (0, 1));
}

/// Long enough to cost one backend its lease and short enough to leave another one its own: who lives is not buried by who came back first.
#[tokio::test(start_paused = true)]
async fn an_outage_that_costs_one_lease_of_two_buries_nobody() {
    let store = MemoryStore::default();
    let a = Backend::new(&store);
    pause(2.8).await;
    let b = Backend::new(&store);
    pause(15.1).await;
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("count", json!({ "then": 20 })).await;
    call.event().await;
    // a gave its last sign of life 2.9 s ago, b just now.
    for backend in [&a, &b] {
        backend.link.set(Way::Cut);
    }
    pause(7.6).await;
    b.link.set(Way::Open);
    let mut there = b.serves(&client).get(call.last_id.as_deref()).await;
    pause(2.0).await;
    a.link.set(Way::Open);
    let messages = there.messages().await;
    let newest = there.last_id.clone();
    let messages = if messages.is_empty() {
        b.serves(&client).get(newest.as_deref()).await.messages().await
    } else {
        messages
    };
    assert_eq!(messages[0]["result"]["counted"], 0, "{messages:?}");
    assert_eq!(b.server.endpoint.metrics().streams_reaped.get(), 0);
}

/// After an outage that cost everybody the lease, who is started anew knows no more than who comes back.
#[tokio::test(start_paused = true)]
async fn a_new_backend_buries_nobody_after_an_outage() {
    let store = MemoryStore::default();
    let [a, b] = [Backend::new(&store), Backend::new(&store)];
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("count", json!({ "then": 40 })).await;
    call.event().await;
    for backend in [&a, &b] {
        backend.link.set(Way::Cut);
    }
    pause(15.0).await;
    let c = Backend::new(&store);
    let mut there = c.serves(&client).get(call.last_id.as_deref()).await;
    assert!(timeout(Duration::from_secs(4), there.messages()).await.is_err(), "nobody is dead yet");
    a.link.set(Way::Open);
    pause(20.0).await;
    assert_eq!(c.server.endpoint.metrics().streams_reaped.get(), 0);
    let messages = c.serves(&client).get(there.last_id.as_deref()).await.messages().await;
    assert_eq!(messages[0]["result"]["counted"], 0, "{messages:?}");
}
