//! `--resumable`: a slow call is polled for, with no session at all.
//!
//! A backend keeps its streams in its own memory, so a poll has to reach the backend that has the call. Backends that share a
//! store serve each other's streams; that is tested between endpoints, in the server crate.

use crate::client::{Client, error, serve};
use bowline_testkit::RealClient;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(100);

#[tokio::test]
async fn twelve_seconds_in_connections_of_two() {
    let program = serve("--resumable --max-connection 2s --json-hold 200ms").await;
    let url = program.url().to_owned();
    let clients = RealClient::ALL.map(|client| {
        let url = url.clone();
        tokio::spawn(async move {
            let scenario = "cut --seconds 12 --expect-once --no-repeats --min-resumes 2";
            (client, client.run(&url, scenario, LIMIT).await)
        })
    });
    let raw = Client::of(&program);
    let began = Instant::now();
    let ledger = program.dir().join("ledger");
    let counted = json!({ "file": ledger, "ms": 12_000 });
    let quiet = raw.clone();
    let quiet =
        tokio::spawn(async move { quiet.poll(quiet.call_with_progress("count", counted).await).await });
    let (messages, polls) =
        raw.poll(raw.call_with_progress("slow", json!({ "ms": 12_000, "progress": 12 })).await).await;
    assert!((Instant::now() - began) >= Duration::from_secs(12));
    assert!(polls >= 3, "{polls} polls");
    // Every progress notification once and in order, then the result.
    assert_eq!(messages.len(), 13, "{messages:?}");
    for (at, message) in messages[..12].iter().enumerate() {
        assert_eq!(message["params"]["progress"], at + 1, "{messages:?}");
    }
    assert_eq!(messages[12]["result"]["content"][0]["text"], "slow: 12000 ms, 12 progress");

    let (messages, polls) = quiet.await.unwrap();
    assert_eq!((messages.len(), &messages[0]["result"]["content"][0]["text"]), (1, &json!("1")));
    assert!(polls >= 3, "{polls} polls");
    assert_eq!(program.ledger("ledger"), 1, "the tool ran once");

    for run in clients {
        let (client, run) = run.await.unwrap();
        let run = run.passed();
        eprintln!("{client:?}: {}", run.step("cut"));
        assert_eq!(run.step("connect")["session"], false, "{client:?}");
        assert_eq!(run.step("cut")["progress"], 12, "{client:?}");
    }
}

/// A connection that breaks does not cancel a call whose stream has an id, and the cursor is all that it takes.
#[tokio::test]
async fn a_connection_that_breaks_costs_nothing() {
    let program = serve("--resumable --json-hold 100ms").await;
    let client = Client::of(&program);
    let ledger = program.dir().join("ledger");
    let mut answer = client.call_with_progress("count", json!({ "file": ledger, "ms": 1_500 })).await;
    let primed = answer.block().await.unwrap();
    assert!(primed.is_priming(), "{primed:?}");
    let cursor = primed.id.unwrap();
    answer.abort();
    // 128 random bits are 22 characters of base64, and no two cursors have a beginning in common that would tell them.
    assert!(cursor.len() >= 22, "{cursor}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (messages, _) = client.poll(client.get(Some(&cursor)).await).await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["content"][0]["text"], "1");
    assert_eq!(program.ledger("ledger"), 1);
    assert!(
        program.received().iter().all(|message| message["method"] != "notifications/cancelled"),
        "{:?}",
        program.received()
    );
}

/// What another process made means nothing here, and the client is told so in a way that ends its wait.
#[tokio::test]
async fn a_cursor_of_another_backend_is_answered_with_an_error() {
    let (first, second) = (serve("--resumable").await, serve("--resumable").await);
    let client = Client::of(&first);
    let mut answer = client.call_with_progress("slow", json!({ "ms": 3_000, "progress": 3 })).await;
    let cursor = answer.block().await.unwrap().id.unwrap();
    let mut poll = Client::of(&second).get(Some(&cursor)).await;
    if poll.status() == 200 {
        let messages = poll.messages().await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["error"]["data"]["outcome"], "unknown", "{messages:?}");
    } else {
        error(poll, 400, -32600, "a foreign cursor").await;
    }
    // The call goes on where it is.
    let (messages, _) = client.poll(answer).await;
    assert!(messages.last().unwrap()["result"].is_object(), "{messages:?}");
}

/// Revisions without priming cannot resume: their call is cancelled with their connection.
#[tokio::test]
async fn older_revisions_hold_their_connection() {
    let program = serve("--resumable --max-connection 1s --json-hold 100ms").await;
    let client = Client::new(program.address(), "2025-06-18");
    let mut answer = client.call_with_progress("slow", json!({ "ms": 3_000, "progress": 3 })).await;
    let messages = answer.messages().await;
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(messages[3]["result"]["content"][0]["text"], "slow: 3000 ms, 3 progress");
}
