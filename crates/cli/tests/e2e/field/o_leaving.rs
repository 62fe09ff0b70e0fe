//! O: whether leaving means to cancel.

use super::timed;
use crate::common::serve;
use bowline_testkit::{PATIENCE, Session, eventually, text_of};
use serde_json::{Value, json};

fn is_cancel(message: &Value) -> bool {
    message["method"] == "notifications/cancelled"
}

#[tokio::test]
async fn o1_leaving_cancels_only_what_cannot_be_resumed() {
    // With a session the call runs on.
    let program = serve("--response sse").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 800 })).await;
    let cursor = answer.block().await.unwrap().id;
    answer.abort();
    let response = session.get(cursor.as_deref()).await.response().await;
    assert_eq!(text_of(&response), "slow: 800 ms, 0 progress");
    assert!(!program.received().iter().any(is_cancel));

    // Without one it is told to stop at once.
    let program = serve("--session-mode stateless --response sse").await;
    let nobody = Session::none(program.address());
    assert!(timed(&nobody, "echo", json!({ "text": "warm" })).await.0["result"].is_object());
    let answer =
        nobody.post(&nobody.tool_with_progress("slow", &json!({ "ms": 60_000, "progress": 600 }))).await;
    program.has_received("the call", |message| message["params"]["name"] == "slow").await;
    answer.abort();
    eventually("the cancel", PATIENCE, || program.received().iter().any(is_cancel)).await;
}
