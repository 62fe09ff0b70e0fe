//! What the kit cannot know: bounds, sweeps, and that nothing is left behind. `size` measures.

mod bounds;
mod races;
mod size;
mod sweeps;

use super::{MemoryLimits, MemoryStore};
use crate::{
    Appended, BackendId, CreateError, Event, EventClass, NewStream, Page, ReadError, ReadLimit, SealedStream,
    SessionRecord, StoreFuture, StreamKind, StreamLog, WriteAt, WriteError,
};
use bowline_proto::{cursor::StreamId, jsonrpc::Raw, revision::Revision};
use bytes::Bytes;
use std::{
    collections::BTreeSet,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

const MINUTE: Duration = Duration::from_mins(1);
const OVERHEAD: u64 = MemoryLimits::EVENT_OVERHEAD;

/// The answer, which has to be there at the first look.
fn ready<T>(mut answer: StoreFuture<'_, T>) -> T {
    match Pin::new(&mut answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("the memory store never waits"),
    }
}

fn id(n: u64) -> StreamId {
    // As random ids do, these differ in all of their bytes.
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    StreamId::from_bytes(bytes)
}

fn call(n: u64) -> NewStream {
    NewStream {
        id: id(n),
        kind: StreamKind::Call,
        owner: BackendId(1),
        epoch: 1,
        incarnation: 0,
        session: Some("q".repeat(22)),
        request_id: Some("12".to_owned()),
        rerun: None,
        open_ttl: MINUTE,
        max_events: 1_000,
        max_bytes: 32 << 20,
    }
}

fn create(store: &MemoryStore, n: u64) -> Result<(), CreateError> {
    ready(store.create(call(n)))
}

fn at(n: u64, offset: u64) -> WriteAt {
    WriteAt { stream: id(n), epoch: 1, offset }
}

fn append(
    store: &MemoryStore,
    n: u64,
    offset: u64,
    size: usize,
    class: EventClass,
) -> Result<Appended, WriteError> {
    ready(store.append(at(n, offset), Event { payload: Bytes::from(vec![b'x'; size]), class }))
}

fn seal(store: &MemoryStore, n: u64, offset: u64, size: usize) -> Result<Appended, WriteError> {
    ready(store.seal(at(n, offset), Some(Bytes::from(vec![b'x'; size])), MINUTE))
}

fn create_sealed(store: &MemoryStore, n: u64, size: usize) -> Result<(), CreateError> {
    let last = Bytes::from(vec![b'x'; size]);
    ready(store.create_sealed(SealedStream { id: id(n), owner: BackendId(1), epoch: 1, last, keep: MINUTE }))
}

fn read(store: &MemoryStore, n: u64, after: u64) -> Result<Page, ReadError> {
    ready(store.read_after(id(n), after, ReadLimit { events: 100, bytes: 1 << 20 }))
}

fn record() -> SessionRecord {
    let initialize = format!(r#"{{"clientInfo":{{"name":"{}"}}}}"#, "n".repeat(350 - 26));
    SessionRecord {
        principal: None,
        revision: Revision::NEWEST_LEGACY,
        initialize: Raw::parse(initialize).unwrap(),
        initialized: true,
        log_level: None,
        subscriptions: BTreeSet::new(),
        standalone: id(0),
        notes: crate::Notes::new(),
    }
}
