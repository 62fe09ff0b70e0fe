//! What is opened and what is not: a refused file is left byte for byte as it is.

#![allow(clippy::unwrap_used, reason = "in tests, also outside of test functions")]

mod support {
    pub(crate) mod calls;
    pub(crate) mod process;
    pub(crate) mod traffic;
}

use bowline_store::{BackendId, KeyStore as _, NewStream, StreamLog as _, TakeOver};
use bowline_store_sqlite::{OpenError, Options, SqliteStore};
use bowline_testkit::Dir;
use bytes::Bytes;
use rusqlite::Connection;
use std::{fs, path::Path, process::Command, time::Duration};
use support::{
    calls::{ALL, append, call, id},
    process::program,
};

/// Opens a file that must be refused, and makes sure that nothing of it changed.
fn refused(path: &Path) -> OpenError {
    let log = path.with_file_name(format!("{}-wal", path.file_name().unwrap().display()));
    let before = (fs::read(path).unwrap(), fs::read(&log).ok());
    let error = SqliteStore::open(path, Options::default()).expect_err("it is refused");
    assert!(fs::read(path).unwrap() == before.0, "the file was changed");
    if let Some(before) = before.1 {
        assert!(fs::read(&log).unwrap() == before, "its log was changed");
    }
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    error
}

async fn store_with_events(path: &Path) {
    let store = SqliteStore::open(path, Options::default()).unwrap();
    store.create(call(1)).await.unwrap();
    for offset in 1..=200 {
        append(&store, 1, offset, 2_000).await.unwrap();
    }
}

#[test]
fn files_of_other_programs_are_refused() {
    let dir = Dir::new();
    let text = dir.join("text");
    fs::write(&text, "a shopping list that is longer than the header of a database: ".repeat(40)).unwrap();
    assert!(matches!(refused(&text), OpenError::NotOurs { .. }));
    let short = dir.join("short");
    fs::write(&short, "x").unwrap();
    assert!(matches!(refused(&short), OpenError::NotOurs { .. }));
    // With a rollback journal and with a log, with an application id and without.
    for (name, setup) in [
        ("plain", "CREATE TABLE a (b)"),
        ("marked", "PRAGMA application_id = 7; CREATE TABLE a (b)"),
        ("versioned", "PRAGMA user_version = 1; CREATE TABLE a (b)"),
        ("logged", "PRAGMA journal_mode = WAL; CREATE TABLE a (b)"),
    ] {
        let path = dir.join(name);
        Connection::open(&path).unwrap().execute_batch(setup).unwrap();
        assert!(matches!(refused(&path), OpenError::NotOurs { .. }), "{name}");
    }
    assert!(matches!(SqliteStore::open(dir.path(), Options::default()), Err(OpenError::NotOurs { .. })));
    assert!(matches!(
        SqliteStore::open(&dir.join("no/such/folder"), Options::default()),
        Err(OpenError::Io { .. })
    ));
}

#[test]
fn a_foreign_log_is_not_copied_into_its_file() {
    let dir = Dir::new();
    let path = dir.join("theirs");
    let theirs = Connection::open(&path).unwrap();
    theirs.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE a (b); INSERT INTO a VALUES (1)").unwrap();
    // As after a crash: a copy of both, with nobody who has them open.
    let copy = dir.join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::copy(dir.join("theirs-wal"), dir.join("copy-wal")).unwrap();
    assert!(matches!(refused(&copy), OpenError::NotOurs { .. }));
}

#[tokio::test]
async fn a_newer_file_is_refused() {
    let dir = Dir::new();
    let path = dir.join("store");
    store_with_events(&path).await;
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    // Once while the version is in the log alone, and once when it is in the file.
    let copy = dir.join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::copy(dir.join("store-wal"), dir.join("copy-wal")).unwrap();
    assert!(matches!(refused(&copy), OpenError::Newer { found: 99, .. }));
    drop(newer);
    let error = refused(&path);
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[tokio::test]
async fn a_file_of_the_first_version_goes_on_with_what_it_has() {
    let dir = Dir::new();
    let path = dir.join("store");
    store_with_events(&path).await;
    let older = Connection::open(&path).unwrap();
    let first = "DROP TRIGGER reruns_sealed; DROP TRIGGER reruns_dropped; DROP TABLE reruns; DROP TABLE watch; \
                 ALTER TABLE streams DROP COLUMN incarnation; PRAGMA user_version = 1";
    older.execute_batch(first).unwrap();
    drop(older);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let by = |n| TakeOver { stream: id(n), epoch: 2, owner: BackendId(9), open_ttl: Duration::from_secs(60) };
    assert_eq!(store.take_over(by(1)).await, Ok(None), "nothing was kept to run it again by");
    let page = store.read_after(id(1), 0, ALL).await.unwrap();
    assert_eq!((page.tail, page.incarnation), (200, 0));
    let rerun = Bytes::from_static(b"request");
    store.create(NewStream { rerun: Some(rerun.clone()), ..call(2) }).await.unwrap();
    assert_eq!(store.take_over(by(2)).await.unwrap().unwrap().rerun, rerun);
}

#[tokio::test]
async fn damaged_files_are_refused() {
    let dir = Dir::new();
    let path = dir.join("store");
    store_with_events(&path).await;
    let whole = fs::read(&path).unwrap();
    // A page in the middle; everything after the first page; the end cut off; a table gone.
    let mut holed = whole.clone();
    let middle = (whole.len() / 8_192) * 4_096;
    holed[middle..middle + 4_096].fill(0xA5);
    let mut blank = whole.clone();
    blank[4_096..].fill(0);
    let mut schema = whole.clone();
    schema[100..4_096].fill(0xFF);
    for (name, content) in [("holed", &holed), ("blank", &blank), ("schema", &schema)] {
        let path = dir.join(name);
        fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(matches!(error, OpenError::Damaged { .. }), "{name}: {error}");
    }
    let cut = dir.join("cut");
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(refused(&cut), OpenError::Damaged { .. }));
    let bare = dir.join("bare");
    fs::write(&bare, &whole).unwrap();
    Connection::open(&bare)
        .unwrap()
        .execute_batch("PRAGMA journal_mode = DELETE; DROP TABLE letters")
        .unwrap();
    let error = refused(&bare);
    assert!(error.to_string().contains("letters"), "{error}");
}

#[tokio::test]
async fn an_empty_file_and_an_unfinished_one_become_stores() {
    let dir = Dir::new();
    let empty = dir.join("empty");
    fs::write(&empty, "").unwrap();
    let unfinished = dir.join("unfinished");
    Connection::open(&unfinished)
        .unwrap()
        .execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
        .unwrap();
    for path in [empty, unfinished] {
        store_with_events(&path).await;
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 200);
    }
}

/// Opening a file again and closing it takes no lock away from a store that this process has open.
#[tokio::test]
async fn a_store_that_is_open_keeps_its_locks() {
    let dir = Dir::new();
    let path = dir.join("st re %3f?#x");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.create(call(1)).await.unwrap();
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    // Whoever closes a file last removes its log. Another process must not take itself for the last one.
    let ended = Command::new(program()).arg("look").arg(&path).status();
    assert!(ended.unwrap().success());
    append(&store, 1, 1, 10).await.unwrap();
    let log = path.with_file_name("st re %3f?#x-wal");
    assert!(log.exists(), "the log of an open store was removed");
    drop(store);
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 1);
}

/// A process that is killed while it copies its log into the file leaves a file that makes sense only with its log.
#[tokio::test]
async fn a_file_that_was_half_copied_from_its_log_is_whole() {
    let dir = Dir::new();
    let path = dir.join("store");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.create(call(1)).await.unwrap();
    for offset in 1..=20 {
        append(&store, 1, offset, 2_000).await.unwrap();
    }
    // The log of a store that is open, and the file as it would be with the first page of it.
    let (half, log) = (dir.join("half"), dir.join("half-wal"));
    fs::copy(dir.join("store-wal"), &log).unwrap();
    let mut file = fs::read(&path).unwrap();
    drop(store);
    file[..4_096].copy_from_slice(&fs::read(&path).unwrap()[..4_096]);
    fs::write(&half, file).unwrap();
    let store = SqliteStore::open(&half, Options::default()).unwrap();
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().events.len(), 20);
}

#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Dir::new();
    let path = dir.join("store");
    let _store = SqliteStore::open(&path, Options::default()).unwrap();
    for name in ["store", "store-wal", "store-shm"] {
        let mode = fs::metadata(dir.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn many_who_make_the_same_file_agree() {
    let dir = Dir::new();
    let path = dir.join("store");
    let makers: Vec<_> = (0..6)
        .map(|_| {
            let path = path.clone();
            tokio::task::spawn_blocking(move || SqliteStore::open(&path, Options::default()))
        })
        .collect();
    let mut stores = Vec::new();
    for maker in makers {
        stores.push(maker.await.unwrap().unwrap());
    }
    let mut keys = Vec::new();
    for (n, store) in (0_u8..).zip(&stores) {
        keys.push(store.swap_keys(Vec::new(), vec![Bytes::from(vec![n; 32])]).await.unwrap());
    }
    keys.dedup();
    assert_eq!(keys.len(), 1, "they go on with one list");
}
