//! SEMANTICS 6, "Drain": what SIGTERM does to clients, to calls, and how long it takes.

use crate::common::{PRIMED, assert_serves, exchange, fixture, ping, serve};
use bowline_testkit::{Answer, PATIENCE, Program, Raw, Session, initialize, patiently, processes, text_of};
use rustix::process::Signal;
use serde_json::json;
use std::{os::unix::process::ExitStatusExt as _, time::Duration};
use tokio::time::Instant;

/// Waits until the program has begun to drain.
async fn draining(program: &Program) {
    patiently("readyz says 503", async {
        while exchange(program, "GET /readyz HTTP/1.1\r\nHost: probe\r\n\r\n").await.status() != 503 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn with_nothing_to_do_it_leaves_at_once() {
    let mut program = serve("").await;
    let session = program.client().await;
    assert_serves(&session).await;
    let began = Instant::now();
    program.terminate();
    assert_eq!(program.wait().await.code(), Some(0));
    assert!(Instant::now() - began < Duration::from_secs(15), "{:?}", Instant::now() - began);
    program.assert_none_left(PATIENCE).await;
}

#[tokio::test]
async fn idle_streams_and_connections_do_not_hold_the_exit() {
    let mut program = serve("").await;
    let mut open = Vec::new();
    let mut idle = Vec::new();
    for revision in [PRIMED, "2025-06-18", "2025-03-26"] {
        let session = program.session(revision).await;
        open.push(session.get(None).await);
        let mut answer = session.post(&ping()).await;
        answer.text().await;
        idle.push(answer.into_raw());
        idle.push(Raw::connect(program.address()).await);
    }
    let began = Instant::now();
    program.terminate();
    assert_eq!(program.wait().await.code(), Some(0));
    assert!(Instant::now() - began < Duration::from_secs(15), "{:?}", Instant::now() - began);
    let parting = open[0].blocks().await;
    let last = parting.last().expect("told when to come back");
    assert!(last.is_priming() && last.retry.is_some(), "{last:?}");
}

#[tokio::test]
async fn a_parked_call_is_fetched_during_the_drain() {
    let mut program = serve("--json-hold 20ms --max-connection 150ms --retry 100ms").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 2500 })).await;
    let blocks = answer.blocks().await;
    assert!(blocks.iter().all(bowline_testkit::Block::is_priming), "parked");
    program.terminate();
    draining(&program).await;
    let (messages, polls) = session.poll(session.get(answer.last_id.as_deref()).await).await;
    assert_eq!(text_of(&messages[0]), "slow: 2500 ms, 0 progress");
    assert!(polls >= 1);
    assert_eq!(program.wait().await.code(), Some(0));
    program.assert_none_left(PATIENCE).await;
}

#[tokio::test]
async fn a_primed_connection_is_told_to_come_back_and_gets_its_result() {
    let mut program = serve("--json-hold 20ms --retry 200ms").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 2000 })).await;
    let first = answer.block().await.unwrap();
    program.terminate();
    let parting = answer.blocks().await;
    let last = parting.last().expect("told when to come back");
    assert!(last.is_priming() && last.retry.is_some() && last.id != first.id, "{last:?}");
    let (messages, _) = session.poll(session.get(answer.last_id.as_deref()).await).await;
    assert_eq!(text_of(&messages[0]), "slow: 2000 ms, 0 progress");
    assert_eq!(program.wait().await.code(), Some(0));
}

/// Its own client waits for `retry` before it polls; the result must still be there when it comes.
#[tokio::test]
async fn a_result_that_is_ready_early_waits_for_its_client() {
    let mut program = serve("--json-hold 20ms --max-connection 100ms --retry 1500ms").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 400 })).await;
    answer.blocks().await;
    program.terminate();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let response = session.get(answer.last_id.as_deref()).await.response().await;
    assert_eq!(text_of(&response), "slow: 400 ms, 0 progress");
    assert_eq!(program.wait().await.code(), Some(0));
}

#[tokio::test]
async fn plain_answers_and_older_revisions_finish_on_their_connection() {
    let mut program = serve("").await;
    let session = program.client().await;
    let older = program.session("2025-06-18").await;
    let mut streaming =
        older.post(&older.tool_with_progress("slow", &json!({ "ms": 2000, "progress": 4 }))).await;
    assert!(streaming.is_stream());
    let quiet = session.request("POST", &[], &session.tool("slow", &json!({ "ms": 800 })).to_string());
    let mut raw = Raw::connect(program.address()).await;
    raw.send(quiet).await;
    program.has_received("both calls", |m| m["params"]["arguments"]["ms"] == 800).await;
    program.terminate();
    let mut plain = Answer::to(raw, "").await;
    assert_eq!(text_of(&plain.json().await), "slow: 800 ms, 0 progress");
    assert_eq!(text_of(&streaming.response().await), "slow: 2000 ms, 4 progress");
    assert_eq!(program.wait().await.code(), Some(0));
}

#[tokio::test]
async fn new_sessions_are_refused_and_answers_of_clients_arrive() {
    let mut program = serve("--json-hold 20ms --retry 100ms").await;
    let session = program.client().await;
    let mut answer = session.call("ask", json!({})).await;
    let mut question = None;
    while question.is_none() {
        question = answer.block().await.unwrap().message();
    }
    program.terminate();
    draining(&program).await;
    let mut refused = Session::none(program.address()).post(&initialize(PRIMED)).await;
    assert_eq!(refused.status(), 503);
    assert!(refused.header("retry-after").is_some(), "{}", refused.head.text);
    assert!(refused.json().await["error"].is_object());
    let reply = json!({ "jsonrpc": "2.0", "id": question.unwrap()["id"],
        "result": { "action": "accept", "content": { "name": "Ann" } } });
    assert_eq!(session.post(&reply).await.status(), 202);
    answer.blocks().await;
    let (messages, _) = session.poll(session.get(answer.last_id.as_deref()).await).await;
    assert!(text_of(messages.last().unwrap()).contains("Ann"), "{messages:?}");
    assert_eq!(program.wait().await.code(), Some(0));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_an_error_that_says_so() {
    let mut program = serve("--json-hold 20ms --drain-timeout 1s --retry 100ms").await;
    let session = program.client().await;
    let older = program.session("2025-06-18").await;
    let mut primed = session.call("slow", json!({ "ms": 60_000 })).await;
    let mut connected = older.call("slow", json!({ "ms": 60_000 })).await;
    primed.block().await.unwrap();
    let began = Instant::now();
    program.terminate();
    primed.blocks().await;
    let poll = tokio::spawn(async move { session.poll(session.get(primed.last_id.as_deref()).await).await });
    let response = connected.response().await;
    assert_eq!(response["error"]["data"]["reason"], "draining", "{response}");
    let (messages, _) = poll.await.unwrap();
    assert_eq!(messages[0]["error"]["data"]["reason"], "draining", "{messages:?}");
    assert_eq!(program.wait().await.code(), Some(0));
    let took = Instant::now() - began;
    assert!((1..8).contains(&took.as_secs()), "{took:?}");
    program.assert_none_left(PATIENCE).await;
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_nothing_is_left() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut program =
            fixture().with("--json-hold 20ms").server_args("--ignore-term --no-exit-on-eof").start().await;
        let session = program.client().await;
        let mut answer = session.call("slow", json!({ "ms": 60_000 })).await;
        answer.block().await.unwrap();
        processes::signal(program.pid(), signal);
        draining(&program).await;
        assert!(!program.has_ended());
        let began = Instant::now();
        processes::signal(program.pid(), signal);
        let status = program.wait().await;
        assert!(Instant::now() - began < Duration::from_secs(2));
        assert_eq!(status.code(), Some(code), "{status:?}, signal {:?}", status.signal());
        program.assert_none_left(PATIENCE).await;
    }
}

#[tokio::test]
async fn servers_that_do_not_want_to_go_do_not_hold_the_exit() {
    let mut program = fixture().server_args("--ignore-term --no-exit-on-eof").start().await;
    for _ in 0..3 {
        let session = program.client().await;
        session.call_for_text("spawn_grandchild", json!({ "ignore_term": true })).await;
    }
    let began = Instant::now();
    program.terminate();
    assert_eq!(program.wait().await.code(), Some(0));
    assert!(Instant::now() - began < Duration::from_secs(15), "{:?}", Instant::now() - began);
    program.assert_none_left(PATIENCE).await;
}
