//! Tools, resources and what belongs to them.

use crate::client::{POLLS, Server};
use serde_json::{Value, json};

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["method"].as_str().unwrap_or("response")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_handler_introduces_itself_in_the_revision_of_the_client() {
    let server = Server::new();
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", POLLS] {
        let answer = server.stranger().initialize(revision, &json!({})).await.response().await;
        assert_eq!(answer["result"]["protocolVersion"], revision);
        assert_eq!(answer["result"]["instructions"], "do everything");
        assert_eq!(answer["result"]["capabilities"]["resources"]["subscribe"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_and_called() {
    let server = Server::new();
    let client = server.client().await;
    let list = client.request("tools/list", json!({})).await.response().await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["inputSchema"]["required"], json!(["text"]));
    assert_eq!(client.text("echo", json!({ "text": "\u{1f40b} \" \\" })).await, "\u{1f40b} \" \\");
    let read = client.request("resources/read", json!({ "uri": "note:a" })).await.response().await;
    assert_eq!(read["result"]["contents"][0]["text"], "a note");
    assert_eq!(client.request("ping", json!({})).await.response().await["result"], json!({}));
    assert_eq!(server.diary.count("initialized"), 1);
}

#[tokio::test(start_paused = true)]
async fn errors_are_those_of_the_handler() {
    let server = Server::new();
    let client = server.client().await;
    let error = client.call("fail", json!({})).await.response().await["error"].clone();
    assert_eq!(error, json!({ "code": -32602, "message": "it is always wrong", "data": { "why": "so" } }));
    for (method, params, code) in [
        ("tools/call", json!({ "name": 7 }), -32602),
        ("prompts/get", json!({ "name": "none" }), -32601),
        ("x/unknown", json!({}), -32601),
    ] {
        let error = client.request(method, params).await.response().await["error"].clone();
        assert_eq!(error["code"], code, "{method}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_call_with_its_token_before_the_result() {
    let server = Server::new();
    let client = server.client().await;
    let steps = json!({ "steps": 3, "ms": 400 });
    let (mut one, mut two) =
        tokio::join!(client.watch("count", steps.clone(), "one"), client.watch("count", steps, "two"));
    for (answer, token) in [(&mut one, "one"), (&mut two, "two")] {
        let messages = answer.messages().await;
        let last = messages.last().unwrap();
        assert_eq!(last["result"]["content"][0]["text"], "counted to 3");
        let progress = &messages[..messages.len() - 1];
        assert!(progress.iter().all(|message| message["params"]["progressToken"] == token), "{progress:?}");
        assert_eq!(progress.last().unwrap()["params"]["progress"], 3.0);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_go_to_the_standalone_stream() {
    let server = Server::new();
    let client = server.client().await;
    let subscribed = client.request("resources/subscribe", json!({ "uri": "note:a" })).await;
    assert_eq!(subscribed.response().await["result"], json!({}));
    assert!(server.diary.has("subscribed note:a"));
    let mut changed = client.call("change", json!({})).await;
    assert_eq!(methods(&changed.messages().await), ["response"]);
    let mut standalone = client.get(None).await;
    standalone.until("notifications/tools/list_changed").await;
    let updated = standalone.until("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "note:a");
}

#[tokio::test(start_paused = true)]
async fn the_level_reaches_the_handler_and_its_logs_go_to_the_only_call() {
    let server = Server::new();
    let client = server.client().await;
    let set = client.request("logging/setLevel", json!({ "level": "warning" })).await.response().await;
    assert_eq!(set["result"], json!({}));
    let messages = client.call("log", json!({})).await.messages().await;
    assert_eq!(methods(&messages), ["notifications/message", "response"]);
    assert_eq!(messages[0]["params"], json!({ "level": "warning", "data": "hello" }));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_let_go_of_and_the_result_comes_once() {
    let server = Server::new();
    let client = server.client().await;
    let mut parked = client.call("park", json!({})).await;
    assert_eq!(parked.messages().await, Vec::<Value>::new());
    assert!(!server.diary.has("parked"), "the connection ended before the call");
    let cursor = parked.cursor.expect("a cursor to come back with");
    let mut resumed = client.get(Some(&cursor)).await;
    let messages = resumed.messages().await;
    assert_eq!(methods(&messages), ["response"]);
    assert_eq!(messages[0]["id"], parked.id);
    assert_eq!(messages[0]["result"]["content"][0]["text"], "after the pause");
    let mut again = client.get(resumed.cursor.as_deref()).await;
    assert_eq!(again.messages().await, Vec::<Value>::new(), "nothing comes after the result");
    assert_eq!(server.diary.count("parked"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_outlives_a_connection_that_breaks() {
    let server = Server::new();
    let client = server.client().await;
    let mut watched = client.watch("count", json!({ "steps": 5, "ms": 1_000 }), "t").await;
    let first = watched.message().await.unwrap();
    let cursor = watched.cursor.clone().unwrap();
    drop(watched);
    let rest = client.get(Some(&cursor)).await.messages().await;
    let told: Vec<_> =
        std::iter::once(&first).chain(&rest).map(|message| &message["params"]["progress"]).collect();
    assert_eq!(told[0], 1.0);
    assert_eq!(told[told.len() - 2], 5.0);
    assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "counted to 5");
    assert_eq!(server.diary.count("counted"), 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_do_not_mix() {
    let server = Server::new();
    let (one, two) = (server.client().await, server.client().await);
    assert_eq!(one.text("tally", json!({})).await, "1");
    assert_eq!(one.text("tally", json!({})).await, "2");
    assert_eq!(two.text("tally", json!({})).await, "1");
    // The same ids and tokens in both.
    let steps = json!({ "steps": 2, "ms": 400 });
    let (mut first, mut second) =
        tokio::join!(one.watch("count", steps.clone(), "t"), two.watch("count", steps, "t"));
    for answer in [&mut first, &mut second] {
        let told: Vec<_> =
            answer.messages().await.iter().map(|message| message["params"]["progress"].clone()).collect();
        assert_eq!(told, [json!(1.0), json!(2.0), Value::Null]);
    }
    one.text("change", json!({})).await;
    one.get(None).await.until("notifications/tools/list_changed").await;
    let mut standalone = two.get(None).await;
    let silent = tokio::time::timeout(std::time::Duration::from_secs(20), standalone.message()).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn the_handler_sees_the_head_of_the_request_and_the_client() {
    let server = Server::new();
    let client = server.client().await;
    assert_eq!(client.text("caller", json!({})).await, r#"Some("acme") Some("unknown")"#);
}
