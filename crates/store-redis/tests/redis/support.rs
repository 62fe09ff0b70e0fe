//! What the tests share.

use bowline_proto::cursor::StreamId;
use bowline_store::{
    BackendId, Event, EventClass, NewStream, ReadLimit, Store, StreamKind, StreamLog as _, WriteAt,
};
use bowline_store_redis::{Options, RedisStore};
use bytes::Bytes;
use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use tokio::time::Instant;

pub(crate) const LONG: Duration = Duration::from_hours(1);
pub(crate) const ALL: ReadLimit = ReadLimit { events: 10_000, bytes: 64 << 20 };
pub(crate) const OWNER: BackendId = BackendId(0xb0);

pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

pub(crate) fn stream_id() -> StreamId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_be_bytes());
    bytes[8..].copy_from_slice(&random().to_be_bytes());
    StreamId::from_bytes(bytes)
}

/// Options that differ from the default ones.
pub(crate) fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

pub(crate) async fn connect(url: &str, options: Options) -> RedisStore {
    RedisStore::connect(url, options).await.expect("a store")
}

/// A call's stream.
pub(crate) fn call(id: StreamId) -> NewStream {
    NewStream {
        id,
        kind: StreamKind::Call,
        owner: OWNER,
        epoch: 1,
        incarnation: 0,
        session: Some("0123456789abcdef0123456789abcdef0123456789a".to_owned()),
        request_id: Some("17".to_owned()),
        rerun: None,
        open_ttl: LONG,
        max_events: 1_000,
        max_bytes: 32 << 20,
    }
}

pub(crate) const fn at(stream: StreamId, epoch: u64, offset: u64) -> WriteAt {
    WriteAt { stream, epoch, offset }
}

pub(crate) fn payload(offset: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":{offset}}}}}"#)
        .into()
}

pub(crate) fn event(offset: u64) -> Event {
    Event { payload: payload(offset), class: EventClass::Kept }
}

/// A stream with so many events.
pub(crate) async fn made(store: &RedisStore, count: u64) -> StreamId {
    let id = stream_id();
    store.create(call(id)).await.expect("making a stream");
    for offset in 1..=count {
        store.append(at(id, 1, offset), event(offset)).await.expect("appending");
    }
    id
}

/// What should be read after `after` of a stream with so many events.
pub(crate) fn expected(after: u64, tail: u64) -> Vec<Bytes> {
    (after + 1..=tail).map(payload).collect()
}

/// The number that the store counts under a name.
pub(crate) fn figure(store: &dyn Store, name: &str) -> u64 {
    store.figures().iter().find(|figure| figure.name == name).expect("it is counted").value
}

/// Waits until `done` says so.
pub(crate) async fn until(what: &str, done: impl AsyncFn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !done().await {
        assert!(Instant::now() < limit, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
