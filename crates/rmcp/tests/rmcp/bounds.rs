//! What is bounded, and what happens there.

use crate::client::Server;
use bowline_rmcp::Options;
use serde_json::json;
use std::time::Duration;

fn server(set: impl FnOnce(&mut Options)) -> Server {
    let mut options = Options::default();
    set(&mut options);
    Server::built(options, |builder| builder)
}

#[tokio::test(start_paused = true)]
async fn one_question_too_many_is_an_error_to_the_handler_that_asks() {
    let server = server(|options| options.max_questions = 1);
    let client = server.client().await;
    let mut first = client.call("elicit", json!({})).await;
    let question = first.until("elicitation/create").await;
    let second = client.call("elicit", json!({})).await.response().await.to_string();
    assert!(second.contains("1 requests wait for the client already"), "{second}");
    client.answer(&question, json!({ "action": "accept", "content": { "age": 3 } })).await;
    assert_eq!(first.text().await, "3 years");
    let mut third = client.call("elicit", json!({})).await;
    third.until("elicitation/create").await;
}

#[tokio::test(start_paused = true)]
async fn a_narrow_queue_loses_neither_calls_nor_cancellations_nor_answers() {
    let server = server(|options| options.queue = 0);
    let client = server.client().await;
    let waiting = futures_util::future::join_all((0..8).map(|_| client.call("wait", json!({})))).await;
    let told = futures_util::future::join_all((0..32).map(|_| client.text("ping_client", json!({})))).await;
    assert_eq!(told, ["it lives"; 32]);
    futures_util::future::join_all(waiting.iter().map(|call| client.cancel(call.id))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.diary.count("cancelled"), 8);
}

#[tokio::test(start_paused = true)]
async fn the_grace_can_be_chosen() {
    let server = server(|options| options.cancel_grace = Duration::from_secs(60));
    let client = server.client().await;
    let call = client.call("stubborn", json!({})).await;
    client.cancel(call.id).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(!server.diary.has("dropped"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(server.diary.has("dropped"));
}
