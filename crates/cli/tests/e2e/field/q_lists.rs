//! Q: lists stay true.

use super::next_message;
use crate::common::{PRIMED, assert_error, serve};
use bowline_testkit::{Session, initialize};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test]
async fn q1_a_replaced_server_with_other_tools_is_told_once() {
    let program = serve("").await;
    let session = program.client().await;
    session.call_for_text("swap", json!({})).await;
    let list = async || -> Value { session.ask("tools/list", json!({})).await.json().await };
    let has_swapped = |list: &Value| {
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool["name"] == "swapped")
    };
    assert!(has_swapped(&list().await));
    let mut get = session.get(None).await;
    assert_eq!(next_message(&mut get).await["method"], "notifications/tools/list_changed", "of the swap");
    session.call("die", json!({ "how": "exit0" })).await.response().await;
    // The next process begins without it.
    let changed = timeout(Duration::from_secs(10), next_message(&mut get)).await.expect("told");
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert!(!has_swapped(&list().await));
    let mut removed = session.call("swapped", json!({})).await;
    let error = assert_error(&mut removed, 200, -32602, "a tool that is gone").await;
    assert!(error.to_string().contains("swapped"), "{error}");
    assert_eq!(session.delete().await.status(), 204);
    assert_eq!(get.messages().await, Vec::<Value>::new(), "once");
}

#[tokio::test]
async fn q2_what_changes_before_the_first_get_waits_for_it() {
    let program = serve("").await;
    for _ in 0..5 {
        // A GET at the moment at which the id is known, before anything else.
        let session = Session::hello(program.address(), &initialize(PRIMED)).await;
        assert_eq!(session.get(None).await.status(), 200);
    }
    let session = program.client().await;
    session.call_for_text("swap", json!({})).await;
    let mut get = session.get(None).await;
    assert_eq!(next_message(&mut get).await["method"], "notifications/tools/list_changed");
    // What no channel can deliver is not promised.
    let program = serve("--session-mode stateless").await;
    let hello = Session::none(program.address()).post(&initialize(PRIMED)).await.json().await;
    assert_eq!(hello["result"]["capabilities"]["tools"], json!({}), "{hello}");
}
