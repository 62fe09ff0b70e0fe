//! G: GET, and who comes back when.

use super::next_message;
use crate::common::{assert_refused, serve};
use bowline_testkit::{Fault, FaultProxy, Session, text_of};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn g1_a_stream_that_is_not_offered_is_405_at_once() {
    let program = serve("--session-mode stateless").await;
    let nobody = Session::none(program.address());
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let mut answer = nobody.get(None).await;
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("POST, OPTIONS")));
        assert!(answer.json().await["error"].is_object(), "no stream, and it ends");
        best = best.min(Instant::now() - began);
    }
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[tokio::test]
async fn g2_what_a_stateless_endpoint_does_not_serve_is_405_with_allow() {
    for (options, allowed) in [("", "POST, OPTIONS"), ("--resumable", "POST, GET, OPTIONS")] {
        let program = serve(&format!("--session-mode stateless {options}")).await;
        let nobody = Session::none(program.address());
        for method in ["GET", "DELETE", "PUT"] {
            let answer = nobody.send(method, &[], "").await;
            assert_eq!(answer.header("allow"), Some(allowed), "{method} {options}");
            assert_refused(answer, 405, -32600, method).await;
        }
    }
}

#[tokio::test]
async fn g3_a_get_is_closed_before_a_limit_of_the_platform_and_loses_nothing() {
    let program = serve("--max-connection 300ms --retry 50ms").await;
    let session = program.client().await;
    let mut get = session.get(None).await;
    let began = Instant::now();
    let parting = get.blocks().await;
    assert!(Instant::now() - began < Duration::from_secs(10));
    let last = parting.last().unwrap();
    assert!(last.is_priming() && last.retry == Some(50), "{last:?}");
    session.call_for_text("swap", json!({})).await;
    let messages = session.get(get.last_id.as_deref()).await.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn g7_the_newest_get_takes_over_from_one_that_died_unnoticed() {
    let program = serve("--json-hold 20ms").await;
    let session = program.client().await;
    let proxy = FaultProxy::start(program.address(), Fault::None).await;
    let mut first = session.at(proxy.address()).get(None).await;
    assert!(first.block().await.unwrap().is_priming());
    let mut running = session.call("slow", json!({ "ms": 1_500 })).await;
    proxy.set(Fault::Freeze);
    session.call_for_text("swap", json!({})).await;
    let began = Instant::now();
    let mut second = session.get(first.last_id.as_deref()).await;
    assert_eq!(second.status(), 200, "never 409");
    assert_eq!(next_message(&mut second).await["method"], "notifications/tools/list_changed");
    assert!(Instant::now() - began < Duration::from_secs(10), "at once");
    session.call_for_text("swap", json!({})).await;
    assert_eq!(next_message(&mut second).await["method"], "notifications/tools/list_changed");
    assert_eq!(text_of(&running.response().await), "slow: 1500 ms, 0 progress", "untouched");
}
