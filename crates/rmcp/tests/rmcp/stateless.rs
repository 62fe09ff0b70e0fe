//! Without sessions: a handler for each request.

use crate::client::{POLLS, Server};
use bowline::{SessionMode, StaleSession};
use bowline_rmcp::Options;
use serde_json::json;
use std::time::Duration;

fn server() -> Server {
    let mode = SessionMode::Stateless { resumable: false, stale_session: StaleSession::default() };
    Server::built(Options::default(), |builder| builder.session_mode(mode))
}

#[tokio::test(start_paused = true)]
async fn every_request_has_a_handler_of_its_own_and_none_is_left() {
    let server = server();
    let client = server.stranger();
    let hello = client.initialize(POLLS, &json!({})).await;
    assert!(!hello.headers.contains_key("mcp-session-id"));
    assert_eq!(hello.response().await["result"]["instructions"], "do everything");
    for _ in 0..2 {
        assert_eq!(client.text("tally", json!({})).await, "1");
    }
    let mut watched = client.watch("count", json!({ "steps": 2, "ms": 400 }), "t").await;
    let messages = watched.messages().await;
    assert_eq!(messages.len(), 3, "{messages:?}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.diary.handlers(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_asked_and_that_is_said() {
    let server = server();
    let client = server.stranger();
    for tool in ["sample", "elicit", "roots"] {
        let response = client.call(tool, json!({})).await.response().await;
        assert!(response["error"].is_object(), "{tool}: {response}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error() {
    let server = server();
    let response = server.stranger().call("panic", json!({})).await.response().await;
    assert_eq!(response["error"]["data"]["reason"], "panic");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.diary.handlers(), 0);
}
