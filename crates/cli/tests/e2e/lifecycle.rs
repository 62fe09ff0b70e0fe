//! SEMANTICS 6, for one process: leaving, cancelling, limits, and servers that die.

use crate::common::{PRIMED, assert_error, assert_serves, exchange, fixture, ping, serve};
use bowline_testkit::{
    PATIENCE, Program, Raw, Session, eventually, initialize, patiently, processes, text_of,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

fn cancel(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

fn is_cancel(message: &Value) -> bool {
    message["method"] == "notifications/cancelled"
}

#[tokio::test]
async fn leaving_does_not_cancel_and_the_call_runs_once() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let ledger = program.dir().join("ledger");
    let message = session.tool("count", &json!({ "file": ledger, "ms": 300 }));
    let mut answer = session.post(&message).await;
    let cursor = answer.block().await.unwrap().id;
    answer.abort();
    let response = session.get(cursor.as_deref()).await.response().await;
    assert_eq!(text_of(&response), "1");
    assert!(!program.received().iter().any(is_cancel));
}

/// In the hold, before any id was told, leaving cancels no more than later: the call runs to its end, once.
#[tokio::test]
async fn leaving_in_the_hold_does_not_cancel_and_frees_the_id_in_the_end() {
    let program = serve("").await;
    let session = program.client().await;
    let message = session.tool("count", &json!({ "file": program.dir().join("ledger"), "ms": 100 }));
    for round in 1..=3 {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(session.request("POST", &[], &message.to_string())).await;
        eventually("the side effect", PATIENCE, || program.ledger("ledger") == round).await;
        raw.abort();
        let same_id = json!({ "jsonrpc": "2.0", "id": message["id"], "method": "ping" });
        patiently("the id is free", async {
            while session.post(&same_id).await.status() != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    assert!(!program.received().iter().any(is_cancel));
}

#[tokio::test]
async fn a_call_that_nobody_reads_is_cancelled_in_the_end() {
    let program = serve("--response sse --abandon-after 600ms").await;
    let session = program.client().await;
    let message = session.tool("slow", &json!({ "ms": 60_000 }));
    let mut answer = session.post(&message).await;
    let cursor = answer.block().await.unwrap().id;
    answer.abort();
    program.has_received("the cancel", is_cancel).await;
    let response = session.get(cursor.as_deref()).await.response().await;
    assert_eq!(response["id"], message["id"]);
    assert_eq!(response["error"]["data"]["reason"], "abandoned", "{response}");
    assert_eq!(response["error"]["data"]["outcome"], "unknown", "{response}");
}

#[tokio::test]
async fn polling_is_not_leaving() {
    let program = serve("--json-hold 20ms --abandon-after 2s --max-connection 100ms --retry 300ms").await;
    let session = program.client().await;
    let (messages, polls) = session.poll(session.call("slow", json!({ "ms": 3500 })).await).await;
    assert_eq!(text_of(&messages[0]), "slow: 3500 ms, 0 progress");
    assert!(polls >= 3);
}

#[tokio::test]
async fn a_cancel_reaches_the_server_and_nothing_follows() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let message = session.tool("slow", &json!({ "ms": 60_000 }));
    let mut answer = session.post(&message).await;
    assert!(answer.block().await.unwrap().is_priming());
    program.has_received("the call", |m| m["method"] == "tools/call").await;
    assert_eq!(session.post(&cancel(&message["id"])).await.status(), 202);
    assert_eq!(session.post(&cancel(&message["id"])).await.status(), 202);
    assert_eq!(answer.messages().await, [] as [Value; 0]);
    program.has_received("the cancel", is_cancel).await;
    let received = program.received();
    let call = received.iter().find(|m| m["method"] == "tools/call").unwrap();
    let cancels: Vec<_> = received.iter().filter(|m| is_cancel(m)).collect();
    assert_eq!(cancels.len(), 1, "{cancels:?}");
    assert_eq!(cancels[0]["params"]["requestId"], call["id"], "by the id that the server knows");
    assert_eq!(session.get(answer.last_id.as_deref()).await.status(), 204);
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_cancel_during_the_hold_ends_the_answer() {
    let program = serve("--json-hold 10s").await;
    let session = program.client().await;
    let message = session.tool("slow", &json!({ "ms": 60_000 }));
    let mut raw = Raw::connect(program.address()).await;
    raw.send(session.request("POST", &[], &message.to_string())).await;
    program.has_received("the call", |m| m["method"] == "tools/call").await;
    let began = Instant::now();
    assert_eq!(session.post(&cancel(&message["id"])).await.status(), 202);
    let head = raw.head().await;
    assert!(Instant::now() - began < Duration::from_secs(8));
    let body = raw.body().await;
    assert!((200..300).contains(&head.status), "{}", head.text);
    assert!(!String::from_utf8_lossy(&body).contains("\"result\""), "no response follows a cancel");
    program.has_received("the cancel", is_cancel).await;
}

/// A session cannot cancel what another one has started.
#[tokio::test]
async fn a_cancel_is_good_in_its_own_session_only() {
    let program = serve("--response sse --child shared").await;
    let session = program.client().await;
    let other = program.client().await;
    let message = session.tool("slow", &json!({ "ms": 700 }));
    let mut answer = session.post(&message).await;
    assert!(answer.block().await.unwrap().is_priming());
    assert_eq!(other.post(&cancel(&message["id"])).await.status(), 202);
    assert_eq!(text_of(&answer.response().await), "slow: 700 ms, 0 progress");
}

#[tokio::test]
async fn a_call_has_a_limit() {
    let program = serve("--call-timeout 500ms --json-hold 20ms").await;
    for revision in [PRIMED, "2025-06-18"] {
        let session = program.session(revision).await;
        let began = Instant::now();
        let response = session.call("slow", json!({ "ms": 60_000 })).await.response().await;
        assert_eq!(response["error"]["data"]["reason"], "timeout", "{response}");
        let took = (Instant::now() - began).as_millis();
        assert!((450..10_000).contains(&took), "{took}");
        program.has_received("the cancel", is_cancel).await;
        assert_serves(&session).await;
    }
}

#[tokio::test]
async fn requests_connections_and_calls_keep_a_session_alive() {
    let program = serve("--session-ttl 2s --json-hold 20ms").await;
    let idle = program.client().await;
    let calling = program.client().await;
    let reading = program.client().await;
    let asking = program.client().await;
    let _call = calling.call("slow", json!({ "ms": 60_000 })).await;
    let _stream = reading.get(None).await;
    for _ in 0..18 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(asking.post(&ping()).await.status(), 200);
    }
    assert_eq!(idle.post(&ping()).await.status(), 404);
    for session in [&calling, &reading, &asking] {
        assert_eq!(session.ask("ping", json!({})).await.status(), 200);
    }
    eventually("the idle one's server ends", PATIENCE, || program.servers().len() == 3).await;
}

#[tokio::test]
async fn a_session_of_less_than_a_second_is_kept_alive_too() {
    let program = serve("--session-ttl 900ms").await;
    let session = program.client().await;
    for round in 0..10 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(session.post(&ping()).await.status(), 200, "round {round}");
    }
}

#[tokio::test]
async fn a_server_that_dies_is_an_error_at_once_and_the_session_goes_on() {
    for how in ["exit0", "exit1", "kill", "close_stdout"] {
        let program = serve("--json-hold 20ms").await;
        let session = program.client().await;
        let other = program.client().await;
        let mut waiting = session.call("slow", json!({ "ms": 60_000 })).await;
        let began = Instant::now();
        let killer = session.post(&session.tool("die", &json!({ "how": how }))).await.response().await;
        let responses = [killer, waiting.response().await];
        assert!(Instant::now() - began < Duration::from_secs(15), "{how}: {:?}", Instant::now() - began);
        for response in &responses {
            assert_eq!(response["error"]["code"], -32603, "{how}: {response}");
            assert_eq!(response["error"]["data"]["reason"], "upstream_lost", "{how}: {response}");
            assert_eq!(response["error"]["data"]["outcome"], "unknown", "{how}: {response}");
        }
        assert_serves(&other).await;
        patiently("a new server", async {
            loop {
                let response = session.call("echo", json!({ "text": "again" })).await.response().await;
                if response["result"].is_object() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let received = program.received();
        assert_eq!(received.iter().filter(|m| m["params"]["name"] == "die").count(), 1, "{how}: never twice");
    }
}

#[tokio::test]
async fn a_server_that_cannot_start_is_said_at_once() {
    let program = fixture().server_args("--crash-loop").start().await;
    let mut answer = Session::none(program.address()).post(&initialize(PRIMED)).await;
    assert_eq!(answer.header("mcp-session-id"), None, "there is no session");
    let body = answer.json().await;
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(0), &json!(-32603)), "{body}");
    // One failure says little; a few in a row say that new sessions cannot be served.
    patiently("readyz says 503", async {
        while exchange(&program, "GET /readyz HTTP/1.1\r\nHost: probe\r\n\r\n").await.status() != 503 {
            let mut again = Session::none(program.address()).post(&initialize(PRIMED)).await;
            assert_eq!(again.json().await["error"]["code"], -32603);
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_never_answers_initialize_is_given_up() {
    let program = fixture().server_args("--slow-init 600").with("--init-timeout 500ms").start().await;
    let began = Instant::now();
    let mut answer = Session::none(program.address()).post(&initialize(PRIMED)).await;
    let body = answer.json().await;
    assert_eq!(body["error"]["code"], -32603, "{body}");
    assert!(Instant::now() - began < Duration::from_secs(8));
    eventually("its process ends", Duration::from_secs(8), || program.servers().is_empty()).await;
}

#[tokio::test]
async fn servers_are_bounded() {
    let program = serve("--max-children 1").await;
    let session = program.client().await;
    let mut refused = Session::none(program.address()).post(&initialize(PRIMED)).await;
    assert_eq!(refused.header("mcp-session-id"), None);
    assert_eq!(refused.status(), 503, "as --help says");
    assert_eq!(refused.json().await["error"]["data"]["reason"], "too_many_children");
    assert_serves(&session).await;
    assert_eq!(session.delete().await.status(), 204);
    eventually("its process ends", PATIENCE, || program.servers().is_empty()).await;
    assert_serves(&program.client().await).await;
}

#[tokio::test]
async fn noise_on_stdout_is_nobody_s_message() {
    let program = serve("").await;
    let session = program.client().await;
    assert_eq!(session.call_for_text("noise", json!({})).await, "quiet again");
    assert_serves(&session).await;
}

#[tokio::test]
async fn errors_of_a_server_are_passed_on() {
    let program = serve("").await;
    let session = program.client().await;
    let mut answer = session.call("env", json!({ "name": "NOT_SET_ANYWHERE" })).await;
    assert_eq!(answer.json().await["result"]["isError"], true);
    let mut answer = session.ask("logging/setLevel", json!({ "level": "loud" })).await;
    assert_error(&mut answer, 200, -32602, "an unknown level").await;
}

/// A process of every kind that does not want to go, below a session that is ended.
#[tokio::test]
async fn a_session_s_processes_end_with_it() {
    let program = fixture().server_args("--ignore-term --no-exit-on-eof").start().await;
    let session = program.client().await;
    let other = program.client().await;
    let grandchild =
        session.call_for_text("spawn_grandchild", json!({ "ignore_term": true, "hold_stdout": true })).await;
    let grandchild: u32 = grandchild.parse().unwrap();
    assert!(processes::exists(grandchild));
    assert_eq!(session.delete().await.status(), 204);
    processes::gone(grandchild, Duration::from_secs(12)).await;
    eventually("its server ends", Duration::from_secs(12), || program.servers().len() == 1).await;
    assert_serves(&other).await;
}

async fn with_a_family(program: &Program) {
    for _ in 0..3 {
        let session = program.client().await;
        session.call_for_text("spawn_grandchild", json!({ "ignore_term": true, "hold_stdout": true })).await;
        session.call("slow", json!({ "ms": 60_000 })).await;
    }
}

#[tokio::test]
async fn killed_the_program_leaves_nothing_behind() {
    let program =
        fixture().with("--json-hold 20ms").server_args("--ignore-term --no-exit-on-eof").start().await;
    with_a_family(&program).await;
    assert!(program.processes().len() >= 7, "{:?}", program.processes());
    program.kill();
    program.assert_none_left(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn readiness_is_said_by_the_probe() {
    let program = serve("--json-hold 20ms").await;
    let probe = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: probe\r\n\r\n");
    assert_eq!(exchange(&program, probe("/readyz")).await.status(), 200);
    let session = program.client().await;
    let _running = session.call("slow", json!({ "ms": 3000 })).await;
    program.terminate();
    patiently("readyz says 503", async {
        while exchange(&program, probe("/readyz")).await.status() != 503 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(exchange(&program, probe("/healthz")).await.status(), 200, "it lives");
}
