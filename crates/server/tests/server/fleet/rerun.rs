//! `takeover = "rerun"`: calls that may run twice are run again where their backend died, and no others.

use super::{
    Backend,
    link::{Mishap, Way},
    pause,
};
use crate::client::{Answer, Client, initialize};
use bowline_proto::http::SessionMode;
use bowline_server::{CancelReason, Options, Takeover};
use bowline_store::MemoryStore;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::timeout;

fn rerunning(options: &mut Options) {
    options.takeover = Takeover::Rerun;
}

/// Backends that run calls again, each of which has lived long enough to judge others.
pub(super) async fn fleet<const N: usize>() -> (MemoryStore, [Backend; N]) {
    let store = MemoryStore::default();
    let all = std::array::from_fn(|_| Backend::options(&store, rerunning));
    pause(15.0).await;
    (store, all)
}

fn calls(backend: &Backend) -> usize {
    backend.server.script.calls.load(Ordering::SeqCst)
}

fn reruns(backend: &Backend) -> u64 {
    backend.server.endpoint.metrics().calls_rerun.get()
}

/// What a caller of a lost call is told.
fn is_lost(message: &Value) -> bool {
    message["error"]["data"] == json!({ "reason": "owner_lost", "outcome": "unknown" })
}

/// Begins a call and lets go of its connection once it has an id.
async fn begin(client: &mut Client, method: &str, params: Value) -> Option<String> {
    let mut call = client.call(method, params).await;
    call.event().await;
    call.last_id.clone()
}

/// All that comes, on as many connections as it takes.
pub(super) async fn poll(client: &Client, cursor: Option<String>) -> Vec<Value> {
    let mut cursor = cursor;
    let mut all: Vec<Value> = Vec::new();
    let whole = async {
        while all.last().is_none_or(|last| last.get("method").is_some()) {
            let mut there = client.get(cursor.as_deref()).await;
            assert_eq!(there.status, 200);
            all.extend(there.messages().await);
            cursor = there.last_id.clone();
        }
    };
    timeout(Duration::from_secs(120), whole).await.expect("an end");
    all
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_on_as_if_nothing_had_been() {
    let (store, [a, b, c]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let params = json!({ "n": 4, "every": 4, "then": 1, "repeatable": true });
    let mut here = client.call("count", params).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(here.event().await.unwrap().data.filter(Value::is_object));
    }
    let cursor = here.last_id.clone();
    drop(here);
    a.link.set(Way::Cut);
    seen.extend(poll(&b.serves(&client), cursor).await);
    let progress: Vec<_> = seen.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(progress, [Some(1), Some(2), Some(3), Some(4), None], "no step back, nothing twice: {seen:?}");
    let runs: Vec<_> =
        seen.iter().map(|message| message["params"]["_meta"]["bowline/run"].as_u64()).collect();
    assert_eq!(runs, [None, None, Some(2), Some(2), None]);
    assert_eq!((&seen[4]["result"]["counted"], &seen[4]["id"]), (&json!(4), &json!(client.next_id)));
    assert_eq!((calls(&b) + calls(&c), reruns(&b) + reruns(&c)), (1, 1));
    let ended = [&b, &c].map(|backend| backend.server.endpoint.metrics().streams_reaped.get());
    assert_eq!(ended, [0, 0]);
    assert_eq!((store.stats().streams_open, store.stats().streams_sealed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn calls_that_nobody_reads_are_run_once_each() {
    let (store, [a, b, c]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let mut cursors = Vec::new();
    for _ in 0..40 {
        let params = json!({ "n": 0, "then": 60, "repeatable": true });
        let cursor = begin(&mut client, "count", params).await;
        cursors.push((client.next_id, cursor));
    }
    a.link.set(Way::Cut);
    pause(100.0).await;
    assert_eq!((calls(&b) + calls(&c), reruns(&b) + reruns(&c)), (40, 40));
    assert_eq!((store.stats().streams_open, store.stats().streams_sealed), (0, 40));
    for (id, cursor) in cursors {
        let messages = poll(&c.serves(&client), cursor).await;
        assert!(messages.len() == 1 && messages[0]["id"] == id, "{messages:?}");
        assert_eq!(messages[0]["result"]["counted"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_run_twice_is_told_that_it_may_have_run() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let once = begin(&mut client, "count", json!({ "then": 60 })).await;
    let large = json!({ "then": 60, "repeatable": "x".repeat(70_000) });
    let large = begin(&mut client, "count", large).await;
    a.link.set(Way::Cut);
    for cursor in [once, large] {
        let messages = poll(&b.serves(&client), cursor).await;
        assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
    }
    assert_eq!((calls(&b), reruns(&b)), (0, 0));
    assert_eq!(b.server.endpoint.metrics().streams_reaped.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_run_again_where_nobody_asked_for_it() {
    for change in [
        |_: &mut Options| {},
        |options: &mut Options| {
            options.takeover = Takeover::Rerun;
            options.max_reruns = 0;
        },
    ] {
        let store = MemoryStore::default();
        let [a, b] = std::array::from_fn(|_| Backend::options(&store, change));
        pause(15.0).await;
        let mut client = a.server.client("2025-11-25").await;
        let cursor = begin(&mut client, "count", json!({ "then": 60, "repeatable": true })).await;
        a.link.set(Way::Cut);
        let messages = poll(&b.serves(&client), cursor).await;
        assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
        assert_eq!(calls(&b), 0);
    }
}

/// What kills its backend must not kill them all.
#[tokio::test(start_paused = true)]
async fn a_call_is_run_again_only_so_often() {
    for max_reruns in [1, 2] {
        let store = MemoryStore::default();
        let all: [Backend; 4] = std::array::from_fn(|_| {
            Backend::options(&store, |options| {
                rerunning(options);
                options.max_reruns = max_reruns;
            })
        });
        pause(15.0).await;
        let mut client = all[0].server.client("2025-11-25").await;
        let cursor = begin(&mut client, "count", json!({ "then": 600, "repeatable": true })).await;
        all[0].link.set(Way::Cut);
        for run in 1..=max_reruns {
            pause(25.0).await;
            let ran: Vec<_> = all[1..].iter().filter(|backend| calls(backend) == 1).collect();
            assert_eq!(ran.len(), run as usize, "one backend at a time");
            ran.iter().for_each(|backend| backend.link.set(Way::Cut));
        }
        pause(25.0).await;
        let left = all[1..].iter().find(|backend| calls(backend) == 0).expect("one is left");
        let messages = poll(&left.serves(&client), cursor).await;
        assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
        let runs: usize = all.iter().map(calls).sum();
        assert_eq!(runs, 1 + max_reruns as usize);
    }
}

/// What is kept of a call has a bound, and who meets it counts.
#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_kept_is_not_run_again() {
    for (limit, is_kept) in [(10_000, true), (1_000, false)] {
        let store = MemoryStore::default();
        let [a, b] = std::array::from_fn(|_| {
            Backend::options(&store, |options| {
                rerunning(options);
                options.max_rerun_bytes = limit;
            })
        });
        pause(15.0).await;
        let mut client = a.server.client("2025-11-25").await;
        let large = json!({ "then": 20, "repeatable": true, "large": "x".repeat(2_000) });
        let cursor = begin(&mut client, "count", large).await;
        let refused = || a.server.endpoint.metrics().reruns_too_large.get();
        assert_eq!(refused(), u64::from(!is_kept));
        // One that may not run twice meets no bound.
        begin(&mut client, "count", json!({ "then": 20, "large": "x".repeat(2_000) })).await;
        assert_eq!(refused(), u64::from(!is_kept));
        a.link.set(Way::Cut);
        let messages = poll(&b.serves(&client), cursor).await;
        assert_eq!(calls(&b), usize::from(is_kept));
        assert_eq!(is_lost(messages.last().unwrap()), !is_kept, "{messages:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_client_gave_up_meanwhile_is_not_run() {
    let (store, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    begin(&mut client, "count", json!({ "then": 60, "repeatable": true })).await;
    let cancelled = client.next_id;
    let mut gone = a.server.client("2025-11-25").await;
    begin(&mut gone, "count", json!({ "then": 60, "repeatable": true })).await;
    a.link.set(Way::Cut);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": cancelled } });
    assert_eq!(b.serves(&client).post(&cancel).await.status, 202);
    assert_eq!(b.serves(&gone).delete().await.status, 204);
    pause(25.0).await;
    assert_eq!((calls(&b), reruns(&b)), (0, 0));
    assert_eq!(store.stats().streams_open, 0, "they are over all the same");
    assert_eq!(store.stats().mailboxes, 0, "and nothing is left for a later call of the same id");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_a_call_that_is_run_again() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    begin(&mut client, "stubborn", json!({ "repeatable": true })).await;
    a.link.set(Way::Cut);
    pause(25.0).await;
    assert_eq!(calls(&b), 1);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": client.next_id } });
    assert_eq!(b.serves(&client).post(&cancel).await.status, 202);
    pause(1.0).await;
    assert_eq!(*b.server.script.cancelled.lock(), [CancelReason::Client]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_only_slept_is_fenced_and_there_is_one_result() {
    let (store, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "gate", json!({ "repeatable": true })).await;
    a.link.set(Way::Silent);
    pause(25.0).await;
    assert_eq!(calls(&b), 1);
    // It wakes up and has a result, while the other one still works.
    a.server.script.gate.notify_one();
    a.link.set(Way::Open);
    pause(5.0).await;
    assert_eq!(store.stats().streams_sealed, 0, "its result comes too late");
    b.server.script.gate.notify_one();
    for backend in [&b, &a] {
        let messages = poll(&backend.serves(&client), cursor.clone()).await;
        assert!(messages.len() == 1 && messages[0]["result"] == "open", "{messages:?}");
    }
    assert_eq!(store.stats().streams_sealed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_open_is_withdrawn_and_asked_anew() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let mut here = client.call("ask", json!({ "repeatable": true })).await;
    let first = message(&mut here).await;
    // The client has not got it yet.
    let cursor = here.last_id.clone();
    drop(here);
    a.link.set(Way::Cut);
    pause(25.0).await;
    let there = b.serves(&client);
    let mut on = there.get(cursor.as_deref()).await;
    let withdrawn = message(&mut on).await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], first["id"]);
    let second = message(&mut on).await;
    assert_eq!((&second["method"], &second["params"]), (&first["method"], &first["params"]));
    assert_ne!(second["id"], first["id"]);
    let answer = |to: &Value, action: &str| json!({ "jsonrpc": "2.0", "id": to["id"], "result": { "action": action } });
    // An answer to the former run says nothing to this one.
    assert_eq!(there.post(&answer(&first, "decline")).await.status, 202);
    pause(1.0).await;
    assert_eq!(there.post(&answer(&second, "accept")).await.status, 202);
    assert_eq!(message(&mut on).await["result"]["answer"]["action"], "accept");
}

async fn message(answer: &mut Answer) -> Value {
    loop {
        let event =
            timeout(Duration::from_secs(60), answer.event()).await.expect("in time").expect("an event");
        if let Some(data) = event.data.filter(Value::is_object) {
            return data;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_gets_the_same_request_from_the_same_principal_and_no_header() {
    let (_, [a, b]) = fleet().await;
    let mut alice =
        Client { endpoint: a.server.endpoint.clone(), session: None, next_id: 1, principal: Some("alice") };
    let hello = alice.post(&initialize("2025-11-25")).await;
    alice.session = Some(hello.headers["mcp-session-id"].to_str().unwrap().to_owned());
    let params = json!({ "then": 3, "repeatable": true, "_meta": { "progressToken": "p" } });
    let cursor = begin(&mut alice, "who", params).await;
    a.link.set(Way::Cut);
    let messages = poll(&b.serves(&alice), cursor.clone()).await;
    let expected = json!({ "principal": "alice", "of_the_request": "alice", "headers": 0, "method": "POST", "token": "p" });
    assert_eq!(messages.last().unwrap()["result"], expected);
    let other = Client { principal: Some("bob"), ..b.serves(&alice) };
    assert_eq!(other.get(cursor.as_deref()).await.status, 404, "and it is the principal's alone");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_session_is_run_again_too() {
    let store = MemoryStore::default();
    let [a, b] = std::array::from_fn(|_| {
        Backend::with(&store, |builder| {
            let mut options = Options::default();
            rerunning(&mut options);
            let mode = SessionMode::Stateless {
                resumable: true,
                stale_session: bowline_proto::http::StaleSession::NotFound,
            };
            builder.options(options).session_mode(mode)
        })
    });
    pause(15.0).await;
    let mut client =
        Client { endpoint: a.server.endpoint.clone(), session: None, next_id: 1, principal: None };
    let id = client.id();
    let call =
        json!({ "jsonrpc": "2.0", "id": id, "method": "count", "params": { "then": 5, "repeatable": true } });
    let revision = [("mcp-protocol-version", "2025-11-25")];
    let mut here = client.send(http::Method::POST, &revision, call.to_string().into()).await;
    here.event().await;
    let cursor = here.last_id.clone().unwrap();
    // As a process that is killed: its client is there to the end.
    a.link.set(Way::Cut);
    let there = b.serves(&client);
    let mut cursor = Some(cursor);
    let result = loop {
        let headers = [revision[0], ("last-event-id", cursor.as_deref().unwrap())];
        let mut on = there.send(http::Method::GET, &headers, bytes::Bytes::new()).await;
        let messages = on.messages().await;
        cursor = on.last_id.clone();
        if let Some(last) = messages.into_iter().next_back() {
            break last;
        }
    };
    assert_eq!((&result["result"]["counted"], &result["id"]), (&json!(0), &json!(id)));
    assert_eq!((calls(&b), reruns(&b)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_leaves_takes_nothing_while_another_stays() {
    let (_, [a, b, c]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "count", json!({ "then": 5, "repeatable": true })).await;
    b.server.endpoint.start_drain();
    a.link.set(Way::Cut);
    pause(30.0).await;
    assert_eq!((calls(&b), calls(&c)), (0, 1));
    let messages = poll(&c.serves(&client), cursor).await;
    assert_eq!(messages[0]["result"]["counted"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_take_over_whose_answer_got_lost_is_gone_on_with() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "count", json!({ "then": 5, "repeatable": true })).await;
    b.link.spoil_take_over(Mishap::Lost);
    a.link.set(Way::Cut);
    pause(30.0).await;
    let messages = poll(&b.serves(&client), cursor).await;
    assert!(messages.len() == 1 && messages[0]["result"]["counted"] == 0, "{messages:?}");
    assert_eq!((calls(&b), reruns(&b)), (1, 1));
}

/// As where the disk stalls in the middle of a commit, or a connection to the store: who has asked, and has looked once, is the owner in the
/// end, and nobody else takes care of the call.
#[tokio::test(start_paused = true)]
async fn a_take_over_that_takes_effect_late_is_gone_on_with() {
    for comes_back in [false, true] {
        let (store, [a, b]) = fleet().await;
        let mut client = a.server.client("2025-11-25").await;
        let cursor = begin(&mut client, "count", json!({ "then": 30, "repeatable": true })).await;
        b.link.spoil_take_over(Mishap::Late);
        a.link.set(Way::Cut);
        while b.link.is_to_spoil() {
            pause(0.05).await;
        }
        if comes_back {
            a.link.set(Way::Open);
        }
        let messages = poll(&b.serves(&client), cursor).await;
        assert!(messages.len() == 1 && messages[0]["result"]["counted"] == 0, "{messages:?}");
        assert_eq!((calls(&b), reruns(&b)), (1, 1), "{comes_back}");
        assert_eq!((store.stats().streams_open, store.stats().streams_sealed), (0, 1));
    }
}

/// To all others it is a call of a backend that lives.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_begun_ends_however_long_the_store_is_away() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "count", json!({ "then": 60, "repeatable": true })).await;
    b.link.spoil_take_over(Mishap::Last);
    a.link.set(Way::Cut);
    pause(300.0).await;
    assert!(!b.link.is_to_spoil());
    b.link.set(Way::Open);
    let messages = poll(&b.serves(&client), cursor).await;
    assert!(messages.len() == 1 && is_lost(&messages[0]), "{messages:?}");
    assert_eq!((calls(&b), reruns(&b)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn many_who_notice_at_once_begin_it_once() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "count", json!({ "then": 30, "repeatable": true })).await;
    a.link.set(Way::Cut);
    b.link.slow_take_overs();
    let (there, cursor) = (b.serves(&client), cursor.as_deref());
    // The lease is over at some moment of these.
    for _ in 0..120 {
        let all = (0..8).map(|_| there.get(cursor));
        for answer in futures_util::future::join_all(all).await {
            assert_eq!(answer.status, 200);
        }
        pause(0.1).await;
    }
    pause(10.0).await;
    assert_eq!((calls(&b), reruns(&b)), (1, 1));
}

/// A backend that was cut off loses its call to another one, and gets it back when that dies.
#[tokio::test(start_paused = true)]
async fn a_call_comes_back_to_where_it_began() {
    let store = MemoryStore::default();
    let [a, b] = std::array::from_fn(|_| {
        Backend::options(&store, |options| {
            rerunning(options);
            options.max_reruns = 2;
        })
    });
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "gate", json!({ "repeatable": true })).await;
    a.link.set(Way::Cut);
    pause(25.0).await;
    assert_eq!(calls(&b), 1);
    a.link.set(Way::Open);
    pause(25.0).await;
    b.link.set(Way::Cut);
    pause(25.0).await;
    assert_eq!((calls(&a), reruns(&a)), (2, 1));
    a.server.script.gate.notify_one();
    let messages = poll(&client, cursor).await;
    assert!(messages.len() == 1 && messages[0]["result"] == "open", "{messages:?}");
}

/// A reader that is connected while the call changes hands keeps it alive, as any reader does.
#[tokio::test(start_paused = true)]
async fn who_read_on_meanwhile_counts_as_its_reader() {
    let (_, [a, b]) = fleet().await;
    let mut client = a.server.client("2025-06-18").await;
    let params = json!({ "n": 1, "every": 2, "then": 1_000, "repeatable": true });
    let mut here = client.call("count", params).await;
    message(&mut here).await;
    let mut there = b.serves(&client).get(here.last_id.as_deref()).await;
    drop(here);
    a.link.set(Way::Cut);
    // Longer than a call lives that nobody reads.
    let result = timeout(Duration::from_secs(1_200), there.messages()).await.expect("an end");
    assert_eq!(result.last().unwrap()["result"]["counted"], 1, "{result:?}");
    assert_eq!(reruns(&b), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wish_of_the_new_run_to_close_reaches_who_read_on_meanwhile() {
    let store = MemoryStore::default();
    let [a, b] = std::array::from_fn(|_| {
        Backend::options(&store, |options| {
            rerunning(options);
            options.max_connection = None;
        })
    });
    pause(15.0).await;
    let mut client = a.server.client("2025-11-25").await;
    let cursor = begin(&mut client, "close", json!({ "then": 600, "repeatable": true })).await;
    let mut there = b.serves(&client).get(cursor.as_deref()).await;
    a.link.set(Way::Cut);
    let rest = timeout(Duration::from_secs(60), there.messages()).await.expect("it is closed");
    assert_eq!((rest, calls(&b), reruns(&b)), (vec![], 1, 1));
}
