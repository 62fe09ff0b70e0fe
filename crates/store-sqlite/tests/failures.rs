//! When a write fails, nothing of it is there: not for those who read, not for those who wait, not after a restart.

#![allow(clippy::unwrap_used, reason = "in tests, also outside of test functions")]

mod support {
    pub(crate) mod calls;
}

use bowline_store::{StreamLog as _, WakeBus as _, WriteError};
use bowline_store_sqlite::{Options, SqliteStore};
use bowline_testkit::Dir;
use bytes::Bytes;
use rusqlite::Connection;
use std::time::Duration;
use support::calls::{ALL, MINUTE, append, at, call, event, figure, id};
use tokio::time::timeout;

async fn is_woken(wakeups: &mut bowline_store::Wakeups) -> bool {
    timeout(Duration::from_millis(100), wakeups.changed()).await.is_ok()
}

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let dir = Dir::new();
    let path = dir.join("store");
    let mut options = Options::default();
    options.file_bytes = 1 << 20;
    let store = SqliteStore::open(&path, options.clone()).unwrap();
    store.create(call(1)).await.unwrap();
    let mut appended = 0;
    let refused = loop {
        match append(&store, 1, appended + 1, 10_000).await {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 200, "a file of 1 MiB is full before");
    };
    let WriteError::Unavailable(why) = refused else { panic!("{refused}") };
    assert!(why.to_string().contains("full"), "{why}");
    assert!(appended > 50, "only {appended} events found room");
    // Nobody is woken by what failed, and nobody reads it.
    let mut wakeups = store.subscribe(id(1));
    assert!(matches!(append(&store, 1, appended + 1, 10_000).await, Err(WriteError::Unavailable(_))));
    assert!(!is_woken(&mut wakeups).await);
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, appended);
    // Neither after a restart.
    drop((store, wakeups));
    let store = SqliteStore::open(&path, options).unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().events.len() as u64, appended);
    // What is freed can be used again.
    store.remove(id(1)).await.unwrap();
    store.create(call(2)).await.unwrap();
    for offset in 1..=appended / 2 {
        append(&store, 2, offset, 10_000).await.unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
}

/// Has SQLite refuse some payloads: `bad` as it is inserted, `worse` at the commit (a foreign key that is checked then).
fn sabotage(path: &std::path::Path) {
    Connection::open(path)
        .unwrap()
        .execute_batch(
            "CREATE TABLE parent (n INTEGER PRIMARY KEY);
             CREATE TABLE child (n INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER bad AFTER INSERT ON events WHEN new.payload = CAST('bad' AS BLOB)
               BEGIN SELECT RAISE(ABORT, 'sabotage'); END;
             CREATE TRIGGER worse AFTER INSERT ON events WHEN new.payload = CAST('worse' AS BLOB)
               BEGIN INSERT INTO child VALUES (7); END;",
        )
        .unwrap();
}

fn said(text: &'static str) -> bowline_store::Event {
    bowline_store::Event {
        payload: Bytes::from_static(text.as_bytes()),
        ..event(0, bowline_store::EventClass::Kept)
    }
}

#[tokio::test]
async fn a_failed_commit_leaves_nothing_of_its_batch() {
    let dir = Dir::new();
    let path = dir.join("store");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    sabotage(&path);
    for n in 1..=3 {
        store.create(call(n)).await.unwrap();
        append(&store, n, 1, 10).await.unwrap();
    }
    let mut wakeups = [store.subscribe(id(1)), store.subscribe(id(2)), store.subscribe(id(3))];
    // Polled in one go, so that they are in one batch: the queue is empty and the committer idle when the first comes, so
    // the others may also come a batch later.
    let (one, two, three) = tokio::join!(
        store.append(at(1, 2), said("worse")),
        store.append(at(2, 2), said("good")),
        store.append(at(3, 2), said("good")),
    );
    assert!(matches!(one, Err(WriteError::Unavailable(_))), "{one:?}");
    for (n, answer) in [(1, one), (2, two), (3, three)] {
        let tail = store.read_after(id(n), 0, ALL).await.unwrap().tail;
        let index = usize::try_from(n - 1).unwrap();
        match answer {
            Ok(_) => assert_eq!((tail, is_woken(&mut wakeups[index]).await), (2, true), "stream {n}"),
            Err(_) => assert_eq!((tail, is_woken(&mut wakeups[index]).await), (1, false), "stream {n}"),
        }
    }
    assert_eq!(figure(&store, "store_commits_failed"), 1);
    // The offset is free.
    store.append(at(1, 2), said("good")).await.unwrap();
}

#[tokio::test]
async fn a_change_that_is_refused_takes_no_other_with_it() {
    let dir = Dir::new();
    let path = dir.join("store");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    sabotage(&path);
    for n in 1..=9 {
        store.create(call(n)).await.unwrap();
    }
    for offset in 1..=20 {
        let tasks: Vec<_> = (1..=9)
            .map(|n| {
                let store = store.clone();
                let event = if n == 5 { said("bad") } else { said("good") };
                let offset = if n == 5 { 1 } else { offset };
                tokio::spawn(async move { (n, store.append(at(n, offset), event).await) })
            })
            .collect();
        for task in tasks {
            let (n, answer) = task.await.unwrap();
            assert_eq!(answer.is_ok(), n != 5, "stream {n}: {answer:?}");
        }
    }
    assert_eq!(store.read_after(id(5), 0, ALL).await.unwrap().tail, 0);
    assert_eq!(store.read_after(id(9), 0, ALL).await.unwrap().tail, 20);
}

#[tokio::test]
async fn a_lock_that_is_held_for_too_long_makes_the_store_unavailable() {
    let dir = Dir::new();
    let path = dir.join("store");
    let mut options = Options::default();
    options.patience = Duration::from_millis(300);
    let store = SqliteStore::open(&path, options).unwrap();
    store.create(call(1)).await.unwrap();
    append(&store, 1, 1, 10).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(append(&store, 1, 2, 10).await, Err(WriteError::Unavailable(_))));
    // Readers do not care.
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 1);
    other.execute_batch("ROLLBACK").unwrap();
    append(&store, 1, 2, 10).await.unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 2);
}

#[tokio::test]
async fn a_full_queue_makes_the_store_unavailable_and_what_was_given_up_is_not_done() {
    let dir = Dir::new();
    let path = dir.join("store");
    let mut options = Options::default();
    options.patience = Duration::from_millis(400);
    options.queue = 4;
    options.batch = 1;
    let store = SqliteStore::open(&path, options).unwrap();
    for n in 1..=20 {
        store.create(call(n)).await.unwrap();
    }
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let tasks: Vec<_> = (1..=20)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { append(&store, n, 1, 10).await })
        })
        .collect();
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(WriteError::Unavailable(_))));
    }
    other.execute_batch("ROLLBACK").unwrap();
    store.create(call(21)).await.unwrap();
    for n in 1..=20 {
        assert_eq!(store.read_after(id(n), 0, ALL).await.unwrap().tail, 0, "stream {n}");
    }
    assert!(figure(&store, "store_timeouts") > 0);
}

#[tokio::test]
async fn nothing_is_begun_before_it_is_awaited() {
    let dir = Dir::new();
    let store = SqliteStore::open(&dir.join("store"), Options::default()).unwrap();
    assert!(store.create(call(1)).now().is_none());
    store.create(call(2)).await.unwrap();
    assert!(store.read_after(id(1), 0, ALL).await.is_err());
    assert!(store.seal(at(2, 1), None, MINUTE).now().is_none());
    assert!(!store.read_after(id(2), 0, ALL).await.unwrap().sealed);
}
