//! SEMANTICS 2: sessions and plain answers.

use crate::client::{Client, Server, initialize};
use bowline_server::{Options, ResponseMode};
use bowline_store::{MemoryStore, SessionLookup, SessionRecord, SessionStore as _};
use http::Method;
use serde_json::{Value, json};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

#[tokio::test(start_paused = true)]
async fn initialize_is_plain_json_in_the_revision_that_was_asked_for() {
    let server = Server::new();
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("nonsense", "2025-11-25"),
    ] {
        let client = Client { endpoint: server.endpoint.clone(), ..server.client("2025-11-25").await };
        // Headers about other sessions and revisions mean nothing on it.
        let answer = client
            .send(
                Method::POST,
                &[("mcp-protocol-version", "1900-01-01")],
                initialize(asked).to_string().into(),
            )
            .await;
        assert_eq!(answer.status, 200);
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert_ne!(Some(&session), client.session.as_ref());
        let body = answer.text().await;
        assert!(body.contains(r#""unknown":1.5"#), "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["result"]["protocolVersion"], given);
        assert_eq!(client.call_again().await, 200, "the old session lives on");
    }
}

impl Client {
    async fn call_again(&self) -> u16 {
        self.post(&json!({ "jsonrpc": "2.0", "id": 99, "method": "echo" })).await.status.as_u16()
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_abandoned_handshake_leaves_nothing() {
    let server = Server::new();
    let client = Client { session: None, ..server.client("2025-11-25").await };
    let mut hello = initialize("2025-11-25");
    hello["params"]["refuse"] = json!(true);
    let answer = client.post(&hello).await;
    assert!(!answer.headers.contains_key("mcp-session-id"));
    assert_eq!(answer.json().await["error"]["data"]["reason"], "refused");
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 1);
    let mut hello = initialize("2025-11-25");
    hello["params"]["busy"] = json!(true);
    let answer = client.post(&hello).await;
    assert_eq!((answer.status.as_u16(), answer.headers["retry-after"].to_str().unwrap()), (503, "7"));
    assert_eq!(answer.json().await["error"]["data"]["reason"], "busy");

    let mut hello = initialize("2025-11-25");
    hello["params"]["pause"] = json!(30);
    let left = tokio::time::timeout(Duration::from_secs(1), client.post(&hello)).await;
    assert!(left.is_err());
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 3);
    assert_eq!(server.endpoint.metrics().sessions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_quick_silent_call_is_plain_json_and_nothing_is_stored() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let answer = client.call("echo", json!({ "a": [1, 2.50] })).await;
    let body = answer.text().await;
    assert!(body.contains(r#""result":{"a":[1,2.5]}"#), "{body}");
    let answer = client.call("count", json!({ "then": 0.9 })).await;
    assert!(!answer.is_stream());
    assert_eq!(server.endpoint.metrics().answers_stream.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn ids_come_back_to_the_letter() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    for id in ["0", "-1", "\"0\"", "\"init-1\"", "\"\"", "9007199254740993"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
        let answer = client.send(Method::POST, &[], body.into()).await.text().await;
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    for id in ["null", "1.5", "true", "{}", "[]"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo"}}"#);
        let answer = client.send(Method::POST, &[], body.into()).await;
        assert_eq!(answer.status, 400, "{id}");
        assert_eq!(answer.json().await["error"]["code"], -32600);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_without_or_with_a_wrong_session_are_told_apart() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let gone = client.clone();
    assert_eq!(client.delete().await.status, 204);
    let unknown = Client { session: Some("nobody".into()), ..client.clone() };
    let mut bodies = Vec::new();
    for client in [&gone, &unknown] {
        let answer = client.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "echo" })).await;
        assert_eq!(answer.status, 404);
        bodies.push(answer.text().await);
        assert_eq!(client.get(None).await.status, 404);
        assert_eq!(client.delete().await.status, 404);
    }
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[0].contains("-32001"));
    client.session = None;
    let answer = client.call("echo", json!({})).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_its_principals_alone() {
    let server = Server::new();
    let mut alice =
        Client { endpoint: server.endpoint.clone(), session: None, next_id: 1, principal: Some("alice") };
    let hello = alice.post(&initialize("2025-11-25")).await;
    alice.session = Some(hello.headers["mcp-session-id"].to_str().unwrap().to_owned());
    let mut slow = alice.call("gate", json!({})).await;
    let cursor = slow.event().await.unwrap().id;
    let unknown = Client { session: Some("nobody".into()), ..alice.clone() };
    let echo = json!({ "jsonrpc": "2.0", "id": 1, "method": "echo" });
    let expected = unknown.post(&echo).await.text().await;
    for principal in [Some("bob"), None] {
        let other = Client { principal, ..alice.clone() };
        let answer = other.post(&echo).await;
        assert_eq!((answer.status.as_u16(), answer.text().await), (404, expected.clone()));
        for answer in [other.get(None).await, other.get(cursor.as_deref()).await, other.delete().await] {
            assert_eq!(answer.status, 404);
        }
    }
    assert_eq!(alice.post(&echo).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn revisions_in_headers_are_held_against_the_session() {
    let server = Server::new();
    let client = server.client("2025-06-18").await;
    let echo = r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#;
    for (header, status, code) in
        [("2025-06-18", 200, None), ("2025-11-25", 400, Some(-32600)), ("1999-01-01", 400, Some(-32022))]
    {
        let answer = client.send(Method::POST, &[("mcp-protocol-version", header)], echo.into()).await;
        assert_eq!(answer.status, status, "{header}");
        let body = answer.json().await;
        assert_eq!(body["error"]["code"].as_i64(), code);
        if code == Some(-32022) {
            assert!(body["error"]["message"].as_str().unwrap().contains("Unsupported protocol version"));
            assert_eq!(body["error"]["data"]["requested"], "1999-01-01");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_are_accepted_without_a_body() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } }),
        json!({ "jsonrpc": "2.0", "id": "nobody asked", "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": 1, "message": "" } }),
    ] {
        let answer = client.post(&message).await;
        assert_eq!(answer.status, 202);
        assert_eq!(answer.content_type(), "");
        assert_eq!(answer.text().await, "");
    }
    assert_eq!(server.endpoint.metrics().responses_unknown.get(), 2);
    // `initialized` and the change of roots; a cancel is ours.
    assert_eq!(server.script.notified.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_methods_and_panics_cost_their_own_call_only() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    assert_eq!(client.call("nothing/such", json!({})).await.json().await["error"]["code"], -32601);
    let error = client.call("panic", json!({})).await.json().await["error"].clone();
    assert_eq!(error["code"], -32603);
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(client.call("echo", json!({})).await.status, 200);
    assert_eq!(client.post(&json!({ "jsonrpc": "2.0", "method": "panic" })).await.status, 202);
    let mut hello = initialize("2025-11-25");
    hello["params"]["panic"] = json!(true);
    let error = Client { session: None, ..client.clone() }.post(&hello).await.json().await;
    assert_eq!(error["error"]["data"]["reason"], "panic");
    assert_eq!(server.endpoint.metrics().panics.get(), 3);
    assert_eq!(server.endpoint.metrics().sessions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn batches_are_for_one_revision() {
    let server = Server::new();
    let client = server.client("2025-03-26").await;
    let request = |id: u64, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "then": 5 } });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/x" });

    let answer = client.post(&json!([request(1, "echo"), note, request(2, "nothing"), 7])).await;
    let replies = answer.json().await;
    let mut ids: Vec<_> = replies.as_array().unwrap().iter().map(|reply| reply["id"].clone()).collect();
    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, [json!(1), json!(2), Value::Null]);
    assert_eq!(client.post(&json!([note])).await.status, 202);

    // Slow: a stream without ids, never closed early, until all have answered.
    let mut answer = client.post(&json!([request(1, "echo"), request(2, "count")])).await;
    assert!(answer.is_stream());
    let events = answer.events().await;
    assert!(events.iter().all(|event| event.id.is_none() && event.data.is_some()));
    assert_eq!(events.len(), 2);

    for body in [json!([]), json!([initialize("2025-03-26")])] {
        let answer = client.post(&body).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json().await["error"]["code"], -32600);
    }
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = server.client(revision).await;
        assert_eq!(client.post(&json!([request(1, "echo")])).await.status, 400, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_client_leaves_is_cancelled() {
    let server = Server::new();
    let client = server.client("2025-03-26").await;
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "stubborn" }, { "jsonrpc": "2.0", "id": 2, "method": "echo" }]);
    let left = tokio::time::timeout(Duration::from_millis(500), client.post(&batch)).await;
    assert!(left.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.script.cancelled.lock().len(), 1);
    assert_eq!(server.endpoint.metrics().calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn response_modes() {
    for (mode, slow_is_stream, quick_is_stream) in [
        (ResponseMode::Auto, true, false),
        (ResponseMode::Sse, true, true),
        (ResponseMode::Json, false, false),
    ] {
        let mut options = Options::default();
        options.response = mode;
        let server = Server::with(options);
        let mut client = server.client("2025-11-25").await;
        let answer = client.call("echo", json!({})).await;
        assert_eq!(answer.is_stream(), quick_is_stream, "{mode:?}");
        let mut answer = client.call("count", json!({ "n": 2, "every": 0.1, "then": 3 })).await;
        assert_eq!(answer.is_stream(), slow_is_stream, "{mode:?}");
        let result =
            if slow_is_stream { answer.messages().await.pop().unwrap() } else { answer.json().await };
        assert_eq!(result["result"]["counted"], 2);
        let asked = client.call("ask", json!({})).await;
        if mode == ResponseMode::Json {
            assert_eq!(asked.json().await["error"]["data"]["reason"], "undeliverable");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_calls_and_ids_are_bounded() {
    let mut options = Options::default();
    options.max_sessions = 2;
    options.max_calls_per_session = 2;
    let server = Server::with(options);
    let client = server.client("2025-11-25").await;
    let other = server.client("2025-11-25").await;
    let answer = Client { session: None, ..client.clone() }.post(&initialize("2025-11-25")).await;
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(other.delete().await.status, 204);
    server.client("2025-11-25").await;

    let gate = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "gate" });
    let first = client.post(&gate(1)).await;
    let answer = client.post(&gate(1)).await;
    assert_eq!(answer.status, 400, "an id that is in use");
    let _second = client.post(&gate(2)).await;
    let answer = client.post(&gate(3)).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.json().await["error"]["data"]["reason"], "too_many_calls");
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 2, "a call that is refused does not run");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn each_revision_gets_what_it_defines() {
    let server = Server::new();
    for (revision, audio, structured) in [
        ("2024-11-05", false, false),
        ("2025-03-26", true, false),
        ("2025-06-18", true, true),
        ("2025-11-25", true, true),
    ] {
        let mut client = server.client(revision).await;
        let result = client.call("tools/call", json!({ "name": "x" })).await.json().await["result"].clone();
        assert_eq!(result["content"][0]["type"], if audio { "audio" } else { "text" }, "{revision}");
        assert_eq!(result.get("structuredContent").is_some(), structured, "{revision}");
        let mut answer = client.call("ask", json!({ "url": "https://example.com" })).await;
        if revision == "2025-11-25" {
            assert!(answer.is_stream());
            answer.event().await;
        } else {
            assert_eq!(answer.json().await["error"]["data"]["reason"], "unsupported_by_revision");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bearer_tokens_name_the_principal() {
    let tokens = bowline_server::StaticTokens::parse(
        "alice=alice-0123456789\nbob=bob-0123456789ab\nalice=alice-new-0123456",
    )
    .unwrap();
    let server = Server::built(|builder| builder.authenticator(Arc::new(tokens)));
    let client = Client { endpoint: server.endpoint.clone(), session: None, next_id: 1, principal: None };
    let hello: bytes::Bytes = initialize("2025-11-25").to_string().into();
    for headers in [&[][..], &[("authorization", "Bearer wrong-0123456789")], &[("authorization", "Basic x")]]
    {
        // Before the body and even the content type are looked at.
        for body in [hello.clone(), "junk".into()] {
            let answer = client.send(Method::POST, headers, body).await;
            assert_eq!(answer.status, 401);
            assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer "));
            assert_eq!(answer.json().await["error"]["code"], -32600);
        }
    }
    let alice = ("authorization", "Bearer alice-0123456789");
    let answer = client.send(Method::POST, &[alice], hello).await;
    let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let client = Client { session: Some(session), ..client };
    let echo: bytes::Bytes = r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#.into();
    // A renewed token of the same name keeps the session; another name does not have it.
    for (token, status) in [
        ("alice-0123456789", 200),
        ("alice-new-0123456", 200),
        ("bob-0123456789ab", 404),
        ("nobody-0123456789", 401),
    ] {
        let header = format!("Bearer {token}");
        let answer = client.send(Method::POST, &[("authorization", &header)], echo.clone()).await;
        assert_eq!(answer.status, status, "{token}");
    }
    assert_eq!(server.endpoint.metrics().unauthorized.get(), 7);
    assert_eq!(
        client.send(Method::OPTIONS, &[("origin", "http://localhost:1")], "".into()).await.status,
        204
    );
}

#[tokio::test(start_paused = true)]
async fn changes_at_the_same_moment_all_reach_the_record() {
    let store = MemoryStore::default();
    let server = Server::built(|builder| builder.store(Arc::new(store.clone())));
    let client = server.client("2025-11-25").await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let id = client.session.clone().unwrap();
    let load = || async { store.load_session(&id).await.unwrap() };
    // Another backend has changed it.
    let SessionLookup::Live(version, record) = load().await else { panic!("it lives") };
    let mut record = SessionRecord::clone(&record);
    record.subscriptions.insert("a:other".into());
    store.update_session(&id, version, record).await.unwrap();

    let request = |id: u64, method: &str, params: Value| {
        let (client, method) = (client.clone(), method.to_owned());
        async move {
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            assert_eq!(client.post(&message).await.json().await["result"], json!({}));
        }
    };
    tokio::join!(
        request(10, "resources/subscribe", json!({ "uri": "a:1" })),
        request(11, "resources/subscribe", json!({ "uri": "a:2" })),
        request(12, "logging/setLevel", json!({ "level": "error" })),
        request(13, "resources/subscribe", json!({ "uri": "a:3" })),
    );
    tokio::time::sleep(Duration::from_millis(10)).await;
    let SessionLookup::Live(_, record) = load().await else { panic!("it lives") };
    let uris: Vec<&str> = record.subscriptions.iter().map(String::as_str).collect();
    assert_eq!(uris, ["a:1", "a:2", "a:3", "a:other"]);
    assert_eq!(record.log_level.as_deref(), Some("error"));
    let peer = server.script.peers.lock()[0].clone();
    assert_eq!(
        (peer.subscriptions(), peer.log_level()),
        (uris.iter().map(|uri| (*uri).to_owned()).collect(), Some("error".into()))
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_client_says_of_itself_is_bounded() {
    let server = Server::new();
    let client = Client { session: None, ..server.client("2025-11-25").await };
    let mut hello = initialize("2025-11-25");
    hello["params"]["clientInfo"] = json!("x".repeat(70_000));
    let answer = client.post(&hello).await;
    assert!(!answer.headers.contains_key("mcp-session-id"));
    assert_eq!(answer.json().await["error"]["code"], -32602);
    assert_eq!(server.endpoint.metrics().sessions.get(), 1);
    assert_eq!(server.endpoint.metrics().handshakes.get(), 0);
}
