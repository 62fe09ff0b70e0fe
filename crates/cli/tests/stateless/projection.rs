//! A server that speaks an older revision than its client (SEMANTICS 6, last item): each side in its own words.

use crate::client::{Client, stateless};
use bowline_testkit::{Program, Serve, Session};
use serde_json::{Value, json};

const OLDEST: &str = "--revision 2024-11-05";

async fn with_sessions() -> Program {
    Serve::fixture(env!("CARGO_BIN_EXE_bowline")).server_args(OLDEST).start().await
}

fn received(program: &Program, method: &str) -> Value {
    let found = program.received().into_iter().find(|message| message["method"] == method);
    found.unwrap_or_else(|| panic!("no {method}: {:?}", program.received()))
}

#[tokio::test]
async fn what_an_old_server_does_not_know_does_not_reach_it() {
    let program = with_sessions().await;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": { "form": {} }, "sampling": {}, "roots": {} },
        "clientInfo": { "name": "testkit", "version": "1" },
    } });
    let session = Session::hello(program.address(), &hello).await;
    assert_eq!(session.revision, "2025-11-25", "the client's own negotiation");
    session.initialized().await;
    let info: Value = serde_json::from_str(&session.call_for_text("info", json!({})).await).unwrap();
    assert_eq!(info["revision"], "2024-11-05", "the server's own negotiation");

    // A call.
    let mut call = session.tool("echo", &json!({ "text": "x", "task": "kept" }));
    call["params"]["task"] = json!({ "ttl": 1_000 });
    let response = session.post(&call).await.response().await;
    // `task` is the protocol's in 2025-11-25 and unknown to the server; an argument of that name is the tool's.
    assert!(response.get("result").is_some() || response.get("error").is_some());
    let echo = received(&program, "tools/call");
    assert_eq!(echo["params"]["name"], "info");
    let echo = program.received().into_iter().find(|message| message["params"]["name"] == "echo").unwrap();
    assert_eq!(echo["params"].get("task"), None, "{echo}");
    assert_eq!(echo["params"]["arguments"], json!({ "text": "x", "task": "kept" }), "{echo}");

    // A completion, whose context is newer.
    let params = json!({ "ref": { "type": "ref/prompt", "name": "greet", "title": "T" },
                         "argument": { "name": "name", "value": "al" }, "context": { "arguments": {} } });
    let completed = session.ask("completion/complete", params).await.response().await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["alpha", "alps"]), "{completed}");
    let completion = received(&program, "completion/complete");
    assert_eq!(
        completion["params"],
        json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": "al" } })
    );

    // A request that the server's revision does not have is refused here.
    let refused = session.ask("tasks/get", json!({ "taskId": "1" })).await.response().await;
    assert_eq!(refused["error"]["data"]["reason"], "unsupported_by_revision", "{refused}");

    // Notifications.
    session.notify("notifications/roots/list_changed", json!({})).await.text().await;
    session.notify("notifications/tasks/status", json!({ "taskId": "1" })).await.text().await;
    session.call_for_text("echo", json!({ "text": "after both" })).await;
    received(&program, "notifications/roots/list_changed");
    assert!(program.received().iter().all(|message| message["method"] != "notifications/tasks/status"));
}

#[tokio::test]
async fn the_answer_of_the_client_is_said_in_the_servers_words() {
    let program = with_sessions().await;
    let session = program.client().await;
    let mut answer = session.call("sample", json!({ "prompt": "sing" })).await;
    let question = loop {
        let block = answer.block().await.expect("the question comes");
        if let Some(message) = block.message() {
            break message;
        }
    };
    assert_eq!(question["method"], "sampling/createMessage");
    let audio = json!({ "role": "assistant", "model": "m",
                        "content": { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" } });
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": audio });
    assert_eq!(session.post(&reply).await.status(), 202);
    let response = answer.response().await;
    let text = bowline_testkit::text_of(&response);
    let seen: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(seen["content"]["type"], "text", "2024-11-05 has no audio: {seen}");
    assert!(!text.contains("AAAA"), "{text}");
}

/// The pool asks for the newest legacy revision, and takes what the server has.
#[tokio::test]
async fn every_revision_is_served_from_an_old_server_without_sessions() {
    let program = stateless().server_args(OLDEST).start().await;
    for revision in crate::client::REVISIONS {
        let client = Client::new(program.address(), revision);
        let mut answer = client.initialize().await;
        assert_eq!(answer.json().await["result"]["protocolVersion"], revision);
        assert_eq!(client.info().await["revision"], "2024-11-05");
        assert_eq!(client.text("echo", json!({ "text": revision })).await, revision);
    }
}
