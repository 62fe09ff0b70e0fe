//! A backend that sleeps (SIGSTOP) past its lease and wakes: others have ended its calls by then, and it may not end them again.

use super::{Fleet, ledger, new_ledger};
use crate::{common::assert_serves, production::metrics};
use bowline_testkit::{Redis, Session, processes};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Polls at one backend until the response is there.
async fn told(session: &Session, cursor: &str) -> Value {
    let (mut messages, _) = session.poll(session.get(Some(cursor)).await).await;
    messages.pop().expect("a poll ends with the response")
}

#[tokio::test]
async fn who_slept_past_its_lease_is_fenced_off() {
    let redis = Redis::start("").await;
    let fleet = Fleet::on(&redis, 2, "--json-hold 50ms --max-connection 300ms --retry 300ms").await;
    let [a, b] = [fleet.addresses()[0], fleet.addresses()[1]];
    let (_dir, file) = new_ledger();
    let session = Session::start(a, "2025-11-25").await;
    // They end while their owner sleeps, or after it; one asks, and is answered elsewhere while it sleeps.
    let mut cursors = Vec::new();
    for (key, ms) in [("soon", 6_000), ("later", 14_000), ("long", 40_000)] {
        let arguments = json!({ "file": file, "key": key, "ms": ms, "progress": 4 });
        let mut answer = session.post(&session.tool_with_progress("job", &arguments)).await;
        answer.blocks().await;
        cursors.push(answer.last_id.take().expect("a primed stream has ids"));
    }
    let slept = Instant::now();
    processes::signal(fleet.backends[0].pid(), Signal::STOP);
    let there = session.at(b);
    let mut first = Vec::new();
    for cursor in &cursors {
        let response = told(&there, cursor).await;
        let data = &response["error"]["data"];
        assert_eq!(
            (&data["reason"], &data["outcome"]),
            (&json!("owner_lost"), &json!("unknown")),
            "{response}"
        );
        first.push(response);
    }
    let took = Instant::now() - slept;
    eprintln!("told {took:?} after it fell asleep");
    assert!(took < Duration::from_secs(21), "{took:?}");
    // The session is nobody's: the other one serves it.
    assert_serves(&there).await;

    processes::signal(fleet.backends[0].pid(), Signal::CONT);
    bowline_testkit::eventually("it is awake", Duration::from_secs(20), || {
        // What its tool did meanwhile, it did once.
        ledger(&file).get("later").is_some_and(|job| job.1 == 1)
            || Instant::now() - slept > Duration::from_secs(18)
    })
    .await;
    // Whoever is asked, and however often: the same one response.
    for _ in 0..2 {
        for address in [a, b] {
            for (cursor, first) in cursors.iter().zip(&first) {
                assert_eq!(told(&session.at(address), cursor).await, *first);
            }
        }
    }
    bowline_testkit::patiently("it notices that its calls are over", async {
        while metrics(&fleet.backends[0]).await["bowline_calls"] > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(metrics(&fleet.backends[1]).await["bowline_streams_reaped_total"], 3);
    let lost = metrics(&fleet.backends[0]).await["bowline_streams_lost_total"];
    assert!((1..=3).contains(&lost), "a call whose tool had ended by itself is none: {lost}");
    for address in [a, b] {
        assert_serves(&session.at(address)).await;
    }
    assert!(ledger(&file).values().all(|job| job.0 == 1), "{:?}", ledger(&file));
}
