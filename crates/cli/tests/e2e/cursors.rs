//! SEMANTICS 5.6 and 5.7: what each kind of cursor is answered, and how long results are kept.

use crate::common::{PRIMED, assert_refused, assert_serves, fixture, serve};
use bowline_testkit::{Answer, Session, patiently, text_of};
use serde_json::{Value, json};
use std::time::Duration;

/// A slow call that was cut right after its first event: its cursor, and its id.
async fn cut_call(session: &Session, ms: u64) -> (String, Value) {
    let message = session.tool("slow", &json!({ "ms": ms }));
    let mut answer = session.post(&message).await;
    let cursor = answer.block().await.unwrap().id.expect("primed");
    answer.abort();
    (cursor, message["id"].clone())
}

/// Asserts the one answer that ends a client's wait: a stream with a fresh id and an error for its request, and the end.
async fn assert_lost(mut answer: Answer, cursor: &str, id: &Value, reason: &str) -> Value {
    assert_eq!(answer.status(), 200, "{}", answer.head.text);
    assert!(answer.is_stream());
    let blocks = answer.blocks().await;
    let last = blocks.last().expect("an event");
    assert!(blocks.iter().all(|block| block.id.as_deref().is_some_and(|id| id != cursor)), "{blocks:?}");
    let error = last.message().unwrap();
    assert_eq!(&error["id"], id, "{error}");
    assert_eq!(error["error"]["code"], -32603, "{error}");
    assert_eq!(error["error"]["data"]["reason"], reason, "{error}");
    error
}

#[tokio::test]
async fn at_or_after_the_response_nothing_is_left() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let mut answer = session.call("slow", json!({ "ms": 100 })).await;
    let blocks = answer.blocks().await;
    let last = blocks.last().unwrap().id.clone();
    for _ in 0..3 {
        let mut again = session.get(last.as_deref()).await;
        assert_eq!(again.status(), 204);
        assert_eq!(again.text().await, "");
    }
    // Before the response it is told again, to whoever missed it.
    let mut again = session.get(blocks[0].id.as_deref()).await;
    assert_eq!(text_of(&again.response().await), "slow: 100 ms, 0 progress");
}

#[tokio::test]
async fn a_result_that_nobody_fetches_is_kept_for_a_while_and_then_an_error() {
    let program = serve("--response sse --sealed-ttl 2s").await;
    let session = program.client().await;
    let (cursor, _) = cut_call(&session, 100).await;
    program.has_received("the call", |m| m["method"] == "tools/call").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut in_time = session.get(Some(&cursor)).await;
    assert_eq!(text_of(&in_time.response().await), "slow: 100 ms, 0 progress");

    let (cursor, id) = cut_call(&session, 100).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    for _ in 0..2 {
        assert_lost(session.get(Some(&cursor)).await, &cursor, &id, "expired").await;
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_stream_that_outgrew_its_bound_still_has_its_result() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let mut message = session.tool_with_progress("slow", &json!({ "ms": 1500, "progress": 1400 }));
    message["id"] = json!("many");
    let mut answer = session.post(&message).await;
    let cursor = answer.block().await.unwrap().id.unwrap();
    answer.abort();
    let mut again = session.get(Some(&cursor)).await;
    let messages = again.messages().await;
    // Progress may be coalesced or dropped at the bound; the response never.
    assert_eq!(text_of(messages.last().unwrap()), "slow: 1500 ms, 1400 progress");
    let progress: Vec<_> = messages.iter().filter_map(|m| m["params"]["progress"].as_u64()).collect();
    assert!(progress.is_sorted_by(|a, b| a < b), "in order, none twice");
    assert!(messages.len() <= 1001, "{}", messages.len());
}

#[tokio::test]
async fn a_standalone_stream_whose_events_are_gone_says_what_may_have_changed() {
    let program = serve("").await;
    let session = program.client().await;
    let uri = "fixture://counter";
    assert_eq!(session.ask("resources/subscribe", json!({ "uri": uri })).await.status(), 200);
    let mut get = session.get(None).await;
    let cursor = get.block().await.unwrap().id.unwrap();
    get.abort();
    let mut emitting = Vec::new();
    for n in 0..10 {
        let session = session.clone();
        emitting.push(tokio::spawn(async move {
            for m in 0..120 {
                let uri = format!("fixture://item/{n}-{m}");
                let params = json!({ "method": "notifications/resources/updated", "params": { "uri": uri } });
                assert_eq!(session.call_for_text("emit", params).await, "emitted");
            }
        }));
    }
    for task in emitting {
        task.await.unwrap();
    }
    let mut again = session.get(Some(&cursor)).await;
    assert_eq!(again.status(), 200);
    let mut wanted = vec![
        json!("notifications/tools/list_changed"),
        json!("notifications/resources/list_changed"),
        json!("notifications/prompts/list_changed"),
        json!(uri),
    ];
    patiently("what may have changed", async {
        while !wanted.is_empty() {
            let block = again.block().await.expect("the stream goes on");
            let Some(message) = block.message() else { continue };
            let name = if message["method"] == "notifications/resources/updated" {
                &message["params"]["uri"]
            } else {
                &message["method"]
            };
            wanted.retain(|wanted| wanted != name);
        }
    })
    .await;
    // Then live.
    session.call_for_text("swap", json!({})).await;
    patiently("the change", async {
        while again
            .block()
            .await
            .expect("the stream goes on")
            .message()
            .is_none_or(|message| message["method"] != "notifications/tools/list_changed")
        {}
    })
    .await;
}

#[tokio::test]
async fn a_cursor_is_worth_nothing_elsewhere_and_its_refusal_tells_nothing() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let other = program.client().await;
    let secret = session.tool("echo", &json!({ "text": "a secret of one session" }));
    let mut answer = session.post(&secret).await;
    let cursor = answer.blocks().await[0].id.clone().unwrap();
    let standalone = session.get(None).await.block().await.unwrap().id.unwrap();
    let mut bodies = Vec::new();
    let flipped = |at: usize| {
        let mut bytes = cursor.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    for text in [&cursor, &standalone] {
        let mut refused = other.get(Some(text)).await;
        assert_eq!(refused.status(), 400, "never 404: that would end the session");
        let body = refused.text().await;
        assert!(!body.contains("secret"), "{body}");
        bodies.push(body);
    }
    for at in (1..cursor.len() - 1).step_by(5) {
        let answer = session.get(Some(&flipped(at))).await;
        let body = assert_refused(answer, 400, -32602, &format!("byte {at}")).await;
        assert_eq!(body["error"]["code"], -32602);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "one message for all: {bodies:?}");
    assert!(bodies[0].contains("-32602"), "{bodies:?}");
    assert_serves(&session).await;
    assert_serves(&other).await;
}

#[tokio::test]
async fn a_malformed_cursor_is_refused_and_the_session_lives_on() {
    let program = serve("").await;
    let session = program.client().await;
    for cursor in ["x", "0", "AAAA", "a b", "../..", "%00", "{}", &"A".repeat(513), &"A".repeat(5000)] {
        assert_refused(session.get(Some(cursor)).await, 400, -32602, cursor).await;
    }
    // Without the session the cursor is not looked at.
    assert_refused(session.with_id(None).get(Some("x")).await, 400, -32600, "no session").await;
    assert_refused(session.with_id(Some("nobody")).get(Some("x")).await, 404, -32001, "unknown").await;
    assert_serves(&session).await;
}

#[tokio::test]
async fn cursors_of_parallel_streams_lead_to_their_own_results() {
    let program = serve("--response sse").await;
    let session = program.client().await;
    let mut cut = Vec::new();
    for n in 0..10 {
        cut.push((n, cut_call(&session, 200 + n).await));
    }
    for (n, (cursor, id)) in cut.into_iter().rev() {
        let response = session.get(Some(&cursor)).await.response().await;
        assert_eq!(response["id"], id);
        assert_eq!(text_of(&response), format!("slow: {} ms, 0 progress", 200 + n));
    }
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const OTHER_KEY: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

/// The cursor proves that the session was there; nobody deleted it: the wait of its call ends, and the session is 404.
#[tokio::test]
async fn after_a_restart_with_the_same_key_a_poll_ends_with_an_error() {
    let mut program = fixture().with("--response sse").env("BOWLINE_KEY", KEY).start().await;
    let session = program.client().await;
    let (cursor, id) = cut_call(&session, 60_000).await;
    program.kill();
    program.wait().await;
    let again = fixture().env("BOWLINE_KEY", KEY).listen(program.address()).start().await;
    let mut answer = session.get(Some(&cursor)).await;
    assert_eq!(answer.status(), 200, "{}", answer.head.text);
    let response = answer.response().await;
    assert_eq!((&response["id"], &response["error"]["code"]), (&id, &json!(-32603)), "{response}");
    assert!(response["error"]["data"]["reason"].is_string(), "{response}");
    let ping = session.ask("ping", json!({})).await;
    assert_eq!(ping.status(), 404);
    assert_serves(&again.client().await).await;
}

#[tokio::test]
async fn after_a_restart_with_another_key_the_session_is_404() {
    let mut program = serve("--response sse").await;
    let session = program.client().await;
    let (cursor, _) = cut_call(&session, 60_000).await;
    program.kill();
    program.wait().await;
    let _again = fixture().listen(program.address()).start().await;
    assert_refused(session.get(Some(&cursor)).await, 404, -32001, "poll").await;
}

#[tokio::test]
async fn the_cursor_of_a_session_that_was_ended_is_404() {
    let program = fixture().with("--response sse").env("BOWLINE_KEY", KEY).start().await;
    let session = program.client().await;
    let (cursor, _) = cut_call(&session, 60_000).await;
    assert_eq!(session.delete().await.status(), 204);
    assert_refused(session.get(Some(&cursor)).await, 404, -32001, "poll").await;
}

/// Without sessions the cursor is the only key. After a restart with another one it still names its request.
#[tokio::test]
async fn a_stateless_cursor_is_polled_without_a_session_and_ends_after_a_restart() {
    let stateless = "--session-mode stateless --resumable --child shared --init-timeout 5s --response sse --max-connection 200ms \
                     --retry 50ms";
    let mut program = fixture().with(stateless).env("BOWLINE_KEY", KEY).start().await;
    let nobody = Session::none(program.address());
    let revision = ("MCP-Protocol-Version", PRIMED);
    let call = nobody.tool("slow", &json!({ "ms": 800 })).to_string();
    let answer = nobody.send("POST", &[revision], &call).await;
    assert_eq!(answer.header("mcp-session-id"), None);
    let (messages, polls) = nobody.poll(answer).await;
    assert_eq!(text_of(&messages[0]), "slow: 800 ms, 0 progress");
    assert!(polls >= 1);

    let mut answer =
        nobody.send("POST", &[revision], &nobody.tool("slow", &json!({ "ms": 60_000 })).to_string()).await;
    let cursor = answer.block().await.unwrap().id.unwrap();
    answer.abort();
    program.kill();
    program.wait().await;
    let _again =
        fixture().with(stateless).env("BOWLINE_KEY", OTHER_KEY).listen(program.address()).start().await;
    let response = nobody.get(Some(&cursor)).await.response().await;
    assert_eq!((&response["id"], &response["error"]["code"]), (&json!(2), &json!(-32603)), "{response}");
}
