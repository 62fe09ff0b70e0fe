//! A client that goes away: its call ends, and nothing of it is left.

use crate::client::{Client, serve};
use bowline_testkit::{Answer, Program, Raw, Session, eventually};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(5);

fn open_files(program: &Program) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", program.pid())).unwrap().count()
}

/// The ids under which the servers were given the calls of a tool.
fn ids_of(program: &Program, tool: &str) -> Vec<Value> {
    let calls = program.received().into_iter().filter(|message| message["params"]["name"] == tool);
    calls.map(|message| message["id"].clone()).collect()
}

fn cancelled(program: &Program) -> Vec<Value> {
    let cancels =
        program.received().into_iter().filter(|message| message["method"] == "notifications/cancelled");
    cancels.map(|message| message["params"]["requestId"].clone()).collect()
}

async fn all_cancelled(program: &Program, tool: &str, count: usize) {
    eventually("the cancels reach the servers", SOON, || {
        let (mut ids, mut cancels) = (ids_of(program, tool), cancelled(program));
        ids.sort_by_key(ToString::to_string);
        cancels.sort_by_key(ToString::to_string);
        ids.len() == count && ids == cancels
    })
    .await;
}

/// Nothing runs and nothing is held: the files are those from before, and the program leaves at once.
async fn assert_nothing_left(mut program: Program, files: usize) {
    eventually("connections are closed", SOON, || open_files(&program) <= files).await;
    let began = Instant::now();
    program.terminate();
    assert!(program.wait().await.success());
    assert!(
        (Instant::now() - began) < Duration::from_secs(15),
        "{:?}: it waited for a call",
        (Instant::now() - began)
    );
    program.assert_none_left(SOON).await;
}

#[tokio::test]
async fn calls_of_clients_that_leave_are_cancelled_and_freed() {
    let program = serve("--json-hold 100ms").await;
    let client = Client::of(&program);
    client.info().await;
    eventually("both servers are up", SOON, || program.servers().len() == 2).await;
    let files = open_files(&program);
    // Streams: their heads are there, progress comes; then the connection is reset, or closed in order.
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(client.call_with_progress("slow", json!({ "ms": 60_000, "progress": 600 })).await);
    }
    for (number, answer) in streams.into_iter().enumerate() {
        if number % 2 == 0 { answer.abort() } else { drop(answer) }
    }
    all_cancelled(&program, "slow", 10).await;
    assert_nothing_left(program, files).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_too() {
    let program = serve("--json-hold 30s").await;
    let client = Client::of(&program);
    client.info().await;
    eventually("both servers are up", SOON, || program.servers().len() == 2).await;
    let files = open_files(&program);
    let session = Session::none(program.address());
    for running in 1..=5 {
        let message = session.tool("slow", &json!({ "ms": 60_000 })).to_string();
        let mut raw = Raw::connect(program.address()).await;
        raw.send(session.request("POST", &[("MCP-Protocol-Version", "2025-11-25")], &message)).await;
        eventually("the call is running", SOON, || ids_of(&program, "slow").len() == running).await;
        raw.abort();
    }
    all_cancelled(&program, "slow", 5).await;
    assert_nothing_left(program, files).await;
}

/// A resumable call is kept for whoever comes back, and cancelled when nobody does.
#[tokio::test]
async fn an_abandoned_resumable_call_ends_in_the_end() {
    let program = serve("--resumable --json-hold 100ms --abandon-after 2s").await;
    let client = Client::of(&program);
    let mut answer: Answer =
        client.call_with_progress("slow", json!({ "ms": 60_000, "progress": 600 })).await;
    assert!(answer.block().await.unwrap().is_priming());
    answer.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cancelled(&program), Vec::<Value>::new());
    all_cancelled(&program, "slow", 1).await;
}
