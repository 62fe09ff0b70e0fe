//! The standalone stream of a session, which every backend may have something to say on.

use super::{Backend, backends, link::Way, pause};
use crate::{
    client::{Answer, Client},
    script::progress,
};
use bowline_server::Peer;
use bowline_store::{MemoryStore, SessionLookup, SessionStore as _, StreamLog as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// The session as the handler of a backend sees it.
fn peer(backend: &Backend) -> Peer {
    backend.server.script.peers.lock()[0].clone()
}

/// The next progress that is read, as writer and number.
async fn next(reader: &mut Answer) -> (String, u64) {
    loop {
        let event = timeout(Duration::from_secs(20), reader.event()).await.expect("in time").unwrap();
        if let Some(data) = event.data.filter(|data| data["params"]["progressToken"].is_string()) {
            let params = &data["params"];
            let writer = params["progressToken"].as_str().unwrap().to_owned();
            return (writer, params["progress"].as_u64().unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_backends_write_it_and_nothing_is_lost_or_doubled() {
    let (_, [a, b, c]) = backends();
    let mut client = a.server.client("2025-11-25").await;
    for backend in [&b, &c] {
        assert_eq!(backend.serves(&client).call("echo", json!({})).await.status, 200);
    }
    let mut reader = c.serves(&client).get(None).await;
    let writers = [("a", peer(&a)), ("b", peer(&b)), ("c", peer(&c))];
    // One after the other, and all at once.
    for n in 1..=20_u64 {
        for (name, peer) in &writers {
            peer.notify(&progress(&json!(name), n));
            if n % 3 == 0 {
                pause(0.01).await;
            }
        }
    }
    let mut seen = Vec::new();
    for _ in 0..30 {
        seen.push(next(&mut reader).await);
    }
    // The reader comes back elsewhere.
    let cursor = reader.last_id.clone();
    drop(reader);
    let mut reader = a.serves(&client).get(cursor.as_deref()).await;
    for _ in 0..30 {
        seen.push(next(&mut reader).await);
    }
    for (name, _) in &writers {
        let of: Vec<u64> = seen.iter().filter(|(writer, _)| writer == name).map(|(_, n)| *n).collect();
        assert_eq!(of, (1..=20).collect::<Vec<_>>(), "{name}");
    }
    assert!(timeout(Duration::from_secs(10), next(&mut reader)).await.is_err(), "and nothing else");
    assert_eq!(client.call("echo", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_got_lost_doubles_nothing() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 200);
    let (here, there) = (peer(&a), peer(&b));
    here.notify(&progress(&json!("a"), 1));
    pause(1.0).await;
    // The store is away while one writes, and the other takes the stream over.
    a.link.set(Way::Cut);
    here.notify(&progress(&json!("a"), 2));
    here.notify(&progress(&json!("a"), 3));
    there.notify(&progress(&json!("b"), 1));
    pause(2.0).await;
    a.link.set(Way::Open);
    pause(5.0).await;
    there.notify(&progress(&json!("b"), 2));
    pause(1.0).await;
    let mut reader = b.serves(&client).get(None).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(next(&mut reader).await);
    }
    let of =
        |name: &str| seen.iter().filter(|(writer, _)| writer == name).map(|(_, n)| *n).collect::<Vec<_>>();
    assert_eq!((of("a"), of("b")), (vec![1, 2, 3], vec![1, 2]), "{seen:?}");
    assert!(timeout(Duration::from_secs(10), next(&mut reader)).await.is_err(), "and nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_newer_reader_elsewhere_takes_it_over() {
    let (_, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    let mut older = client.get(None).await;
    older.event().await;
    let mut newer = b.serves(&client).get(None).await;
    let parting = older.events().await;
    assert_eq!(parting.last().unwrap().retry, Some(10_000), "{parting:?}");
    peer(&a).notify(&progress(&json!("a"), 1));
    assert_eq!(next(&mut newer).await, ("a".to_owned(), 1));
}

#[tokio::test(start_paused = true)]
async fn lists_that_another_backend_announced_are_told_when_events_are_gone() {
    let (store, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    assert_eq!(b.serves(&client).call("resources/subscribe", json!({ "uri": "x:1" })).await.status, 200);
    let mut reader = b.serves(&client).get(None).await;
    peer(&a).notify(&progress(&json!("a"), 1));
    next(&mut reader).await;
    let cursor = reader.last_id.clone();
    drop(reader);
    peer(&a).notify(&progress(&json!("a"), 2));
    pause(0.1).await;
    // Lost with the store's memory of it.
    let session = client.session.as_deref().unwrap();
    let record = match bowline_store::SessionStore::load_session(&store, session).await.unwrap() {
        SessionLookup::Live(_, record) => record,
        other => panic!("{other:?}"),
    };
    bowline_store::StreamLog::trim(&store, record.standalone, 2);
    let mut reader = b.serves(&client).get(cursor.as_deref()).await;
    let mut told = Vec::new();
    while told.len() < 2 {
        let event = reader.event().await.unwrap();
        if let Some(data) = event.data.filter(|data| data.is_object()) {
            told.push(data["method"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(told, ["notifications/tools/list_changed", "notifications/resources/updated"]);
}

/// What its client reads may be gone a second before the backend that is asked knows that the session is.
#[tokio::test(start_paused = true)]
async fn a_get_that_meets_the_end_of_its_session_is_told_so() {
    for with_cursor in [false, true] {
        let (_, [a, b]) = backends();
        let client = a.server.client("2025-11-25").await;
        let mut reader = b.serves(&client).get(None).await;
        reader.event().await;
        let cursor = reader.last_id.clone().filter(|_| with_cursor);
        drop(reader);
        // It has just looked, and does not for 0.4 s.
        pause(0.1).await;
        assert_eq!(client.delete().await.status, 204);
        pause(0.05).await;
        let answer = b.serves(&client).get(cursor.as_deref()).await;
        assert_eq!(answer.status, 404, "{with_cursor}");
    }
}

/// As after a failover that lost the last second, or where somebody emptied the store.
#[tokio::test(start_paused = true)]
async fn a_stream_that_the_store_has_lost_begins_again() {
    for with_cursor in [false, true] {
        let (store, [a, b]) = backends();
        let client = a.server.client("2025-11-25").await;
        let mut reader = a.serves(&client).get(None).await;
        peer(&a).notify(&progress(&json!("before"), 1));
        assert_eq!(next(&mut reader).await, ("before".to_owned(), 1));
        let cursor = reader.last_id.clone().filter(|_| with_cursor);
        drop(reader);
        let SessionLookup::Live(_, record) =
            store.load_session(client.session.as_deref().unwrap()).await.unwrap()
        else {
            panic!("it lives")
        };
        store.remove(record.standalone).await.unwrap();
        // Who writes finds out as well.
        peer(&a).notify(&progress(&json!("lost"), 2));
        pause(1.0).await;
        let mut reader = a.serves(&client).get(cursor.as_deref()).await;
        assert_eq!(reader.status, 200, "{with_cursor}");
        pause(1.0).await;
        peer(&a).notify(&progress(&json!("after"), 3));
        assert_eq!(next(&mut reader).await, ("after".to_owned(), 3), "{with_cursor}");
        assert_eq!(b.serves(&client).get(None).await.status, 200);
    }
}

/// The methods and progress of everything that a reader gets until `last` came; progress as its number.
async fn told_until(reader: &mut Answer, last: &str) -> Vec<String> {
    let mut told = Vec::new();
    while told.last().is_none_or(|said| said != last) {
        let event = timeout(Duration::from_secs(20), reader.event()).await.expect("more is to come");
        let Some(data) = event.expect("the connection is open").data.filter(Value::is_object) else {
            continue;
        };
        let progress = &data["params"]["progress"];
        told.push(if progress.is_null() {
            data["method"].as_str().unwrap().to_owned()
        } else {
            progress.to_string()
        });
    }
    told
}

async fn drop_log(store: &MemoryStore, client: &Client) {
    let SessionLookup::Live(_, record) =
        store.load_session(client.session.as_deref().unwrap()).await.unwrap()
    else {
        panic!("it lives")
    };
    store.remove(record.standalone).await.unwrap();
}

/// The log that another backend made after the first one was gone is longer than what the client has read of that.
#[tokio::test(start_paused = true)]
async fn a_cursor_of_an_earlier_log_skips_nothing_of_the_next_one() {
    let list = "notifications/tools/list_changed";
    for evicted_by_its_writer in [false, true] {
        let (store, [a, b]) = backends();
        let client = a.server.client("2025-11-25").await;
        let mut reader = a.serves(&client).get(None).await;
        for n in 1..=2 {
            peer(&a).notify(&progress(&json!(n), n));
        }
        assert_eq!(told_until(&mut reader, "2").await, ["1", "2"]);
        let earlier = reader.last_id.clone();
        drop(reader);
        drop_log(&store, &client).await;
        if evicted_by_its_writer {
            // Who wrote it finds out, and its writer stands still.
            peer(&a).notify(&progress(&json!("lost"), 0));
            pause(1.0).await;
        }
        // This backend has not said anything so far.
        assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 200);
        for n in 11..=14 {
            peer(&b).notify(&progress(&json!(n), n));
        }
        pause(0.5).await;

        // Cut off before it is told all: it is told once more, by whatever backend.
        for backend in [&a, &b] {
            let mut cut = backend.serves(&client).get(earlier.as_deref()).await;
            cut.event().await.expect("the priming event");
            let primed = cut.last_id.clone();
            drop(cut);
            let mut reader = backend.serves(&client).get(primed.as_deref()).await;
            assert_eq!(told_until(&mut reader, "14").await, [list, "11", "12", "13", "14"]);
        }
        let mut reader = a.serves(&client).get(earlier.as_deref()).await;
        assert_eq!(told_until(&mut reader, "12").await, [list, "11", "12"]);
        let later = reader.last_id.clone();
        drop(reader);
        // A position in the log that there is.
        let mut reader = b.serves(&client).get(later.as_deref()).await;
        peer(&a).notify(&progress(&json!(15), 15));
        assert_eq!(told_until(&mut reader, "15").await, ["13", "14", "15"], "{evicted_by_its_writer}");
    }
}

/// Its events would go on from where the reader is.
#[tokio::test(start_paused = true)]
async fn who_reads_a_log_while_another_one_takes_its_place_is_told() {
    let (store, [a, b]) = backends();
    let client = a.server.client("2025-11-25").await;
    let mut reader = a.serves(&client).get(None).await;
    peer(&a).notify(&progress(&json!("a"), 1));
    assert_eq!(told_until(&mut reader, "1").await, ["1"]);
    assert_eq!(b.serves(&client).call("echo", json!({})).await.status, 200);
    drop_log(&store, &client).await;
    for n in 11..=13 {
        peer(&b).notify(&progress(&json!("b"), n));
    }
    // All that comes on this connection is its end.
    while let Some(event) = timeout(Duration::from_secs(20), reader.event()).await.expect("it ends") {
        assert!(event.data.is_none_or(|data| !data.is_object()), "what is of another log");
    }
    let mut reader = a.serves(&client).get(reader.last_id.as_deref()).await;
    let told = told_until(&mut reader, "13").await;
    assert_eq!(told, ["notifications/tools/list_changed", "11", "12", "13"]);
    // Who wrote the first one goes on in the second one.
    peer(&a).notify(&progress(&json!("a"), 21));
    assert_eq!(told_until(&mut reader, "21").await, ["21"]);
}
