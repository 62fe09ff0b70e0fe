//! A: what is said to a session that is not there.

use crate::common::{PRIMED, assert_error, assert_refused, assert_serves, fixture, ping, serve};
use bowline_testkit::{Session, initialize};
use serde_json::json;
use std::time::Duration;

async fn assert_gone(session: &Session, what: &str) {
    assert_error(&mut session.post(&ping()).await, 404, -32001, what).await;
    for method in ["GET", "DELETE"] {
        assert_refused(session.send(method, &[], "").await, 404, -32001, what).await;
    }
}

#[tokio::test]
async fn a1_an_unknown_session_is_404_on_every_verb() {
    let mut program = serve("").await;
    let session = program.client().await;
    program.kill();
    program.wait().await;
    let again = fixture().listen(program.address()).start().await;
    assert_gone(&session, "after a restart").await;
    assert_error(&mut session.with_id(None).post(&ping()).await, 400, -32600, "no session id").await;
    for odd in ["with space", "a\u{7f}b", "tab\there", "\u{e9}", &"x".repeat(4000)] {
        let answer = session.with_id(Some(odd)).post(&ping()).await;
        assert!([400, 404].contains(&answer.status()), "{odd:?}: {}", answer.head.text);
    }
    assert_serves(&again.client().await).await;
}

#[tokio::test]
async fn a4_only_a_session_that_nobody_uses_ends() {
    let program = serve("--session-ttl 1500ms").await;
    let idle = program.client().await;
    let used = program.client().await;
    for _ in 0..13 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_serves(&used).await;
    }
    assert_gone(&idle, "idle").await;
    assert_serves(&program.client().await).await;
}

#[tokio::test]
async fn a5_an_ended_session_never_comes_back() {
    let program = serve("").await;
    let session = program.client().await;
    assert_eq!(session.delete().await.status(), 204);
    assert_gone(&session, "ended").await;
    // Its id on `initialize` brings nothing back: another session starts.
    let other = session.post(&initialize(PRIMED)).await;
    assert_eq!(other.status(), 200);
    assert_ne!(other.header("mcp-session-id"), session.id.as_deref());
    assert_gone(&session, "ended, after another one began").await;
    // Who wants stale ids served anyway asks for it, and then nothing is kept under them.
    let program = serve("--session-mode stateless --stale-session ignore").await;
    let mut answer = session.at(program.address()).ask("tools/list", json!({})).await;
    assert_eq!((answer.status(), answer.header("mcp-session-id")), (200, None));
    assert!(answer.json().await["result"]["tools"].is_array());
}

#[tokio::test]
async fn a6_without_sessions_there_is_no_id_that_another_key_could_not_open() {
    let stateless = |key: &str| fixture().with("--session-mode stateless").env("BOWLINE_KEY", key.repeat(32));
    let (first, second) = (stateless("ab").start().await, stateless("cd").start().await);
    let hello = Session::none(first.address()).post(&initialize(PRIMED)).await;
    assert_eq!((hello.status(), hello.header("mcp-session-id")), (200, None));
    let mut listed = Session::none(second.address()).ask("tools/list", json!({})).await;
    assert_eq!(listed.status(), 200);
    assert!(listed.json().await["result"]["tools"].is_array());
    // An id of a process with another key is unknown, not a failure.
    let stateful = fixture().env("BOWLINE_KEY", "ef".repeat(32)).start().await;
    let session = stateful.client().await;
    assert_error(&mut session.at(second.address()).post(&ping()).await, 404, -32001, "another key").await;
}
