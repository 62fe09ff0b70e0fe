//! I: what grows, and how much is taken.

use super::{open_files, probe, resident_kib};
use crate::common::{PRIMED, assert_serves, exchange, ping, serve};
use bowline_testkit::{PATIENCE, Session, eventually, initialize, patiently};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn i1_sessions_that_nobody_ends_are_bounded_and_freed() {
    let program = serve("--child shared --max-sessions 100 --session-ttl 3s").await;
    let live = program.client().await;
    let before = resident_kib(&program);
    let hello = async || Session::none(program.address()).post(&initialize(PRIMED)).await;
    for _ in 0..99 {
        assert_eq!(hello().await.status(), 200);
    }
    let refused = hello().await;
    assert_eq!(refused.status(), 503);
    assert!(refused.header("retry-after").is_some(), "{}", refused.head.text);
    assert_serves(&live).await;
    patiently("room again", async {
        while hello().await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_serves(&live).await;
        }
    })
    .await;
    let grown = resident_kib(&program).saturating_sub(before);
    assert!(grown < 10 * 1024, "{grown} KiB");
}

#[tokio::test]
async fn i2_an_ended_session_is_freed_at_once() {
    let program = serve("--child shared --max-sessions 3").await;
    let live = program.client().await;
    let before = resident_kib(&program);
    for _ in 0..150 {
        let session = Session::hello(program.address(), &initialize(PRIMED)).await;
        assert_eq!(session.delete().await.status(), 204);
    }
    let grown = resident_kib(&program).saturating_sub(before);
    assert!(grown < 10 * 1024, "{grown} KiB");
    assert_serves(&live).await;
}

#[tokio::test]
async fn i4_resuming_leaks_nothing() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 60_000 })).await;
    let cursor = answer.block().await.unwrap().id;
    let before = open_files(&program);
    let mut kept = Vec::new();
    let headers = [("Last-Event-ID", cursor.as_deref().unwrap()), ("Connection", "close")];
    for _ in 0..200 {
        let again = session.send("GET", &headers, "").await;
        assert_eq!(again.status(), 200);
        kept.push(again);
    }
    // Ours are still open; of theirs one is.
    eventually("the older ones are closed", PATIENCE, || open_files(&program) <= before + 10).await;
}

#[tokio::test]
async fn i5_probes_have_paths_of_their_own_and_start_nothing() {
    let program = serve("--max-sessions 1").await;
    for _ in 0..100 {
        assert_eq!((probe(&program, "/healthz").await, probe(&program, "/readyz").await), (200, 200));
    }
    assert_eq!(program.servers().len(), 0);
    assert_serves(&program.client().await).await;
}

#[tokio::test]
async fn i6_a_body_over_the_limit_is_told_the_limit_however_it_comes() {
    let program = serve("--body-limit 64KiB").await;
    let session = program.client().await;
    let body = |bytes: usize| {
        let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": { "pad": "" } });
        message["params"]["pad"] = "x".repeat(bytes - message.to_string().len()).into();
        message.to_string()
    };
    assert_eq!(session.send("POST", &[], &body(65_536)).await.status(), 200);
    let over = body(65_537);
    let chunked = session.request("POST", &[("Content-Length", ""), ("Transfer-Encoding", "chunked")], "")
        + &format!("{:x}\r\n{over}\r\n0\r\n\r\n", over.len());
    let lying = session.request("POST", &[("Content-Length", "99999999")], &over);
    for request in [session.request("POST", &[], &over), chunked, lying] {
        let mut answer = exchange(&program, request).await;
        assert_eq!(answer.status(), 413);
        let error = answer.json().await["error"].clone();
        assert_eq!(error["data"], json!({ "reason": "too_large", "limit": 65_536 }), "{error}");
        assert!(error["message"].as_str().unwrap().contains("65536"), "{error}");
    }
    assert_eq!(session.post(&ping()).await.status(), 200);
}

#[tokio::test]
async fn i7_a_large_result_is_whole_or_an_error_that_says_why() {
    let program = serve("--json-hold 20ms").await;
    let session = program.client().await;
    for bytes in [1_000_000, 5_000_000] {
        let text = session.call_for_text("big", json!({ "bytes": bytes })).await;
        assert!(
            text.len() == bytes && text.bytes().zip((b'0'..=b'9').cycle()).all(|(is, wanted)| is == wanted)
        );
    }
    let response = session.call("big", json!({ "bytes": 20_000_000 })).await.response().await;
    let whole =
        response["result"]["content"][0]["text"].as_str().is_some_and(|text| text.len() == 20_000_000);
    assert!(whole || response["error"]["data"]["reason"] == "too_large");
    assert_serves(&session).await;
}
