//! SEMANTICS 3: without sessions, resumable or not.

use crate::client::{Answer, Client, Server, initialize};
use bowline_proto::{
    cursor::Keyring,
    http::{SessionMode, StaleSession},
};
use bowline_server::CancelReason;
use bowline_store::MemoryStore;
use http::Method;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

fn mode(resumable: bool) -> SessionMode {
    SessionMode::Stateless { resumable, stale_session: StaleSession::NotFound }
}

fn stateless(mode: SessionMode) -> (Server, Client) {
    let server = Server::built(|builder| builder.session_mode(mode));
    let client = Client { endpoint: server.endpoint.clone(), session: None, next_id: 1, principal: None };
    (server, client)
}

async fn call(client: &Client, revision: &str, method: &str, params: Value) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    client.send(Method::POST, &[("mcp-protocol-version", revision)], body.into()).await
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_served_by_a_backend_that_never_saw_the_client() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (first, client) = stateless(mode(false));
        let answer = client.post(&initialize(revision)).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.headers.contains_key("mcp-session-id"));
        let result = answer.json().await["result"].clone();
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["capabilities"], json!({ "tools": {}, "resources": {} }));
        drop(first);
        let (_second, client) = stateless(mode(false));
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(client.post(&initialized).await.status, 202);
        let answer = call(&client, revision, "echo", json!({ "x": 1 })).await;
        assert_eq!(answer.json().await["result"]["x"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_revision_comes_from_the_header() {
    let (_server, client) = stateless(mode(false));
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "echo" }]);
    // Without a header it is 2025-03-26, the one that has arrays.
    assert_eq!(client.post(&batch).await.status, 200);
    for (revision, status) in [("2025-03-26", 200), ("2025-06-18", 400), ("2025-11-25", 400)] {
        let answer =
            client.send(Method::POST, &[("mcp-protocol-version", revision)], batch.to_string().into()).await;
        assert_eq!(answer.status, status, "{revision}");
    }
    let answer = call(&client, "1999-01-01", "echo", json!({})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32022);
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_session_is_not_there() {
    let (server, client) = stateless(mode(false));
    for method in ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let answer = call(&client, "2025-11-25", method, json!({ "uri": "a:b", "level": "info" })).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json().await["error"]["code"], -32601, "{method}");
    }
    let began = Instant::now();
    let answer = call(&client, "2025-11-25", "ask", json!({})).await;
    assert!((Instant::now() - began).as_millis() < 50);
    let error = answer.json().await["error"].clone();
    assert_eq!(error["data"]["reason"], "stateless");
    assert!(error["message"].as_str().unwrap().contains("stateless"));

    assert_eq!(client.post(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await.status, 400);
    for message in ["notifications/cancelled", "notifications/anything"] {
        assert_eq!(client.post(&json!({ "jsonrpc": "2.0", "method": message })).await.status, 202);
    }
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let answer = client.send(method, &[], "".into()).await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.headers["allow"], "POST, OPTIONS");
    }
    assert_eq!(server.endpoint.metrics().bindings.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stale_session_id_is_404_or_ignored() {
    let (_server, client) = stateless(mode(false));
    let stale = Client { session: Some("old".into()), ..client.clone() };
    let answer = call(&stale, "2025-11-25", "echo", json!({})).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.json().await["error"]["code"], -32001);
    let (_server, client) =
        stateless(SessionMode::Stateless { resumable: false, stale_session: StaleSession::Ignore });
    let stale = Client { session: Some("old".into()), ..client };
    assert_eq!(call(&stale, "2025-11-25", "echo", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn progress_goes_on_the_posts_own_stream_without_ids() {
    let (_server, client) = stateless(mode(false));
    let mut answer = call(&client, "2025-11-25", "count", json!({ "n": 3, "every": 20 })).await;
    let events = answer.events().await;
    assert_eq!(events.len(), 4);
    assert!(
        events.iter().all(|event| event.id.is_none() && event.data.as_ref().is_some_and(Value::is_object))
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_call_with_it() {
    let (server, client) = stateless(mode(false));
    let left =
        tokio::time::timeout(Duration::from_millis(500), call(&client, "2025-11-25", "stubborn", json!({})))
            .await;
    assert!(left.is_err());
    let answer = call(&client, "2025-11-25", "stubborn", json!({})).await;
    assert!(answer.is_stream());
    drop(answer);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::Disconnected, CancelReason::Disconnected]);
    let metrics = server.endpoint.metrics();
    server.script.peers.lock().clear();
    assert_eq!((metrics.calls.get(), metrics.bindings.get(), metrics.streams_open.get()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn resumable_without_a_session_on_another_backend() {
    let store = MemoryStore::default();
    let keys = Keyring::from_bytes(&[[7_u8; 32]]).unwrap();
    let backend = || {
        Server::built(|builder| {
            builder.session_mode(mode(true)).store(Arc::new(store.clone())).keyring(keys.clone())
        })
    };
    let (first, second) = (backend(), backend());
    let client = |server: &Server| Client {
        endpoint: server.endpoint.clone(),
        session: None,
        next_id: 1,
        principal: None,
    };
    let mut answer = call(&client(&first), "2025-11-25", "count", json!({ "n": 4, "every": 2 })).await;
    let primed = answer.event().await.unwrap();
    assert!(primed.is_priming());
    answer.event().await;
    let cursor = answer.last_id.take();
    drop(answer);
    let mut poll = client(&second).get(cursor.as_deref()).await;
    assert_eq!(poll.status, 200);
    let messages = poll.messages().await;
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[3]["result"]["counted"], 4);

    let answer = client(&second).get(None).await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.headers["allow"], "POST, GET, OPTIONS");

    // Another key: the cursor itself says which request is lost. The store is not asked.
    let stranger = Server::built(|builder| builder.session_mode(mode(true)).store(Arc::new(store.clone())));
    let mut poll = client(&stranger).get(cursor.as_deref()).await;
    assert_eq!(poll.status, 200);
    let messages = poll.messages().await;
    assert_eq!((messages.len(), messages[0]["id"].clone()), (1, json!(7)));
    assert_eq!(messages[0]["error"]["data"]["outcome"], "unknown");
}

#[tokio::test(start_paused = true)]
async fn the_cursor_of_one_principal_is_useless_to_another() {
    let (_server, client) = stateless(mode(true));
    let alice = Client { principal: Some("alice"), ..client.clone() };
    let mut answer = call(&alice, "2025-11-25", "big", json!({ "bytes": 10 })).await;
    assert!(!answer.is_stream());
    answer = call(&alice, "2025-11-25", "count", json!({ "n": 2, "every": 2 })).await;
    let cursor = answer.event().await.unwrap().id;
    for principal in [Some("bob"), None] {
        let other = Client { principal, ..client.clone() };
        let messages = other.get(cursor.as_deref()).await.messages().await;
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["error"]["data"]["outcome"], "unknown");
    }
    assert_eq!(alice.get(cursor.as_deref()).await.messages().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_long_resumable_call_is_polled_to_its_end() {
    let (server, client) = stateless(mode(true));
    let mut answer = call(&client, "2025-11-25", "count", json!({ "n": 3, "every": 30 })).await;
    let mut messages = Vec::new();
    let mut polls = 0;
    loop {
        messages.extend(answer.messages().await);
        if messages.len() == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        polls += 1;
        answer = client.get(answer.last_id.as_deref()).await;
    }
    assert!(polls >= 3);
    assert_eq!(server.script.calls.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(client.get(answer.last_id.as_deref()).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_over_ends_calls_without_sessions_too() {
    for resumable in [false, true] {
        let (server, client) = stateless(mode(resumable));
        let calls = ["2025-03-26", "2025-11-25"].map(|revision| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut answer = call(&client, revision, "stubborn", json!({})).await;
                // A primed stream is parked by the drain; its end is polled for.
                let mut messages = answer.messages().await;
                while messages.is_empty() {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    let cursor = answer.last_id.clone().unwrap();
                    let headers = [("mcp-protocol-version", revision), ("last-event-id", &*cursor)];
                    answer = client.send(Method::GET, &headers, "".into()).await;
                    messages = answer.messages().await;
                }
                messages[0]["error"]["data"]["reason"].clone()
            })
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.endpoint.drain(Duration::from_secs(30)).await;
        for call in calls {
            assert_eq!(call.await.unwrap(), "draining");
        }
        // Later ones are ended at once.
        let late = call(&client, "2025-11-25", "stubborn", json!({})).await;
        assert_eq!(late.json().await["error"]["data"]["reason"], "draining");
    }
}
