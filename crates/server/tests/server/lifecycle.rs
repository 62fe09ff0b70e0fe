//! SEMANTICS 6: cancelling, ending, leaving.

use crate::{client::Server, script::progress};
use bowline_server::{CancelReason, Options, ResponseMode};
use bowline_store::{MemoryLimits, MemoryStore};
use futures_util::FutureExt as _;
use serde_json::json;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_call_and_nothing_follows() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("stubborn", json!({})).await;
    assert!(answer.event().await.unwrap().is_priming());
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    assert_eq!(client.post(&cancel).await.status, 202);
    assert_eq!(client.post(&cancel).await.status, 202);
    assert_eq!(answer.event().await, None);
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::Client]);
    assert_eq!(client.get(answer.last_id.as_deref()).await.status, 204);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.endpoint.metrics().calls.get(), 0, "a handler that does not stop is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_during_the_hold_ends_the_answer() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let canceller = client.clone();
    let cancelled = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
        canceller.post(&cancel).await.status
    });
    let mut answer = client.call("stubborn", json!({})).await;
    assert_eq!(cancelled.await.unwrap(), 202);
    assert_eq!(answer.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_id_is_free_as_soon_as_the_answer_ends() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("stubborn", json!({})).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    client.post(&cancel).await;
    answer.events().await;
    // The handler that was cancelled is still in its grace.
    assert_eq!(server.endpoint.metrics().calls.get(), 1);
    client.next_id = 1;
    assert_eq!(client.call("count", json!({ "then": 0.5 })).await.json().await["result"]["counted"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_overtakes_its_request_meets_it() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let cancel = |id: u64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    assert_eq!(client.post(&cancel(2)).await.status, 202);
    let mut answer = client.call("stubborn", json!({})).await;
    assert_eq!(answer.event().await, None);
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::Client]);
    // Nor is it answered where its handler ends at once and says why.
    assert_eq!(client.post(&cancel(3)).await.status, 202);
    let mut answer = client.call("polite", json!({})).await;
    assert!(answer.is_stream());
    assert_eq!(answer.messages().await, [] as [serde_json::Value; 0]);
    assert_eq!(server.endpoint.metrics().calls_cancelled.get(), 2);
    // One that is for a call of long ago does not meet another one.
    client.post(&cancel(4)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let answer = client.call("count", json!({ "then": 0.5 })).await;
    assert_eq!(answer.json().await["result"]["counted"], 0);
    // Markers are bounded: the oldest give way.
    for id in 100..1_100 {
        client.post(&cancel(id)).await;
    }
    client.next_id = 99;
    let answer = client.call("count", json!({ "then": 0.5 })).await;
    assert_eq!(answer.json().await["result"]["counted"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_crossed_the_answer_does_not_meet_the_next_call_of_that_id() {
    let store = || Arc::new(MemoryStore::default());
    for server in [Server::new(), Server::built(|builder| builder.shared_store(store()))] {
        let mut client = server.client("2025-11-25").await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
        for _ in 0..3 {
            let answer = client.call("count", json!({ "then": 0.5 })).await;
            assert_eq!(answer.json().await["result"]["counted"], 0);
            // Twice, and late: neither is for the next one.
            assert_eq!(client.post(&cancel).await.status, 202);
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(client.post(&cancel).await.status, 202);
            client.next_id = 1;
        }
        // Nor is one that was cancelled and is cancelled again.
        let mut answer = client.call("stubborn", json!({})).await;
        client.post(&cancel).await;
        assert_eq!(answer.events().await.len(), 1);
        client.post(&cancel).await;
        client.next_id = 1;
        let answer = client.call("count", json!({ "then": 0.5 })).await;
        assert_eq!(answer.json().await["result"]["counted"], 0);
        // Long afterwards it is as if it had never been.
        tokio::time::sleep(Duration::from_secs(31)).await;
        client.post(&cancel).await;
        client.next_id = 1;
        let mut answer = client.call("stubborn", json!({})).await;
        assert!(answer.messages().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_arrives_while_its_session_ends_ends_with_it() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let deleter = client.clone();
    *server.script.meanwhile.lock() = Some(Box::new(move || {
        assert_eq!(deleter.delete().now_or_never().expect("the store answers at once").status, 204);
    }));
    let mut answer = client.call("meanwhile", json!({})).await;
    assert_eq!(answer.event().await, None);
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::SessionEnded]);
}

#[tokio::test(start_paused = true)]
async fn of_two_calls_with_one_id_at_the_same_moment_one_runs() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut twin = client.clone();
    *server.script.meanwhile.lock() = Some(Box::new(move || {
        let refused = twin.call("stubborn", json!({})).now_or_never().expect("refused at once");
        assert_eq!(refused.status, 400);
    }));
    assert_eq!(client.call("meanwhile", json!({})).await.status, 200);
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 1, "its twin was not asked");
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    client.post(&cancel).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.endpoint.metrics().calls.get(), 0, "nothing runs that nobody can cancel");
}

#[tokio::test(start_paused = true)]
async fn leaving_does_not_cancel_but_never_coming_back_does() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("count", json!({ "then": 200 })).await;
    let cursor = answer.event().await.unwrap().id;
    drop(answer);
    tokio::time::sleep(Duration::from_secs(199)).await;
    let messages = client.get(cursor.as_deref()).await.messages().await;
    assert_eq!(messages[0]["result"]["counted"], 0);

    // Dropped during the hold: no id was told, and yet the call is not cancelled.
    let left =
        tokio::time::timeout(Duration::from_millis(500), client.call("count", json!({ "then": 10 }))).await;
    assert!(left.is_err());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(server.script.finished.load(Ordering::SeqCst), 2);

    let mut answer = client.call("stubborn", json!({})).await;
    let cursor = answer.event().await.unwrap().id;
    drop(answer);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::Abandoned]);
    let messages = client.get(cursor.as_deref()).await.messages().await;
    assert_eq!(messages[0]["error"]["data"], json!({ "reason": "abandoned", "outcome": "unknown" }));
}

#[tokio::test(start_paused = true)]
async fn polling_is_not_leaving() {
    let mut options = Options::default();
    options.abandon_after = Duration::from_secs(10);
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("gate", json!({})).await;
    for _ in 0..10 {
        answer.events().await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        answer = client.get(answer.last_id.as_deref()).await;
    }
    server.script.gate.notify_one();
    assert_eq!(answer.messages().await[0]["result"], "open");
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_limit() {
    let mut options = Options::default();
    options.call_timeout = Duration::from_secs(100);
    let server = Server::with(options);
    let mut client = server.client("2025-06-18").await;
    let began = Instant::now();
    let messages = client.call("stubborn", json!({})).await.messages().await;
    assert_eq!((Instant::now() - began).as_secs(), 100);
    assert_eq!(messages[0]["error"]["data"]["reason"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn delete_ends_everything_of_the_session() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let other = server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    let mut standalone = client.get(None).await;
    standalone.event().await;
    assert_eq!(client.delete().await.status, 204);
    assert_eq!(call.messages().await, [] as [serde_json::Value; 0]);
    standalone.events().await;
    assert_eq!(*server.script.cancelled.lock(), [CancelReason::SessionEnded]);
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 1);
    assert_eq!(client.get(call.last_id.as_deref()).await.status, 404);
    assert_eq!(client.get(None).await.status, 404);
    assert_eq!(server.endpoint.metrics().sessions.get(), 1);
    assert_eq!(other.clone().call("echo", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_and_a_used_one_does_not() {
    let mut options = Options::default();
    options.session_ttl = Duration::from_secs(60);
    let server = Server::with(options);
    let idle = server.client("2025-11-25").await;
    let mut calling = server.client("2025-11-25").await;
    let mut reading = server.client("2025-11-25").await;
    let mut coming_back = server.client("2025-11-25").await;
    let _call = calling.call("gate", json!({})).await;
    let mut stream = reading.get(None).await;
    stream.event().await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(coming_back.call("echo", json!({})).await.status, 200);
        // The GET is closed after its hold; the client comes back.
        stream.events().await;
        stream = reading.get(stream.last_id.as_deref()).await;
    }
    assert_eq!(idle.clone().call("echo", json!({})).await.status, 404);
    assert_eq!(server.endpoint.metrics().sessions_expired.get(), 1);
    assert_eq!(calling.call("echo", json!({})).await.status, 200);
    assert_eq!(reading.call("echo", json!({})).await.status, 200);
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 1);
}

/// Its calls and its readers keep it, here and in the store: where the store forgot it, its end would leave no tombstone, and a poll
/// would be told that the session was lost.
#[tokio::test(start_paused = true)]
async fn a_session_in_use_is_kept_by_the_store_too() {
    let mut options = Options::default();
    options.session_ttl = Duration::from_secs(60);
    let server = Server::with(options);
    for (first, last) in [(10, 80), (14, 61), (5, 250), (50, 100)] {
        let mut client = server.client("2025-11-25").await;
        tokio::time::sleep(Duration::from_secs(first)).await;
        let mut call = client.call("gate", json!({})).await;
        call.event().await;
        tokio::time::sleep(Duration::from_secs(last - first)).await;
        assert_eq!(client.delete().await.status, 204);
        assert_eq!(client.get(call.last_id.as_deref()).await.status, 404, "from {first} s to {last} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_finds_nothing_left_is_a_use_too() {
    let mut options = Options::default();
    options.session_ttl = Duration::from_secs(60);
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("count", json!({ "then": 2 })).await;
    answer.events().await;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(client.get(answer.last_id.as_deref()).await.status, 204);
    }
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(client.call("echo", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_older_than_the_answer_that_names_it() {
    let mut options = Options::default();
    options.session_ttl = Duration::from_secs(10);
    let server = Server::with(options);
    let mut client = crate::client::Client {
        endpoint: server.endpoint.clone(),
        session: None,
        next_id: 1,
        principal: None,
    };
    let mut hello = crate::client::initialize("2025-11-25");
    hello["params"]["pause"] = json!(30);
    let answer = client.post(&hello).await;
    client.session = Some(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(client.call("echo", json!({})).await.status, 200);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(client.call("echo", json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_drain_closes_what_can_come_back_and_waits_for_results() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut old = server.client("2025-06-18").await;
    let mut call = client.call("count", json!({ "then": 8 })).await;
    call.event().await;
    let mut in_place = old.call("count", json!({ "then": 6 })).await;
    let mut standalone = client.get(None).await;
    standalone.event().await;

    let endpoint = server.endpoint.clone();
    let began = Instant::now();
    let drained = tokio::spawn(async move { endpoint.drain(Duration::from_secs(30)).await });
    let parting = call.events().await;
    assert!(parting.len() == 1 && parting[0].is_priming() && parting[0].retry.is_some(), "{parting:?}");
    assert!(standalone.events().await.last().unwrap().retry.is_some());
    assert_eq!((Instant::now() - began).as_secs(), 0);
    let refused = crate::client::Client { session: None, ..client.clone() }
        .post(&crate::client::initialize("2025-11-25"))
        .await;
    assert_eq!(refused.status, 503);
    // Older revisions cannot be told to come back: they are answered where they are.
    assert_eq!(in_place.messages().await.len(), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!drained.is_finished(), "a result waits for its client");
    let messages = client.get(call.last_id.as_deref()).await.messages().await;
    assert_eq!(messages[0]["result"]["counted"], 0);
    drained.await.unwrap();
    assert!((Instant::now() - began).as_secs() < 30);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_results_of_sessions_that_ended() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut call = client.call("count", json!({ "then": 8 })).await;
    call.event().await;
    drop(call);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let endpoint = server.endpoint.clone();
    let drained = tokio::spawn(async move { endpoint.drain(Duration::from_secs(30)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!drained.is_finished(), "a result waits for its client");
    assert_eq!(client.delete().await.status, 204);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(drained.is_finished(), "nobody can come for it any more");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_and_says_so_to_what_runs_on() {
    let server = Server::new();
    let mut client = server.client("2025-06-18").await;
    let mut call = client.call("stubborn", json!({})).await;
    server.endpoint.drain(Duration::from_secs(30)).await;
    let messages = call.messages().await;
    assert_eq!(messages[0]["error"]["data"]["reason"], "draining");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_a_drain_ended_a_call_with_waits_for_its_client() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut call = client.call("count", json!({ "then": 600 })).await;
    call.event().await;
    let endpoint = server.endpoint.clone();
    let drained = tokio::spawn(async move { endpoint.drain(Duration::from_secs(30)).await });
    call.events().await;
    // The call ends at once then; its client comes when it was told to.
    tokio::time::sleep(Duration::from_secs(32)).await;
    assert!(!drained.is_finished(), "an error waits for its client");
    let messages = client.get(call.last_id.as_deref()).await.messages().await;
    assert_eq!(messages[0]["error"]["data"]["reason"], "draining");
    let began = Instant::now();
    drained.await.unwrap();
    assert!((Instant::now() - began).as_millis() < 100, "nothing is left to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_drain_with_nothing_running_is_over_at_once() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    let mut standalone = client.get(None).await;
    standalone.event().await;
    let began = Instant::now();
    server.endpoint.drain(Duration::from_secs(30)).await;
    standalone.events().await;
    assert!((Instant::now() - began).as_millis() < 100);
}

#[tokio::test(start_paused = true)]
async fn in_a_batch_nothing_of_a_call_follows_its_answer() {
    let mut options = Options::default();
    options.call_timeout = Duration::from_secs(60);
    let server = Server::with(options);
    let client = server.client("2025-03-26").await;
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "talkative", "params": { "token": "a", "after": 1 } },
        { "jsonrpc": "2.0", "id": 2, "method": "count", "params": { "then": 59.9 } },
        { "jsonrpc": "2.0", "id": 3, "method": "talkative", "params": { "token": "b" } },
    ]);
    let mut answer = client.post(&batch).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
    assert_eq!(client.post(&cancel).await.status, 202);
    let messages = answer.messages().await;
    let ids: Vec<_> = messages.iter().filter_map(|message| message["id"].as_u64()).collect();
    let progress: Vec<_> =
        messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!((ids, progress), (vec![2, 1], vec![1, 1]), "{messages:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*server.script.said_late.lock(), [false, false]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_plain_json_opens_no_stream_afterwards() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let answer = client.call("left_behind", json!({})).await;
    assert_eq!(answer.json().await["result"], "done");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*server.script.said_late.lock(), [false, false]);
    let began = Instant::now();
    server.endpoint.drain(Duration::from_secs(30)).await;
    assert_eq!(Instant::now() - began, Duration::ZERO, "nobody has anything to fetch");
}

#[tokio::test(start_paused = true)]
async fn what_is_said_after_the_response_opens_no_stream() {
    let store = MemoryStore::default();
    for response in [ResponseMode::Auto, ResponseMode::Sse] {
        let mut options = Options::default();
        options.response = response;
        let server = Server::built(|builder| builder.options(options).store(Arc::new(store.clone())));
        let mut client = server.client("2025-03-26").await;
        let answer = client.call("keep", json!({})).await;
        assert_eq!(answer.is_stream(), response == ResponseMode::Sse);
        drop(answer);
        let call = server.script.kept.lock().pop().unwrap();
        assert!(!call.notify(&progress(&json!("t"), 1)));
        call.close_connection();
        assert_eq!(store.stats().streams_open, 0);
        // A batch without a request has its errors, and ends.
        let batch = client.post(&json!([1])).await;
        assert_eq!(batch.json().await[0]["error"]["code"], -32600);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_stream_is_full_ends_for_its_client() {
    let mut limits = MemoryLimits::default();
    limits.bytes = 300;
    let server = Server::built(|builder| builder.store(Arc::new(MemoryStore::new(limits))));
    let mut client = server.client("2025-11-25").await;
    let url = "x".repeat(1_000);
    // While its answer is read, and before.
    let mut answer = client.call("ask", json!({ "after": 3, "url": url })).await;
    let events = answer.events().await;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].is_priming());
    let error = &events[1].data.as_ref().unwrap()["error"];
    assert_eq!(error["data"], json!({ "reason": "lost", "outcome": "unknown" }));
    let poll = client.get(answer.last_id.as_deref()).await.messages().await;
    assert_eq!(poll[0]["error"]["data"]["reason"], "expired");
    let answer = client.call("ask", json!({ "url": url })).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json().await["error"]["data"]["reason"], "stream_lost");
    assert_eq!(server.endpoint.metrics().calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_standalone_stream_that_the_store_has_no_room_for_is_read_again_and_again() {
    let mut limits = MemoryLimits::default();
    limits.streams = 0;
    let server = Server::built(|builder| builder.store(Arc::new(MemoryStore::new(limits))));
    let client = server.client("2025-11-25").await;
    let peer = server.script.peers.lock()[0].clone();
    let mut older = client.get(None).await;
    for n in 1..4 {
        let mut newer = client.get(None).await;
        // Displaced, and gone.
        older.events().await;
        drop(older);
        peer.notify(&progress(&json!("t"), n));
        // What the last connection was given and may not have written comes again.
        let progress = loop {
            let event = newer.event().await.unwrap();
            assert_eq!(event.id, None);
            match event.data.unwrap()["params"]["progress"].as_u64() {
                Some(older) if older < n => {}
                progress => break progress,
            }
        };
        assert_eq!(progress, Some(n));
        older = newer;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_client_that_is_being_introduced() {
    let server = Server::new();
    let client = crate::client::Client { session: None, ..server.client("2025-11-25").await };
    let mut hello = crate::client::initialize("2025-11-25");
    hello["params"]["pause"] = json!(5);
    let hello = tokio::spawn(async move { client.post(&hello).await.status });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    server.endpoint.drain(Duration::from_secs(30)).await;
    assert_eq!((Instant::now() - began).as_secs(), 4);
    assert_eq!(hello.await.unwrap(), 200);
}
