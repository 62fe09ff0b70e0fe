//! The server is not there: from the beginning, or for a while.

use super::host::Host;
use crate::common::fixture;
use serde_json::json;
use tokio::time::Instant;

/// An address where nobody is.
fn nobody() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn away_from_the_beginning_and_there_later() {
    let address = nobody();
    let url = format!("http://{address}/mcp");
    let mut host = Host::start(&[&url, "--patience", "500ms", "--outage", "30s"]);
    let hello = host.initialize().await;
    assert_eq!(hello["result"]["capabilities"]["tools"], json!({ "listChanged": true }), "{hello}");
    host.asks(1, "ping", json!({})).await;
    assert_eq!(host.answer(1).await["result"], json!({}));
    // Waits for the server.
    host.asks(2, "tools/list", json!({})).await;
    host.calls(3, "echo", json!({ "text": "early" })).await;
    let _program = fixture().listen(address).start().await;
    let tools = host.answer(2).await;
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{tools}");
    assert_eq!(host.text(3).await, "early");
    for list in ["tools", "prompts", "resources"] {
        host.hears(&format!("notifications/{list}/list_changed")).await;
    }
    assert_eq!(host.end().await.code, Some(0));
}

#[tokio::test]
async fn a_request_to_a_server_that_stays_away_is_answered_in_time() {
    let address = nobody();
    let mut host = Host::start(&[&format!("http://{address}/mcp"), "--patience", "200ms", "--outage", "1s"]);
    host.initialize().await;
    let began = Instant::now();
    host.calls(1, "echo", json!({ "text": "x" })).await;
    let answer = host.answer(1).await;
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32603), &json!({ "reason": "upstream_unreachable" })),
        "{answer}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&address.to_string()) && message.contains("did not run"), "{message}");
    let waited = Instant::now() - began;
    assert!((900..10_000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(host.end().await.code, Some(0));
}

/// The same when it was there before.
#[tokio::test]
async fn a_server_that_leaves_and_comes_back() {
    let program = fixture().start().await;
    let address = program.address();
    let mut host = Host::start(&[program.url(), "--outage", "2s"]);
    host.initialize().await;
    drop(program);
    host.calls(1, "echo", json!({ "text": "x" })).await;
    let answer = host.answer(1).await;
    assert_eq!(answer["error"]["data"], json!({ "reason": "upstream_unreachable" }), "{answer}");
    let _program = fixture().listen(address).start().await;
    host.calls(2, "echo", json!({ "text": "back" })).await;
    assert_eq!(host.text(2).await, "back");
    assert_eq!(host.end().await.code, Some(0));
}
