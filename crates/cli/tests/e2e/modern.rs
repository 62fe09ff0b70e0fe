//! Clients of the modern revision, through the built program, in front of legacy servers and a modern one.

use crate::common::{command, fixture, serve};
use bowline_testkit::{
    Answer, PATIENCE, Program, Raw, RealClient, Session, eventually, everything_server, modern, repository,
    text_of,
};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(110);

/// Every client with its own mode: tools, elicitation, sampling and roots in rounds, and a listening stream.
async fn everything(client: RealClient, mode: &str) {
    let program = command(everything_server()).start().await;
    let scenario = format!("everything --mode {mode} --revision 2026-07-28");
    let run = client.run(program.url(), &scenario, LIMIT).await.passed();
    assert_eq!(run.step("connect")["session"], false);
    assert_eq!(run.step("elicitation")["ok"], true);
    assert_eq!(run.step("sampling")["ok"], true);
}

async fn many_and_cancel(client: RealClient, mode: &str) {
    let program = serve("").await;
    let options = format!("--mode {mode} --revision 2026-07-28");
    client.run(program.url(), &format!("many --calls 100 --parallel 10 {options}"), LIMIT).await.passed();
    client.run(program.url(), &format!("cancel --seconds 2 {options}"), LIMIT).await.passed();
    program.has_received("the cancel", |m| m["method"] == "notifications/cancelled").await;
}

macro_rules! clients {
    ($($module:ident: $client:expr, $mode:literal;)*) => { $(
        mod $module {
            use super::*;

            #[tokio::test]
            async fn everything() {
                super::everything($client, $mode).await;
            }

            #[tokio::test]
            async fn many_and_cancel() {
                super::many_and_cancel($client, $mode).await;
            }
        }
    )* };
}

clients! {
    typescript: RealClient::TypeScript2, "modern";
    typescript_auto: RealClient::TypeScript2, "auto";
    python: RealClient::Python, "modern";
    python_auto: RealClient::Python, "auto";
    rmcp_discover: RealClient::Rmcp, "discover";
    rmcp_auto: RealClient::Rmcp, "auto";
}

/// "Seen working" 4, through a gateway: sessions with a process each, and rounds that stay open in processes of their own.
#[tokio::test]
async fn fifty_of_each_era_get_their_own_answers_from_one_server() {
    let program = fixture().with("--max-modern-children 8").start().await;
    let address = program.address();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..50_u64 {
        all.spawn(async move {
            let session = Session::start(address, "2025-11-25").await;
            let said = format!("legacy {n}");
            assert_eq!(session.call_for_text("echo", json!({ "text": said })).await, said);
            assert_eq!(session.delete().await.status(), 204);
        });
        all.spawn(async move {
            let arguments = json!({ "message": format!("modern {n}") });
            let asked = modern::tool(address, n, "ask", json!({ "arguments": arguments })).await;
            assert_eq!(
                (&asked["id"], &asked["result"]["resultType"]),
                (&json!(n), &json!("input_required")),
                "{asked}"
            );
            let (key, question) =
                asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(question["params"]["message"], format!("modern {n}"));
            let answer = json!({ "action": "accept", "content": { "name": format!("client {n}") } });
            let next = json!({
                "arguments": arguments,
                "requestState": asked["result"]["requestState"],
                "inputResponses": { key: answer },
            });
            let done = modern::tool(address, n + 1_000, "ask", next).await;
            assert_eq!(done["id"], n + 1_000);
            assert_eq!(serde_json::from_str::<Value>(&text_of(&done)).unwrap(), answer);
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// A modern client that hangs up cancels its call at the server within a moment.
#[tokio::test]
async fn hanging_up_cancels_at_the_server() {
    let program = serve("").await;
    let params = json!({
        "name": "slow", "arguments": { "ms": 60_000, "progress": 600 }, "_meta": { "progressToken": 1 },
    });
    let mut answer = modern::request(program.address(), 1, "tools/call", params).await;
    assert!(answer.block().await.is_some());
    answer.abort();
    program.has_received("the cancel", |m| m["method"] == "notifications/cancelled").await;
}

fn modern_server() -> [std::ffi::OsString; 2] {
    ["python3".into(), repository().join("tests/fixtures/modern_server.py").into()]
}

/// Real legacy clients in front of a server that has no handshake.
#[tokio::test]
async fn legacy_clients_are_served_by_a_modern_server() {
    let program: Program = command(modern_server()).start().await;
    for client in RealClient::ALL {
        client.run(program.url(), "many --calls 30 --parallel 5", LIMIT).await.passed();
    }
    let session = Session::start(program.address(), "2025-11-25").await;
    assert_eq!(session.call_for_text("echo", json!({ "text": "x" })).await, "x");
    assert_eq!(session.delete().await.status(), 204);
}

/// An operator's choice, with tokens: a call whose connection broke is joined by the same request.
#[tokio::test]
async fn a_request_that_is_sent_again_joins_its_call() {
    let token = "a-token-for-tests-only";
    let tokens = format!("ada={token}");
    let program = fixture().with("--join-reissued 30s").env("BOWLINE_AUTH_TOKENS", tokens).start().await;
    let address = program.address();
    let send = |id: u64| async move {
        let mut params = json!({ "name": "slow", "arguments": { "ms": 1_500, "progress": 5 } });
        params["_meta"]["progressToken"] = json!(id);
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let body =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Answer::to(Raw::connect(address).await, request).await
    };
    let mut first = send(1).await;
    assert!(first.block().await.is_some());
    first.abort();
    // The end of the connection has to have been noticed: before, the second would be a call of its own.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let mut second = send(2).await;
    let response = if second.is_stream() { second.response().await } else { second.json().await };
    assert_eq!((&response["id"], text_of(&response)), (&json!(2), "slow: 1500 ms, 5 progress".to_owned()));
    let calls = || program.received().iter().filter(|m| m["method"] == "tools/call").count();
    eventually("one call at the server", PATIENCE, || calls() == 1).await;
}
