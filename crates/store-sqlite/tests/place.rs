//! A file that is no longer at its path counts as a store that is away.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in tests, also outside of test functions")]

mod support {
    pub(crate) mod calls;
}

use bowline_store::{CreateError, ReadError, StreamLog as _, Unavailable};
use bowline_store_sqlite::{Options, SqliteStore};
use bowline_testkit::Dir;
use std::{fs, path::Path, time::Duration};
use support::calls::{ALL, append, call, id};

/// Writes until the store has noticed; what it says then. Looks are rare, so the first writes may still succeed.
async fn refused(store: &SqliteStore) -> String {
    for n in 100..200 {
        match store.create(call(n)).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(CreateError::Unavailable(Unavailable(why))) => return why,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it was never noticed")
}

fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[tokio::test]
async fn a_deleted_file_is_noticed_and_the_next_one_is_left_alone() {
    let dir = Dir::new();
    let path = dir.join("store");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.create(call(1)).await.unwrap();
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(beside(&path, end)).unwrap();
    }
    let why = refused(&store).await;
    assert!(why.contains("store was deleted or moved away while it was open"), "{why}");
    // Neither what was written nor what is there is told as if it were durable.
    assert!(matches!(store.read_after(id(1), 0, ALL).await, Err(ReadError::Unavailable(_))));

    // Another process begins anew. The first one closes the old file and takes nothing of the new one along.
    let next = SqliteStore::open(&path, Options::default()).unwrap();
    next.create(call(2)).await.unwrap();
    append(&next, 2, 1, 10).await.unwrap();
    assert!(refused(&store).await.contains("was replaced by another file"));
    drop(store);
    assert!(fs::metadata(beside(&path, "-wal")).unwrap().len() > 0);
    append(&next, 2, 2, 10).await.unwrap();
    drop(next);
    let next = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(next.read_after(id(2), 0, ALL).await.unwrap().tail, 2);
    assert!(matches!(next.read_after(id(1), 0, ALL).await, Err(ReadError::Gone)));
}

#[tokio::test]
async fn a_lost_log_is_noticed() {
    for end in ["-wal", "-shm"] {
        let dir = Dir::new();
        let path = dir.join("store");
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        fs::remove_file(beside(&path, end)).unwrap();
        let why = refused(&store).await;
        assert!(why.contains(&format!("store{end} was deleted")), "{why}");
    }
}

#[tokio::test]
async fn a_file_that_is_put_back_is_used_again() {
    let dir = Dir::new();
    let (path, elsewhere) = (dir.join("store"), dir.join("elsewhere"));
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.create(call(1)).await.unwrap();
    fs::rename(&path, &elsewhere).unwrap();
    refused(&store).await;
    fs::rename(&elsewhere, &path).unwrap();
    append(&store, 1, 1, 10).await.unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 1);
    drop(store);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 1);
}
