//! What a restart keeps, and what time does meanwhile.

mod support {
    pub(crate) mod calls;
}

#[path = "support/hands.rs"]
mod hands;

use bowline_proto::{jsonrpc::Raw, revision::Revision};
use bowline_store::{
    BackendId, BackendRegistry as _, BackendState, KeyStore as _, Mailbox as _, NewStream, OpenStream,
    SessionLookup, SessionRecord, SessionStore as _, StreamKind, StreamLog as _,
};
use bowline_store_sqlite::{Clock, Options, SqliteStore};
use bowline_testkit::Dir;
use bytes::Bytes;
use hands::Hands;
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Wake, Waker},
    time::Duration,
};
use support::calls::{ALL, MINUTE, append, call, id, seal};

fn open(path: &Path, clock: &Arc<impl Clock>) -> SqliteStore {
    let mut options = Options::default();
    options.clock = clock.clone();
    options.hint_delay = Duration::from_secs(600);
    SqliteStore::open(path, options).expect("the file can be opened")
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let (dir, hands) = (Dir::new(), Arc::new(Hands::default()));
    let path = dir.join("store");
    let record = SessionRecord {
        principal: Some("p".to_owned()),
        revision: Revision::NEWEST_LEGACY,
        initialize: Raw::parse(r#"{"x":1.50, "y":[1e3]}"#).unwrap(),
        initialized: true,
        log_level: Some("debug".to_owned()),
        subscriptions: BTreeSet::from(["file:///\u{e9}".to_owned()]),
        standalone: id(9),
        notes: std::collections::BTreeMap::from([("a".to_owned(), "b".to_owned())]).into(),
    };
    let store = open(&path, &hands);
    let open_call = NewStream {
        owner: BackendId(u64::MAX),
        epoch: u64::MAX - 1,
        session: Some("s".to_owned()),
        request_id: Some("\"r\"".to_owned()),
        ..call(1)
    };
    store.create(open_call).await.unwrap();
    store.create(call(2)).await.unwrap();
    append(&store, 2, 1, 10).await.unwrap();
    seal(&store, 2, 2, 20).await.unwrap();
    let version = store.create_session("s", record.clone(), MINUTE).await.unwrap();
    store.create_session("t", record.clone(), MINUTE).await.unwrap();
    store.delete_session("t", MINUTE).await.unwrap();
    store.put_letter(id(1), "k", Bytes::from_static(b"letter"), MINUTE).await.unwrap();
    store.renew(BackendId(7), true, MINUTE).await.unwrap();
    let keys = vec![Bytes::from_static(b"newer"), Bytes::from_static(b"older")];
    store.swap_keys(Vec::new(), keys.clone()).await.unwrap();
    store.attach(id(2)).await.unwrap();
    drop(store);

    let store = open(&path, &hands);
    let page = store.read_after(id(2), 0, ALL).await.unwrap();
    let sizes: Vec<_> = page.events.iter().map(Bytes::len).collect();
    assert_eq!((sizes, page.sealed, page.generation), (vec![10, 20], true, 1));
    assert_eq!(store.load_session("s").await, Ok(SessionLookup::Live(version, record.into())));
    assert_eq!(store.load_session("t").await, Ok(SessionLookup::Ended));
    assert_eq!(store.letters_after(id(1), 0).await.unwrap().len(), 1);
    let backends = vec![(BackendId(7), BackendState::Draining), (BackendId(u64::MAX), BackendState::Gone)];
    assert_eq!(store.backends().await, Ok(backends));
    let open_stream = OpenStream {
        id: id(1),
        kind: StreamKind::Call,
        epoch: u64::MAX - 1,
        tail: 0,
        session: Some("s".to_owned()),
        request_id: Some("\"r\"".to_owned()),
    };
    assert_eq!(store.open_streams(BackendId(u64::MAX), 9).await, Ok(vec![open_stream]));
    assert_eq!(store.shared_keys().await, Ok(keys));
}

/// Two clocks that need not agree: a wall clock that is set, and a steady one that starts anew with each process.
struct Machine {
    wall: u64,
}

impl Clock for Machine {
    fn wall(&self) -> u64 {
        self.wall
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

const NOW: u64 = 1_800_000_000_000;

#[tokio::test]
async fn time_goes_on_over_a_restart_by_the_wall_clock() {
    for (later, state) in [(9_999, BackendState::Alive), (10_000, BackendState::Gone)] {
        let dir = Dir::new();
        let store = open(&dir.join("store"), &Arc::new(Machine { wall: NOW }));
        store.renew(BackendId(1), false, Duration::from_secs(10)).await.unwrap();
        drop(store);
        let store = open(&dir.join("store"), &Arc::new(Machine { wall: NOW + later }));
        assert_eq!(store.backend_state(BackendId(1)).await, Ok(state), "{later} ms later");
    }
}

#[tokio::test]
async fn a_wall_clock_that_was_set_does_bounded_harm() {
    let dir = Dir::new();
    let path = dir.join("store");
    let days = |n: u64| Duration::from_hours(24 * n);
    let store = open(&path, &Arc::new(Machine { wall: NOW }));
    for (n, ttl) in [(1, days(2)), (2, MINUTE)] {
        store.create(NewStream { open_ttl: ttl, ..call(n) }).await.unwrap();
    }
    drop(store);
    // Back to 1970: no time passes, and nothing lives for decades longer.
    let store = open(&path, &Arc::new(Machine { wall: 0 }));
    for n in 1..=2 {
        assert!(store.read_after(id(n), 0, ALL).await.is_ok());
    }
    drop(store);
    // And to the right time again, by NTP: at most a day.
    let store = open(&path, &Arc::new(Machine { wall: NOW }));
    assert!(store.read_after(id(1), 0, ALL).await.is_ok());
    assert!(store.read_after(id(2), 0, ALL).await.is_err());
}

#[tokio::test]
async fn what_is_queued_when_the_last_store_is_dropped_is_written() {
    let (dir, hands) = (Dir::new(), Arc::new(Hands::default()));
    let path = dir.join("store");
    let store = open(&path, &hands);
    store.create(call(1)).await.unwrap();
    append(&store, 1, 1, 10).await.unwrap();
    drop(store.clone());
    append(&store, 1, 2, 10).await.unwrap();
    drop(store);
    // Closed properly: one file, and it is whole.
    assert!(!dir.join("store-wal").exists());
    let store = open(&path, &hands);
    assert_eq!(store.read_after(id(1), 0, ALL).await.unwrap().tail, 2);
}

/// The file is closed by the last of several connections, each in a thread of its own.
#[tokio::test]
async fn however_many_threads_end_the_log_is_copied() {
    let (dir, hands) = (Dir::new(), Arc::new(Hands::default()));
    let path = dir.join("store");
    for n in 1..=20 {
        let mut options = Options::default();
        options.clock = hands.clone();
        options.readers = 8;
        let store = SqliteStore::open(&path, options).unwrap();
        store.create(call(n)).await.unwrap();
        drop(store);
        assert!(!dir.join("store-wal").exists(), "at the end of store {n}");
    }
}

/// A task that is given up as soon as somebody wakes it, with all that it holds.
struct GivenUp(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for GivenUp {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().take());
    }
}

/// A thread of the store wakes a task, and drops the last store with it: that thread cannot wait for itself.
#[tokio::test]
async fn a_thread_of_the_store_may_drop_the_last_one() {
    let (dir, hands) = (Dir::new(), Arc::new(Hands::default()));
    let path = dir.join("store");
    for reads in [true, false] {
        let store = open(&path, &hands);
        let given_up = loop {
            let store_of_task = store.clone();
            let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
                if reads {
                    let _ = store_of_task.read_after(id(1), 0, ALL).await;
                } else {
                    let _ = store_of_task.create(call(1)).await;
                }
            });
            let given_up = Arc::new(GivenUp(Mutex::new(Some(task))));
            let waker = Waker::from(Arc::clone(&given_up));
            // Who wakes it waits for the lock: until then there is another store.
            let mut task = given_up.0.lock();
            let polled = task.as_mut().map(|task| task.as_mut().poll(&mut Context::from_waker(&waker)));
            if polled.is_some_and(|polled| polled.is_pending()) {
                drop(store);
                drop(task);
                break given_up;
            }
            // The thread was quicker than this one.
        };
        let closed = async {
            while dir.join("store-wal").exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(MINUTE, closed).await.expect("the file is closed");
        assert!(given_up.0.lock().is_none(), "reads: {reads}");
    }
    assert_eq!(open(&path, &hands).read_after(id(1), 0, ALL).await.unwrap().tail, 0);
}
