//! Two backends that look like one: each operation is done by the one or the other, so that what one writes, the other
//! reads, and hints cross.

use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, BackendId, BackendRegistry, BackendState, CreateError, Event, Figure, KeyStore,
    Letter, Mailbox, NewStream, OpenStream, Page, ReadError, ReadLimit, SessionLookup, SessionRecord,
    SessionStore, StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, UpdateError, Version, WakeBus,
    Wakeups, WriteAt, WriteError,
};
use bowline_store_redis::RedisStore;
use bytes::Bytes;
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

pub(crate) struct Pair {
    stores: [RedisStore; 2],
    next: AtomicUsize,
}

impl Pair {
    pub(crate) fn new(stores: [RedisStore; 2]) -> Self {
        Self { stores, next: AtomicUsize::new(0) }
    }

    fn next(&self) -> &RedisStore {
        // Three writes in a row are by two, whatever the rhythm of a check.
        let next = self.next.fetch_add(1, Relaxed);
        &self.stores[(next / 2 + next) % 2]
    }
}

macro_rules! delegate {
    ($($trait:ident { $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $answer:ty;)+ })+) => {
        $(impl $trait for Pair {
            $(fn $name(&self $(, $arg: $type)*) -> $answer {
                self.next().$name($($arg),*)
            })+
        })+
    };
}

type Answer<'a, T, E> = StoreFuture<'a, Result<T, E>>;

delegate! {
    StreamLog {
        fn create(&self, stream: NewStream) -> Answer<'_, (), CreateError>;
        fn append(&self, at: WriteAt, event: Event) -> Answer<'_, Appended, WriteError>;
        fn seal(&self, at: WriteAt, last: Option<Bytes>, keep: Duration) -> Answer<'_, Appended, WriteError>;
        fn take_over(&self, by: TakeOver) -> Answer<'_, Option<TakenOver>, WriteError>;
        fn read_after(&self, stream: StreamId, after: u64, limit: ReadLimit) -> Answer<'_, Page, ReadError>;
        fn attach(&self, stream: StreamId) -> Answer<'_, Attachment, ReadError>;
        fn delivered(&self, stream: StreamId, generation: u64, offset: u64) -> ();
        fn trim(&self, stream: StreamId, offset: u64) -> ();
        fn figures(&self) -> Vec<Figure>;
        fn keep(&self, stream: StreamId, ttl: Duration) -> ();
        fn remove(&self, stream: StreamId) -> Answer<'_, (), Unavailable>;
    }
    SessionStore {
        fn create_session(&self, id: &str, record: SessionRecord, ttl: Duration) -> Answer<'_, Version, CreateError>;
        fn load_session(&self, id: &str) -> Answer<'_, SessionLookup, Unavailable>;
        fn update_session(&self, id: &str, version: Version, record: SessionRecord) -> Answer<'_, Version, UpdateError>;
        fn touch_session(&self, id: &str, ttl: Duration) -> Answer<'_, (), Unavailable>;
        fn delete_session(&self, id: &str, tombstone: Duration) -> Answer<'_, bool, Unavailable>;
    }
    Mailbox {
        fn put_letter(&self, stream: StreamId, key: &str, payload: Bytes, ttl: Duration) -> Answer<'_, bool, Unavailable>;
        fn letters_after(&self, stream: StreamId, after: u64) -> Answer<'_, Vec<Letter>, Unavailable>;
        fn drop_mailbox(&self, stream: StreamId) -> Answer<'_, (), Unavailable>;
    }
    BackendRegistry {
        fn renew(&self, backend: BackendId, draining: bool, ttl: Duration) -> Answer<'_, Duration, Unavailable>;
        fn backend_state(&self, backend: BackendId) -> Answer<'_, BackendState, Unavailable>;
        fn backends(&self) -> Answer<'_, Vec<(BackendId, BackendState)>, Unavailable>;
        fn open_streams(&self, backend: BackendId, limit: usize) -> Answer<'_, Vec<OpenStream>, Unavailable>;
        fn release(&self, backend: BackendId) -> Answer<'_, (), Unavailable>;
    }
    KeyStore {
        fn shared_keys(&self) -> Answer<'_, Vec<Bytes>, Unavailable>;
        fn swap_keys(&self, before: Vec<Bytes>, after: Vec<Bytes>) -> Answer<'_, Vec<Bytes>, Unavailable>;
    }
    WakeBus {
        fn subscribe(&self, stream: StreamId) -> Wakeups;
    }
}
