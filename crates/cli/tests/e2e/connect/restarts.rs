//! The server is killed and started again in the middle of calls, and the host is answered once for each request.

use super::host::Host;
use crate::common::fixture;
use bowline_testkit::{Dir, PATIENCE, Program, eventually};
use serde_json::json;
use std::{net::SocketAddr, path::PathBuf};

async fn again(program: Program) -> Program {
    let address: SocketAddr = program.address();
    drop(program);
    fixture().listen(address).with("--json-hold 100ms --retry 200ms").start().await
}

fn lines(file: &PathBuf) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// B1: the session is gone with the server; the next call is answered all the same, and the host hears of nothing but lists.
#[tokio::test]
async fn a_session_that_is_lost_is_replaced() {
    let mut program = fixture().start().await;
    let mut host = Host::start(&[program.url()]);
    let hello = host.initialize().await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "fixture", "{hello}");
    host.calls(1, "echo", json!({ "text": "one" })).await;
    assert_eq!(host.text(1).await, "one");
    for id in 2..=4 {
        program = again(program).await;
        host.calls(id, "echo", json!({ "text": format!("call {id}") })).await;
        assert_eq!(host.text(id).await, format!("call {id}"));
        let initialized =
            program.received().iter().filter(|message| message["method"] == "initialize").count();
        assert_eq!(initialized, 1, "one handshake for it");
    }
    host.hears("notifications/tools/list_changed").await;
    assert_eq!(host.end().await.code, Some(0));
}

/// C1: killed while calls with side effects run, among others. Each request has one answer; no side effect happened twice, one that
/// was answered happened, and where the answer says that the call did not run, it did not.
#[tokio::test]
async fn killed_in_the_middle_of_many_calls() {
    let dir = Dir::new();
    let mut program = fixture().with("--json-hold 100ms --retry 200ms").start().await;
    let mut host = Host::start(&[program.url(), "--outage", "20s"]);
    host.initialize().await;
    let ledger = |id: usize| dir.join(&format!("ledger-{id}"));
    for round in 0..3 {
        let ids: Vec<usize> = (0..6).map(|n| round * 10 + n).collect();
        for id in &ids {
            // Some are over when the server dies, some are not.
            let ms = (id % 10) * 400;
            host.calls(*id, "count", json!({ "file": ledger(*id), "ms": ms })).await;
        }
        eventually("all calls run", PATIENCE, || ids.iter().all(|id| lines(&ledger(*id)) == 1)).await;
        program.kill();
        program.wait().await;
        // Comes while nobody is there.
        host.asks(round * 10 + 8, "tools/list", json!({})).await;
        host.calls(round * 10 + 9, "count", json!({ "file": ledger(round * 10 + 9) })).await;
        program = again(program).await;
        for id in ids {
            let answer = host.answer(id).await;
            match answer["result"]["content"][0]["text"].as_str() {
                Some(text) => assert_eq!(text, "1", "{answer}"),
                None => assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}"),
            }
            assert_eq!(lines(&ledger(id)), 1, "call {id} ran again");
        }
        assert!(host.answer(round * 10 + 8).await["result"]["tools"].is_array());
        assert_eq!(host.text(round * 10 + 9).await, "1");
        assert_eq!(lines(&ledger(round * 10 + 9)), 1);
    }
    assert_eq!(host.end().await.code, Some(0));
}
