//! What a client says to a call, or to a question, by way of another backend than the one where that is: progress, and cancels of calls
//! that are answered in plain JSON.

use super::{Backend, backends, pause};
use crate::client::{Answer, Client};
use bowline_server::{CancelReason, ResponseMode};
use bowline_store::MemoryStore;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// The next message on a stream.
async fn message(answer: &mut Answer) -> Value {
    loop {
        if let Some(data) = answer.event().await.unwrap().data.filter(Value::is_object) {
            return data;
        }
    }
}

/// What a client says of how far it is.
async fn tell(client: &Client, token: &Value, n: u64) {
    let params = json!({ "progressToken": token, "progress": n, "message": "thinking" });
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
    assert_eq!(client.post(&told).await.status, 202);
}

fn heard(backend: &Backend) -> Vec<Value> {
    std::mem::take(&mut *backend.server.script.progress.lock())
}

#[tokio::test(start_paused = true)]
async fn progress_of_an_answer_reaches_who_asked() {
    let (store, [a, b]) = backends();
    // Tokens are strings or numbers, and two who ask may choose the same.
    for token in [json!("mine"), json!(7)] {
        let mut client = a.server.client("2025-11-25").await;
        let mut answer = client.call("ask", json!({ "token": token })).await;
        let question = message(&mut answer).await;
        let meta = &question["params"]["_meta"];
        assert_eq!((&meta["progressToken"], &meta["other"]), (&question["id"], &json!(1)));
        let there = b.serves(&client);
        let expected = |n: u64| json!({ "progressToken": token, "progress": n, "message": "thinking" });
        for n in 1..=3 {
            tell(&there, &meta["progressToken"], n).await;
            pause(0.01).await;
            assert_eq!(heard(&a), [expected(n)], "at once, under the token of who asked");
        }
        tell(&client, &meta["progressToken"], 4).await;
        assert_eq!(heard(&a), [expected(4)]);
        assert_eq!(heard(&b), [] as [Value; 0]);
        let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(there.post(&reply).await.status, 202);
        assert_eq!(answer.messages().await[0]["result"]["answer"]["action"], "decline");
        // What comes too late, or was made up, is nobody's.
        tell(&there, &meta["progressToken"], 5).await;
        pause(60.0).await;
        assert_eq!(heard(&a), [] as [Value; 0]);
    }
    store.sweep(1_000);
    assert_eq!(store.stats().mailboxes, 0);
}

/// However much it is: the answer has room, and what is dropped is only progress.
#[tokio::test(start_paused = true)]
async fn a_flood_of_progress_keeps_no_answer_out() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut answer = client.call("ask", json!({ "token": "t" })).await;
    let question = message(&mut answer).await;
    let there = b.serves(&client);
    // The owner is slow to read.
    a.link.set(super::link::Way::Silent);
    for n in 0..3_000 {
        tell(&there, &question["id"], n).await;
    }
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    assert_eq!(there.post(&reply).await.status, 202);
    a.link.set(super::link::Way::Open);
    let messages = timeout(std::time::Duration::from_secs(20), answer.messages()).await.expect("an answer");
    assert_eq!(messages[0]["result"]["answer"]["action"], "accept", "{messages:?}");
    let seen = heard(&a).len();
    assert!(seen < 3_000, "{seen}");
}

#[tokio::test(start_paused = true)]
async fn progress_whose_token_is_no_question_of_ours_is_the_handlers() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    for token in [json!("x"), json!(1)] {
        tell(&b.serves(&client), &token, 1).await;
        assert_eq!(heard(&b)[0]["progressToken"], token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_elsewhere_reaches_a_call_that_is_answered_in_json() {
    let store = MemoryStore::default();
    let [a, b] = [(); 2].map(|()| Backend::options(&store, |options| options.response = ResponseMode::Json));
    let mut client = a.server.client("2025-11-25").await;
    let (waiting, id) = {
        let mut client = client.clone();
        let id = client.id();
        client.next_id = id - 1;
        (tokio::spawn(async move { client.call("stubborn", json!({})).await.messages().await }), id)
    };
    client.next_id = id;
    pause(3.0).await;
    let began = Instant::now();
    let params = json!({ "requestId": id });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    assert_eq!(b.serves(&client).post(&cancel).await.status, 202);
    assert_eq!(waiting.await.unwrap(), [] as [Value; 0], "it is not answered");
    assert!((Instant::now() - began).as_millis() < 100, "at once");
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Client]);
    // One that is as quick as its request waits for it.
    let id = client.id();
    let params = json!({ "requestId": id });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    assert_eq!(b.serves(&client).post(&cancel).await.status, 202);
    client.next_id = id - 1;
    let began = Instant::now();
    assert_eq!(client.call("stubborn", json!({})).await.messages().await, [] as [Value; 0]);
    assert!((Instant::now() - began).as_millis() < 1_200);
}
