//! What is too large or too many.

use bowline_server::Options;
use serde_json::json;

use crate::support::{PATIENCE, Server, fixture, until};

/// I7: a result of 20 MB on one line, whole.
#[tokio::test]
async fn twenty_megabytes_come_whole() {
    let mut endpoint = Options::default();
    endpoint.max_event_bytes = 64 << 20;
    endpoint.max_stream_bytes = 128 << 20;
    let server = Server::with(fixture(&[]), endpoint);
    let client = server.connected().await;
    let text = client.text(1, "big", json!({ "bytes": 20_000_000 })).await;
    assert_eq!(text.len(), 20_000_000);
    assert!(text.as_bytes().chunks(10).all(|chunk| chunk == b"0123456789"));
    server.end().await;
}

/// A line over the limit cannot be passed on; its call ends all the same, and the process lives.
#[tokio::test]
async fn an_answer_over_the_limit_ends_its_call() {
    let mut options = fixture(&[]);
    options.child.max_line = 100_000;
    let server = Server::new(options);
    let client = server.connected().await;
    let pid = client.pid().await;
    let answer = client.tool(1, "big", json!({ "bytes": 1_000_000 })).await.response().await;
    assert_eq!(answer["error"]["data"]["reason"], "too_large", "{answer}");
    assert_eq!(client.pid().await, pid);
    assert_eq!(server.gateway.stats().too_long, 1);
    server.end().await;
}

#[tokio::test]
async fn a_process_too_many_is_refused() {
    let mut options = fixture(&[]);
    options.max_children = 1;
    let server = Server::new(options);
    let first = server.connected().await;
    let answer = server.client().initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "too_many_children", "{answer}");
    assert_eq!(first.text(1, "echo", json!({ "text": "x" })).await, "x");
    first.delete().await;
    until(PATIENCE, || (server.gateway.stats().children == 0).then_some(())).await;
    server.connected().await;
    server.end().await;
}

#[tokio::test]
async fn after_the_shutdown_nothing_starts() {
    let server = Server::new(fixture(&["--no-exit-on-eof"]));
    let clients = [server.connected().await, server.connected().await];
    server.gateway.shutdown().await;
    assert_eq!((server.gateway.stats().children, server.gateway.stats().sessions), (0, 0));
    assert_eq!(server.client().initialize().await["error"]["data"]["reason"], "draining");
    assert_eq!(
        clients[0].request(1, "ping", json!({})).await["error"]["data"]["reason"],
        "upstream_unavailable"
    );
}
