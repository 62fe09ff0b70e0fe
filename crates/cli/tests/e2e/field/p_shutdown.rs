//! P, as far as it concerns one process.

use crate::common::{fixture, serve};
use bowline_testkit::{Block, Session, text_of};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn p1_a_running_call_survives_the_end_of_its_process_by_sigterm() {
    let mut program = serve("--json-hold 20ms --retry 200ms").await;
    let session = program.client().await;
    let older = program.session("2025-06-18").await;
    let count = |session: &Session, file: &str| {
        session.tool("count", &json!({ "file": program.dir().join(file), "ms": 1_500 }))
    };
    let primed = session.post(&count(&session, "primed")).await;
    let mut connected = older.post(&count(&older, "connected")).await;
    program.terminate();
    // The one is told to come back and comes; the other keeps its connection.
    let (messages, polls) = session.poll(primed).await;
    assert_eq!(text_of(&messages[0]), "1");
    assert!(polls >= 1);
    assert_eq!(text_of(&connected.response().await), "1");
    assert_eq!(program.wait().await.code(), Some(0));
    assert_eq!((program.ledger("primed"), program.ledger("connected")), (1, 1));
}

#[tokio::test]
async fn p2_a_hundred_idle_streams_do_not_hold_the_exit() {
    let mut program = fixture().with("--child shared").start().await;
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut get = program.client().await.get(None).await;
        assert!(get.block().await.unwrap().is_priming());
        open.push(get);
    }
    let began = Instant::now();
    program.terminate();
    assert_eq!(program.wait().await.code(), Some(0));
    assert!(Instant::now() - began < Duration::from_secs(15), "{:?}", Instant::now() - began);
    let mut waits = Vec::new();
    for mut get in open {
        let last: Option<Block> = get.blocks().await.pop();
        waits.push(last.and_then(|block| block.retry).expect("told when to come back"));
    }
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 20, "not all at once: {waits:?}");
}
