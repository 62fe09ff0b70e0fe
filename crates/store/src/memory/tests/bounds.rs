use super::*;
use crate::{Mailbox, SessionLookup, SessionStore, Unavailable};
use EventClass::{Droppable, Kept};

#[test]
fn sealed_streams_make_room_for_new_ones_oldest_seal_first() {
    let store = MemoryStore::new(MemoryLimits { streams: 3, ..MemoryLimits::default() });
    for n in 1..=3 {
        create(&store, n).unwrap();
    }
    // Sealed in another order than made.
    seal(&store, 3, 1, 10).unwrap();
    seal(&store, 1, 1, 10).unwrap();
    create(&store, 4).unwrap();
    assert_eq!(read(&store, 3, 0), Err(ReadError::Gone));
    assert!(read(&store, 1, 0).is_ok());
    create(&store, 5).unwrap();
    assert_eq!(read(&store, 1, 0), Err(ReadError::Gone));
    let full = CreateError::Full { what: "streams", limit: 3 };
    assert_eq!(create(&store, 6), Err(full), "open streams are never evicted");
    for n in [2, 4, 5] {
        assert!(read(&store, n, 0).is_ok());
    }
    let stats = store.stats();
    assert_eq!(
        (stats.streams_open, stats.streams_sealed, stats.streams_evicted, stats.refused),
        (3, 0, 2, 1)
    );
}

#[test]
fn bytes_are_freed_by_eviction_then_refused_by_class() {
    let event = 100 + OVERHEAD;
    let store = MemoryStore::new(MemoryLimits { bytes: 4 * event, ..MemoryLimits::default() });
    for n in 1..=3 {
        create(&store, n).unwrap();
    }
    seal(&store, 1, 1, 100).unwrap();
    for offset in 1..=3 {
        append(&store, 2, offset, 100, Droppable).unwrap();
    }
    assert_eq!(store.stats().bytes, 4 * event);
    // The sealed one goes.
    append(&store, 2, 4, 100, Droppable).unwrap();
    assert_eq!(read(&store, 1, 0), Err(ReadError::Gone));
    // Nothing sealed is left: what may be dropped is.
    let full = |limit| Err(WriteError::Full { what: "bytes of all streams", limit });
    assert_eq!(append(&store, 2, 5, 100, Droppable), full(4 * event));
    assert_eq!(append(&store, 2, 4, 100, Droppable), Ok(Appended::Again), "a retry needs no room");
    // What must be kept has as much room again, and no more.
    for offset in 5..=8 {
        append(&store, 2, offset, 100, Kept).unwrap();
    }
    assert_eq!(append(&store, 2, 9, 100, Kept), full(8 * event));
    assert_eq!(seal(&store, 3, 1, 100), full(8 * event));
    assert!(!read(&store, 3, 0).unwrap().sealed, "a seal that was refused closes nothing");
    // A seal without a message needs no room, and then its stream can make some.
    assert_eq!(ready(store.seal(at(2, 9), None, MINUTE)), Ok(Appended::New));
    assert_eq!(seal(&store, 3, 1, 100), Ok(Appended::New));
    assert_eq!(read(&store, 2, 0), Err(ReadError::Gone));
    let stats = store.stats();
    assert_eq!((stats.bytes, stats.events), (event, 1));
    assert_eq!((stats.streams_evicted, stats.events_dropped, stats.refused), (2, 1, 2));
}

#[test]
fn what_is_sealed_as_it_is_made_has_the_same_bounds_and_accounts() {
    let event = 100 + OVERHEAD;
    let limits = MemoryLimits { streams: 4, bytes: 2 * event, event_bytes: 1_000, ..MemoryLimits::default() };
    let store = MemoryStore::new(limits);
    let counts = || {
        let stats = store.stats();
        (stats.streams_open, stats.streams_sealed, stats.events, stats.bytes)
    };
    for n in 1..=2 {
        create_sealed(&store, n, 100).unwrap();
    }
    assert_eq!(counts(), (0, 2, 2, 2 * event));
    assert_eq!(create_sealed(&store, 2, 1), Err(CreateError::Exists));
    assert_eq!(counts().1, 1, "room was made before that was seen");
    create_sealed(&store, 3, 100).unwrap();
    assert_eq!(read(&store, 1, 0), Err(ReadError::Gone), "the oldest seal went");
    assert_eq!(counts(), (0, 2, 2, 2 * event));
    // Nothing sealed is left to go: there is as much room again, and no more.
    for n in 4..=5 {
        create(&store, n).unwrap();
        append(&store, n, 1, 100, Droppable).unwrap();
    }
    assert_eq!(counts(), (2, 0, 2, 2 * event));
    append(&store, 4, 2, 100, Kept).unwrap();
    let full = |what, limit| Err(CreateError::Full { what, limit });
    assert_eq!(create_sealed(&store, 6, 101), full("bytes of all streams", 4 * event));
    assert_eq!(create_sealed(&store, 6, 1_001), full("bytes of one event", 1_000));
    create_sealed(&store, 6, 100).unwrap();
    assert_eq!(counts(), (2, 1, 4, 4 * event));
    // Of streams there is no more room than that.
    for n in 7..=8 {
        create(&store, n).unwrap();
    }
    assert_eq!(create_sealed(&store, 9, 1), full("streams", 4));
    assert_eq!(counts(), (4, 0, 3, 3 * event));
    for n in [4, 5, 7, 8] {
        ready(store.remove(id(n))).unwrap();
    }
    assert_eq!(counts(), (0, 0, 0, 0));
    assert_eq!(store.stats().refused, 3);
}

#[test]
fn an_event_larger_than_the_bound_is_refused_whatever_it_is() {
    let store = MemoryStore::new(MemoryLimits { event_bytes: 10, ..MemoryLimits::default() });
    create(&store, 1).unwrap();
    let full = Err(WriteError::Full { what: "bytes of one event", limit: 10 });
    assert_eq!(append(&store, 1, 1, 11, Droppable), full);
    assert_eq!(append(&store, 1, 1, 11, Kept), full);
    assert_eq!(seal(&store, 1, 1, 11), full);
    assert_eq!(append(&store, 1, 1, 10, Droppable), Ok(Appended::New));
}

#[test]
fn a_standalone_stream_at_its_bound_needs_no_room_elsewhere() {
    let event = 100 + OVERHEAD;
    let store = MemoryStore::new(MemoryLimits { bytes: 3 * event, ..MemoryLimits::default() });
    let stream = NewStream { kind: StreamKind::Standalone, max_events: 3, ..call(1) };
    ready(store.create(stream)).unwrap();
    for offset in 1..=10 {
        assert_eq!(append(&store, 1, offset, 100, Droppable), Ok(Appended::New));
    }
    assert_eq!(read(&store, 1, 0), Err(ReadError::Evicted { oldest: 8 }));
    assert_eq!(read(&store, 1, 7).unwrap().events.len(), 3);
    let stats = store.stats();
    assert_eq!((stats.events, stats.bytes, stats.events_evicted), (3, 3 * event, 7));
}

#[test]
fn an_event_that_no_eviction_makes_room_for_is_refused_or_kept_alone() {
    let store = MemoryStore::default();
    let stream = NewStream { kind: StreamKind::Standalone, max_bytes: 50, ..call(1) };
    ready(store.create(stream)).unwrap();
    append(&store, 1, 1, 40, Droppable).unwrap();
    let full = Err(WriteError::Full { what: "bytes of one stream", limit: 50 });
    assert_eq!(append(&store, 1, 2, 60, Droppable), full);
    assert_eq!(read(&store, 1, 0).unwrap().events.len(), 1, "nothing was dropped for it");
    append(&store, 1, 2, 60, Kept).unwrap();
    assert_eq!(read(&store, 1, 0), Err(ReadError::Evicted { oldest: 2 }));
}

#[tokio::test(start_paused = true)]
async fn what_expired_makes_room_without_a_sweep() {
    let limits = MemoryLimits { streams: 1, sessions: 1, mailboxes: 1, ..MemoryLimits::default() };
    let store = MemoryStore::new(limits);
    create(&store, 1).unwrap();
    ready(store.create_session("a", record(), MINUTE)).unwrap();
    assert!(create(&store, 2).is_err());
    assert!(ready(store.create_session("b", record(), MINUTE)).is_err());
    tokio::time::advance(MINUTE).await;
    create(&store, 2).unwrap();
    ready(store.create_session("b", record(), MINUTE)).unwrap();
    assert_eq!((store.stats().streams_open, store.stats().sessions), (1, 1));
}

#[test]
fn the_oldest_tombstone_makes_room() {
    let store = MemoryStore::new(MemoryLimits { tombstones: 2, ..MemoryLimits::default() });
    for session in ["a", "b", "c"] {
        ready(store.create_session(session, record(), MINUTE)).unwrap();
        assert_eq!(ready(store.delete_session(session, MINUTE)), Ok(true));
    }
    assert_eq!(ready(store.load_session("a")), Ok(SessionLookup::Unknown));
    assert_eq!(ready(store.load_session("b")), Ok(SessionLookup::Ended));
    assert_eq!(ready(store.load_session("c")), Ok(SessionLookup::Ended));
    let stats = store.stats();
    assert_eq!((stats.sessions, stats.tombstones, stats.tombstones_evicted), (0, 2, 1));
}

#[test]
fn a_full_mailbox_says_which_bound_was_met() {
    let put = |store: &MemoryStore, n, key: &str, size| {
        ready(store.put_letter(id(n), key, Bytes::from(vec![b'x'; size]), MINUTE))
    };
    let full = |text: &str| Err(Unavailable(format!("no room for a message to a running call: {text}")));
    let store = MemoryStore::new(MemoryLimits {
        mailboxes: 2,
        letters: 2,
        letter_bytes: 300,
        all_letter_bytes: 350,
        ..MemoryLimits::default()
    });
    assert_eq!(put(&store, 1, "k", 301 - 56), full("bytes of one mailbox is limited to 300"));
    assert_eq!(store.stats().mailboxes, 0, "no empty box is left");
    assert_eq!(put(&store, 1, "k", 10), Ok(true));
    assert_eq!(put(&store, 1, "l", 10), Ok(true));
    assert_eq!(put(&store, 1, "m", 10), full("letters of one mailbox is limited to 2"));
    assert_eq!(put(&store, 1, "k", 10), Ok(false), "what is there needs no room");
    assert_eq!(put(&store, 2, "k", 200), full("bytes of all mailboxes is limited to 350"));
    assert_eq!(put(&store, 2, "k", 10), Ok(true));
    assert_eq!(put(&store, 3, "k", 10), full("mailboxes is limited to 2"));
    assert_eq!((store.stats().mailboxes, store.stats().letter_bytes), (2, 3 * 67));
    for n in 1..=3 {
        ready(store.drop_mailbox(id(n))).unwrap();
    }
    assert_eq!((store.stats().mailboxes, store.stats().letter_bytes), (0, 0));
}
