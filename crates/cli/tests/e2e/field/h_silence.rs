//! H: idle limits, buffering, and what is mistaken for death.

use super::next_message;
use crate::common::{assert_serves, ping, serve};
use bowline_testkit::{Answer, Fault, FaultProxy, Nginx, NginxOptions, Program, Raw, text_of};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// As nginx comes, but with a second of patience.
async fn impatient(program: &Program) -> Nginx {
    let options = NginxOptions { read_timeout: Duration::from_secs(1), ..NginxOptions::default() };
    Nginx::start(&[program.address()], options).await
}

#[tokio::test]
async fn h1_the_first_byte_leaves_at_once_and_silence_is_filled() {
    let program = serve("--response sse --max-connection 0 --keep-alive 250ms").await;
    let nginx = impatient(&program).await;
    let session = program.client().await.at(nginx.address());
    let began = Instant::now();
    let mut answer = session.call("slow", json!({ "ms": 3_000 })).await;
    let mut get = session.get(None).await;
    assert!(answer.block().await.unwrap().is_priming() && get.block().await.unwrap().is_priming());
    assert!(Instant::now() - began < Duration::from_millis(2_500), "nothing waits for the work");
    let mut comments = 0;
    let response = loop {
        let block = answer.raw().try_block().await.unwrap().expect("nobody cuts it");
        match block.message() {
            Some(response) => break response,
            None => assert!(block.is_comment(), "{block:?}"),
        }
        comments += 1;
    };
    assert_eq!(text_of(&response), "slow: 3000 ms, 0 progress");
    assert!(comments >= 5, "{comments}");
}

#[tokio::test]
async fn h2_an_idle_get_is_never_silent_for_long() {
    let program = serve("--keep-alive 200ms --max-connection 0").await;
    let session = program.client().await;
    let mut get = session.get(None).await;
    assert!(get.block().await.unwrap().is_priming());
    let mut before = Instant::now();
    for _ in 0..15 {
        let block = get.raw().try_block().await.unwrap().expect("it stays open");
        assert!(block.is_comment(), "{block:?}");
        assert!(block.at - before < Duration::from_secs(5), "{:?}", block.at - before);
        before = block.at;
    }
}

#[tokio::test]
async fn h3_an_idle_limit_in_between_is_outlived_or_survived() {
    // Outlived, by a client that may not be closed early.
    let program = serve("--keep-alive 250ms").await;
    let nginx = impatient(&program).await;
    let session = program.session("2025-06-18").await;
    let mut get = session.at(nginx.address()).get(None).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    session.call_for_text("swap", json!({})).await;
    assert_eq!(next_message(&mut get).await["method"], "notifications/tools/list_changed");

    // Survived: it is cut, and what comes meanwhile waits.
    let program = serve("--keep-alive 1m --max-connection 0").await;
    let nginx = impatient(&program).await;
    let session = program.client().await;
    let mut get = session.at(nginx.address()).get(None).await;
    while get.raw().try_block().await.is_ok_and(|block| block.is_some()) {}
    let cursor = get.last_id.take();
    session.call_for_text("swap", json!({})).await;
    let mut again = session.at(nginx.address()).get(cursor.as_deref()).await;
    assert_eq!(next_message(&mut again).await["method"], "notifications/tools/list_changed");
}

/// HTTP/1.1 is what we speak; a proxy that speaks HTTP/2 makes a connection to us for each of its streams.
#[tokio::test]
async fn h4_posts_are_answered_while_a_get_is_not_read() {
    let program = serve("").await;
    let session = program.client().await;
    let mut unread = Raw::connect_narrow(program.address(), 4096).await;
    unread.send(session.request("GET", &[], "")).await;
    assert_eq!(unread.head().await.status, 200);
    let mut raw = Raw::connect(program.address()).await;
    let params =
        json!({ "method": "notifications/resources/updated", "params": { "uri": "x".repeat(9_000) } });
    for _ in 0..100 {
        let message = session.tool("emit", &params).to_string();
        let mut answer = Answer::to(raw, session.request("POST", &[], &message)).await;
        assert_eq!(text_of(&answer.response().await), "emitted");
        raw = answer.into_raw();
    }
}

#[tokio::test]
async fn h5_every_stream_asks_not_to_be_held_back_and_is_not() {
    let program = serve("--response sse").await;
    let nginx = Nginx::start(&[program.address()], NginxOptions::default()).await;
    let session = program.client().await;
    let mut call = session.call("slow", json!({ "ms": 5_000 })).await;
    let cursor = call.block().await.unwrap().id;
    for answer in [&call, &session.get(None).await, &session.get(cursor.as_deref()).await] {
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    }
    let session = session.at(nginx.address());
    let message = session.tool_with_progress("slow", &json!({ "ms": 1_800, "progress": 6 }));
    let blocks = session.post(&message).await.blocks().await;
    let times: Vec<_> =
        blocks.iter().filter(|block| block.message().is_some()).map(|block| block.at).collect();
    assert_eq!(times.len(), 7);
    assert!(times[5] - times[0] > Duration::from_millis(600), "{times:?}: it all came at the end");
}

#[tokio::test]
async fn h6_a_stream_is_never_compressed() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let packed = ("Accept-Encoding", "gzip, br, deflate, zstd");
    let message = session.tool_with_progress("slow", &json!({ "ms": 900, "progress": 3 })).to_string();
    let mut answer = session.send("POST", &[packed], &message).await;
    assert_eq!(answer.header("content-encoding"), None);
    let times: Vec<_> = answer.blocks().await.iter().map(|block| block.at).collect();
    assert!(times[3] - times[1] > Duration::from_millis(150), "on time: {times:?}");
    let get = session.send("GET", &[packed], "").await;
    assert_eq!(get.header("content-encoding"), None);
}

#[tokio::test]
async fn h7_a_session_is_not_its_socket() {
    let program = serve("").await;
    let session = program.client().await;
    let request = session.request("POST", &[], &ping().to_string());
    let mut answer = Answer::to(Raw::connect(program.address()).await, &request).await;
    answer.text().await;
    let raw = answer.into_raw();
    // Longer than what many servers keep a connection for.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut answer = Answer::to(raw, &request).await;
    assert_eq!(answer.json().await["result"], json!({}));
    answer.abort();
    assert_serves(&session).await;
}

#[tokio::test]
async fn h8_a_call_that_outlasts_the_edge_is_polled_for() {
    let program = serve("--max-connection 600ms --json-hold 300ms --retry 50ms").await;
    let edge = FaultProxy::start(program.address(), Fault::ResetAfter(Duration::from_millis(1_500))).await;
    let session = program.client().await.at(edge.address());
    let message = session.tool("count", &json!({ "file": program.dir().join("ledger"), "ms": 4_000 }));
    let (messages, polls) = session.poll(session.post(&message).await).await;
    assert_eq!((text_of(&messages[0]).as_str(), program.ledger("ledger")), ("1", 1));
    assert!(polls >= 3, "{polls}");
}

#[tokio::test]
async fn h9_nobody_is_asked_for_signs_of_life() {
    let program = serve("--keep-alive 100ms --json-hold 20ms --session-ttl 3s").await;
    let posting = program.client().await;
    let listening = program.client().await;
    let mut get = listening.get(None).await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_serves(&posting).await;
    }
    // Open for longer than the session may be idle, and it never had to say anything.
    assert_serves(&listening).await;
    assert_eq!(listening.delete().await.status(), 204);
    assert_eq!(get.messages().await, Vec::<serde_json::Value>::new(), "no ping, nothing");
}
