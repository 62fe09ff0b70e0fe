//! The test that started this mode: nothing is kept between two requests.

use crate::client::{Client, REVISIONS, serve, stateless};
use bowline_testkit::Program;
use serde_json::{Value, json};
use std::time::Duration;

async fn stop(mut program: Program) {
    program.terminate();
    assert!(program.wait().await.success(), "{}", program.said());
    program.assert_none_left(Duration::from_secs(5)).await;
}

fn assert_listed(tools: &Value) {
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 10), "{tools}");
}

async fn initialized(client: &Client) {
    let mut answer = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!((answer.status(), answer.text().await.as_str()), (202, ""));
}

/// A handshake with one backend, which is then gone; the rest with another one.
async fn on_a_fresh_backend(revision: &str) {
    let first = serve("").await;
    let client = Client::new(first.address(), revision);
    let mut answer = client.initialize().await;
    assert_eq!((answer.status(), answer.header("mcp-session-id")), (200, None), "{}", answer.head.text);
    let body = answer.json().await;
    assert_eq!(body["result"]["protocolVersion"], revision);
    stop(first).await;

    let second = serve("").await;
    let client = Client::new(second.address(), revision);
    let mut answer = client.ask("tools/list", json!({})).await;
    assert_eq!(answer.status(), 200);
    assert_listed(&answer.json().await);
    assert_eq!(client.text("echo", json!({ "text": revision })).await, revision);
}

/// As above, with a backend of its own for every single POST.
async fn a_process_for_every_post(revision: &str) {
    let program = serve("").await;
    let mut answer = Client::new(program.address(), revision).initialize().await;
    assert_eq!(answer.json().await["result"]["protocolVersion"], revision);
    stop(program).await;

    let program = serve("").await;
    initialized(&Client::new(program.address(), revision)).await;
    // A notification needs no server, so none was started for it.
    assert_eq!(program.servers().len(), 0);
    stop(program).await;

    let program = serve("").await;
    let mut answer = Client::new(program.address(), revision).ask("tools/list", json!({})).await;
    assert_listed(&answer.json().await);
    stop(program).await;

    for number in 0..3 {
        let program = serve("").await;
        let text = format!("{revision} {number}");
        assert_eq!(
            Client::new(program.address(), revision).text("echo", json!({ "text": text })).await,
            text
        );
        stop(program).await;
    }
}

#[tokio::test]
async fn every_revision_goes_on_at_a_fresh_backend() {
    for revision in REVISIONS {
        on_a_fresh_backend(revision).await;
    }
}

#[tokio::test]
async fn every_post_at_a_process_of_its_own_2024_11_05() {
    a_process_for_every_post(REVISIONS[0]).await;
}

#[tokio::test]
async fn every_post_at_a_process_of_its_own_2025_03_26() {
    a_process_for_every_post(REVISIONS[1]).await;
}

#[tokio::test]
async fn every_post_at_a_process_of_its_own_2025_06_18() {
    a_process_for_every_post(REVISIONS[2]).await;
}

#[tokio::test]
async fn every_post_at_a_process_of_its_own_2025_11_25() {
    a_process_for_every_post(REVISIONS[3]).await;
}

/// The same with one process of the server and no pool.
#[tokio::test]
async fn one_shared_process_does_as_well() {
    let program = stateless().with("--child shared").start().await;
    let client = Client::of(&program);
    let first = client.info().await["pid"].clone();
    assert_eq!(client.info().await["pid"], first);
    assert_eq!(program.servers().len(), 1);
}
