//! A request that reaches another backend than the one before.

use super::{Backend, backends, pause};
use crate::client::{Client, initialize};
use bowline_server::CancelReason;
use bowline_store::MemoryStore;
use serde_json::json;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_session_of_one_backend_is_served_by_another() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-06-18").await;
    let mut there = b.serves(&client);
    assert_eq!(there.call("echo", json!({ "x": 1 })).await.json().await["result"], json!({ "x": 1 }));
    assert_eq!(there.call("echo", json!({})).await.status, 200);
    assert_eq!(b.server.script.adopted.load(Ordering::SeqCst), 1, "shown to the handler once");
    assert_eq!(a.server.script.adopted.load(Ordering::SeqCst), 0, "who began it knows it");
    let peer = b.server.script.peers.lock()[0].clone();
    assert_eq!(peer.revision().to_string(), "2025-06-18");
    assert!(peer.initialize_params().as_str().contains("2025-06-18"));
    // What is negotiated holds everywhere.
    let echo = r#"{"jsonrpc":"2.0","id":77,"method":"echo"}"#;
    let answer = there.send(http::Method::POST, &[("mcp-protocol-version", "2025-11-25")], echo.into()).await;
    assert_eq!(answer.status, 400);
    assert_eq!(Client { session: Some("nobody".into()), ..there }.call("echo", json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_its_principals_alone_on_every_backend() {
    let (_, [a, b]) = backends();
    let mut alice =
        Client { endpoint: a.server.endpoint.clone(), session: None, next_id: 1, principal: Some("alice") };
    let hello = alice.post(&initialize("2025-11-25")).await;
    alice.session = Some(hello.headers["mcp-session-id"].to_str().unwrap().to_owned());
    let mut slow = alice.call("gate", json!({})).await;
    slow.event().await;
    for principal in [Some("bob"), None] {
        let other = Client { principal, ..b.serves(&alice) };
        assert_eq!(other.clone().call("echo", json!({})).await.status, 404);
        assert_eq!(other.get(slow.last_id.as_deref()).await.status, 404);
        assert_eq!(other.delete().await.status, 404);
    }
    assert_eq!(b.serves(&alice).get(slow.last_id.as_deref()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_one_backend_is_resumed_on_another() {
    let (_, [a, b, c]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut here = client.call("count", json!({ "n": 9, "every": 2, "then": 1 })).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(here.event().await.unwrap().data.filter(|data| data.is_object()));
    }
    // Taken over, live, while the first connection is open: nothing is lost or repeated.
    let mut there = b.serves(&client).get(here.last_id.as_deref()).await;
    while seen.len() < 6 {
        seen.extend(there.event().await.unwrap().data.filter(|data| data.is_object()));
    }
    assert_eq!(here.messages().await, [] as [serde_json::Value; 0]);
    let cursor = there.last_id.clone();
    drop(there);
    seen.extend(c.serves(&client).get(cursor.as_deref()).await.messages().await);
    let numbers: Vec<_> = seen.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    let expected: Vec<_> = (1..=9).map(Some).chain([None]).collect();
    assert_eq!(numbers, expected);
    assert_eq!(seen[9]["result"]["counted"], 9);
    assert_eq!(b.server.script.calls.load(Ordering::SeqCst), 0, "it ran where it began, and once");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_one_backend_is_answered_at_another() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut answer = client.call("ask", json!({})).await;
    let question = loop {
        let event = answer.event().await.unwrap();
        if let Some(data) = event.data.filter(|data| data.is_object()) {
            break data;
        }
    };
    let there = b.serves(&client);
    let reply =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": {} } });
    let began = Instant::now();
    // A client that is not sure sends it again.
    for _ in 0..2 {
        assert_eq!(there.post(&reply).await.status, 202);
    }
    let messages = answer.messages().await;
    assert_eq!(messages[0]["result"]["answer"]["action"], "accept");
    assert!((Instant::now() - began).as_millis() < 100, "at once");
    assert_eq!(b.server.endpoint.metrics().letters_sent.get(), 2);
    // Somebody else's session cannot put words into its mouth.
    let stranger = b.server.client("2025-11-25").await;
    assert_eq!(stranger.post(&reply).await.status, 202);
    assert_eq!(b.server.endpoint.metrics().responses_unknown.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_beside_any_call_is_answered_at_another_backend() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    let peer = a.server.script.peers.lock()[0].clone();
    let asked = tokio::spawn(async move { peer.ask("roots/list", None).await });
    let mut reader = b.serves(&client).get(None).await;
    let question = loop {
        let event = reader.event().await.unwrap();
        if let Some(data) = event.data.filter(|data| data.is_object()) {
            break data;
        }
    };
    assert_eq!(question["method"], "roots/list");
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } });
    assert_eq!(b.serves(&client).post(&reply).await.status, 202);
    let bowline_proto::jsonrpc::Reply::Result(reply) = asked.await.unwrap() else { panic!("no answer") };
    assert_eq!(reply.as_str(), r#"{"roots":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_from_when_it_was_read_elsewhere() {
    let store = MemoryStore::default();
    let quick = |options: &mut bowline_server::Options| {
        options.ask_timeout = std::time::Duration::from_secs(30);
    };
    let (a, b) = (Backend::options(&store, quick), Backend::options(&store, quick));
    let mut client = a.server.client("2025-11-25").await;
    let mut answer = client.call("ask", json!({ "after": 3 })).await;
    answer.event().await;
    let cursor = answer.last_id.take();
    drop(answer);
    // Nobody has seen it: nobody is late.
    pause(100.0).await;
    assert_eq!(a.server.endpoint.metrics().asks_timed_out.get(), 0);
    let mut poll = b.serves(&client).get(cursor.as_deref()).await;
    let messages = poll.messages().await;
    assert_eq!(messages[0]["method"], "elicitation/create");
    pause(20.0).await;
    let messages = b.serves(&client).get(poll.last_id.as_deref()).await.messages().await;
    assert_eq!(messages.last().unwrap()["error"]["data"]["reason"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_call_from_another_backend() {
    let (store, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let cancel = |id: u64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // While it runs and is read.
    let mut answer = client.call("stubborn", json!({})).await;
    answer.event().await;
    let began = Instant::now();
    assert_eq!(b.serves(&client).post(&cancel(client.next_id)).await.status, 202);
    assert_eq!(answer.messages().await, [] as [serde_json::Value; 0]);
    assert!((Instant::now() - began).as_millis() < 100);
    // Before it has said anything: it is met when the answer becomes a stream.
    let id = client.id();
    assert_eq!(b.serves(&client).post(&cancel(id)).await.status, 202);
    let early = json!({ "jsonrpc": "2.0", "id": id, "method": "stubborn" });
    let mut answer = client.post(&early).await;
    assert_eq!(answer.messages().await, [] as [serde_json::Value; 0]);
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Client, CancelReason::Client]);
    pause(3.0).await;
    assert_eq!(a.server.endpoint.metrics().calls.get(), 0);
    assert_eq!(store.stats().mailboxes, 0, "a call takes its mailbox with it");
    // A cancel that was used up meets no later call.
    let mut answer =
        client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "count", "params": { "then": 3 } })).await;
    assert_eq!(answer.messages().await[0]["result"]["counted"], 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_known_everywhere_within_a_second() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    let mut standalone = client.get(None).await;
    standalone.event().await;
    assert_eq!(client.call("echo", json!({})).await.status, 200);
    let began = Instant::now();
    assert_eq!(b.serves(&client).delete().await.status, 204);
    assert_eq!(call.messages().await, [] as [serde_json::Value; 0]);
    standalone.events().await;
    assert!((Instant::now() - began).as_millis() <= 1_000, "{:?}", Instant::now() - began);
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::SessionEnded]);
    assert_eq!(a.server.script.ended.load(Ordering::SeqCst), 1);
    for backend in [&a, &b] {
        let mut client = backend.serves(&client);
        assert_eq!(client.call("echo", json!({})).await.status, 404);
        assert_eq!(client.get(call.last_id.as_deref()).await.status, 404);
        assert_eq!(client.delete().await.status, 404);
    }
    // Nothing of it runs there: it is noticed when it is used.
    let mut quiet = a.server.client("2025-11-25").await;
    assert_eq!(b.serves(&quiet).delete().await.status, 204);
    pause(1.0).await;
    assert_eq!(quiet.call("echo", json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_known_everywhere_within_a_second() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut there = b.serves(&client);
    assert_eq!(there.call("logging/setLevel", json!({ "level": "error" })).await.status, 200);
    assert_eq!(there.call("resources/subscribe", json!({ "uri": "file:///x" })).await.status, 200);
    // At the same moment, here.
    assert_eq!(client.call("resources/subscribe", json!({ "uri": "file:///y" })).await.status, 200);
    pause(1.0).await;
    for client in [&mut client, &mut there] {
        assert_eq!(client.call("echo", json!({})).await.status, 200);
    }
    for backend in [&a, &b] {
        let peer = backend.server.script.peers.lock()[0].clone();
        assert_eq!(peer.log_level().as_deref(), Some("error"));
        assert_eq!(peer.subscriptions(), ["file:///x", "file:///y"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_call_asks_the_store_for_nothing() {
    let (store, [a]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    // What the client said before is on its way.
    pause(0.1).await;
    let before = a.link.asked();
    for _ in 0..10 {
        assert_eq!(client.call("echo", json!({})).await.status, 200);
    }
    assert_eq!(a.link.asked(), before);
    assert_eq!(store.stats().streams_open, 0);
    // A second later its record is too old, once.
    pause(1.1).await;
    for _ in 0..10 {
        assert_eq!(client.call("echo", json!({})).await.status, 200);
    }
    assert_eq!(a.link.asked(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_as_long_as_any_backend_is_asked() {
    let store = MemoryStore::default();
    let short = |options: &mut bowline_server::Options| {
        options.session_ttl = std::time::Duration::from_secs(60);
    };
    let (a, b) = (Backend::options(&store, short), Backend::options(&store, short));
    let client = a.server.client("2025-11-25").await;
    let mut there = b.serves(&client);
    for _ in 0..6 {
        pause(25.0).await;
        assert_eq!(there.call("echo", json!({})).await.status, 200);
    }
    // Not used here for long: given up, and not ended.
    assert_eq!(a.server.endpoint.metrics().sessions.get(), 0);
    assert_eq!(a.server.script.ended.load(Ordering::SeqCst), 1);
    assert_eq!(a.server.endpoint.metrics().sessions_expired.get(), 0);
    assert_eq!(a.serves(&client).call("echo", json!({})).await.status, 200);
    assert_eq!(a.server.script.adopted.load(Ordering::SeqCst), 1);
    // Not used anywhere: over.
    pause(80.0).await;
    assert_eq!(there.call("echo", json!({})).await.status, 404);
    assert_eq!(a.serves(&client).call("echo", json!({})).await.status, 404);
    assert_eq!(store.stats().sessions, 0);
}

/// A client that only reads, and is away between two connections whenever the backend looks at what is in use.
#[tokio::test(start_paused = true)]
async fn reading_keeps_a_session_too() {
    let store = MemoryStore::default();
    let short = |options: &mut bowline_server::Options| {
        options.session_ttl = std::time::Duration::from_secs(60);
    };
    let (a, b) = (Backend::options(&store, short), Backend::options(&store, short));
    let client = a.server.client("2025-11-25").await;
    for round in 0..12 {
        pause(20.0).await;
        let backend = if round % 3 == 2 { &b } else { &a };
        assert_eq!(backend.serves(&client).get(None).await.status, 200, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn polling_elsewhere_is_not_leaving() {
    let store = MemoryStore::default();
    let short = |options: &mut bowline_server::Options| {
        options.abandon_after = std::time::Duration::from_secs(40);
    };
    let (a, b) = (Backend::options(&store, short), Backend::options(&store, short));
    let mut client = a.server.client("2025-11-25").await;
    let mut answer = client.call("gate", json!({})).await;
    answer.event().await;
    let mut cursor = answer.last_id.take();
    drop(answer);
    for _ in 0..6 {
        let mut poll = b.serves(&client).get(cursor.as_deref()).await;
        assert_eq!(poll.messages().await, [] as [serde_json::Value; 0]);
        cursor = poll.last_id;
        pause(10.0).await;
    }
    a.server.script.gate.notify_one();
    assert_eq!(b.serves(&client).get(cursor.as_deref()).await.messages().await[0]["result"], "open");
    // And who never comes is gone.
    let mut answer = client.call("stubborn", json!({})).await;
    answer.event().await;
    drop(answer);
    pause(90.0).await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Abandoned]);
}

#[tokio::test(start_paused = true)]
async fn who_polls_elsewhere_for_long_is_told_to_wait_longer_too() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("gate", json!({})).await;
    let mut told = Vec::new();
    for _ in 0..9 {
        let parting = call.events().await.pop().unwrap();
        told.push(parting.retry.unwrap());
        pause(5.0).await;
        call = b.serves(&client).get(parting.id.as_deref()).await;
    }
    assert!(told[0] <= 3_000 && *told.last().unwrap() >= 8_000, "{told:?}");
}
