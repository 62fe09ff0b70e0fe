//! What a handler asks its client.

use crate::client::Server;
use serde_json::{Value, json};
use std::time::Duration;

fn accepted(age: u32) -> Value {
    json!({ "action": "accept", "content": { "age": age } })
}

#[tokio::test(start_paused = true)]
async fn sampling() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("sample", json!({})).await;
    let question = call.until("sampling/createMessage").await;
    assert_eq!(question["params"]["messages"][0]["content"]["text"], "hi");
    let content = json!({ "type": "text", "text": "hello" });
    client.answer(&question, json!({ "model": "m1", "role": "assistant", "content": content })).await;
    assert_eq!(call.text().await, "m1 said something");
}

#[tokio::test(start_paused = true)]
async fn elicitation() {
    let server = Server::new();
    let client = server.client().await;
    for (result, expected) in [(accepted(41), "41 years"), (json!({ "action": "decline" }), "declin")] {
        let mut call = client.call("elicit", json!({})).await;
        let question = call.until("elicitation/create").await;
        assert_eq!(question["params"]["message"], "How old?");
        assert!(question["params"]["requestedSchema"]["properties"]["age"].is_object(), "{question}");
        client.answer(&question, result).await;
        let response = call.response().await.to_string();
        assert!(response.contains(expected), "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn roots_from_a_task_of_its_own_go_to_the_only_call() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("roots", json!({})).await;
    let question = call.until("roots/list").await;
    client.answer(&question, json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b" }] })).await;
    assert_eq!(call.text().await, "file:///a file:///b");
}

#[tokio::test(start_paused = true)]
async fn each_question_is_on_the_stream_of_its_call() {
    let server = Server::new();
    let client = server.client().await;
    // The standalone stream is read, and still nothing goes there: rmcp knows which call asks.
    let mut standalone = client.get(None).await;
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(client.call("elicit", json!({})).await);
    }
    let mut questions = Vec::new();
    for call in &mut calls {
        questions.push(call.until("elicitation/create").await);
    }
    for (age, question) in questions.iter().enumerate().rev() {
        client.answer(question, accepted(u32::try_from(age).unwrap())).await;
    }
    for (age, call) in calls.into_iter().enumerate() {
        assert_eq!(call.text().await, format!("{age} years"));
    }
    let silent = tokio::time::timeout(Duration::from_secs(20), standalone.message()).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn what_names_no_call_goes_to_the_standalone_stream_where_it_is_read() {
    let server = Server::new();
    let client = server.client().await;
    let mut standalone = client.get(None).await;
    let other = client.call("wait", json!({})).await;
    let (call, question) = tokio::join!(client.call("roots", json!({})), standalone.until("roots/list"));
    client.answer(&question, json!({ "roots": [{ "uri": "file:///a" }] })).await;
    assert_eq!(call.text().await, "file:///a");
    client.cancel(other.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_given_up_is_cancelled_under_the_id_that_the_client_knows() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("impatient", json!({})).await;
    let question = call.until("elicitation/create").await;
    let cancelled = call.until("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(call.text().await, "gave up");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_client_survives_the_connection() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("elicit", json!({})).await;
    let question = call.until("elicitation/create").await;
    let cursor = call.cursor.clone().unwrap();
    drop(call);
    client.answer(&question, accepted(7)).await;
    assert_eq!(client.get(Some(&cursor)).await.text().await, "7 years");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_with_an_error_or_nonsense_is_an_error_to_the_handler() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("sample", json!({})).await;
    let question = call.until("sampling/createMessage").await;
    let refusal = json!({ "code": -1, "message": "the user refused" });
    client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "error": refusal })).await;
    let response = call.response().await;
    assert!(response["error"]["message"].as_str().unwrap().contains("the user refused"), "{response}");
    let mut call = client.call("sample", json!({})).await;
    let question = call.until("sampling/createMessage").await;
    client.answer(&question, json!({ "nonsense": true })).await;
    assert!(call.response().await["error"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_ping_of_the_handler_is_answered_for_the_client() {
    let server = Server::new();
    let client = server.client().await;
    assert_eq!(client.call("ping_client", json!({})).await.messages().await.len(), 1);
    assert_eq!(client.text("ping_client", json!({})).await, "it lives");
}
