//! A store that asks one of two in turn.

use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, BackendId, BackendRegistry, BackendState, CreateError, Event, KeyStore, Letter,
    Mailbox, NewStream, OpenStream, Page, ReadError, ReadLimit, SessionLookup, SessionRecord, SessionStore,
    StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, UpdateError, Version, WakeBus, Wakeups,
    WriteAt, WriteError,
};
use bowline_store_sqlite::SqliteStore;
use bytes::Bytes;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// Every call goes to the other store than the one before, but those that concern readers: a hint is known to its own
/// store at first, so a connection talks to one.
pub(crate) struct Both {
    stores: [SqliteStore; 2],
    calls: AtomicUsize,
}

impl Both {
    pub(crate) const fn new(stores: [SqliteStore; 2]) -> Self {
        Self { stores, calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &SqliteStore {
        &self.stores[self.calls.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

macro_rules! in_turn {
    ($($trait:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+ })+) => {$(
        impl $trait for Both {
            $(fn $name(&self, $($argument: $type),*) -> StoreFuture<'_, $answer> {
                self.next().$name($($argument),*)
            })+
        }
    )+};
}

in_turn! {
    SessionStore {
        fn create_session(id: &str, record: SessionRecord, ttl: Duration) -> Result<Version, CreateError>;
        fn load_session(id: &str) -> Result<SessionLookup, Unavailable>;
        fn update_session(id: &str, version: Version, record: SessionRecord) -> Result<Version, UpdateError>;
        fn touch_session(id: &str, ttl: Duration) -> Result<(), Unavailable>;
        fn delete_session(id: &str, tombstone: Duration) -> Result<bool, Unavailable>;
    }
    Mailbox {
        fn put_letter(stream: StreamId, key: &str, payload: Bytes, ttl: Duration) -> Result<bool, Unavailable>;
        fn letters_after(stream: StreamId, after: u64) -> Result<Vec<Letter>, Unavailable>;
        fn drop_mailbox(stream: StreamId) -> Result<(), Unavailable>;
    }
    BackendRegistry {
        fn renew(backend: BackendId, draining: bool, ttl: Duration) -> Result<Duration, Unavailable>;
        fn backend_state(backend: BackendId) -> Result<BackendState, Unavailable>;
        fn backends() -> Result<Vec<(BackendId, BackendState)>, Unavailable>;
        fn open_streams(backend: BackendId, limit: usize) -> Result<Vec<OpenStream>, Unavailable>;
        fn release(backend: BackendId) -> Result<(), Unavailable>;
    }
    KeyStore {
        fn shared_keys() -> Result<Vec<Bytes>, Unavailable>;
        fn swap_keys(before: Vec<Bytes>, after: Vec<Bytes>) -> Result<Vec<Bytes>, Unavailable>;
    }
}

impl StreamLog for Both {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        self.next().create(stream)
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.next().append(at, event)
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.next().seal(at, last, keep)
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        self.next().take_over(by)
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        self.next().read_after(stream, after, limit)
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        self.stores[0].attach(stream)
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        self.stores[0].delivered(stream, generation, offset);
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        self.next().trim(stream, offset);
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        self.next().keep(stream, ttl);
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.next().remove(stream)
    }
}

impl WakeBus for Both {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        self.next().subscribe(stream)
    }
}
