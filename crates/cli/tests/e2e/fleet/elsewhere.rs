//! What a client says about a call reaches the call's owner from any backend.

use super::{Fleet, new_ledger};
use crate::common::assert_serves;
use bowline_testkit::{Answer, Dir, Redis, Session, text_of};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use tokio::time::Instant;

const OPTIONS: &str = "--json-hold 50ms --max-connection 1s --retry 200ms";

/// Two backends, and what keeps their store alive.
async fn both(redis: bool) -> (Fleet, Option<Redis>, Dir) {
    let dir = Dir::new();
    if redis {
        let redis = Redis::start("").await;
        return (Fleet::on(&redis, 2, OPTIONS).await, Some(redis), dir);
    }
    let store = format!("--store sqlite:{} {OPTIONS}", dir.join("store.db").display());
    (Fleet::start(2, &store).await, None, dir)
}

/// The next message that is one of ours to the client.
async fn question(answer: &mut Answer) -> Value {
    loop {
        let block = answer.block().await.expect("a question before the end");
        if let Some(message) = block.message().filter(|message| message["method"] == "elicitation/create") {
            return message;
        }
    }
}

/// A session begun at one, a call at the other, its question answered at the first, its result read there too.
async fn an_answer(fleet: &Fleet, file: &Path) {
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let session = Session::start(a, "2025-11-25").await;
    let there = session.at(b);
    let arguments = json!({ "file": file, "key": "asks", "ms": 400, "progress": 2, "ask": true });
    let mut answer = there.post(&there.tool("job", &arguments)).await;
    let asked = question(&mut answer).await;
    let reply = json!({ "jsonrpc": "2.0", "id": asked["id"],
        "result": { "action": "accept", "content": { "name": "Ann" } } });
    let began = Instant::now();
    assert_eq!(session.post(&reply).await.status(), 202);
    // It may come twice, and to both.
    assert_eq!(there.post(&reply).await.status(), 202);
    let (messages, _) = session.poll(session.get(answer.last_id.as_deref()).await).await;
    assert_eq!(text_of(messages.last().unwrap()), "job asks: Ann", "{messages:?}");
    assert!(
        Instant::now() - began < Duration::from_secs(4),
        "woken, not found by chance: {:?}",
        Instant::now() - began
    );
}

/// A call at one, cancelled at the other.
async fn a_cancel(fleet: &Fleet, file: &Path) {
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let session = Session::start(a, "2025-11-25").await;
    let message = session.tool("job", &json!({ "file": file, "key": "cancelled", "ms": 60_000 }));
    let mut answer = session.post(&message).await;
    answer.block().await.expect("a priming event");
    let elsewhere = session.at(b);
    let cancel = json!({ "requestId": message["id"], "reason": "enough" });
    assert_eq!(elsewhere.notify("notifications/cancelled", cancel).await.status(), 202);
    fleet.backends[0].has_received("the cancel", |m| m["method"] == "notifications/cancelled").await;
    assert_serves(&elsewhere).await;
}

/// A session ended at one: the other knows within a second, its calls there are cancelled, its streams end.
async fn a_delete(fleet: &Fleet, file: &Path) {
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let session = Session::start(a, "2025-11-25").await;
    let there = session.at(b);
    assert_serves(&there).await;
    let mut call =
        there.post(&there.tool("job", &json!({ "file": file, "key": "ended", "ms": 60_000 }))).await;
    call.block().await.expect("a priming event");
    let mut standalone = there.get(None).await;
    standalone.block().await.expect("a priming event");
    assert_eq!(session.delete().await.status(), 204);
    let began = Instant::now();
    assert_eq!(session.get(call.last_id.as_deref()).await.status(), 404);
    loop {
        let asked = Instant::now();
        if there.ask("ping", json!({})).await.status() == 404 {
            break;
        }
        assert!(asked - began < Duration::from_secs(1), "still known elsewhere");
    }
    bowline_testkit::patiently("its streams end", async {
        standalone.blocks().await;
        call.blocks().await;
    })
    .await;
    let ended = Instant::now() - began;
    assert!(ended < Duration::from_secs(10), "{ended:?}");
    assert_eq!(there.get(call.last_id.as_deref()).await.status(), 404);
    // The server behind, which was this session's alone, ends, and its tool with it.
    let line = std::fs::read_to_string(file).unwrap();
    let pid = line.trim_end().strip_prefix("start ended ").expect("it ran").parse().unwrap();
    bowline_testkit::processes::gone(pid, Duration::from_secs(10)).await;
}

async fn all(redis: bool) {
    let (fleet, _redis, _dir) = both(redis).await;
    let (_folder, file) = new_ledger();
    an_answer(&fleet, &file).await;
    a_cancel(&fleet, &file).await;
    let (folder, file) = new_ledger();
    a_delete(&fleet, &file).await;
    drop(folder);
}

#[tokio::test]
async fn answers_cancels_and_ends_reach_the_owner_over_redis() {
    all(true).await;
}

#[tokio::test]
async fn answers_cancels_and_ends_reach_the_owner_over_sqlite() {
    all(false).await;
}
