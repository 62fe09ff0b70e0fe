//! `--takeover rerun`: the owner of calls is killed, and another backend runs those again that may run twice.

use super::{Fleet, ledger, new_ledger};
use crate::{common::fixture, production::metrics};
use bowline_testkit::{Dir, Redis, Session, modern};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path, time::Duration};
use tokio::time::Instant;

const OPTIONS: &str = "--takeover rerun --json-hold 50ms --max-connection 1s --retry 300ms";

/// The backends of a fleet whose tool `job` is marked as idempotent; `slow` is not.
async fn backends(store: &str, count: usize) -> Fleet {
    let options = format!("--store {store} {OPTIONS}");
    let mut backends = Vec::new();
    for _ in 0..count {
        let serve = fixture().with(&options).server_args("--idempotent job");
        backends.push(serve.start().await);
    }
    Fleet { options, backends }
}

/// A call that has its id; how to come back to it, and the progress that was seen.
async fn begin(session: &Session, tool: &str, arguments: &Value) -> (String, Vec<u64>) {
    let mut answer = session.post(&session.tool_with_progress(tool, arguments)).await;
    let seen = answer.blocks().await.iter().filter_map(|block| progress(&block.message()?)).collect();
    (answer.last_id.take().expect("a primed stream has ids"), seen)
}

fn progress(message: &Value) -> Option<u64> {
    message["params"]["progress"].as_u64()
}

/// Kills the owner of three calls: one that may run twice, one that may not, one that its client cancels before anybody notices.
async fn a_kill(fleet: Fleet, file: &Path) {
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let session = Session::start(a, "2025-11-25").await;
    // By its list a server says which of its tools may run twice.
    let list = json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" });
    assert_eq!(session.post(&list).await.status(), 200);
    let (again, mut seen) =
        begin(&session, "job", &json!({ "file": file, "key": "again", "ms": 6_000, "progress": 6 })).await;
    let (once, _) = begin(&session, "slow", &json!({ "ms": 60_000 })).await;
    let cancelled =
        session.tool_with_progress("job", &json!({ "file": file, "key": "cancelled", "ms": 60_000 }));
    session.post(&cancelled).await.blocks().await;
    assert_eq!(ledger(file).len(), 2, "both jobs have begun");

    fleet.backends[0].kill();
    let killed = Instant::now();
    let there = session.at(b);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": cancelled["id"] } });
    assert_eq!(there.post(&cancel).await.status(), 202);
    let (mut messages, _) = there.poll(there.get(Some(&again)).await).await;
    let response = messages.pop().expect("a poll ends with the response");
    eprintln!("run again and answered {:?} after the kill", Instant::now() - killed);
    assert_eq!(bowline_testkit::text_of(&response), "job again: -");
    seen.extend(messages.iter().filter_map(progress));
    assert!(seen.is_sorted_by(|before, after| before < after), "progress never goes back: {seen:?}");
    let (mut messages, _) = there.poll(there.get(Some(&once)).await).await;
    let data = &messages.pop().expect("a poll ends with the response")["error"]["data"];
    assert_eq!((&data["reason"], &data["outcome"]), (&json!("owner_lost"), &json!("unknown")));

    let jobs = ledger(file);
    assert_eq!(jobs["again"].0, 2, "begun by the one that died and by the other: {jobs:?}");
    assert_eq!(jobs["cancelled"].0, 1, "nobody wants it any more: {jobs:?}");
    let counted = metrics(&fleet.backends[1]).await;
    assert_eq!(counted["bowline_calls_rerun_total"], 1);
}

#[tokio::test]
async fn on_one_file_a_call_that_may_run_twice_survives_its_process() {
    let dir = Dir::new();
    let (_ledger, file) = new_ledger();
    a_kill(backends(&format!("sqlite:{}", dir.join("store").display()), 2).await, &file).await;
}

#[tokio::test]
async fn on_a_redis_a_call_that_may_run_twice_survives_its_process() {
    let redis = Redis::start("").await;
    let (_ledger, file) = new_ledger();
    a_kill(backends(&redis.url(), 2).await, &file).await;
}

/// A request about tasks, by a client of `2026-07-28` that can have them; its result.
async fn about(address: SocketAddr, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut answer = modern::request(address, 1, method, params).await;
    let mut response = if answer.is_stream() { answer.response().await } else { answer.json().await };
    response["result"].take()
}

/// Waits until a task is over.
async fn outcome(address: SocketAddr, id: &str) -> Value {
    let asked = Instant::now();
    loop {
        let task = about(address, "tasks/get", json!({ "taskId": id })).await;
        if task["status"] != "working" {
            return task;
        }
        assert!(Instant::now() - asked < Duration::from_secs(60), "{task}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn on_one_file_a_task_that_may_run_twice_survives_its_process() {
    let dir = Dir::new();
    let (_ledger, file) = new_ledger();
    let fleet = backends(&format!("sqlite:{}", dir.join("store").display()), 2).await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    about(a, "tools/list", json!({})).await;
    let job =
        json!({ "name": "job", "arguments": { "file": file, "key": "again", "ms": 4_000, "progress": 4 } });
    let again = about(a, "tools/call", job).await;
    let once = about(a, "tools/call", json!({ "name": "slow", "arguments": { "ms": 60_000 } })).await;
    let id = |task: &Value| task["taskId"].as_str().expect("a task").to_owned();
    let (again, once) = (id(&again), id(&once));
    fleet.backends[0].kill();
    let done = outcome(b, &again).await;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(bowline_testkit::text_of(&done), "job again: -");
    let failed = outcome(b, &once).await;
    assert_eq!(failed["error"]["data"]["reason"], "owner_lost", "{failed}");
    assert_eq!(ledger(&file)["again"].0, 2, "begun by the one that died and by the other");
    assert_eq!(metrics(&fleet.backends[1]).await["bowline_calls_rerun_total"], 1);
}
