//! Two stores on one file, as when an old process drains while a new one serves.

mod support {
    pub(crate) mod both;
    pub(crate) mod calls;
    pub(crate) mod process;
    pub(crate) mod traffic;
}

#[path = "support/hands.rs"]
mod hands;

use bowline_store::{
    Appended, BackendId, BackendRegistry as _, BackendState, Store, StreamLog as _, WakeBus as _,
};
use bowline_store_kit::{Clock, Harness, model};
use bowline_store_sqlite::{Durability, Options, SqliteStore};
use bowline_testkit::Dir;
use hands::Hands;
use std::{path::Path, pin::Pin, sync::Arc, time::Duration};
use support::{
    both::Both,
    calls::{ALL, append, call, figure, id, seal},
    process::Writer,
    traffic::Ack,
};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

fn open(path: &Path, hands: &Arc<Hands>) -> SqliteStore {
    let mut options = Options::default();
    options.durability = Durability::Os;
    options.clock = hands.clone();
    options.hint_delay = Duration::from_millis(1);
    options.wake_interval = Duration::from_millis(2);
    SqliteStore::open(path, options).expect("the file can be opened by two")
}

struct Shared {
    _dir: Dir,
    hands: Arc<Hands>,
    both: Arc<Both>,
}

impl Harness for Shared {
    async fn open(&self) -> Arc<dyn Store> {
        self.both.clone()
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn model(&self) -> model::Config {
        model::Config { cases: 48, ..model::Config::default() }
    }
}

impl Clock for Shared {
    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.hands.pass(by);
        Box::pin(std::future::ready(()))
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(5)))
    }
}

#[test]
fn two_stores_that_take_turns_are_one() {
    let dir = Dir::new();
    let hands = Arc::new(Hands::default());
    let stores = [open(&dir.join("store"), &hands), open(&dir.join("store"), &hands)];
    let harness = Shared { both: Arc::new(Both::new(stores)), _dir: dir, hands };
    bowline_store_kit::assert_conforms(&harness);
}

#[tokio::test]
async fn a_change_by_one_wakes_a_reader_of_the_other() {
    let dir = Dir::new();
    let hands = Arc::new(Hands::default());
    let (old, new) = (open(&dir.join("store"), &hands), open(&dir.join("store"), &hands));
    old.create(call(1)).await.unwrap();
    let (mut mine, mut others) = (new.subscribe(id(1)), new.subscribe(id(2)));
    for offset in 1..=20 {
        append(&old, 1, offset, 10).await.unwrap();
        timeout(PATIENCE, mine.changed()).await.expect("a wake-up");
        assert_eq!(new.read_after(id(1), offset - 1, ALL).await.unwrap().events.len(), 1);
    }
    seal(&old, 1, 21, 10).await.unwrap();
    timeout(PATIENCE, mine.changed()).await.expect("a wake-up");
    // Wake-ups name their stream: nobody else is woken.
    assert!(timeout(Duration::from_millis(20), others.changed()).await.is_err());
    assert!(figure(&new, "store_foreign_wakes") > 0);
}

#[tokio::test]
async fn one_that_missed_more_than_the_file_tells_wakes_everybody() {
    let dir = Dir::new();
    let hands = Arc::new(Hands::default());
    let (old, new) = (open(&dir.join("store"), &hands), open(&dir.join("store"), &hands));
    old.create(call(1)).await.unwrap();
    // Nobody waits in the new one, so it does not look.
    for offset in 1..=300 {
        append(&old, 1, offset, 10).await.unwrap();
    }
    let mut others = new.subscribe(id(2));
    append(&old, 1, 301, 10).await.unwrap();
    timeout(PATIENCE, others.changed()).await.expect("a wake-up for whatever it may have been");
}

#[tokio::test]
async fn a_stream_changes_hands_and_its_former_owner_is_fenced() {
    let dir = Dir::new();
    let hands = Arc::new(Hands::default());
    let (old, new) = (open(&dir.join("store"), &hands), open(&dir.join("store"), &hands));
    let backend = BackendId(1);
    old.renew(backend, false, Duration::from_secs(10)).await.unwrap();
    old.create(call(1)).await.unwrap();
    append(&old, 1, 1, 10).await.unwrap();
    assert_eq!(new.backends().await.unwrap(), [(backend, BackendState::Alive)]);
    hands.pass(Duration::from_secs(11));
    assert_eq!(new.backends().await.unwrap(), [(backend, BackendState::Gone)]);
    let open = new.open_streams(backend, 10).await.unwrap();
    assert_eq!(open.iter().map(|open| (open.id, open.tail)).collect::<Vec<_>>(), [(id(1), 1)]);
    let at = bowline_store::WriteAt { stream: id(1), epoch: open[0].epoch + 1, offset: open[0].tail + 1 };
    assert_eq!(new.seal(at, None, Duration::from_mins(1)).await, Ok(Appended::New));
    assert!(append(&old, 1, 2, 10).await.is_err());
    assert!(new.backends().await.unwrap().is_empty());
}

#[tokio::test]
async fn another_process_wakes_a_reader_here() {
    let dir = Dir::new();
    let path = dir.join("store");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let writer = Writer::start(&["acks", "other", "1"], &path);
    let Ack::Created(first) = writer.next() else { panic!("a stream is made first") };
    let mut stream = first;
    for number in 0..6 {
        // As the example does it: how many events there are, and that every third stream stays open.
        let (events, open) = (1 + number % 12, number % 3 == 0);
        let mut wakeups = store.subscribe(stream);
        let mut after = 0;
        loop {
            let page = store.read_after(stream, after, ALL).await.unwrap();
            after += page.events.len() as u64;
            if page.sealed || (open && after == events) {
                break;
            }
            // No timer looks again: a wake-up that is lost is a failure.
            timeout(PATIENCE, wakeups.changed()).await.expect("a wake-up");
        }
        assert_eq!(after, events + u64::from(!open));
        stream = loop {
            if let Ack::Created(next) = writer.next() {
                break next;
            }
        };
    }
    writer.kill();
}

/// Both write as fast as they can: none of them starves.
#[tokio::test]
async fn two_busy_writers_take_turns() {
    let dir = Dir::new();
    let path = dir.join("store");
    let mut writers =
        [Writer::start(&["acks", "first", "8"], &path), Writer::start(&["acks", "second", "8"], &path)];
    // Each of them gets its answers while the other one is at it.
    for _ in 0..500 {
        for writer in &writers {
            writer.next();
        }
    }
    assert!(writers.iter_mut().all(|writer| !writer.has_ended()));
    for writer in writers {
        writer.kill();
    }
}
