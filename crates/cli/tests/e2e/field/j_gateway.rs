//! J: in front of a server on stdio.

use super::{next_message, probe, scripted, timed};
use crate::common::{PRIMED, assert_serves, fixture, serve};
use bowline_testkit::{PATIENCE, Program, Raw, Session, eventually, initialize, processes, text_of};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::Instant;

#[tokio::test]
async fn j1_clients_that_leave_take_nobody_with_them() {
    let program =
        fixture().with("--response sse --max-children 30").server_args("--slow-init 0.3").start().await;
    let mut staying = Vec::new();
    for n in 0..5 {
        let session = program.client().await;
        let message = session.tool("slow", &json!({ "ms": 1_000 + n }));
        let answer = session.post(&message).await;
        staying.push((n, answer));
    }
    // During `initialize`, before the answer, and in its middle.
    let mut raw = Raw::connect(program.address()).await;
    raw.send(Session::none(program.address()).request("POST", &[], &initialize(PRIMED).to_string())).await;
    raw.abort();
    let session = program.client().await;
    let mut cursors = Vec::new();
    for n in 0..4_u64 {
        let mut answer = session.call("slow", json!({ "ms": 200 + n })).await;
        cursors.push((n, answer.block().await.unwrap().id));
        tokio::time::sleep(Duration::from_millis(20 * n)).await;
        answer.abort();
    }
    for (n, mut answer) in staying {
        assert_eq!(text_of(&answer.response().await), format!("slow: {} ms, 0 progress", 1_000 + n));
    }
    for (n, cursor) in cursors {
        let response = session.get(cursor.as_deref()).await.response().await;
        assert_eq!(text_of(&response), format!("slow: {} ms, 0 progress", 200 + n));
    }
    eventually("the process of who left in `initialize` ends", PATIENCE, || program.servers().len() == 6)
        .await;
    assert!(processes::exists(program.pid()));
}

#[tokio::test]
async fn j2_several_clients_have_their_own_sessions_and_results() {
    for (options, processes) in [("--child session", 5), ("--child shared", 1)] {
        let program = serve(options).await;
        let clients = (0..5).map(|n| {
            let address = program.address();
            tokio::spawn(async move {
                let session = Session::start(address, PRIMED).await;
                let text = format!("client {n}");
                assert_eq!(session.call_for_text("echo", json!({ "text": text })).await, text);
                (session.id.clone().unwrap(), pid(&session).await)
            })
        });
        let (mut ids, mut pids) = (BTreeSet::new(), BTreeSet::new());
        for client in clients.collect::<Vec<_>>() {
            let (id, pid) = client.await.unwrap();
            ids.insert(id);
            pids.insert(pid);
        }
        assert_eq!((ids.len(), pids.len()), (5, processes), "{options}");
    }
}

/// The process that serves a session.
async fn pid(session: &Session) -> u64 {
    let info: Value = serde_json::from_str(&session.call_for_text("info", json!({})).await).unwrap();
    info["pid"].as_u64().unwrap()
}

#[tokio::test]
async fn j3_a_dead_server_is_an_error_at_once_and_replaced_in_its_session() {
    let program = serve("--json-hold 20ms --call-timeout 20s").await;
    for how in ["exit0", "exit1", "kill", "close_stdout"] {
        let session = program.client().await;
        let first = pid(&session).await;
        let mut waiting = session.call("slow", json!({ "ms": 60_000 })).await;
        let (response, took) = timed(&session, "die", json!({ "how": how })).await;
        assert_eq!(response["error"]["data"]["outcome"], "unknown", "{how}: {response}");
        assert_eq!(waiting.response().await["error"]["data"]["outcome"], "unknown", "{how}");
        assert!(took < Duration::from_secs(10), "{how}: {took:?}");
        assert_ne!(pid(&session).await, first, "{how}: another process, the same session");
    }
    assert_eq!(probe(&program, "/readyz").await, 200);
}

#[tokio::test]
async fn j3_a_server_that_falls_silent_does_not_hold_its_calls() {
    let program = serve("--json-hold 20ms --call-timeout 700ms").await;
    let session = program.client().await;
    let other = program.client().await;
    let (response, took) = timed(&session, "die", json!({ "how": "silent" })).await;
    assert_eq!(response["error"]["data"]["reason"], "timeout", "{response}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_serves(&other).await;
}

#[tokio::test]
async fn j3_a_crash_loop_is_told_by_the_probe_and_costs_few_starts() {
    let program = fixture().server_args("--crash-loop").start().await;
    let mut asked = 0;
    let mut ask = async || {
        let mut answer = Session::none(program.address()).post(&initialize(PRIMED)).await;
        assert!(answer.json().await["error"].is_object());
        asked += 1;
    };
    while probe(&program, "/readyz").await != 503 {
        ask().await;
    }
    let began = Instant::now();
    let mut more = 0;
    while more < 20 || Instant::now() - began < Duration::from_secs(1) {
        ask().await;
        more += 1;
    }
    let passed = usize::try_from((Instant::now() - began).as_secs()).unwrap();
    assert_eq!((probe(&program, "/readyz").await, probe(&program, "/healthz").await), (503, 200));
    let starts = program.said().matches("INFO bowline::child: fixture: started").count();
    // One a second or less from then on.
    assert!(starts <= 7 + passed && asked > starts, "{starts} starts, asked {asked} times in {passed} s");
}

#[tokio::test]
async fn j4_the_processes_of_a_session_that_nobody_ended_end_too() {
    let program =
        fixture().with("--session-ttl 1s").server_args("--ignore-term --no-exit-on-eof").start().await;
    let session = program.client().await;
    let stubborn = json!({ "ignore_term": true, "hold_stdout": true });
    let grandchild: u32 = session.call_for_text("spawn_grandchild", stubborn).await.parse().unwrap();
    assert!(processes::exists(grandchild));
    processes::gone(grandchild, Duration::from_secs(15)).await;
    eventually("the server ends", Duration::from_secs(15), || program.servers().is_empty()).await;
    assert!(
        program.processes().iter().all(|process| !process.is_zombie() || process.parent == 1),
        "{:?}",
        program.processes()
    );
}

/// What it says before each answer is no message of anybody: a byte order mark, banners, halves, bytes that are no text, a
/// megabyte without an end.
const NOISY: &str = r#"
import json, sys
out = sys.stdout.buffer
for line in sys.stdin:
    message = json.loads(line)
    out.write(b"\xef\xbb\xbf*** banner ***\r\n\n \n{\"half\": \n\xff\xfe\x80\n" + b"x" * 1000000 + b"\n")
    if message["method"] == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "noisy", "version": "1"}}
    else:
        result = {"n": message.get("params", {}).get("n")}
    if "id" in message:
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        out.write(b"\xef\xbb\xbf" + answer + b"\r\n")
    out.flush()
"#;

#[tokio::test]
async fn j5_noise_on_stdout_costs_no_answer_and_floods_no_log() {
    let program = scripted(NOISY).start().await;
    let session = program.client().await;
    for n in 0..20 {
        assert_eq!(session.ask("x/any", json!({ "n": n })).await.json().await["result"], json!({ "n": n }));
    }
    let warnings = program.said().lines().filter(|line| line.contains("WARN")).count();
    assert!((1..=5).contains(&warnings), "{warnings} warnings:\n{}", program.said());
    assert!(!program.said().contains("xxxxxxxx"), "what it wrote is not repeated");
}

#[tokio::test]
async fn j6_a_cancel_crosses_the_gateway_once_under_the_servers_id() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let cancel = async |id: &Value| {
        let answer = session.notify("notifications/cancelled", json!({ "requestId": id })).await;
        assert_eq!(answer.status(), 202, "{id}");
    };
    let finished = session.tool("echo", &json!({ "text": "x" }));
    session.post(&finished).await.response().await;
    let running = session.tool("slow", &json!({ "ms": 60_000 }));
    let mut answer = session.post(&running).await;
    program.has_received("the call", |message| message["params"]["name"] == "slow").await;
    let began = Instant::now();
    for id in [&finished["id"], &json!("never used"), &running["id"], &running["id"]] {
        cancel(id).await;
    }
    assert_eq!(answer.messages().await, Vec::<Value>::new(), "no response follows");
    program.has_received("the cancel", |message| message["method"] == "notifications/cancelled").await;
    assert!(Instant::now() - began < Duration::from_secs(10));
    assert_serves(&session).await;
    let received = program.received();
    let call = received.iter().find(|message| message["params"]["name"] == "slow").unwrap();
    let cancels: Vec<_> = received.iter().filter(|m| m["method"] == "notifications/cancelled").collect();
    assert_eq!(cancels.len(), 1, "{cancels:?}");
    assert_eq!(cancels[0]["params"]["requestId"], call["id"]);
}

#[tokio::test]
async fn j7_what_a_server_says_during_a_call_comes_on_its_stream_in_order_and_in_time() {
    let program = serve("").await;
    let session = program.client().await;
    let message = session.tool_with_progress("talk", &json!({ "pause_ms": 200 }));
    let mut answer = session.post(&message).await;
    let mut times = Vec::new();
    let mut methods = Vec::new();
    let question = loop {
        let message = next_message(&mut answer).await;
        times.push(Instant::now());
        methods.push(message["method"].as_str().unwrap().to_owned());
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let progress = "notifications/progress";
    assert_eq!(methods, [progress, progress, progress, "notifications/message", "elicitation/create"]);
    assert!(times[2] - times[0] > Duration::from_millis(100), "as they were said: {times:?}");
    let reply = |id: &Value| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept", "content": { "name": "Ann" } } });
    assert_eq!(session.post(&reply(&json!("nobody asked"))).await.status(), 202);
    assert_eq!(session.post(&reply(&question["id"])).await.status(), 202);
    let response = answer.response().await;
    assert_eq!(response["id"], message["id"]);
    assert!(text_of(&response).contains("Ann"), "{response}");
}

/// The methods that the server was sent, from `from` on.
fn methods(program: &Program, from: usize) -> Vec<String> {
    let method = |message: &Value| message["method"].as_str().unwrap_or("a response").to_owned();
    program.received().iter().skip(from).map(method).collect()
}

#[tokio::test]
async fn j8_the_handshake_is_whole_before_anything_else_and_again_after_a_death() {
    let program = serve("").await;
    // Not even a client that skips its half.
    let session = Session::hello(program.address(), &initialize(PRIMED)).await;
    assert_serves(&session).await;
    assert_eq!(methods(&program, 0), ["initialize", "notifications/initialized", "tools/call"]);
    session.initialized().await;
    session.call("die", json!({ "how": "exit1" })).await.response().await;
    assert_serves(&session).await;
    let after = methods(&program, 4);
    assert_eq!(after[..2], ["initialize", "notifications/initialized"], "{after:?}");
    let hellos: Vec<_> =
        program.received().into_iter().filter(|message| message["method"] == "initialize").collect();
    assert_eq!(hellos[0]["params"], hellos[1]["params"], "with what the client said");
}

#[tokio::test]
async fn j10_parallel_calls_over_one_pipe_do_not_cross() {
    let program = serve("--child shared --json-hold 50ms").await;
    let clients = (0..5).map(|client| {
        let address = program.address();
        tokio::spawn(async move {
            let session = Session::start(address, PRIMED).await;
            let calls = (0..50).map(|n| {
                let session = session.clone();
                tokio::spawn(async move {
                    // The same ids in every session, of both types.
                    let id = if n % 2 == 0 { json!(n) } else { json!(n.to_string()) };
                    let mut message = session.tool("slow", &json!({ "ms": client * 100 + n }));
                    message["id"] = id.clone();
                    let response = session.post(&message).await.response().await;
                    assert_eq!(text_of(&response), format!("slow: {} ms, 0 progress", client * 100 + n));
                    assert_eq!(response["id"], id);
                })
            });
            for call in calls.collect::<Vec<_>>() {
                call.await.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    assert_eq!(program.servers().len(), 1);
}
