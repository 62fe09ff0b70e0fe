//! What the simulation found: each test is a fault of its own, at its smallest.

use super::{backends, link::Way, pause, rerun};
use bowline_server::CancelReason;
use bowline_store::{SessionLookup, SessionStore as _, StreamLog as _};
use http::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn a_standalone_stream_that_goes_during_a_poll_is_no_error_of_any_request() {
    let (store, [a, b]) = backends();
    // Wherever in the poll it goes: every question to the store yields once.
    for steps in 0..16 {
        let client = a.server.client("2025-11-25").await;
        let mut reader = client.get(None).await;
        reader.event().await;
        let cursor = reader.last_id.clone();
        drop(reader);
        let session = client.session.clone().unwrap();
        let Ok(SessionLookup::Live(_, record)) = store.load_session(&session).await else { panic!() };
        let there = b.serves(&client);
        let poll = tokio::spawn(async move { there.get(cursor.as_deref()).await });
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        store.remove(record.standalone).await.unwrap();
        let mut answer = poll.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        let mut shows_id = false;
        while let Ok(Some(event)) = timeout(Duration::from_secs(1), answer.event()).await {
            shows_id |= event.id.is_some();
            let data = event.data.unwrap_or_default();
            assert!(data.get("error").is_none(), "after {steps} steps: {data}");
        }
        assert!(shows_id, "after {steps} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_elsewhere_reaches_a_silent_call_whose_client_left_at_once() {
    let (_, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    // It goes before there is a stream.
    assert!(timeout(Duration::from_millis(100), client.call("stubborn", json!({}))).await.is_err());
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": client.next_id },
    });
    assert_eq!(b.serves(&client).post(&cancel).await.status, 202);
    pause(6.0).await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::Client]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_backend_that_is_closed_end_with_an_error_and_not_in_silence() {
    let (store, [a, b]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    // As `serve` does: no time between the two.
    let endpoint = a.server.endpoint.clone();
    let left = tokio::spawn(async move {
        endpoint.drain(Duration::from_secs(1)).await;
        endpoint.close().await;
    });
    call.events().await;
    left.await.unwrap();
    assert_eq!(store.stats().streams_open, 0, "it is in the store before the backend is gone");
    let messages = b.serves(&client).get(call.last_id.as_deref()).await.messages().await;
    let reasons: Vec<&Value> = messages.iter().map(|message| &message["error"]["data"]["reason"]).collect();
    assert_eq!(reasons, ["draining"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_known_to_all_who_ask_at_once() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    let ping = json!({ "jsonrpc": "2.0", "id": 100, "method": "echo" });
    let there = b.serves(&client);
    assert_eq!(there.post(&ping).await.status, 200);
    assert_eq!(client.delete().await.status, 204);
    pause(1.0).await;
    // While one of them asks the store, the others must not be answered from what was true before.
    let all = tokio::join!(there.post(&ping), there.post(&ping), there.get(None));
    assert_eq!([all.0.status, all.1.status, all.2.status], [StatusCode::NOT_FOUND; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_missed_what_the_store_took_between_two_outages_does_not_spin() {
    // Wherever the look at the log falls.
    for tenths in 0..30 {
        let (_, [a]) = backends();
        a.link.lose_wakeups();
        let mut client = a.server.client("2025-11-25").await;
        // Between two outages it says something, and its result comes in the second one.
        let says = 8.0 + f64::from(tenths) / 10.0;
        let mut call = client.call("count", json!({ "n": 1, "every": says, "then": 1 })).await;
        call.event().await;
        let link = a.link.clone();
        tokio::spawn(async move {
            // The stream is a second old.
            pause(3.0).await;
            link.set(Way::Cut);
            pause(says - 4.05).await;
            link.set(Way::Open);
            pause(0.3).await;
            link.set(Way::Cut);
            pause(5.0).await;
            link.set(Way::Open);
        });
        let mut messages = Vec::new();
        for _ in 0..20 {
            messages
                .extend(timeout(Duration::from_secs(60), call.messages()).await.expect("it ends, or parts"));
            if messages.last().is_some_and(|message| message.get("result").is_some()) {
                break;
            }
            pause(2.0).await;
            call = client.get(call.last_id.as_deref()).await;
        }
        let progress: Vec<_> =
            messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
        assert_eq!(
            (progress, &messages.last().unwrap()["result"]["counted"]),
            (vec![1], &json!(1)),
            "{tenths}"
        );
    }
}

/// It has ended, and does not know yet that what it said stands nowhere, when its client comes by.
#[tokio::test(start_paused = true)]
async fn who_has_heard_of_the_next_run_hears_no_more_of_the_one_before() {
    let (_, [a, b]) = rerun::fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let params = json!({ "n": 6, "every": 4, "then": 1, "repeatable": true });
    let mut here = client.call("count", params).await;
    let first = here.event().await.unwrap();
    let mut cursor = first.id;
    drop(here);
    a.link.set(Way::Cut);
    // Until the second run has said more than the client has heard of the first one.
    let mut run = None;
    while run != Some(2) {
        let mut there = b.serves(&client).get(cursor.as_deref()).await;
        while let Some(event) = there.event().await {
            run = event.data.and_then(|data| data["params"]["_meta"]["bowline/run"].as_u64()).or(run);
            if run == Some(2) {
                break;
            }
        }
        cursor = there.last_id.clone();
    }
    pause(3.0).await;
    a.link.set(Way::Open);
    let messages = rerun::poll(&a.serves(&client), cursor).await;
    let (last, said) = messages.split_last().unwrap();
    assert!(!said.is_empty() && last["result"].is_object(), "{messages:?}");
    for message in said {
        assert_eq!(message["params"]["_meta"]["bowline/run"], 2, "{messages:?}");
    }
}
