//! SEMANTICS 6, "A store that does not answer", and the rows of 5.6 that are about it, over real sockets: with a real Redis that sleeps, starts
//! again, and forgets, and with a file that somebody else has locked.

use super::{Fleet, calls::arguments, ledger, long, new_ledger};
use crate::{
    common::{PRIMED, assert_serves},
    production::metrics,
};
use bowline_testkit::{Answer, Block, Dir, Redis, Session, has_role, initialize, patiently, text_of};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// "Within a second", and what a busy machine adds.
const SOON: Duration = Duration::from_millis(2_500);

/// How long quick calls are waited for here.
const HOLD: Duration = Duration::from_millis(200);

const OPTIONS: &str = "--json-hold 200ms --retry 400ms";

/// A call of which only the priming event was read; then the connection was lost.
async fn lost(session: &Session, file: &std::path::Path, key: &str, ms: u64) -> String {
    let mut answer = session.post(&session.tool("job", &arguments(file, key, ms))).await;
    let cursor = answer.block().await.expect("a priming event").id.expect("with an id");
    answer.abort();
    cursor
}

/// The next question.
async fn question(answer: &mut Answer) -> Value {
    loop {
        let block = answer.block().await.expect("a question before the end");
        if let Some(message) = block.message().filter(|message| message["method"] == "elicitation/create") {
            return message;
        }
    }
}

/// Asserts that somebody was told to come again, and how soon.
async fn assert_come_again(what: &str, answer: impl Future<Output = Answer>, within: Duration) {
    let began = Instant::now();
    let mut answer = answer.await;
    let took = Instant::now() - began;
    assert_eq!(answer.status(), 503, "{what}: {}", answer.head.text);
    assert!(answer.header("retry-after").is_some(), "{what}: {}", answer.head.text);
    let body = answer.json().await;
    assert_eq!(body["error"]["data"]["reason"], "store_unavailable", "{what}: {body}");
    assert!(took < within, "{what} took {took:?}");
}

/// Redis sleeps (SIGSTOP): it takes connections and says nothing.
#[tokio::test]
async fn a_store_that_sleeps() {
    let asleep = Duration::from_secs(if long() { 30 } else { 5 });
    let redis = Redis::start("").await;
    let fleet = Fleet::on(&redis, 2, OPTIONS).await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let (_dir, file) = new_ledger();
    let ms = u64::try_from(asleep.as_millis()).unwrap();
    let session = Session::start(a, PRIMED).await;
    let there = session.at(b);
    assert_serves(&there).await;
    // Known to the first backend only.
    let stranger = Session::start(a, PRIMED).await.at(b);
    let over = lost(&session, &file, "ends-meanwhile", ms / 2).await;
    let parked = lost(&session, &file, "ends-afterwards", ms * 3 / 2).await;
    let mut connected =
        session.post(&session.tool_with_progress("job", &arguments(&file, "connected", ms * 2 / 3))).await;
    connected.block().await.expect("a priming event");
    let asks = session.tool("job", &json!({ "file": file, "key": "asks", "ms": 300, "ask": true }));
    let mut asking = session.post(&asks).await;
    let asked = question(&mut asking).await;
    let reply = json!({ "jsonrpc": "2.0", "id": asked["id"],
        "result": { "action": "accept", "content": { "name": "Ann" } } });

    let slept = Instant::now();
    redis.pause();
    let polls = async {
        for address in [a, b] {
            let began = Instant::now();
            let mut poll = session.at(address).get(Some(&parked)).await;
            assert_eq!(poll.status(), 200, "{}", poll.head.text);
            let blocks = poll.blocks().await;
            assert!(blocks.len() == 1 && blocks[0].is_priming(), "{blocks:?}");
            assert_ne!(blocks[0].id.as_deref(), Some(parked.as_str()), "a fresh id");
            assert!(blocks[0].retry.is_some(), "{blocks:?}");
            // It may be noticed in the middle of the answer.
            assert!(Instant::now() - began < SOON * 2, "a poll took {:?}", Instant::now() - began);
        }
    };
    let refusals = async {
        assert_come_again("initialize", Session::none(a).post(&initialize(PRIMED)), SOON).await;
        assert_come_again("a slow call", session.call("slow", json!({ "ms": 20_000 })), SOON + HOLD).await;
        assert_come_again("a session that is not known here", stranger.ask("ping", json!({})), SOON).await;
        assert_come_again("DELETE", session.delete(), SOON).await;
        assert_come_again("the standalone stream", session.get(None), SOON).await;
    };
    let said = async {
        assert_come_again("an answer elsewhere", there.post(&reply), SOON).await;
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": asks["id"] } });
        assert_come_again("a cancel elsewhere", there.post(&cancel), SOON).await;
        assert_eq!(session.post(&reply).await.status(), 202, "its owner is here");
        let rest = asking.messages().await;
        assert_eq!(text_of(rest.last().unwrap()), "job asks: Ann", "{rest:?}");
    };
    let quick = async {
        assert_serves(&session).await;
        assert_serves(&there).await;
    };
    let connected = async {
        let rest = connected.blocks().await;
        let last = rest.last().expect("its result").message().expect("its result");
        assert_eq!(text_of(&last), "job connected: -", "{rest:?}");
        assert!(rest.last().unwrap().id.is_none(), "what is not kept has no id: {rest:?}");
    };
    tokio::join!(polls, refusals, said, quick, connected);
    eprintln!("all was said within {:?}", Instant::now() - slept);
    tokio::time::sleep_until(slept + asleep).await;
    redis.resume();

    for (key, cursor) in [("ends-meanwhile", &over), ("ends-afterwards", &parked)] {
        for address in [b, a] {
            let (messages, _) = session.at(address).poll(session.at(address).get(Some(cursor)).await).await;
            let responses: Vec<_> =
                messages.iter().filter(|message| message.get("method").is_none()).collect();
            assert_eq!(responses.len(), 1, "{messages:?}");
            assert_eq!(text_of(responses[0]), format!("job {key}: -"));
        }
    }
    patiently("new sessions are begun again", async {
        while Session::none(b).post(&initialize(PRIMED)).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    for session in [&session, &there, &stranger] {
        assert_serves(session).await;
    }
    assert!(ledger(&file).values().all(|job| *job == (1, 1)), "{:?}", ledger(&file));
    for backend in &fleet.backends {
        let seen = metrics(backend).await;
        assert_eq!((seen["bowline_streams_reaped_total"], seen["bowline_panics_total"]), (0, 0), "all lived");
    }
}

/// Another process holds the write lock of the file for longer than the store itself would wait. What is there can be read; nothing can be
/// written, and nobody is told that it was.
#[tokio::test]
async fn a_store_file_that_is_locked() {
    let locked = Duration::from_secs(if long() { 30 } else { 10 });
    let dir = Dir::new();
    let path = dir.join("store.db");
    let fleet = Fleet::start(1, &format!("--store sqlite:{} {OPTIONS}", path.display())).await;
    let address = fleet.addresses()[0];
    let (_dir, file) = new_ledger();
    let ms = u64::try_from(locked.as_millis()).unwrap();
    let session = Session::start(address, PRIMED).await;
    let kept = lost(&session, &file, "kept", 300).await;
    bowline_testkit::eventually("it has ended", Duration::from_secs(10), || {
        ledger(&file).get("kept").is_some_and(|job| job.1 == 1)
    })
    .await;
    let over = lost(&session, &file, "ends-meanwhile", ms / 2).await;
    let parked = lost(&session, &file, "ends-afterwards", ms + 1_000).await;
    let mut connected =
        session.post(&session.tool_with_progress("job", &arguments(&file, "connected", ms / 2))).await;
    connected.block().await.expect("a priming event");

    let began = Instant::now();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.busy_timeout(Duration::from_secs(5)).unwrap();
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let count = |table: &str| -> i64 {
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let before = (count("sessions"), count("streams"));
    let polls = async {
        for cursor in [&kept, &parked] {
            let began = Instant::now();
            let answer = session.get(Some(cursor)).await;
            assert_eq!(answer.status(), 200, "{}", answer.head.text);
            let took = Instant::now() - began;
            assert!(took < SOON, "a poll took {took:?}");
        }
    };
    let refusals = async {
        // Again and again: what waits for the lock must not make those wait who come later.
        while Instant::now() - began < locked - SOON * 2 {
            assert_come_again("initialize", Session::none(address).post(&initialize(PRIMED)), SOON).await;
            let slow = session.call("slow", json!({ "ms": 60_000 }));
            assert_come_again("a slow call", slow, SOON + HOLD).await;
            assert_come_again("DELETE", session.delete(), SOON).await;
            assert_serves(&session).await;
        }
    };
    let connected = async {
        let rest = connected.blocks().await;
        let last = rest.last().expect("its result").message().expect("its result");
        assert_eq!(text_of(&last), "job connected: -", "{rest:?}");
        assert!(rest.last().unwrap().id.is_none(), "what is not kept has no id: {rest:?}");
    };
    tokio::join!(polls, refusals, connected);
    tokio::time::sleep_until(began + locked).await;
    conn.execute_batch("COMMIT").unwrap();

    for (key, cursor) in [("kept", &kept), ("ends-meanwhile", &over), ("ends-afterwards", &parked)] {
        let result = session.finish(session.get(Some(cursor)).await).await;
        assert_eq!(text_of(&result), format!("job {key}: -"));
    }
    // What was refused was not done when the lock was free.
    assert_eq!((count("sessions"), count("streams")), before);
    assert_eq!(Session::none(address).post(&initialize(PRIMED)).await.status(), 200);
    assert_serves(&session).await;
    assert!(ledger(&file).values().all(|job| *job == (1, 1)), "{:?}", ledger(&file));
    let seen = metrics(&fleet.backends[0]).await;
    assert_eq!((seen["bowline_streams_reaped_total"], seen["bowline_panics_total"]), (0, 0), "it lived");
}

/// Redis is killed and comes back with what it had kept.
#[tokio::test]
async fn a_store_that_starts_again() {
    let mut redis = Redis::start("appendonly yes\nappendfsync always").await;
    let fleet = Fleet::on(&redis, 2, OPTIONS).await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let (_dir, file) = new_ledger();
    let session = Session::start(a, PRIMED).await;
    let there = session.at(b);
    let cursors = [
        ("meanwhile", lost(&session, &file, "meanwhile", 1_500).await),
        ("afterwards", lost(&session, &file, "afterwards", 6_000).await),
    ];
    redis.kill().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for session in [&session, &there] {
        let poll = session.get(Some(&cursors[1].1)).await;
        assert_eq!(poll.status(), 200, "{}", poll.head.text);
        assert_come_again("initialize", Session::none(session.address).post(&initialize(PRIMED)), SOON).await;
    }
    redis.restart().await;
    for (key, cursor) in &cursors {
        let (messages, _) = there.poll(there.get(Some(cursor)).await).await;
        assert_eq!(text_of(messages.last().unwrap()), format!("job {key}: -"));
    }
    patiently("all is as before", async {
        while Session::none(a).post(&initialize(PRIMED)).await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    for session in [&session, &there] {
        assert_serves(session).await;
    }
    assert!(ledger(&file).values().all(|job| *job == (1, 1)), "{:?}", ledger(&file));
}

/// The primary is killed, and sentinels put its replica in its place: calls go on, also one whose tool asks its client something meanwhile, and
/// nobody is taken for dead.
#[tokio::test]
async fn a_store_that_fails_over() {
    let mut primary = Redis::start("").await;
    let replica = primary.replica("").await;
    let sentinel = primary.sentinel(1).await;
    let store = format!("--store redis+sentinel://{}/main", sentinel.address());
    let fleet = Fleet::start(2, &format!("{store} {OPTIONS}")).await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let (_dir, file) = new_ledger();
    let session = Session::start(a, PRIMED).await;
    let there = session.at(b);
    let before = lost(&session, &file, "before", 300).await;
    let meanwhile = lost(&session, &file, "meanwhile", 1_500).await;
    let afterwards = lost(&session, &file, "afterwards", 8_000).await;
    // One that asks in the middle, which is when nobody can be told.
    let mut asking = arguments(&file, "asking", 3_000);
    asking["ask"] = json!(true);
    let mut answer = session.post(&session.tool("job", &asking)).await;
    let asking = answer.block().await.expect("a priming event").id.expect("with an id");
    answer.abort();
    tokio::time::sleep(Duration::from_millis(600)).await;
    primary.kill().await;
    patiently("the replica takes over", has_role(&replica, "master")).await;
    let (messages, _) = there.poll(there.get(Some(&before)).await).await;
    assert_eq!(text_of(messages.last().unwrap()), "job before: -");
    let asked = patiently("the question", async {
        let mut cursor = asking.clone();
        loop {
            let mut poll = there.get(Some(&cursor)).await;
            while let Some(block) = poll.block().await {
                cursor = block.id.clone().unwrap_or(cursor);
                if let Some(message) = block.message()
                    && message["method"] == "elicitation/create"
                {
                    poll.abort();
                    return (message, cursor);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let (question, asking) = asked.await;
    // Answered at the backend that did not ask.
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"],
        "result": { "action": "accept", "content": { "name": "Ann" } } });
    assert_eq!(there.post(&reply).await.status(), 202);
    for (key, cursor, said) in
        [("meanwhile", meanwhile, "-"), ("asking", asking, "Ann"), ("afterwards", afterwards, "-")]
    {
        let (messages, _) = there.poll(there.get(Some(&cursor)).await).await;
        assert_eq!(text_of(messages.last().unwrap()), format!("job {key}: {said}"));
    }
    for session in [&session, &there] {
        assert_serves(session).await;
    }
    let jobs = ledger(&file);
    assert!(jobs.len() == 4 && jobs.values().all(|job| *job == (1, 1)), "{jobs:?}");
}

/// FLUSHALL: everything is gone, and nobody is told anything wrong, and nobody waits for ever.
#[tokio::test]
async fn a_store_that_forgets() {
    let redis = Redis::start("").await;
    let fleet = Fleet::on(&redis, 2, OPTIONS).await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let (_dir, file) = new_ledger();
    let session = Session::start(a, PRIMED).await;
    let there = session.at(b);
    assert_serves(&there).await;
    let sealed = lost(&session, &file, "sealed", 300).await;
    let parked = lost(&session, &file, "parked", 8_000).await;
    let mut connected = session.post(&session.tool("job", &arguments(&file, "connected", 4_000))).await;
    connected.block().await.expect("a priming event");
    bowline_testkit::eventually("one has ended", Duration::from_secs(10), || {
        ledger(&file).get("sealed").is_some_and(|job| job.1 == 1)
    })
    .await;
    assert_eq!(redis.ask(&["FLUSHALL"]).await.text(), "OK");
    let began = Instant::now();
    // Whoever is connected is told there and then: its messages are gone, and nobody may begin the stream anew.
    let rest = connected.blocks().await;
    let last = rest.iter().rev().find_map(Block::message);
    let last = last.unwrap_or_else(|| panic!("no end: {rest:?}"));
    assert_eq!(last["error"]["data"], json!({ "reason": "lost", "outcome": "unknown" }), "{last}");
    // Elsewhere nobody knows the session any more: the cursor alone ends the wait, or its owner has told again what it had.
    for cursor in [&sealed, &parked] {
        for session in [&there, &session] {
            let answer = session.get(Some(cursor)).await;
            assert_eq!(answer.status(), 200, "{}", answer.head.text);
            let (messages, _) = patiently("an end", session.poll(answer)).await;
            let response = messages.last().unwrap();
            eprintln!("{:?} at {}: {response}", Instant::now() - began, session.address);
            if response.get("error").is_some() {
                assert!(response["error"]["data"]["reason"].is_string(), "{response}");
            } else {
                assert!(text_of(response).starts_with("job "), "{response}");
            }
        }
    }
    // The session is gone or lives; a client that is told 404 begins another one, which works.
    for session in [&session, &there] {
        let status = session.ask("ping", json!({})).await.status();
        eprintln!("{:?}: ping at {}: {status}", Instant::now() - began, session.address);
        assert!([200, 404].contains(&status), "{status}");
    }
    let fresh = Session::start(b, PRIMED).await;
    for address in [a, b] {
        assert_serves(&fresh.at(address)).await;
        let text = fresh.at(address).call_for_text("slow", json!({ "ms": 600 })).await;
        assert_eq!(text, "slow: 600 ms, 0 progress");
    }
    assert!(ledger(&file).values().all(|job| job.0 == 1), "{:?}", ledger(&file));
}
