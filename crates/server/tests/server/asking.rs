//! SEMANTICS 5.9, 5.11 and 6: our own requests, and the standalone stream.

use crate::{
    client::{Client, Server, initialize},
    script::raw,
};
use bowline_proto::{
    http::{SessionMode, StaleSession},
    jsonrpc::{Notification, Reply},
};
use bowline_server::{Options, ResponseMode};
use bowline_store::MemoryStore;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

async fn reply(client: &Client, question: &Value, answer: Value) {
    let response = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
    assert_eq!(client.post(&response).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_on_its_calls_stream_and_its_answer_comes_back() {
    let server = Server::new();
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut client = server.client(revision).await;
        let mut answer = client.call("ask", json!({})).await;
        let question = loop {
            match answer.event().await.unwrap().data {
                Some(Value::Null) => {}
                data => break data.unwrap(),
            }
        };
        assert_eq!(question["method"], "elicitation/create");
        reply(&client, &question, json!({ "x": 1.5 })).await;
        reply(&client, &question, json!({ "x": 2 })).await;
        let messages = answer.messages().await;
        assert_eq!(messages, [json!({ "jsonrpc": "2.0", "id": 2, "result": { "answer": { "x": 1.5 } } })]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_on_a_parked_stream_waits_in_the_log() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("ask", json!({ "after": 40 })).await;
    let cursor = answer.events().await.pop().unwrap().id;
    // Asked while nobody reads; its time counts from delivery.
    tokio::time::sleep(Duration::from_secs(250)).await;
    let mut poll = client.get(cursor.as_deref()).await;
    let question = loop {
        if let Some(data) = poll.event().await.unwrap().data.filter(|data| !data.is_null()) {
            break data;
        }
    };
    drop(poll);
    reply(&client, &question, json!("late")).await;
    let messages = client.get(cursor.as_deref()).await.messages().await;
    assert_eq!(messages.last().unwrap()["result"]["answer"], "late");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_ends() {
    let mut options = Options::default();
    options.ask_timeout = Duration::from_secs(5);
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let messages = client.call("ask", json!({})).await.messages().await;
    assert_eq!(messages[1]["method"], "notifications/cancelled");
    assert_eq!(messages[1]["params"]["requestId"], messages[0]["id"]);
    assert_eq!(messages[2]["error"]["data"]["reason"], "timeout");
    assert_eq!(server.endpoint.metrics().asks_timed_out.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn questions_wait_for_the_client_to_be_ready() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    client.session = None;
    let hello = client.post(&initialize("2025-11-25")).await;
    client.session = Some(hello.headers["mcp-session-id"].to_str().unwrap().to_owned());
    // It never says so: asked all the same, after 5 s.
    let began = Instant::now();
    let mut answer = client.call("ask", json!({})).await;
    loop {
        if answer.event().await.unwrap().data.is_some_and(|data| !data.is_null()) {
            break;
        }
    }
    assert_eq!((Instant::now() - began).as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_no_call_waits_for_the_standalone_stream() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    let peer = server.script.peers.lock()[0].clone();
    let changed =
        |n: u64| Notification::new("notifications/tools/list_changed", Some(raw(&json!({ "n": n }))));
    peer.notify(&changed(1));
    let mut stream = client.get(None).await;
    assert_eq!(stream.status, 200);
    assert!(stream.event().await.unwrap().is_priming());
    assert_eq!(stream.event().await.unwrap().data.unwrap()["params"]["n"], 1);
    assert!(peer.reads_standalone());
    peer.notify(&changed(2));
    assert_eq!(stream.event().await.unwrap().data.unwrap()["params"]["n"], 2);

    // The connection asks for more: what it was handed is written.
    assert!(tokio::time::timeout(Duration::from_millis(1), stream.event()).await.is_err());

    // A newer GET takes over: without a cursor it starts after what was written, with one exactly there.
    let cursor = stream.last_id.clone();
    let mut second = client.get(None).await;
    let last = stream.events().await;
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].id.clone(), last[0].retry, last[0].data.clone()), (None, Some(10_000), None));
    peer.notify(&changed(3));
    assert!(second.event().await.unwrap().is_priming());
    assert_eq!(second.event().await.unwrap().data.unwrap()["params"]["n"], 3);
    drop(second);
    peer.notify(&changed(4));
    let mut third = client.get(cursor.as_deref()).await;
    assert!(third.event().await.unwrap().is_priming());
    for n in [3, 4] {
        assert_eq!(third.event().await.unwrap().data.unwrap()["params"]["n"], n);
    }
}

#[tokio::test(start_paused = true)]
async fn the_standalone_stream_lives_as_long_as_its_session() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let peer = server.script.peers.lock()[0].clone();
    let mut stream = client.get(None).await;
    let mut heard = 0;
    for n in 0..60 {
        stream.events().await;
        tokio::time::sleep(Duration::from_secs(10 * 60)).await;
        client.call("echo", json!({})).await;
        peer.notify(&Notification::new("notifications/x", Some(raw(&json!({ "n": n })))));
        stream = client.get(stream.last_id.as_deref()).await;
        assert_eq!(stream.status, 200);
        heard += usize::from(loop {
            if let Some(data) = stream.event().await.unwrap().data.filter(|data| !data.is_null()) {
                break data["params"]["n"] == n;
            }
        });
    }
    assert_eq!(heard, 60);
}

#[tokio::test(start_paused = true)]
async fn a_question_outside_any_call_goes_on_the_standalone_stream() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    let peer = server.script.peers.lock()[0].clone();
    let asked = tokio::spawn(async move { peer.ask("roots/list", None).await });
    let mut stream = client.get(None).await;
    stream.event().await;
    let question = stream.event().await.unwrap().data.unwrap();
    assert_eq!(question["method"], "roots/list");
    reply(&client, &question, json!({ "roots": [] })).await;
    let Reply::Result(roots) = asked.await.unwrap() else { panic!() };
    assert_eq!(roots.as_str(), r#"{"roots":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_standalone_cursor_whose_events_are_gone_says_what_to_look_at_again() {
    let mut options = Options::default();
    options.max_stream_events = 10;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    client.call("resources/subscribe", json!({ "uri": "a:b" })).await;
    let peer = server.script.peers.lock()[0].clone();
    let mut stream = client.get(None).await;
    let cursor = stream.event().await.unwrap().id;
    drop(stream);
    for n in 0..100 {
        peer.notify(&Notification::new("notifications/x", Some(raw(&json!({ "n": n })))));
    }
    let mut stream = client.get(cursor.as_deref()).await;
    assert_eq!(stream.status, 200);
    let mut told = Vec::new();
    while told.len() < 12 {
        told.extend(stream.event().await.unwrap().data.filter(|data| !data.is_null()));
    }
    assert_eq!(told[0]["method"], "notifications/tools/list_changed");
    assert_eq!(told[1]["method"], "notifications/resources/updated");
    assert_eq!(told[1]["params"]["uri"], "a:b");
    assert_eq!(told[2]["params"]["n"], 90);
    assert_eq!(told[11]["params"]["n"], 99);
}

#[tokio::test(start_paused = true)]
async fn questions_that_nobody_could_see_end_at_once_and_leave_nothing() {
    let reason = |reply: Reply| reply.into_result().unwrap_err().data.unwrap().as_str().to_owned();
    let began = Instant::now();

    // After the end of the session.
    let store = MemoryStore::default();
    let server = Server::built(|builder| builder.store(Arc::new(store.clone())));
    let client = server.client("2025-11-25").await;
    let peer = server.script.peers.lock()[0].clone();
    assert_eq!(client.clone().delete().await.status, 204);
    assert_eq!(reason(peer.ask("roots/list", None).await), r#"{"reason":"session_ended"}"#);
    assert_eq!(store.stats().streams_open, 0);

    // Without sessions, beside any call.
    let mode = SessionMode::Stateless { resumable: true, stale_session: StaleSession::NotFound };
    let server = Server::built(|builder| builder.session_mode(mode).store(Arc::new(store.clone())));
    let client = Client { endpoint: server.endpoint.clone(), session: None, next_id: 1, principal: None };
    assert_eq!(client.post(&initialize("2025-11-25")).await.status, 200);
    let peer = server.script.peers.lock()[0].clone();
    assert_eq!(reason(peer.ask("roots/list", None).await), r#"{"reason":"stateless"}"#);
    assert_eq!(store.stats().streams_open, 0);

    // To a client that has not said that it is ready, by a server that never streams.
    let mut options = Options::default();
    options.response = ResponseMode::Json;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    client.session = None;
    let hello = client.post(&initialize("2025-11-25")).await;
    client.session = Some(hello.headers["mcp-session-id"].to_str().unwrap().to_owned());
    let answer = client.call("ask", json!({})).await;
    assert_eq!(answer.json().await["error"]["data"]["reason"], "undeliverable");
    assert!((Instant::now() - began).as_millis() < 50);
}
