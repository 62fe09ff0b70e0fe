//! Cancellation, panics and the end of sessions.

use crate::client::Server;
use serde_json::json;
use std::time::Duration;

/// Longer than anything takes that was told to end.
const GRACE: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_told_and_says_nothing_more() {
    let server = Server::new();
    let client = server.client().await;
    let mut call = client.call("wait", json!({})).await;
    assert!(server.diary.has("waits") && !server.diary.has("cancelled"));
    client.cancel(call.id).await;
    let messages = call.messages().await;
    assert!(messages.iter().all(|message| message.get("result").is_none()), "{messages:?}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.diary.has("cancelled"));
    assert_eq!(client.text("echo", json!({ "text": "still here" })).await, "still here");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_look_is_dropped_after_a_grace() {
    let server = Server::new();
    let client = server.client().await;
    let call = client.call("stubborn", json!({})).await;
    client.cancel(call.id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!server.diary.has("dropped"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(server.diary.has("dropped"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_call_only() {
    let server = Server::new();
    let client = server.client().await;
    let mut other = client.watch("count", json!({ "steps": 2, "ms": 500 }), "t").await;
    let response = client.call("panic", json!({})).await.response().await;
    assert_eq!(response["error"]["code"], -32603);
    assert_eq!(response["error"]["data"]["reason"], "panic");
    assert!(!response.to_string().contains("a secret"), "{response}");
    assert_eq!(other.messages().await.pop().unwrap()["result"]["content"][0]["text"], "counted to 2");
    client.notify("notifications/roots/list_changed", json!({})).await;
    assert_eq!(client.text("echo", json!({ "text": "still here" })).await, "still here");
    assert!(server.diary.has("roots changed"), "a notification may panic too");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_session_that_ended() {
    let server = Server::new();
    let (client, other) = (server.client().await, server.client().await);
    let mut waiting = client.call("wait", json!({})).await;
    let mut stubborn = client.call("stubborn", json!({})).await;
    let mut asking = client.call("elicit", json!({})).await;
    asking.until("elicitation/create").await;
    assert_eq!(server.diary.handlers(), 2);
    client.delete().await;
    for call in [&mut waiting, &mut stubborn, &mut asking] {
        call.messages().await;
    }
    tokio::time::sleep(GRACE).await;
    assert!(server.diary.has("cancelled") && server.diary.has("dropped"));
    assert_eq!(server.diary.handlers(), 1, "the handler of the other session");
    assert_eq!(other.text("echo", json!({ "text": "still here" })).await, "still here");
    server.endpoint.close().await;
    tokio::time::sleep(GRACE).await;
    assert_eq!(server.diary.handlers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_ends_its_service() {
    let server = Server::new();
    drop(server.client().await);
    assert_eq!(server.diary.handlers(), 1);
    tokio::time::sleep(bowline_server::Options::default().session_ttl + GRACE).await;
    assert_eq!(server.diary.handlers(), 0);
}
