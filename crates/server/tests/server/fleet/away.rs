//! SEMANTICS 5.6 and 6, "A store that does not answer": nobody is told anything wrong, and nobody hangs.

use super::{Backend, backends, link::Way, pause};
use crate::client::{Client, initialize};
use bowline_server::{CancelReason, ResponseMode};
use bowline_store::MemoryStore;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Both ways in which a store may be away.
const AWAY: [Way; 2] = [Way::Cut, Way::Silent];

/// And those in which it may take nothing in, although it can be read.
const UNWRITABLE: [Way; 2] = [Way::ReadOnly, Way::Locked];

fn all() -> impl Iterator<Item = Way> {
    AWAY.into_iter().chain(UNWRITABLE)
}

#[tokio::test(start_paused = true)]
async fn new_sessions_are_told_to_come_again() {
    for way in all() {
        let (_, [a]) = backends();
        let known = a.server.client("2025-11-25").await;
        a.link.set(way);
        let new = Client { session: None, ..known.clone() };
        for wait in [0.0, 20.0] {
            pause(wait).await;
            let began = Instant::now();
            let answer = new.post(&initialize("2025-11-25")).await;
            assert!((Instant::now() - began).as_millis() <= 1_000);
            assert_eq!(answer.status, 503);
            assert!(answer.headers.contains_key("retry-after"));
            assert_eq!(answer.json().await["error"]["data"]["reason"], "store_unavailable");
        }
        a.link.set(Way::Open);
        pause(5.0).await;
        assert_eq!(new.post(&initialize("2025-11-25")).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn quick_calls_go_on_and_slow_ones_are_told_to_come_again() {
    for way in AWAY {
        let (_, [a, b]) = backends();
        let mut client = a.server.client("2025-11-25").await;
        a.link.set(way);
        b.link.set(way);
        pause(3.0).await;
        assert_eq!(client.call("echo", json!({})).await.status, 200);
        let began = Instant::now();
        let answer = client.call("stubborn", json!({})).await;
        // The hold, and then a second at most.
        assert!((Instant::now() - began).as_millis() <= 2_000, "{:?}", Instant::now() - began);
        assert_eq!(answer.status, 503);
        assert!(answer.headers.contains_key("retry-after"));
        let error = answer.json().await["error"].clone();
        assert_eq!(error["data"], json!({ "reason": "store_unavailable", "outcome": "unknown" }));
        pause(0.1).await;
        assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::StoreAway]);
        // A session that this backend does not know may well live: never 404.
        let answer = b.serves(&client).call("echo", json!({})).await;
        assert_eq!(answer.status, 503);
        let answer = b.serves(&client).delete().await;
        assert_eq!(answer.status, 503);
        assert_eq!(client.delete().await.status, 503, "nothing can be ended that others would not know of");
        assert_eq!(client.get(None).await.status, 503);
        assert_eq!(client.call("echo", json!({})).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_at_once_is_given_without_an_id_to_come_back_with() {
    for way in all() {
        let store = MemoryStore::default();
        let a = Backend::options(&store, |options| options.response = ResponseMode::Sse);
        let mut client = a.server.client("2025-11-25").await;
        let events = client.call("echo", json!({})).await.events().await;
        assert!(events.len() == 2 && events[0].is_priming(), "{events:?}");
        a.link.set(way);
        for wait in [0.0, 20.0] {
            pause(wait).await;
            let began = Instant::now();
            let events = client.call("echo", json!({})).await.events().await;
            assert!((Instant::now() - began).as_millis() <= 1_000, "{:?}", Instant::now() - began);
            assert_eq!(events.len(), 1, "{events:?}");
            assert_eq!(events[0].id, None);
            assert!(events[0].data.as_ref().unwrap().get("result").is_some(), "{events:?}");
        }
        assert_eq!(a.server.endpoint.metrics().streams_unstored.get(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_takes_nothing_in_makes_nobody_wait_for_it() {
    for way in UNWRITABLE {
        let (store, [a, b]) = backends();
        let mut client = a.server.client("2025-11-25").await;
        let mut there = b.serves(&client);
        a.link.set(way);
        b.link.set(way);
        // A session that can be looked up is served anywhere.
        for client in [&mut client, &mut there] {
            assert_eq!(client.call("echo", json!({})).await.status, 200);
            let began = Instant::now();
            let answer = client.call("stubborn", json!({})).await;
            // The hold, and then a second at most.
            assert!((Instant::now() - began).as_millis() <= 2_000, "{:?}", Instant::now() - began);
            assert_eq!(answer.status, 503);
            assert!(answer.headers.contains_key("retry-after"));
            let error = answer.json().await["error"].clone();
            assert_eq!(error["data"], json!({ "reason": "store_unavailable", "outcome": "unknown" }));
        }
        assert_eq!(client.delete().await.status, 503, "nothing is ended that lives on in the store");
        a.link.set(Way::Open);
        b.link.set(Way::Open);
        pause(10.0).await;
        // What was refused is not done afterwards.
        assert_eq!(store.stats().streams_open, 0);
        assert_eq!(client.call("echo", json!({})).await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_connection_finishes_on_it_without_ids() {
    for way in all() {
        let (store, [a]) = backends();
        let mut client = a.server.client("2025-11-25").await;
        let mut call = client.call("count", json!({ "n": 2, "every": 2, "then": 10 })).await;
        let first = loop {
            let event = call.event().await.unwrap();
            if event.data.as_ref().is_some_and(|data| data.is_object()) {
                break event;
            }
        };
        assert!(first.id.is_some());
        a.link.set(way);
        let began = Instant::now();
        let rest = timeout(Duration::from_secs(20), call.events()).await.expect("no hang");
        let rest: Vec<_> = rest.into_iter().filter(|event| event.data.is_some()).collect();
        assert_eq!(rest.len(), 2, "{rest:?}");
        assert_eq!(rest[0].data.as_ref().unwrap()["params"]["progress"], 2);
        assert_eq!(rest[1].data.as_ref().unwrap()["result"]["counted"], 2);
        assert!(rest.iter().all(|event| event.id.is_none()), "{rest:?}");
        assert!((Instant::now() - began).as_secs() <= 14);
        // What the store missed it gets later.
        a.link.set(Way::Open);
        pause(10.0).await;
        assert_eq!(store.stats().streams_open, 0);
        let again = client.get(first.id.as_deref()).await.messages().await;
        assert_eq!(again.last().unwrap()["result"]["counted"], 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_gets_its_position_back_and_a_longer_wait() {
    for way in all() {
        let (_, [a, b]) = backends();
        let mut client = a.server.client("2025-11-25").await;
        let mut call = client.call("count", json!({ "n": 1, "every": 3, "then": 60 })).await;
        while call.event().await.unwrap().data.is_none_or(|data| !data.is_object()) {}
        let cursor = call.last_id.clone();
        drop(call);
        a.link.set(way);
        b.link.set(way);
        for backend in [&a, &b] {
            let began = Instant::now();
            let mut poll = backend.serves(&client).get(cursor.as_deref()).await;
            assert_eq!(poll.status, 200);
            let events = poll.events().await;
            assert!((Instant::now() - began).as_millis() <= 2_000, "{:?}", Instant::now() - began);
            assert!(events.len() == 1 && events[0].is_priming(), "{events:?}");
            assert!(events[0].retry.unwrap() >= 3_000, "{events:?}");
            assert_ne!(events[0].id, cursor);
            // The fresh id is as good as the old one.
            for backend in [&a, &b] {
                backend.link.set(Way::Open);
            }
            let mut poll = b.serves(&client).get(events[0].id.as_deref()).await;
            assert!(poll.event().await.unwrap().is_priming());
            for backend in [&a, &b] {
                backend.link.set(way);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_to_a_call_elsewhere_is_not_lost_in_silence() {
    for way in AWAY {
        let (_, [a, b]) = backends();
        let mut client = a.server.client("2025-11-25").await;
        let mut call = client.call("ask", json!({})).await;
        let question = loop {
            if let Some(data) = call.event().await.unwrap().data.filter(|data| data.is_object()) {
                break data;
            }
        };
        // So that it knows the session.
        assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 200);
        a.link.set(way);
        b.link.set(way);
        let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        let cancel = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": client.next_id }
        });
        for message in [&reply, &cancel] {
            assert_eq!(b.serves(&client).post(message).await.status, 503);
        }
        // Here is who asked.
        assert_eq!(client.post(&reply).await.status, 202);
        let events = timeout(Duration::from_secs(10), call.events()).await.expect("no hang");
        let result = events.iter().filter_map(|event| event.data.as_ref()).next_back().unwrap();
        assert_eq!(result["result"]["answer"]["action"], "decline");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_starts_without_its_store_serves_when_it_comes() {
    let (store, [a]) = backends();
    let client = a.server.client("2025-11-25").await;
    let link = super::Link::new(store);
    link.set(Way::Cut);
    let shared = std::sync::Arc::new(link.clone());
    let server = crate::client::Server::built(|builder| builder.shared_store(shared));
    let mut there = Client { endpoint: server.endpoint.clone(), ..client };
    let began = Instant::now();
    assert_eq!(there.call("echo", json!({})).await.status, 503);
    assert!((Instant::now() - began).as_millis() <= 1_000);
    link.set(Way::Open);
    pause(1.0).await;
    assert_eq!(there.call("echo", json!({})).await.status, 200);
}
