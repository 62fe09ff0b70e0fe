//! The way from one backend to the store that all share: it can be cut, or fall silent.

use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, BackendId, BackendRegistry, BackendState, CreateError, Event, KeyStore, Letter,
    Mailbox, MemoryStore, NewStream, OpenStream, Page, ReadError, ReadLimit, SessionLookup, SessionRecord,
    SessionStore, StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, UpdateError, Version, WakeBus,
    Wakeups, WriteAt, WriteError,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// What becomes of what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Every question is refused at once.
    Cut,
    /// Nothing is answered, and nothing arrives, until the way is another one.
    Silent,
    /// What is there can be read; every change is refused at once, as where the disk is full.
    ReadOnly,
    /// What is there can be read; no change is answered, and none arrives, until the way is another one, as where somebody has
    /// locked a file.
    Locked,
}

#[derive(Clone)]
pub(crate) struct Link {
    store: MemoryStore,
    way: Arc<watch::Sender<Way>>,
    asked: Arc<AtomicUsize>,
    deaf: Arc<AtomicBool>,
    mishap: Arc<Mutex<Option<Mishap>>>,
    slow: Arc<AtomicBool>,
}

/// What happens to a take-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// It takes effect, and the answer is lost.
    Lost,
    /// No answer comes, and it takes effect after a while.
    Late,
    /// It is answered, and then the way is [cut](Way::Cut).
    Last,
}

/// That while.
const LATE: Duration = Duration::from_millis(2_500);

impl Link {
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self {
            store,
            way: Arc::new(watch::Sender::new(Way::Open)),
            asked: Arc::default(),
            deaf: Arc::default(),
            mishap: Arc::default(),
            slow: Arc::default(),
        }
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// From now on every wake-up is lost.
    pub(crate) fn lose_wakeups(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    /// Take-overs are on their way for a while.
    pub(crate) fn slow_take_overs(&self) {
        self.slow.store(true, Ordering::SeqCst);
    }

    /// This is what happens to the next take-over.
    pub(crate) fn spoil_take_over(&self, mishap: Mishap) {
        *self.mishap.lock() = Some(mishap);
    }

    /// Whether that is still to come.
    pub(crate) fn is_to_spoil(&self) -> bool {
        self.mishap.lock().is_some()
    }

    /// How many questions there were.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn is_open(&self) -> bool {
        *self.way.borrow() == Way::Open
    }

    /// Asks for a change.
    fn pass<'a, T: Send + 'a, E: From<Unavailable> + Send + 'a>(
        &'a self,
        ask: impl FnOnce(&'a MemoryStore) -> StoreFuture<'a, Result<T, E>> + Send + 'a,
    ) -> StoreFuture<'a, Result<T, E>> {
        self.ask(true, ask)
    }

    /// Asks for what is there.
    fn look<'a, T: Send + 'a, E: From<Unavailable> + Send + 'a>(
        &'a self,
        ask: impl FnOnce(&'a MemoryStore) -> StoreFuture<'a, Result<T, E>> + Send + 'a,
    ) -> StoreFuture<'a, Result<T, E>> {
        self.ask(false, ask)
    }

    fn ask<'a, T: Send + 'a, E: From<Unavailable> + Send + 'a>(
        &'a self,
        changes: bool,
        ask: impl FnOnce(&'a MemoryStore) -> StoreFuture<'a, Result<T, E>> + Send + 'a,
    ) -> StoreFuture<'a, Result<T, E>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        StoreFuture::later(async move {
            // As over a network: nothing is there in the moment in which it is asked for.
            tokio::task::yield_now().await;
            let mut ways = self.way.subscribe();
            let silent = |way: &Way| *way == Way::Silent || (changes && *way == Way::Locked);
            let way = *ways.wait_for(|way| !silent(way)).await.unwrap();
            if way == Way::Cut || (changes && way == Way::ReadOnly) {
                return Err(Unavailable("the way is cut".into()).into());
            }
            ask(&self.store).await
        })
    }
}

impl StreamLog for Link {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        self.pass(|store| store.create(stream))
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.pass(move |store| store.append(at, event))
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.pass(move |store| store.seal(at, last, keep))
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        let mishap = self.mishap.lock().take();
        let no_answer = || Err(Unavailable("no answer".into()).into());
        StoreFuture::later(async move {
            if self.slow.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            if mishap == Some(Mishap::Late) {
                let store = self.store.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    store.take_over(by).await
                });
                return no_answer();
            }
            let answer = self.pass(move |store| store.take_over(by)).await;
            match mishap {
                Some(Mishap::Lost) => return no_answer(),
                Some(Mishap::Last) => self.set(Way::Cut),
                Some(Mishap::Late) | None => {}
            }
            answer
        })
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        self.look(move |store| store.read_after(stream, after, limit))
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        self.pass(move |store| store.attach(stream))
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        if self.is_open() {
            self.store.delivered(stream, generation, offset);
        }
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        if self.is_open() {
            self.store.trim(stream, offset);
        }
    }

    fn housekeep(&self, budget: usize) {
        self.store.housekeep(budget);
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        if self.is_open() {
            self.store.keep(stream, ttl);
        }
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |store| store.remove(stream))
    }
}

impl SessionStore for Link {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        let id = id.to_owned();
        self.pass(move |store| store.create_session(&id, record, ttl))
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let id = id.to_owned();
        self.look(move |store| store.load_session(&id))
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let id = id.to_owned();
        self.pass(move |store| store.update_session(&id, version, record))
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        let id = id.to_owned();
        self.pass(move |store| store.touch_session(&id, ttl))
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let id = id.to_owned();
        self.pass(move |store| store.delete_session(&id, tombstone))
    }
}

impl Mailbox for Link {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let key = key.to_owned();
        self.pass(move |store| store.put_letter(stream, &key, payload, ttl))
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        self.look(move |store| store.letters_after(stream, after))
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |store| store.drop_mailbox(stream))
    }
}

impl BackendRegistry for Link {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        self.pass(move |store| store.renew(backend, draining, ttl))
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        self.look(move |store| store.backend_state(backend))
    }

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        self.look(MemoryStore::backends)
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        self.look(move |store| store.open_streams(backend, limit))
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |store| store.release(backend))
    }
}

impl KeyStore for Link {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        self.look(MemoryStore::shared_keys)
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        self.pass(move |store| store.swap_keys(before, after))
    }
}

impl WakeBus for Link {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        if self.deaf.load(Ordering::SeqCst) {
            let (sender, receiver) = watch::channel(0);
            return Wakeups::new(receiver, Some(Box::new(sender)));
        }
        self.store.subscribe(stream)
    }
}
