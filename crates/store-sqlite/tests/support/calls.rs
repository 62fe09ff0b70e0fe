//! Short ways to do what every test does.

#![allow(dead_code, reason = "each test file uses some of them")]

use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, BackendId, Event, EventClass, NewStream, ReadLimit, StreamKind, StreamLog as _, WriteAt,
    WriteError,
};
use bowline_store_sqlite::SqliteStore;
use bytes::Bytes;
use std::time::Duration;

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

pub(crate) const ALL: ReadLimit = ReadLimit { events: 10_000, bytes: 1 << 30 };

pub(crate) fn id(n: u64) -> StreamId {
    StreamId::from_bytes(u128::from(n).to_be_bytes())
}

pub(crate) fn call(n: u64) -> NewStream {
    NewStream {
        id: id(n),
        kind: StreamKind::Call,
        owner: BackendId(1),
        epoch: 1,
        incarnation: 0,
        session: None,
        request_id: None,
        rerun: None,
        open_ttl: MINUTE,
        max_events: 100_000,
        max_bytes: 1 << 30,
    }
}

pub(crate) fn at(n: u64, offset: u64) -> WriteAt {
    WriteAt { stream: id(n), epoch: 1, offset }
}

pub(crate) fn event(size: usize, class: EventClass) -> Event {
    Event { payload: Bytes::from(vec![b'x'; size]), class }
}

/// Appends something that may not be dropped.
pub(crate) async fn append(
    store: &SqliteStore,
    n: u64,
    offset: u64,
    size: usize,
) -> Result<Appended, WriteError> {
    store.append(at(n, offset), event(size, EventClass::Kept)).await
}

pub(crate) async fn seal(
    store: &SqliteStore,
    n: u64,
    offset: u64,
    size: usize,
) -> Result<Appended, WriteError> {
    store.seal(at(n, offset), Some(Bytes::from(vec![b'x'; size])), MINUTE).await
}

pub(crate) fn figure(store: &SqliteStore, name: &str) -> u64 {
    let figures = store.figures();
    figures
        .iter()
        .find(|figure| figure.name == name)
        .unwrap_or_else(|| panic!("there is no figure {name}"))
        .value
}
