//! C: a call runs once, or its caller is told that nobody knows.

use crate::common::{assert_error, assert_serves, serve};
use bowline_testkit::{PATIENCE, Raw, eventually, processes, text_of};
use serde_json::json;

#[tokio::test]
async fn c1_a_call_runs_once_whatever_is_cut() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let count =
        |file: &str, ms: u64| session.tool("count", &json!({ "file": program.dir().join(file), "ms": ms }));
    let ran = async |file: &str| {
        eventually("the effect", PATIENCE, || program.ledger(file) == 1).await;
    };

    let message = count("before", 0).to_string();
    let request = session.request("POST", &[], &message);
    for part in [0, 20, request.len() - 1] {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(&request[..part]).await;
        raw.abort();
    }

    let mut raw = Raw::connect(program.address()).await;
    raw.send(session.request("POST", &[], &count("written", 200).to_string())).await;
    ran("written").await;
    raw.abort();

    let mut answer = session.post(&count("primed", 200)).await;
    let cursor = answer.block().await.unwrap().id;
    answer.abort();
    assert_eq!(text_of(&session.get(cursor.as_deref()).await.response().await), "1");

    let mut answer = session.post(&count("answered", 0)).await;
    while answer.block().await.unwrap().message().is_none() {}
    let cursor = answer.last_id.take();
    answer.abort();
    assert_eq!(session.get(cursor.as_deref()).await.status(), 204);

    let mut answer = session.post(&count("killed", 60_000)).await;
    ran("killed").await;
    processes::kill(program.servers()[0].pid);
    let response = answer.response().await;
    assert_eq!(response["error"]["data"]["outcome"], "unknown", "{response}");

    assert_serves(&session).await;
    let lines = ["before", "written", "primed", "answered", "killed"].map(|file| program.ledger(file));
    assert_eq!(lines, [0, 1, 1, 1, 1]);
}

#[tokio::test]
async fn c2_the_error_of_a_lost_call_does_not_ask_for_another_try() {
    let program = serve("").await;
    let session = program.client().await;
    let response = session.call("die", json!({ "how": "kill" })).await.response().await;
    assert_eq!(
        response["error"]["data"],
        json!({ "reason": "upstream_lost", "outcome": "unknown" }),
        "{response}"
    );
}

#[tokio::test]
async fn c3_an_error_of_the_server_is_final() {
    let program = serve("").await;
    let session = program.client().await;
    let failed = session.call("env", json!({ "name": "NOT_SET_ANYWHERE" })).await.response().await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let mut refused = session.call("no-such-tool", json!({})).await;
    assert_error(&mut refused, 200, -32602, "an unknown tool").await;
    assert_serves(&session).await;
    let received = program.received();
    let sent = |method: &str| received.iter().filter(|message| message["method"] == method).count();
    assert_eq!((sent("tools/call"), sent("initialize")), (3, 1), "nothing twice, no second process");
}
