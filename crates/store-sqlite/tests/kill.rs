//! A process that writes is killed with SIGKILL, again and again; all that it was told is there.
//!
//! 25 kills; `BOWLINE_KILLS=500` makes it more.

mod support {
    pub(crate) mod payload;
    pub(crate) mod process;
    pub(crate) mod traffic;
}

use bowline_store::{Mailbox as _, ReadLimit, SessionLookup, SessionStore as _, StreamLog as _};
use bowline_store_sqlite::{Options, SqliteStore};
use bowline_testkit::Dir;
use std::{
    collections::BTreeMap,
    path::Path,
    thread,
    time::{Duration, Instant},
};
use support::{payload::payload, process::Writer, traffic::Ack};

const ALL: ReadLimit = ReadLimit { events: 10_000, bytes: 1 << 30 };

fn kills() -> u64 {
    std::env::var("BOWLINE_KILLS").ok().map_or(25, |count| count.parse().expect("a number of kills"))
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn now() -> Instant {
    Instant::now()
}

fn open(path: &Path) -> (SqliteStore, Duration) {
    let start = now();
    let store = SqliteStore::open(path, Options::default()).expect("a file that a killed process left");
    (store, now() - start)
}

/// Checks that everything is there that was acknowledged, and at most one thing more for each writer.
async fn check(store: &SqliteStore, acks: &[Ack]) {
    let mut tails = BTreeMap::new();
    for ack in acks {
        match ack {
            Ack::Created(id) => assert_eq!(tails.insert(*id, (0, false)), None),
            Ack::Appended(id, offset) => *tails.get_mut(id).expect("it was created") = (*offset, false),
            Ack::Sealed(id, offset) => *tails.get_mut(id).expect("it was created") = (*offset, true),
            Ack::Letter(id) => {
                let letters = store.letters_after(*id, 0).await.expect("a mailbox");
                assert_eq!(letters.first().map(|letter| &letter.payload), Some(&payload(*id, 0)));
            }
            Ack::Session(id, version) => match store.load_session(id).await.expect("a session") {
                SessionLookup::Live(there, _) => {
                    assert!((*version..=2).contains(&there.0), "{id} is at {there:?}");
                }
                other => panic!("session {id} was acknowledged, and is {other:?}"),
            },
        }
    }
    for (id, (tail, sealed)) in tails {
        let page = store.read_after(id, 0, ALL).await.unwrap_or_else(|error| panic!("{id:?}: {error}"));
        assert_eq!(page.events.len() as u64, page.tail);
        assert!(
            (tail..=tail + 1).contains(&page.tail),
            "{id:?}: {tail} were acknowledged, the tail is {}",
            page.tail
        );
        assert!(page.sealed || !sealed, "{id:?}: its seal was acknowledged");
        for (offset, event) in (1..).zip(&page.events) {
            assert_eq!(*event, payload(id, offset), "{id:?} at {offset}");
        }
    }
}

#[tokio::test]
async fn all_that_was_acknowledged_is_there_after_a_kill() {
    let dir = Dir::new();
    let (mut acknowledged, mut opens, mut log) = (0, Vec::new(), 0);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut path = dir.join("store");
    for round in 0..kills() {
        if round % 10 == 0 {
            // Now and then a new file, so that making it is interrupted too.
            path = dir.join(&format!("store-{round}"));
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let writer = Writer::start(&["acks", &format!("round-{round}"), "8"], &path);
        thread::sleep(Duration::from_micros((seed >> 33) % 120_000));
        let acks = writer.kill();
        log = log.max(
            std::fs::metadata(dir.join(&format!("{}-wal", path.file_name().unwrap().display())))
                .map_or(0, |log| log.len()),
        );
        let (store, took) = open(&path);
        opens.push(took);
        acknowledged += acks.len();
        check(&store, &acks).await;
    }
    opens.sort_unstable();
    println!(
        "{} kills, {acknowledged} answers checked, largest log {log} bytes; half of the opens took {:?}, the slowest {:?}",
        opens.len(),
        opens[opens.len() / 2],
        opens[opens.len() - 1],
    );
    assert!(acknowledged as u64 > kills() * 20, "only {acknowledged} answers: nothing was interrupted");
}

#[tokio::test]
async fn a_large_log_is_opened_quickly() {
    let dir = Dir::new();
    let path = dir.join("store");
    let writer = Writer::start(&["log", &(48_u64 << 20).to_string()], &path);
    let Ack::Appended(id, offset) = writer.next() else { panic!("it appends") };
    writer.kill();
    let (store, took) = open(&path);
    println!("a log of 48 MiB was opened in {took:?}");
    // Fifty times what it takes alone on the machine: other tests run beside.
    assert!(took < Duration::from_secs(5), "{took:?}");
    let page = store.read_after(id, offset - 1, ALL).await.expect("the last event");
    assert_eq!((page.tail, page.events.len()), (offset, 1));
}

#[tokio::test]
async fn two_processes_write_and_one_is_killed() {
    let dir = Dir::new();
    let path = dir.join("store");
    let (store, _) = open(&path);
    let mut first = Writer::start(&["acks", "first", "4"], &path);
    let mut second = Writer::start(&["acks", "second", "4"], &path);
    let mut acks = [Vec::new(), Vec::new()];
    for _ in 0..200 {
        acks[0].push(first.next());
        acks[1].push(second.next());
    }
    assert!(!first.has_ended() && !second.has_ended());
    acks[0].extend(first.kill());
    // The other one goes on, and so does this process.
    for _ in 0..200 {
        acks[1].push(second.next());
    }
    let [first, _] = &acks;
    check(&store, first).await;
    acks[1].extend(second.kill());
    check(&store, &acks[1]).await;
    drop(store);
    let (store, _) = open(&path);
    for acks in &acks {
        check(&store, acks).await;
    }
}
