//! A backend that leaves while others stay.

use super::{Backend, backends, pause};
use bowline_server::CancelReason;
use bowline_store::{BackendRegistry as _, BackendState};
use serde_json::json;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn its_calls_finish_into_the_store_and_its_sessions_live_on() {
    let (store, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut old = a.server.client("2025-06-18").await;
    let mut call = client.call("count", json!({ "n": 3, "every": 3, "then": 1 })).await;
    call.event().await;
    let mut in_place = old.call("count", json!({ "then": 6 })).await;
    let mut standalone = client.get(None).await;
    standalone.event().await;

    let endpoint = a.server.endpoint.clone();
    let began = Instant::now();
    let left = tokio::spawn(async move {
        endpoint.drain(Duration::from_secs(30)).await;
        endpoint.close().await;
        Instant::now()
    });
    let parting = call.events().await;
    let parting = parting.last().unwrap();
    assert!(parting.is_priming() && parting.retry.is_some(), "{parting:?}");
    assert!(standalone.events().await.last().unwrap().retry.is_some());
    assert_eq!((Instant::now() - began).as_secs(), 0);
    pause(0.1).await;
    let states: Vec<_> = store.backends().await.unwrap().into_iter().map(|(_, state)| state).collect();
    assert!(states.contains(&BackendState::Draining), "{states:?}");
    // Whoever comes now is served: what it begins lives in the store.
    let new = a.server.client("2025-11-25").await;
    assert_eq!(b.serves(&new).clone().call("echo", json!({})).await.status, 200);
    // Polls are served here and there.
    let mut poll = client.get(call.last_id.as_deref()).await;
    assert!(poll.events().await.last().unwrap().is_priming());
    let mut poll = b.serves(&client).get(poll.last_id.as_deref()).await;
    let messages = poll.messages().await;
    assert_eq!(messages.last().unwrap()["result"]["counted"], 3, "{messages:?}");
    assert_eq!(in_place.messages().await.len(), 1);

    // Nobody has to come for a result before it may leave.
    let ended = left.await.unwrap();
    assert!((ended - began).as_secs() <= 11, "{:?}", ended - began);
    assert_eq!(a.server.script.ended.load(Ordering::SeqCst), 3, "what the handler held is given back");
    assert_eq!(store.stats().sessions, 3);
    assert_eq!(store.stats().tombstones, 0);
    for client in [&client, &old] {
        assert_eq!(b.serves(client).call("echo", json!({})).await.status, 200);
    }
    let states: Vec<_> = store.backends().await.unwrap();
    assert_eq!(states.len(), 1, "its lease is given up: {states:?}");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_told_so_wherever_it_is_asked_for() {
    let (store, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    let endpoint = a.server.endpoint.clone();
    let left = tokio::spawn(async move { endpoint.drain(Duration::from_secs(10)).await });
    call.events().await;
    let mut there = b.serves(&client).get(call.last_id.as_deref()).await;
    let messages = there.messages().await;
    assert_eq!(messages[0]["error"]["data"], json!({ "reason": "draining", "outcome": "unknown" }));
    left.await.unwrap();
    a.server.endpoint.close().await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Draining]);
    pause(30.0).await;
    assert_eq!(store.stats().streams_open, 0);
    assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn backends_are_replaced_one_by_one_under_a_client_that_notices_nothing() {
    let (store, [a]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut current = a;
    for round in 0..4 {
        let mut call = current.serves(&client).call("count", json!({ "n": 4, "every": 2 })).await;
        call.event().await;
        let next = Backend::new(&store);
        let leaving = current.server.endpoint.clone();
        let left = tokio::spawn(async move {
            leaving.drain(Duration::from_secs(30)).await;
            leaving.close().await;
        });
        let mut messages = call.messages().await;
        messages.extend(next.serves(&client).get(call.last_id.as_deref()).await.messages().await);
        let progress: Vec<_> =
            messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
        assert_eq!(progress, [1, 2, 3, 4], "round {round}");
        assert_eq!(messages.last().unwrap()["result"]["counted"], 4);
        left.await.unwrap();
        current = next;
        client.id();
    }
    assert_eq!(store.stats().sessions, 1);
}
