//! F: what is replayed, to whom, and how often.

use super::{next_message, resident_kib, through_cuts};
use crate::common::{assert_refused, assert_serves, serve};
use bowline_testkit::text_of;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Cut by us at every moment and closed by the server, fifty calls at a time.
#[tokio::test]
async fn f2_a_result_of_the_gap_is_delivered_and_everything_once() {
    let program = serve("--json-hold 20ms --max-connection 400ms --retry 20ms").await;
    let session = program.client().await;
    let calls: Vec<_> = (0..50_u64)
        .map(|n| {
            let session = session.clone();
            tokio::spawn(async move {
                let message = session.tool_with_progress("slow", &json!({ "ms": 1_500, "progress": 5 }));
                let messages = through_cuts(&session, &message, Duration::from_millis(70 + 29 * n)).await;
                let progress: Vec<_> =
                    messages.iter().filter_map(|m| m["params"]["progress"].as_u64()).collect();
                assert_eq!(progress, [1, 2, 3, 4, 5], "{n}: {messages:?}");
                assert_eq!(text_of(&messages[5]), "slow: 1500 ms, 5 progress");
                assert_eq!((messages.len(), &messages[5]["id"]), (6, &message["id"]));
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    // Nobody is there when it is done.
    let mut answer = session.call("slow", json!({ "ms": 600 })).await;
    let cursor = answer.block().await.unwrap().id;
    answer.abort();
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let began = Instant::now();
    assert_eq!(text_of(&session.get(cursor.as_deref()).await.response().await), "slow: 600 ms, 0 progress");
    assert!(Instant::now() - began < Duration::from_secs(10), "it ends by itself");
}

#[tokio::test]
async fn f4_a_cursor_opens_nothing_of_another_session_or_stream() {
    let program = serve("--response sse").await;
    let (session, other) = (program.client().await, program.client().await);
    let secret = session.call("echo", json!({ "text": "a secret" })).await.blocks().await;
    let later = session.call("slow", json!({ "ms": 200 })).await.blocks().await;
    let standalone = session.get(None).await.block().await.unwrap();
    let mut tampered = secret[0].id.clone().unwrap().into_bytes();
    let middle = tampered.len() / 2;
    tampered[middle] = if tampered[middle] == b'A' { b'B' } else { b'A' };
    let random = String::from_utf8(tampered).unwrap();
    let expected = session.get(Some(&random)).await.text().await;
    for block in secret.iter().chain(&later).chain([&standalone]) {
        let cursor = block.id.as_deref();
        let mut refused = other.get(cursor).await;
        assert_eq!(
            (refused.status(), refused.text().await),
            (400, expected.clone()),
            "as any id that is not ours"
        );
        assert_refused(session.with_id(None).get(cursor).await, 400, -32600, "no session").await;
        assert_refused(session.with_id(Some("guess")).get(cursor).await, 404, -32001, "a guess").await;
    }
    let replayed = session.get(secret[0].id.as_deref()).await.messages().await;
    assert_eq!(replayed.len(), 1, "{replayed:?}");
    assert_eq!(text_of(&replayed[0]), "a secret");
    assert_serves(&other).await;
}

#[tokio::test]
async fn f5_a_cursor_that_leads_nowhere_is_told_so_at_once() {
    let program = serve("--response sse --sealed-ttl 300ms").await;
    let session = program.client().await;
    let began = Instant::now();
    assert_refused(session.get(Some("nothing-of-ours")).await, 400, -32602, "malformed").await;
    let message = session.tool("slow", &json!({ "ms": 100 }));
    let mut answer = session.post(&message).await;
    let cursor = answer.block().await.unwrap().id;
    assert!(answer.response().await["result"].is_object());
    assert!(Instant::now() - began < Duration::from_secs(10));
    tokio::time::sleep(Duration::from_millis(1_800)).await;
    for _ in 0..2 {
        let began = Instant::now();
        let mut expired = session.get(cursor.as_deref()).await;
        assert_eq!(expired.status(), 200);
        let response = expired.response().await;
        assert_eq!(
            (&response["id"], &response["error"]["code"]),
            (&message["id"], &json!(-32603)),
            "{response}"
        );
        assert!(Instant::now() - began < Duration::from_secs(10), "and the stream has ended");
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn f7_a_message_goes_on_one_stream() {
    let program = serve("--json-hold 20ms").await;
    let session = program.client().await;
    let mut first = session.get(None).await;
    let mut second = session.get(None).await;
    let call = session.tool_with_progress("slow", &json!({ "ms": 400, "progress": 4 }));
    let mut answer = session.post(&call).await;
    session.call_for_text("swap", json!({})).await;
    let of_call = answer.messages().await;
    assert_eq!(of_call.len(), 5, "{of_call:?}");
    assert!(of_call[..4].iter().all(|message| message["method"] == "notifications/progress"));
    assert_eq!(next_message(&mut second).await["method"], "notifications/tools/list_changed");
    assert_eq!(session.delete().await.status(), 204);
    let rest = [first.messages().await, second.messages().await].concat();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn f8_a_long_session_keeps_no_more_than_it_may() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    for _ in 0..20 {
        session.call_for_text("big", json!({ "bytes": 400_000 })).await;
    }
    let before = resident_kib(&program);
    // All of them would be 200 MB; a session's results have 64 MiB.
    for _ in 0..500 {
        session.call_for_text("big", json!({ "bytes": 400_000 })).await;
    }
    let grown = resident_kib(&program).saturating_sub(before);
    assert!(grown < (64 + 25) * 1024, "{grown} KiB more than the {before} KiB before");
}

#[tokio::test]
async fn f9_a_cursor_of_the_session_before_does_not_end_the_new_one() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let cursor = session.get(None).await.block().await.unwrap().id;
    assert_eq!(session.delete().await.status(), 204);
    let again = program.client().await;
    assert_refused(again.get(cursor.as_deref()).await, 400, -32602, "of the session before").await;
    assert_eq!(again.get(None).await.status(), 200);
    assert_serves(&again).await;
}
