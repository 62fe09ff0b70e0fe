//! Backends that are killed and started again at random: every call ends, no tool runs twice, and what failed says so.

use super::{
    Fleet,
    calls::{End, arguments, job},
    ledger, long, new_ledger, percentile,
};
use crate::faults::Chance;
use bowline_testkit::{Redis, Session, patiently};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// A caller is told within this (SEMANTICS 6), and comes to ask within the other.
const TOLD: Duration = Duration::from_secs(20);
const ASKS: Duration = Duration::from_secs(2);

/// At least so many are killed, however slow the machine is: clients go on until then.
const KILLS: usize = 4;

#[tokio::test]
async fn every_call_ends_while_backends_are_killed() {
    let (calls, workers, longest) = if long() { (1_000, 24, 6_000) } else { (60, 12, 2_500) };
    let options = "--json-hold 100ms --max-connection 2s --retry 500ms";
    let redis = Redis::start("").await;
    let mut fleet = Fleet::on(&redis, 3, options).await;
    let addresses: Arc<[SocketAddr]> = fleet.addresses().into();
    let (_dir, file) = new_ledger();
    let mut chance = Chance::new(20);
    let (next, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let kills: Arc<Mutex<Vec<(Instant, SocketAddr)>>> = Arc::default();
    let mut clients = Vec::new();
    for worker in 0..workers {
        // Before anything is killed: how a session begins is not the matter here. It has to live through all of it.
        let session = Session::start(addresses[worker % addresses.len()], "2025-11-25").await;
        let (addresses, file, next, mut chance, kills) =
            (addresses.clone(), file.clone(), next.clone(), chance.fork(), kills.clone());
        clients.push(tokio::spawn(async move {
            let mut ended = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls && kills.lock().len() >= KILLS {
                    return ended;
                }
                let ms = chance.below(longest);
                let turn = usize::try_from(chance.below(1_000)).unwrap();
                let key = format!("k{number}");
                ended.push((key.clone(), job(&session, &addresses, turn, arguments(&file, &key, ms)).await));
            }
        }));
    }
    let killer = {
        let (kills, over) = (kills.clone(), over.clone());
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(700) + chance.moment(2_500)).await;
                let which = usize::try_from(chance.below(3)).unwrap();
                kills.lock().push((Instant::now(), fleet.backends[which].address()));
                fleet.backends[which].kill();
                patiently("its end", fleet.backends[which].wait()).await;
                fleet.replace(which).await;
            }
            fleet
        })
    };
    let mut ended = Vec::new();
    for client in clients {
        ended.extend(client.await.expect("every call ends"));
    }
    over.store(true, Ordering::Relaxed);
    let fleet = killer.await.unwrap();
    let kills = std::mem::take(&mut *kills.lock());

    let (mut results, mut no_id, mut times) = (0, 0, Vec::new());
    for (key, call) in &ended {
        match &call.end {
            End::Response(response) if response["result"].is_object() => {
                assert_eq!(bowline_testkit::text_of(response), format!("job {key}: -"));
                results += 1;
            }
            End::Response(response) => {
                let error = &response["error"];
                assert_eq!(error["data"]["outcome"], "unknown", "{key}: {response}");
                assert_eq!(error["data"]["reason"], "owner_lost", "{key}: {response}");
                // It may have been sent in the moment between the note and the signal.
                let since = call.sent - Duration::from_millis(200);
                let killed = kills.iter().find(|(at, address)| *address == call.owner && *at >= since);
                let (at, _) = killed.unwrap_or_else(|| panic!("{key}: nobody was killed: {call:?}"));
                times.push(call.at - *at);
            }
            End::NoId => no_id += 1,
            End::Refused(status) => panic!("{key} was refused with {status}: {call:?}"),
        }
    }
    let jobs = ledger(&file);
    let twice: Vec<_> = jobs.iter().filter(|(_, (begun, _))| *begun > 1).collect();
    assert!(twice.is_empty(), "run more than once: {twice:?}");
    let calls = ended.len();
    for (key, call) in &ended {
        if matches!(&call.end, End::Response(response) if response["result"].is_object()) {
            assert_eq!(jobs.get(key), Some(&(1, 1)), "{key} has a result");
        }
    }
    times.sort();
    let polls: usize = ended.iter().map(|(_, call)| call.polls).sum();
    let unanswered: usize = ended.iter().map(|(_, call)| call.unanswered).sum();
    eprintln!(
        "{calls} calls, {} kills: {results} results, {} errors, {no_id} broken before an id; {polls} polls, {unanswered} of \
         them unanswered",
        kills.len(),
        times.len()
    );
    if !times.is_empty() {
        let [middle, late, last] = [0.5, 0.99, 1.0].map(|share| percentile(&times, share));
        eprintln!("from a kill to the error: p50 {middle:?}, p99 {late:?}, at most {last:?}");
        assert!(last <= TOLD + ASKS, "too late: {last:?}");
    }
    assert!(kills.len() >= KILLS && results > calls / 4, "{} kills, {results} results", kills.len());
    // The sessions that a dead backend began live on.
    let session = fleet.backends[0].client().await;
    assert_eq!(session.call_for_text("echo", json!({ "text": "x" })).await, "x");
}
