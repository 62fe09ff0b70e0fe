//! SEMANTICS 5: priming, parking, resumption.

use crate::client::{Answer, Client, Server};
use bowline_server::Options;
use http::Method;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_slow_call_becomes_a_primed_stream_after_the_hold() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let began = Instant::now();
    let mut answer = client.call("count", json!({ "then": 3 })).await;
    assert_eq!((Instant::now() - began).as_millis(), 1000);
    assert_eq!(answer.headers["cache-control"], "no-cache, no-transform");
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    let first = answer.event().await.unwrap();
    assert!(first.is_priming());
    assert!((1600..=2400).contains(&first.retry.unwrap()) || first.retry == Some(2000), "{first:?}");
    let last = answer.event().await.unwrap();
    assert_eq!(last.data.unwrap()["result"]["counted"], 0);
    assert_ne!(last.id, first.id);
    assert_eq!(answer.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn speaking_opens_the_stream_at_once_and_a_progress_token_shortens_the_hold() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let began = Instant::now();
    let answer = client.call("count", json!({ "n": 1, "every": 0.1, "then": 9 })).await;
    assert!(answer.is_stream());
    assert_eq!((Instant::now() - began).as_millis(), 100);
    let began = Instant::now();
    client.call("count", json!({ "then": 9, "_meta": { "progressToken": "t" } })).await;
    assert_eq!((Instant::now() - began).as_millis(), 250);
}

#[tokio::test(start_paused = true)]
async fn older_revisions_are_not_primed_and_keep_their_connection() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let server = Server::new();
        let mut client = server.client(revision).await;
        let mut answer = client.call("count", json!({ "n": 3, "every": 20, "then": 20 })).await;
        let events = answer.events().await;
        assert_eq!(events.len(), 4, "{revision}");
        assert!(
            events
                .iter()
                .all(|event| event.id.is_some() && event.data.as_ref().is_some_and(Value::is_object))
        );
        // They may still come back after a failure.
        let mut again = client.get(events[1].id.as_deref()).await;
        let rest = again.events().await;
        assert_eq!(
            rest.iter().map(|e| &e.data).collect::<Vec<_>>(),
            events[2..].iter().map(|e| &e.data).collect::<Vec<_>>()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_at_once_is_a_whole_stream_to_come_back_to() {
    let mut options = Options::default();
    options.response = bowline_server::ResponseMode::Sse;
    let server = Server::with(options);
    for (revision, primed) in [("2025-11-25", true), ("2025-06-18", false)] {
        let mut client = server.client(revision).await;
        let mut answer = client.call("echo", json!({ "a": 1 })).await;
        assert!(answer.is_stream());
        assert_eq!(answer.headers["cache-control"], "no-cache, no-transform");
        let mut events = answer.events().await;
        let last = events.pop().unwrap();
        assert!(last.data.as_ref().unwrap().get("result").is_some(), "{last:?}");
        assert_eq!(events.len(), usize::from(primed), "{revision}");
        let metrics = server.endpoint.metrics();
        assert_eq!((metrics.streams_open.get(), metrics.calls.get()), (0, 0), "nothing is kept open for it");
        // Cut off behind the priming event, or anywhere behind the response.
        for first in events {
            assert!(first.is_priming() && first.retry.unwrap() >= 2_000, "{first:?}");
            assert_ne!(first.id, last.id);
            let again = client.get(first.id.as_deref()).await.events().await;
            assert_ne!(again[0].id, first.id);
            assert_eq!(again.last().unwrap().data, last.data);
        }
        assert_eq!(client.get(last.id.as_deref()).await.status, 204, "nothing is left");
        tokio::time::sleep(Duration::from_secs(121)).await;
        let gone = client.get(last.id.as_deref()).await.messages().await;
        assert_eq!(gone[0]["error"]["data"]["reason"], "expired");
    }
    assert_eq!(server.endpoint.metrics().streams_sealed.get(), 2);
}

/// Polls like a client: waits as told, comes back with the last id, until the response is there.
async fn poll_to_the_end(client: &Client, mut answer: Answer) -> (Vec<Value>, u32, Vec<String>) {
    let (mut messages, mut polls, mut ids) = (Vec::new(), 0, Vec::new());
    loop {
        let mut retry = None;
        while let Some(event) = answer.event().await {
            retry = event.retry.or(retry);
            ids.extend(event.id);
            messages.extend(event.data.filter(|data| !data.is_null()));
        }
        if messages.last().is_some_and(|message| message.get("id").is_some()) {
            return (messages, polls, ids);
        }
        tokio::time::sleep(Duration::from_millis(retry.expect("told when to come back"))).await;
        polls += 1;
        answer = client.get(ids.last().map(String::as_str)).await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_call_is_parked_and_polled_to_its_result() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let answer = client.call("count", json!({ "n": 10, "every": 12 })).await;
    let (messages, polls, ids) = poll_to_the_end(&client, answer).await;
    let counted: Vec<_> = messages.iter().map(|m| m["params"]["progress"].clone()).take(10).collect();
    assert_eq!(counted, (1..=10).map(|n| json!(n)).collect::<Vec<_>>());
    assert_eq!(messages.len(), 11);
    assert!((3..=6).contains(&polls), "{polls}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "every id is told once");
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_poll_with_nothing_new_still_shows_a_new_id() {
    let mut options = Options::default();
    options.max_connection = Some(Duration::from_secs(2));
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("gate", json!({})).await;
    answer.events().await;
    let mut seen = answer.last_id.clone().unwrap();
    for _ in 0..10 {
        let mut poll = client.get(Some(&seen)).await;
        let events = poll.events().await;
        assert!(events.len() >= 2 && events.iter().all(|event| event.is_priming()));
        assert!(events.iter().all(|event| event.id.as_ref() != Some(&seen)));
        seen = poll.last_id.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_moment_loses_and_repeats_nothing() {
    for cut in (0..60).map(|tenths| Duration::from_millis(1050 + tenths * 100)) {
        let server = Server::new();
        let mut client = server.client("2025-11-25").await;
        let mut answer = client.call("count", json!({ "n": 5, "every": 1 })).await;
        let mut events = Vec::new();
        let deadline = Instant::now() + cut;
        while let Ok(Some(event)) = tokio::time::timeout_at(deadline, answer.event()).await {
            events.push(event);
        }
        let cursor = answer.last_id.take();
        drop(answer);
        tokio::time::sleep(Duration::from_secs(20)).await;
        let cursor = cursor.expect("primed at once");
        let mut rest = client.get(Some(&cursor)).await;
        if rest.status == 200 {
            events.extend(rest.events().await);
        } else {
            assert_eq!(rest.status, 204);
        }
        let messages: Vec<_> = events.into_iter().filter_map(|e| e.data).filter(|d| !d.is_null()).collect();
        let counted: Vec<_> =
            messages.iter().take(5).map(|m| m["params"]["progress"].as_u64().unwrap()).collect();
        assert_eq!(counted, [1, 2, 3, 4, 5], "{cut:?}");
        assert_eq!(messages[5]["result"]["counted"], 5);
        assert_eq!(messages.len(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_response_nothing_is_left() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("count", json!({ "then": 2 })).await;
    answer.events().await;
    let again = client.get(answer.last_id.as_deref()).await;
    assert_eq!(again.status, 204);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_nobody_fetches_expires_with_a_clear_error() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut answer = client.call("count", json!({ "then": 2 })).await;
    let cursor = answer.event().await.unwrap().id;
    drop(answer);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let mut late = client.get(cursor.as_deref()).await;
    assert_eq!(late.status, 200);
    let events = late.events().await;
    assert_eq!(events.len(), 1);
    assert_ne!(events[0].id, cursor);
    let error = events[0].data.as_ref().unwrap();
    assert_eq!((error["id"].clone(), error["error"]["code"].clone()), (json!(2), json!(-32603)));
    assert_eq!(error["error"]["data"]["reason"], "expired");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_is_worth_nothing_elsewhere() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let other = server.client("2025-11-25").await;
    let mut answer = client.call("gate", json!({})).await;
    let cursor = answer.event().await.unwrap().id.unwrap();
    let mut bodies = Vec::new();
    for text in [cursor.as_str(), "AAAA", "x", "%00", &"A".repeat(513)] {
        let refused = other.get(Some(text)).await;
        assert_eq!(refused.status, 400, "{text}");
        let body = refused.json().await;
        assert_eq!(body["error"]["code"], -32602);
        bodies.push(body);
    }
    let without = Client { session: None, ..client.clone() };
    assert_eq!(without.get(Some(&cursor)).await.status, 400);
    assert_eq!(other.clone().call("echo", json!({})).await.status, 200, "the session lives on");
}

#[tokio::test(start_paused = true)]
async fn the_newest_reader_takes_over() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let mut first = client.call("count", json!({ "n": 2, "every": 4 })).await;
    let cursor = first.event().await.unwrap().id;
    let mut second = client.get(cursor.as_deref()).await;
    assert_eq!(second.status, 200);
    // The older connection is closed; it may have been told the first message before.
    let first = first.events().await;
    let second = second.messages().await;
    assert!(first.len() <= 1, "{first:?}");
    assert_eq!(second.len(), 3);
    assert_eq!(server.endpoint.metrics().taken_over.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_close_the_connection_of_a_primed_stream_only() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    let began = Instant::now();
    let mut answer = client.call("close", json!({ "then": 5 })).await;
    let events = answer.events().await;
    assert_eq!((Instant::now() - began).as_millis(), 0);
    assert!(events.iter().all(|event| event.is_priming()) && events.len() == 2, "{events:?}");
    let messages = client.get(answer.last_id.as_deref()).await.messages().await;
    assert_eq!(messages[0]["result"], "closed");

    let mut client = server.client("2025-06-18").await;
    let mut answer = client.call("close", json!({ "then": 5 })).await;
    assert_eq!(answer.messages().await[0]["result"], "closed");
}

#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_comments() {
    let mut options = Options::default();
    options.max_connection = None;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let text = client.call("count", json!({ "then": 100 })).await.text().await;
    assert_eq!(
        text.matches("\n: keep-alive\n").count() + text.matches("\n:keep-alive\n").count(),
        6,
        "{text}"
    );
    assert!(!text.contains("ping"));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_too_large_is_an_error_and_never_lost() {
    let mut options = Options::default();
    options.max_event_bytes = 1000;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let answer = client.call("big", json!({ "bytes": 5000 })).await;
    assert_eq!(
        answer.json().await["result"].as_str().unwrap().len(),
        5000,
        "what is not stored is not bounded by the store"
    );
    let mut stream = client.send(Method::POST, &[], json!([]).to_string().into()).await;
    assert_eq!(stream.status, 400);
    let _ = stream.event().await;
    let mut options = Options::default();
    options.max_event_bytes = 1000;
    options.response = bowline_server::ResponseMode::Sse;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let messages = client.call("big", json!({ "bytes": 5000 })).await.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["error"]["data"]["reason"], "too_large");
}

#[tokio::test(start_paused = true)]
async fn many_calls_of_one_session_do_not_mix() {
    let server = Server::new();
    let client = server.client("2025-11-25").await;
    let mut running = Vec::new();
    for id in 100..130_u64 {
        let client = client.clone();
        running.push(tokio::spawn(async move {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": "count", "params": { "n": id % 7, "every": 1, "then": 2 } });
            let mut answer = client.post(&request).await;
            let first = answer.event().await.unwrap();
            drop(answer);
            tokio::time::sleep(Duration::from_secs(id % 11)).await;
            let messages = client.get(first.id.as_deref()).await.messages().await;
            let result = messages.last().unwrap();
            assert_eq!((result["id"].as_u64().unwrap(), result["result"]["counted"].as_u64().unwrap()), (id, id % 7));
            first.id.unwrap()
        }));
    }
    let mut ids = BTreeSet::new();
    for task in running {
        assert!(ids.insert(task.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn above_the_budget_streams_are_parked_at_once_and_clients_wait_longer() {
    let mut options = Options::default();
    options.max_held_streams = 2;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let mut older = server.client("2025-06-18").await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut answer = client.call("gate", json!({})).await;
        answer.event().await;
        held.push(answer);
    }
    let began = Instant::now();
    let mut answer = client.call("count", json!({ "n": 1, "every": 0.1, "then": 9 })).await;
    let events = answer.events().await;
    assert_eq!((Instant::now() - began).as_millis(), 100);
    assert!(events.last().unwrap().is_priming());
    assert!(events.last().unwrap().retry.unwrap() >= 2400, "{events:?}");
    assert_eq!(events.iter().filter(|event| !event.is_priming()).count(), 1, "it shows what is new first");
    // One that cannot be parked is held.
    assert_eq!(older.call("count", json!({ "then": 9 })).await.messages().await.len(), 1);
    drop(held);
    let messages = client.get(answer.last_id.as_deref()).await.messages().await;
    assert_eq!(messages[0]["result"]["counted"], 1);
}

#[tokio::test(start_paused = true)]
async fn progress_that_a_stream_has_no_room_for_is_dropped_and_counted() {
    let mut options = Options::default();
    options.max_stream_events = 4;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let messages = client.call("count", json!({ "n": 10 })).await.messages().await;
    assert_eq!(messages.len(), 5, "{messages:?}");
    assert_eq!(messages[4]["result"]["counted"], 10);
    assert_eq!(server.endpoint.metrics().events_dropped.get(), 6);
}

#[tokio::test(start_paused = true)]
async fn results_of_one_session_are_bounded_and_its_oldest_go_first() {
    let mut options = Options::default();
    options.max_session_bytes = 10_000;
    options.response = bowline_server::ResponseMode::Sse;
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    let mut other = server.client("2025-11-25").await;
    let mut cursors = Vec::new();
    for client in [&mut other, &mut client] {
        for _ in 0..4 {
            let mut answer = client.call("big", json!({ "bytes": 3_000 })).await;
            cursors.push(answer.event().await.unwrap().id);
        }
    }
    let mut got = Vec::new();
    for (n, cursor) in cursors.iter().enumerate() {
        let client = if n < 4 { &other } else { &client };
        let messages = client.get(cursor.as_deref()).await.messages().await;
        got.push(messages[0].get("result").is_some());
    }
    assert_eq!(got, [false, true, true, true, false, true, true, true]);
    assert_eq!(server.endpoint.metrics().results_evicted.get(), 2);
}
