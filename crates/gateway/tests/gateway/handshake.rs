//! The handshake: in order, slow, refused, left.

use std::time::Duration;

use bowline_gateway::GatewayOptions;
use bowline_gateway::child::ChildSpec;
use http::Method;
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::support::{Client, Log, PATIENCE, Server, fixture, until};

/// J8: `initialized` once, before anything else, whether the client sends it early, late or not at all.
#[tokio::test]
async fn initialized_is_sent_once_and_first() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let mut client = server.client();
    client.initialize().await;
    client.request(1, "ping", json!({})).await;
    client.request(2, "tools/list", json!({})).await;
    client.notify("notifications/initialized", json!({})).await;
    client.notify("notifications/initialized", json!({})).await;
    client.request(3, "tools/list", json!({})).await;
    assert_eq!(
        log.methods(),
        ["initialize", "ping", "notifications/initialized", "tools/list", "tools/list"]
    );
    server.end().await;
}

/// The revision that was negotiated is the one that the process is offered; the client gets the process's answer.
#[tokio::test]
async fn the_process_is_offered_the_negotiated_revision() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let mut hello = Client::hello();
    hello["params"]["protocolVersion"] = json!("2999-01-01");
    let answer = server.client().post(hello).await.response().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["protocolVersion"]),
        (&json!("init-1"), &json!("2025-11-25"))
    );
    assert_eq!(answer["result"]["instructions"], "A server for tests.");
    assert_eq!(log.messages()[0]["params"]["protocolVersion"], "2025-11-25");
    server.end().await;
}

/// D13: a slow server is waited for.
#[tokio::test]
async fn a_slow_server_is_waited_for() {
    let server = Server::new(fixture(&["--slow-init", "3"]));
    let start = Instant::now();
    let client = server.connected().await;
    assert!(Instant::now() - start >= Duration::from_secs(3));
    let list = client.request(1, "tools/list", json!({})).await;
    assert!(list["result"]["tools"].as_array().unwrap().len() > 10);
    server.end().await;
}

#[tokio::test]
async fn a_server_that_is_too_slow_is_an_error_and_ends() {
    let mut options = fixture(&["--slow-init", "30"]);
    options.init_timeout = Duration::from_millis(700);
    let server = Server::new(options);
    let answer = server.client().initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "timeout", "{answer}");
    until(PATIENCE, || (server.gateway.stats().children == 0).then_some(())).await;
    server.end().await;
}

/// J1: a client that leaves during `initialize` takes its process with it, and nobody else's.
#[tokio::test]
async fn a_client_that_leaves_during_initialize_ends_its_process() {
    let server = Server::new(fixture(&["--slow-init", "1"]));
    let other = server.connected().await;
    let leaver = server.client();
    let hello = leaver.http(Method::POST, Client::hello().to_string());
    assert!(timeout(Duration::from_millis(300), hello).await.is_err());
    until(PATIENCE, || (server.gateway.stats().children == 1).then_some(())).await;
    assert_eq!(server.gateway.stats().sessions, 1);
    assert_eq!(other.text(1, "echo", json!({ "text": "x" })).await, "x");
    server.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_without_its_path() {
    let none: [&str; 0] = [];
    let server = Server::new(GatewayOptions::new(ChildSpec::new("/secret/place/no-such-server", none)));
    let answer = server.client().initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "upstream_unavailable");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("no-such-server") && !message.contains("/secret"), "{message}");
    server.end().await;
}
