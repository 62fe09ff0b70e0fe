//! A backend that dies, and one that was only asleep.

use super::{Backend, backends, link::Way, pause};
use bowline_server::CancelReason;
use bowline_store::{BackendRegistry as _, BackendState, SessionStore as _, StreamLog as _};
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, timeout};

/// What a caller of a lost call is told.
fn is_lost(message: &Value) -> bool {
    message["error"]["code"] == -32603
        && message["error"]["data"] == json!({ "reason": "owner_lost", "outcome": "unknown" })
}

#[tokio::test(start_paused = true)]
async fn who_reads_a_call_of_a_dead_backend_is_told_within_20_seconds() {
    let (_, [a, b]) = backends();
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    let mut there = b.serves(&client).get(call.last_id.as_deref()).await;
    there.event().await;
    pause(1.0).await;
    let died = Instant::now();
    a.link.set(Way::Cut);
    let event = timeout(Duration::from_secs(20), there.messages()).await.expect("in time");
    assert!(event.len() == 1 && is_lost(&event[0]), "{event:?}");
    assert_eq!(event[0]["id"], client.next_id);
    // It was renewed 3 s before, at most.
    assert!((Instant::now() - died).as_secs() >= 6, "not before its lease was over");
    // Whoever comes again is told that nothing is left.
    assert_eq!(b.serves(&client).get(there.last_id.as_deref()).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_dead_backend_that_nobody_reads_are_ended_by_the_others() {
    let (store, [a, b, c]) = backends();
    pause(15.0).await;
    let mut cursors = Vec::new();
    let mut client = a.server.client("2025-11-25").await;
    for _ in 0..40 {
        let mut call = client.call("stubborn", json!({})).await;
        call.event().await;
        cursors.push((client.next_id, call.last_id.clone()));
    }
    a.link.set(Way::Cut);
    pause(20.0).await;
    assert_eq!(store.stats().streams_open, 0, "sealed within 20 s");
    let reaped = [&b, &c].map(|backend| backend.server.endpoint.metrics().streams_reaped.get());
    assert!(reaped.iter().sum::<u64>() >= 40, "{reaped:?}");
    for (id, cursor) in cursors {
        let messages = c.serves(&client).get(cursor.as_deref()).await.messages().await;
        assert!(messages.len() == 1 && is_lost(&messages[0]) && messages[0]["id"] == id, "{messages:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_for_a_call_of_a_dead_backend_is_told_at_once() {
    let (store, [a]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    a.link.set(Way::Cut);
    pause(11.0).await;
    // Started when the other one was dead already: it has to see that nobody gives a sign of life, before it judges.
    let b = Backend::new(&store);
    let mut there = b.serves(&client).get(call.last_id.as_deref()).await;
    let began = Instant::now();
    let messages = timeout(Duration::from_secs(20), there.messages()).await.expect("in time");
    assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
    assert!((9..=16).contains(&(Instant::now() - began).as_secs()), "{:?}", Instant::now() - began);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_slept_is_fenced_and_there_is_one_end() {
    let (store, [a, b]) = backends();
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("gate", json!({})).await;
    call.event().await;
    let cursor = call.last_id.clone();
    drop(call);
    a.link.set(Way::Silent);
    pause(20.0).await;
    let messages = b.serves(&client).get(cursor.as_deref()).await.messages().await;
    assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
    // It was only asleep, and has a result.
    a.server.script.gate.notify_one();
    a.link.set(Way::Open);
    pause(5.0).await;
    for backend in [&a, &b] {
        let again = backend.serves(&client).get(cursor.as_deref()).await.messages().await;
        assert_eq!(again, messages, "nothing follows the end, and nothing replaces it");
    }
    assert_eq!((store.stats().streams_open, store.stats().streams_sealed), (0, 1));
    // It goes on with what comes next.
    let mut next = client.call("count", json!({ "then": 3 })).await;
    assert_eq!(next.messages().await[0]["result"]["counted"], 0);
    let mut states = store.backends().await.unwrap();
    states.retain(|(_, state)| *state == BackendState::Alive);
    assert_eq!(states.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_was_cut_off_stops_what_others_have_ended_when_it_is_back() {
    let (_, [a, b]) = backends();
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    // It says nothing, so it would not notice by itself.
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    drop(call);
    a.link.set(Way::Cut);
    pause(25.0).await;
    assert_eq!(b.server.endpoint.metrics().streams_reaped.get(), 1);
    assert!(a.server.script.cancelled.lock().is_empty(), "it cannot know");
    a.link.set(Way::Open);
    pause(5.0).await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::OwnerLost]);
    assert_eq!(a.server.script.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_can_reach_stops_in_the_end() {
    let (_, [a]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    let mut call = client.call("stubborn", json!({})).await;
    call.event().await;
    drop(call);
    a.link.set(Way::Cut);
    pause(299.0).await;
    assert!(a.server.script.cancelled.lock().is_empty());
    pause(60.0).await;
    assert_eq!(*a.server.script.cancelled.lock(), [CancelReason::OwnerLost]);
}

/// A failover takes longer than a lease: what was parked goes on as if nothing had been.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_for_half_a_minute_costs_no_parked_call() {
    for way in [Way::Cut, Way::Silent] {
        let (_, [a, b]) = backends();
        pause(15.0).await;
        let mut client = a.server.client("2025-11-25").await;
        let mut cursors = Vec::new();
        // One ends meanwhile, one afterwards.
        for seconds in [20, 50] {
            let mut call = client.call("count", json!({ "then": seconds })).await;
            call.event().await;
            cursors.push(call.last_id.clone());
        }
        for backend in [&a, &b] {
            backend.link.set(way);
        }
        pause(35.0).await;
        for backend in [&a, &b] {
            backend.link.set(Way::Open);
        }
        pause(25.0).await;
        for cursor in cursors {
            let messages = b.serves(&client).get(cursor.as_deref()).await.messages().await;
            assert!(messages.len() == 1 && messages[0]["result"]["counted"] == 0, "{way:?}: {messages:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_for_all_buries_nobody() {
    let (_, [a, b]) = backends();
    pause(15.0).await;
    // Of a client that cannot be sent away: it stays connected.
    let mut old = a.server.client("2025-06-18").await;
    let reading = tokio::spawn(async move {
        let mut answer = old.call("gate", json!({})).await;
        answer.messages().await
    });
    pause(2.0).await;
    for backend in [&a, &b] {
        backend.link.set(Way::Cut);
    }
    pause(60.0).await;
    // Who comes back first sees no sign of life of the other.
    b.link.set(Way::Open);
    pause(3.0).await;
    a.link.set(Way::Open);
    pause(30.0).await;
    assert_eq!(b.server.endpoint.metrics().streams_reaped.get(), 0);
    a.server.script.gate.notify_one();
    let messages = timeout(Duration::from_secs(10), reading).await.unwrap().unwrap();
    assert!(messages.len() == 1 && messages[0]["result"] == "open", "{messages:?}");
}

/// What a store does that is emptied, or that loses its last second in a failover: there is no tombstone either.
#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_lost_is_put_back_while_it_is_in_use() {
    for revision in ["2025-11-25", "2025-06-18"] {
        let (store, [a, b]) = backends();
        let mut client = a.server.client(revision).await;
        let mut call = client.call("count", json!({ "n": 1, "every": 2, "then": 60 })).await;
        while call.event().await.unwrap().data.is_none_or(|data| !data.is_object()) {}
        for (backend, _) in store.backends().await.unwrap() {
            for stream in store.open_streams(backend, 10).await.unwrap() {
                store.remove(stream.id).await.unwrap();
            }
        }
        store.delete_session(client.session.as_deref().unwrap(), Duration::ZERO).await.unwrap();
        // Whoever waits for the call is told what is known, and when that is noticed.
        let messages = timeout(Duration::from_secs(20), call.messages()).await.expect("no hang");
        let error = &messages.last().expect("an end")["error"];
        assert_eq!(error["data"], json!({ "reason": "lost", "outcome": "unknown" }), "{messages:?}");
        for backend in [&a, &b] {
            assert_eq!(backend.serves(&client).call("echo", json!({})).await.status, 200, "{revision}");
            client.id();
        }
        assert_eq!(client.delete().await.status, 204);
        pause(2.0).await;
        assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 404, "an end is an end");
    }
}
