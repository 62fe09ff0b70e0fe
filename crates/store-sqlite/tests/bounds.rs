//! What the kit cannot know: bounds of the whole, sweeps, and that nothing is left behind.

mod support {
    pub(crate) mod calls;
}

#[path = "support/hands.rs"]
mod hands;

use bowline_proto::{jsonrpc::Raw, revision::Revision};
use bowline_store::{
    Appended, BackendId, BackendRegistry as _, CreateError, EventClass, FigureKind, Mailbox as _, NewStream,
    ReadError, SessionLookup, SessionRecord, SessionStore as _, StreamKind, StreamLog as _, WriteError,
};
use bowline_store_sqlite::{Durability, Limits, Options, SqliteStore};
use bowline_testkit::Dir;
use bytes::Bytes;
use hands::Hands;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use support::calls::{ALL, MINUTE, append, at, call, event, figure, id, seal};

const OVERHEAD: u64 = Limits::EVENT_OVERHEAD;

struct Bounded {
    store: SqliteStore,
    hands: Arc<Hands>,
    dir: Dir,
}

fn bounded(change: impl FnOnce(&mut Limits)) -> Bounded {
    let (dir, hands) = (Dir::new(), Arc::new(Hands::default()));
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.clock = hands.clone();
    options.hint_delay = Duration::from_millis(1);
    change(&mut options.limits);
    let store = SqliteStore::open(&dir.join("store"), options).expect("a new file");
    Bounded { store, hands, dir }
}

fn record() -> SessionRecord {
    SessionRecord {
        principal: None,
        revision: Revision::NEWEST_LEGACY,
        initialize: Raw::empty_object(),
        initialized: true,
        log_level: None,
        subscriptions: BTreeSet::new(),
        standalone: id(0),
        notes: std::collections::BTreeMap::from([("a".to_owned(), "b".to_owned())]).into(),
    }
}

/// Waits until a figure has a value: housekeeping is done by another thread.
async fn becomes(store: &SqliteStore, name: &str, value: u64) {
    for _ in 0..2_000 {
        if figure(store, name) == value {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{name} is {}, never {value}", figure(store, name));
}

#[tokio::test]
async fn sealed_streams_make_room_for_new_ones_and_open_ones_do_not() {
    let Bounded { store, .. } = bounded(|limits| limits.streams = 3);
    for n in 1..=3 {
        store.create(call(n)).await.unwrap();
    }
    let full = CreateError::Full { what: "streams", limit: 3 };
    assert_eq!(store.create(call(4)).await, Err(full));
    // The oldest seal goes first, not the oldest stream.
    seal(&store, 2, 1, 10).await.unwrap();
    seal(&store, 1, 1, 10).await.unwrap();
    store.create(call(4)).await.unwrap();
    assert_eq!(store.read_after(id(2), 0, ALL).await, Err(ReadError::Gone));
    assert!(store.read_after(id(1), 0, ALL).await.is_ok());
    assert_eq!((figure(&store, "store_streams_evicted"), figure(&store, "store_refused")), (1, 1));
    assert_eq!((figure(&store, "store_streams_open"), figure(&store, "store_streams_sealed")), (2, 1));
}

#[tokio::test]
async fn at_the_bound_of_bytes_sealed_streams_go_then_what_may_be_dropped_then_the_rest() {
    let Bounded { store, .. } = bounded(|limits| limits.bytes = 4 * (1_000 + OVERHEAD));
    for n in 1..=3 {
        store.create(call(n)).await.unwrap();
        append(&store, n, 1, 1_000).await.unwrap();
    }
    seal(&store, 1, 2, 1_000).await.unwrap();
    // Full. The sealed stream makes room for two.
    append(&store, 2, 2, 1_000).await.unwrap();
    append(&store, 2, 3, 1_000).await.unwrap();
    assert_eq!(figure(&store, "store_streams_evicted"), 1);
    let answer = store.append(at(3, 2), event(1_000, EventClass::Droppable)).await;
    assert_eq!(answer, Err(WriteError::Full { what: "bytes of all streams", limit: 4 * (1_000 + OVERHEAD) }));
    for offset in 2..=5 {
        append(&store, 3, offset, 1_000).await.unwrap();
    }
    let limit = 8 * (1_000 + OVERHEAD);
    assert_eq!(
        append(&store, 3, 6, 1_000).await,
        Err(WriteError::Full { what: "bytes of all streams", limit })
    );
    assert_eq!(figure(&store, "store_bytes"), limit);
    assert_eq!((figure(&store, "store_events_dropped"), figure(&store, "store_refused")), (1, 1));
    // What expires makes room as well, before anybody sweeps.
    assert_eq!(store.append(at(3, 6), event(0, EventClass::Droppable)).await.ok(), None);
}

#[tokio::test]
async fn what_expired_makes_room_before_it_is_swept() {
    let Bounded { store, hands, .. } = bounded(|limits| (limits.events, limits.sessions) = (2, 1));
    store.create(call(1)).await.unwrap();
    for offset in 1..=2 {
        append(&store, 1, offset, 10).await.unwrap();
    }
    store.create_session("a", record(), MINUTE).await.unwrap();
    let full = CreateError::Full { what: "sessions", limit: 1 };
    assert_eq!(store.create_session("b", record(), MINUTE).await, Err(full));
    hands.pass(MINUTE * 2);
    store.create(call(2)).await.unwrap();
    assert_eq!(store.append(at(2, 1), event(10, EventClass::Droppable)).await, Ok(Appended::New));
    store.create_session("b", record(), MINUTE).await.unwrap();
    assert_eq!((figure(&store, "store_events"), figure(&store, "store_sessions")), (1, 1));
}

#[tokio::test]
async fn one_event_has_a_bound() {
    let Bounded { store, .. } = bounded(|limits| limits.event_bytes = 100);
    store.create(call(1)).await.unwrap();
    append(&store, 1, 1, 100).await.unwrap();
    let full = WriteError::Full { what: "bytes of one event", limit: 100 };
    assert_eq!(append(&store, 1, 2, 101).await, Err(full.clone()));
    assert_eq!(seal(&store, 1, 2, 101).await, Err(full));
    seal(&store, 1, 2, 100).await.unwrap();
}

#[tokio::test]
async fn the_oldest_tombstone_makes_room() {
    let Bounded { store, .. } = bounded(|limits| limits.tombstones = 2);
    for session in ["a", "b", "c"] {
        store.create_session(session, record(), MINUTE).await.unwrap();
        assert_eq!(store.delete_session(session, MINUTE).await, Ok(true));
    }
    assert_eq!(store.load_session("a").await, Ok(SessionLookup::Unknown));
    assert_eq!(store.load_session("b").await, Ok(SessionLookup::Ended));
    assert_eq!((figure(&store, "store_tombstones"), figure(&store, "store_tombstones_evicted")), (2, 1));
}

#[tokio::test]
async fn mailboxes_have_bounds() {
    let Bounded { store, .. } = bounded(|limits| {
        (limits.mailboxes, limits.letters) = (2, 2);
        (limits.letter_bytes, limits.all_letter_bytes) = (2 * (OVERHEAD + 11), 3 * (OVERHEAD + 11));
    });
    let letter = async |n: u64, key: &str, size: usize| {
        store.put_letter(id(n), key, Bytes::from(vec![b'x'; size]), MINUTE).await
    };
    let refused = |answer: Result<bool, bowline_store::Unavailable>, what: &str| {
        let why = answer.expect_err("it is refused").to_string();
        assert!(why.contains(what), "{why}");
    };
    assert_eq!(letter(1, "a", 10).await, Ok(true));
    refused(letter(1, "b", 11).await, "bytes of one mailbox");
    assert_eq!(letter(1, "b", 10).await, Ok(true));
    refused(letter(1, "c", 0).await, "letters of one mailbox");
    assert_eq!(letter(1, "a", 10).await, Ok(false), "a key that is there needs no room");
    assert_eq!(letter(2, "a", 10).await, Ok(true));
    refused(letter(2, "b", 1).await, "bytes of all mailboxes");
    refused(letter(3, "a", 1).await, "mailboxes");
    store.drop_mailbox(id(1)).await.unwrap();
    assert_eq!(letter(3, "a", 1).await, Ok(true));
    assert_eq!(figure(&store, "store_mailboxes"), 2);
}

#[tokio::test]
async fn a_standalone_stream_takes_no_more_room_than_its_own() {
    let Bounded { store, .. } = bounded(|limits| limits.bytes = 3 * (100 + OVERHEAD));
    store.create(NewStream { kind: StreamKind::Standalone, max_events: 3, ..call(1) }).await.unwrap();
    for offset in 1..=50 {
        store.append(at(1, offset), event(100, EventClass::Droppable)).await.unwrap();
    }
    assert_eq!((figure(&store, "store_events"), figure(&store, "store_events_evicted")), (3, 47));
    assert_eq!(figure(&store, "store_bytes"), 3 * (100 + OVERHEAD));
}

/// Everything that expires goes, in steps, and the accounts are even; then the file becomes small again.
#[tokio::test]
async fn housekeeping_leaves_nothing_behind() {
    let Bounded { store, hands, dir } = bounded(|_| {});
    for n in 1..=300 {
        store.create(call(n)).await.unwrap();
        store.append(at(n, 1), event(30_000, EventClass::Droppable)).await.unwrap();
        if n % 2 == 0 {
            seal(&store, n, 2, 1_000).await.unwrap();
        }
        if n % 3 == 0 {
            store.put_letter(id(n), "key", Bytes::from_static(b"letter"), MINUTE).await.unwrap();
            store.create_session(&n.to_string(), record(), MINUTE).await.unwrap();
        }
        if n % 6 == 0 {
            store.delete_session(&n.to_string(), MINUTE).await.unwrap();
        }
    }
    store.renew(BackendId(1), false, MINUTE).await.unwrap();
    store.trim(id(1), 1);
    becomes(&store, "store_events", 449).await;
    hands.pass(MINUTE * 2);
    // A budget is kept to.
    store.housekeep(100);
    becomes(&store, "store_streams_open", 100).await;
    assert_eq!(figure(&store, "store_streams_sealed"), 100);
    assert_eq!(figure(&store, "store_sessions"), 50);
    store.housekeep(100_000);
    for name in [
        "store_streams_open",
        "store_streams_sealed",
        "store_events",
        "store_bytes",
        "store_sessions",
        "store_tombstones",
        "store_mailboxes",
        "store_letter_bytes",
    ] {
        becomes(&store, name, 0).await;
    }
    // Free pages are given back in steps as well.
    let conn = rusqlite::Connection::open(dir.join("store")).unwrap();
    let pages = || conn.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0)).unwrap();
    for _ in 0..2_000 {
        if pages() < (6 << 20) / 4_096 {
            break;
        }
        store.housekeep(100_000);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(conn);
    // Closing copies the log into the file.
    drop(store);
    let size = std::fs::metadata(dir.join("store")).unwrap().len();
    assert!(size < 6 << 20, "nine megabytes came and went, and the file has {size} bytes");
    let conn = rusqlite::Connection::open(dir.join("store")).unwrap();
    for table in ["streams", "events", "sessions", "mailboxes", "letters", "leases"] {
        let rows: i64 =
            conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

/// The totals are kept by hand: they have to be what a count comes to.
#[tokio::test]
async fn totals_are_what_a_count_comes_to() {
    let Bounded { store, hands, dir } = bounded(|limits| (limits.streams, limits.tombstones) = (40, 5));
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..1_500 {
        let n = next(60);
        let session = next(20).to_string();
        // Many of these are refused, which is part of it.
        match next(12) {
            0 | 1 => {
                let kind = if n % 2 == 0 { StreamKind::Call } else { StreamKind::Standalone };
                let ttl = Duration::from_secs(30 + next(60));
                drop(store.create(NewStream { kind, max_events: 4, open_ttl: ttl, ..call(n) }).await);
            }
            2..=5 => drop(append(&store, n, 1 + next(5), 50).await),
            6 => drop(seal(&store, n, 1 + next(5), 50).await),
            7 => drop(store.remove(id(n)).await),
            8 => drop(store.create_session(&session, record(), Duration::from_secs(next(60))).await),
            9 => drop(store.delete_session(&session, Duration::from_secs(next(60))).await),
            10 => drop(store.put_letter(id(n), &session, Bytes::from_static(b"letter"), MINUTE).await),
            _ => {
                hands.pass(Duration::from_secs(next(4)));
                store.housekeep(5);
                store.trim(id(n), 1 + next(4));
            }
        }
    }
    drop(store);
    let conn = rusqlite::Connection::open(dir.join("store")).unwrap();
    let counted = "SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM streams WHERE sealed > 0),
        (SELECT count(*) FROM events), (SELECT coalesce(sum(length(payload) + 56), 0) FROM events),
        (SELECT count(*) FROM sessions WHERE record IS NOT NULL), (SELECT count(*) FROM sessions WHERE record IS NULL),
        (SELECT count(*) FROM mailboxes), (SELECT coalesce(sum(length(payload) + length(name) + 56), 0) FROM letters)";
    let kept =
        "SELECT streams, sealed, events, bytes, sessions, tombstones, mailboxes, letter_bytes FROM state";
    let row = |sql: &str| -> Vec<i64> {
        conn.query_row(sql, [], |row| (0..8).map(|index| row.get(index)).collect()).unwrap()
    };
    let kept = row(kept);
    assert_eq!(row(counted), kept);
    assert!(kept.iter().all(|total| *total > 0), "something of everything: {kept:?}");
    let lost: i64 = conn
        .query_row("SELECT count(*) FROM events WHERE stream NOT IN (SELECT n FROM streams)", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(lost, 0);
}

#[tokio::test]
async fn figures_have_names_and_explanations() {
    let Bounded { store, .. } = bounded(|_| {});
    store.create(call(1)).await.unwrap();
    let figures = store.figures();
    let names: BTreeSet<_> = figures.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), figures.len());
    for figure in &figures {
        assert!(figure.name.starts_with("store_") && figure.help.ends_with('.'), "{figure:?}");
    }
    assert_eq!(figure(&store, "store_commits"), 1);
    assert!(figures.iter().any(|figure| figure.kind == FigureKind::Counter));
}
