//! L: every call ends.

use super::timed;
use crate::common::{PRIMED, assert_serves, fixture, serve};
use bowline_testkit::{PATIENCE, Session, eventually, initialize, processes};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn l1_a_stream_ends_with_a_response_and_right_after_it() {
    let program = serve("--response sse").await;
    for revision in [PRIMED, "2025-06-18"] {
        let session = program.session(revision).await;
        let mut answer = session.call("slow", json!({ "ms": 300 })).await;
        let blocks = answer.blocks().await;
        let ended = Instant::now();
        assert!(blocks.last().unwrap().message().unwrap()["result"].is_object());
        assert!(ended - blocks.last().unwrap().at < Duration::from_secs(5), "closed after the response");

        let dir = program.dir().join(revision);
        let mut answer = session.call("count", json!({ "file": dir, "ms": 60_000 })).await;
        eventually("it runs", PATIENCE, || program.ledger(revision) == 1).await;
        let began = Instant::now();
        program.servers().iter().for_each(|server| processes::kill(server.pid));
        let response = answer.response().await;
        assert_eq!(response["error"]["data"]["outcome"], "unknown", "{response}");
        assert!(Instant::now() - began < Duration::from_secs(10), "{:?}", Instant::now() - began);
        assert_serves(&session).await;
    }
}

#[tokio::test]
async fn l2_each_limit_is_its_own_and_says_which_it_was() {
    let slow_start = fixture().server_args("--slow-init 600").with("--init-timeout 400ms").start().await;
    let began = Instant::now();
    let body = Session::none(slow_start.address()).post(&initialize(PRIMED)).await.json().await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("initialize within 400ms"), "{body}");
    assert!(Instant::now() - began < Duration::from_secs(15));

    // Progress keeps nothing alive beyond its limit, and a quick call after it is none the worse.
    let program = serve("--call-timeout 600ms --json-hold 20ms").await;
    let session = program.client().await;
    let message = session.tool_with_progress("slow", &json!({ "ms": 60_000, "progress": 600 }));
    let began = Instant::now();
    let response = session.post(&message).await.response().await;
    let took = Instant::now() - began;
    assert!((500..15_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(response["error"]["data"]["reason"], "timeout", "{response}");
    assert!(response["error"]["message"].as_str().unwrap().contains("600ms"), "{response}");
    let (response, _) = timed(&session, "echo", json!({ "text": "x" })).await;
    assert!(response["result"].is_object(), "{response}");
}
