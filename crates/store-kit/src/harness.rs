//! What a store's author gives to the kit, and what the kit gives to its checks.

use crate::model;
use bowline_proto::{cursor::StreamId, jsonrpc::Raw, revision::Revision};
use bowline_store::{
    BackendId, Event, EventClass, NewStream, Page, ReadError, ReadLimit, SessionRecord, Store, StreamKind,
    WriteAt,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

/// How the time passes by which a store lets things expire.
///
/// The kit uses times to live of a few [`unit`](Self::unit)s, and advances by whole units.
pub trait Clock: Send + Sync {
    /// The shortest span that the store tells apart reliably, whatever the machine does meanwhile.
    fn unit(&self) -> Duration;

    /// Lets `by` pass.
    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Gives hints that were sent a moment to have their effect.
    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Whether the runtime is to start with its time paused.
    fn paused(&self) -> bool {
        false
    }
}

/// Tokio's time, paused: for stores that know no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct PausedClock;

impl Clock for PausedClock {
    fn unit(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::advance(by))
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::task::yield_now())
    }

    fn paused(&self) -> bool {
        true
    }
}

/// The time on the wall: for stores whose server has a clock of its own.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    /// See [`Clock::unit`]. Half a second is a good start on a busy machine.
    pub unit: Duration,
}

impl Clock for RealClock {
    fn unit(&self) -> Duration {
        self.unit
    }

    fn advance(&self, by: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(by))
    }

    fn settle(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(5)))
    }
}

/// How to get at a store.
pub trait Harness {
    /// Opens the store. Called once for each check and each case of the model, in the runtime that will use it; what
    /// earlier calls left in it may still be there.
    fn open(&self) -> impl Future<Output = Arc<dyn Store>>;

    /// How its time passes.
    fn clock(&self) -> &dyn Clock;

    /// How much the model tries. By default less, and without expiry, where time has to be waited for.
    fn model(&self) -> model::Config {
        if self.clock().paused() {
            model::Config::default()
        } else {
            model::Config { cases: 64, expiry: false, ..model::Config::default() }
        }
    }
}

/// Runs `body` against a freshly opened store, in a runtime of one thread.
pub(crate) fn block_on<T>(harness: &impl Harness, body: impl AsyncFnOnce(Kit<'_>) -> T) -> T {
    let clock = harness.clock();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(clock.paused())
        .build()
        .unwrap_or_else(|error| panic!("the kit cannot start a runtime: {error}"));
    runtime.block_on(async { body(Kit::new(harness.open().await, clock)).await })
}

/// A store under check, with ids that nobody used before.
pub struct Kit<'a> {
    /// The store.
    pub store: Arc<dyn Store>,
    /// How its time passes.
    pub clock: &'a dyn Clock,
}

impl fmt::Debug for Kit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kit")
    }
}

/// A time to live that no check outlives.
pub(crate) const LONG: Duration = Duration::from_hours(1);

/// Everything.
pub(crate) const ALL: ReadLimit = ReadLimit { events: 10_000, bytes: 64 << 20 };

/// The writer of the kit's streams.
pub(crate) const OWNER: BackendId = BackendId(0xb0);

impl<'a> Kit<'a> {
    /// A kit for `store`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: &'a dyn Clock) -> Self {
        Self { store, clock }
    }

    pub(crate) fn stream_id() -> StreamId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&random().to_be_bytes());
        bytes[8..].copy_from_slice(&random().to_be_bytes());
        StreamId::from_bytes(bytes)
    }

    pub(crate) fn session_id() -> String {
        format!("kit-{:016x}{:016x}", random(), random())
    }

    pub(crate) fn backend_id() -> BackendId {
        BackendId(random())
    }

    pub(crate) fn units(&self, count: u32) -> Duration {
        self.clock.unit() * count
    }

    pub(crate) async fn advance(&self, units: u32) {
        self.clock.advance(self.units(units)).await;
    }

    /// A new call stream of epoch 1 with generous bounds.
    pub(crate) async fn call(&self) -> Result<StreamId, String> {
        self.make(call(Self::stream_id())).await
    }

    pub(crate) async fn make(&self, stream: NewStream) -> Result<StreamId, String> {
        let id = stream.id;
        match self.store.create(stream).await {
            Ok(()) => Ok(id),
            Err(error) => Err(format!("making a stream: {error}")),
        }
    }

    /// A new call stream of epoch 1 with these events.
    pub(crate) async fn call_with(&self, events: &[&str]) -> Result<StreamId, String> {
        let id = self.call().await?;
        self.fill(id, events).await?;
        Ok(id)
    }

    /// Appends these events to an empty stream of epoch 1.
    pub(crate) async fn fill(&self, id: StreamId, events: &[&str]) -> Result<(), String> {
        for (offset, event) in (1..).zip(events) {
            self.store
                .append(at(id, 1, offset), droppable(event))
                .await
                .map_err(|error| format!("appending at offset {offset}: {error}"))?;
        }
        Ok(())
    }

    pub(crate) async fn read(&self, id: StreamId, after: u64) -> Result<Page, ReadError> {
        self.store.read_after(id, after, ALL).await
    }

    /// Waits until `done` says so, for as long as a hint may take.
    pub(crate) async fn eventually(&self, what: &str, done: impl AsyncFn() -> bool) -> Result<(), String> {
        for _ in 0..200 {
            if done().await {
                return Ok(());
            }
            self.clock.settle().await;
        }
        Err(format!("{what}: it never came to this"))
    }
}

/// Of more than the 53 bits that some languages count exactly.
pub(crate) const INCARNATION: u64 = u64::MAX - 6;

/// A call stream of epoch 1 with generous bounds.
pub(crate) fn call(id: StreamId) -> NewStream {
    NewStream {
        id,
        kind: StreamKind::Call,
        owner: OWNER,
        epoch: 1,
        incarnation: INCARNATION,
        session: Some("kit-session".to_owned()),
        request_id: Some("1".to_owned()),
        rerun: None,
        open_ttl: LONG,
        max_events: 10_000,
        max_bytes: 64 << 20,
    }
}

/// A standalone stream of epoch 1 with generous bounds.
pub(crate) fn standalone(id: StreamId) -> NewStream {
    NewStream { kind: StreamKind::Standalone, request_id: None, ..call(id) }
}

pub(crate) const fn at(stream: StreamId, epoch: u64, offset: u64) -> WriteAt {
    WriteAt { stream, epoch, offset }
}

pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn droppable(text: &str) -> Event {
    Event { payload: bytes(text), class: EventClass::Droppable }
}

pub(crate) fn kept(text: &str) -> Event {
    Event { payload: bytes(text), class: EventClass::Kept }
}

/// A session record with something in every field.
pub(crate) fn record(principal: &str) -> SessionRecord {
    SessionRecord {
        principal: Some(principal.to_owned()),
        revision: Revision::NEWEST_LEGACY,
        initialize: Raw::parse(r#"{"clientInfo":{"name":"kit","x":1.50},"capabilities":{},"_new":[1e3]}"#)
            .unwrap_or_else(|_| Raw::empty_object()),
        initialized: false,
        log_level: Some("debug".to_owned()),
        subscriptions: BTreeSet::from(["file:///a".to_owned(), "file:///\u{e9}".to_owned()]),
        standalone: StreamId::from_bytes([7; 16]),
        notes: BTreeMap::from([("lists".to_owned(), "tools \u{e9}".to_owned())]).into(),
    }
}

/// 64 bits that no other run of the kit has.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
