//! The writing end of one stream: a pure [`Writer`] with a store behind it.

use crate::{core::Core, log::Short, session::Session, watched::Watched};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::RequestId,
    legacy::{Directive, Millis, Op, Outcome, Pushed, StopReason, Writer, WriterConfig},
};
use bowline_store::{
    CreateError, Event, EventClass, NewStream, Store, StoreFuture, StreamKind, WriteAt, WriteError,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The epoch of a stream's first writer.
pub(crate) const FIRST_EPOCH: u64 = 1;

/// How a stream came into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The store has not answered yet.
    NotYet,
    /// It is in the store: its events have ids.
    Stored,
    /// The store would not have it: it lives with its connection, without ids.
    Unstored,
}

/// The writing end of one stream. Only creation is waited for; appends go out one after another, and what a reader sees
/// is what the store has.
pub(crate) struct Outlet {
    pub(crate) stream: StreamId,
    pub(crate) kind: StreamKind,
    pub(crate) started: Millis,
    core: Arc<Core>,
    session: Option<Box<str>>,
    /// Whether its session ended; never set where there is none.
    ended: Arc<AtomicBool>,
    request_id: Option<RequestId>,
    state: Mutex<State>,
    opened: Watched<Opened>,
    /// Connections that read the stream on this backend now.
    readers: Watched<usize>,
    last_read: AtomicU64,
    close_wishes: Watched<u64>,
    /// The wishes that a connection has fulfilled.
    wishes_done: AtomicU64,
    /// Questions on this stream that wait for their answer.
    asking: AtomicUsize,
    said: AtomicU64,
    /// Whether a client has everything that there is to have.
    fetched: AtomicBool,
}

struct State {
    writer: Writer,
    log: Arc<dyn Store>,
    /// Whether somebody is carrying out the writer's operations.
    pumping: bool,
    /// Whether nothing can be written any more.
    stopped: bool,
    /// How many messages the writer has dropped that were counted.
    dropped: u64,
}

impl Outlet {
    /// A stream that will be kept in the store.
    pub(crate) fn new(
        core: &Arc<Core>,
        kind: StreamKind,
        stream: StreamId,
        session: Option<&Session>,
        request_id: Option<&RequestId>,
    ) -> Arc<Self> {
        Self::on(core, core.store.clone(), Opened::NotYet, kind, stream, session, request_id)
    }

    /// A stream without ids, which lives in this process and with its connection only.
    pub(crate) fn unstored(core: &Arc<Core>, stream: StreamId) -> Arc<Self> {
        Self::on(core, core.ephemeral.clone(), Opened::Unstored, StreamKind::Call, stream, None, None)
    }

    fn on(
        core: &Arc<Core>,
        log: Arc<dyn Store>,
        opened: Opened,
        kind: StreamKind,
        stream: StreamId,
        session: Option<&Session>,
        request_id: Option<&RequestId>,
    ) -> Arc<Self> {
        let config =
            WriterConfig { max_event_bytes: core.options.max_event_bytes, ..WriterConfig::default() };
        Arc::new(Self {
            stream,
            kind,
            started: core.now(),
            core: core.clone(),
            session: session.map(|session| session.id.clone()),
            ended: session.map(Session::ended).unwrap_or_default(),
            request_id: request_id.cloned(),
            state: Mutex::new(State {
                writer: Writer::new(config, FIRST_EPOCH),
                log,
                pumping: false,
                stopped: false,
                dropped: 0,
            }),
            opened: Watched::new(opened),
            readers: Watched::new(0),
            last_read: AtomicU64::new(core.now().0),
            close_wishes: Watched::new(0),
            wishes_done: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            said: AtomicU64::new(0),
            fetched: AtomicBool::new(false),
        })
    }

    /// Makes the stream even if nothing is said yet.
    pub(crate) fn open(self: &Arc<Self>) {
        self.state.lock().writer.open();
        self.pump();
    }

    /// Says something. Returns whether it will be in the stream.
    pub(crate) fn push(self: &Arc<Self>, payload: Bytes, class: EventClass, coalesce: Option<Bytes>) -> bool {
        self.note_size(payload.len());
        let pushed = {
            let mut state = self.state.lock();
            let pushed = state.writer.push(payload, class == EventClass::Droppable, coalesce);
            self.count_dropped(&mut state);
            pushed
        };
        match pushed {
            Pushed::Queued => {}
            Pushed::Coalesced => self.core.metrics.events_coalesced.up(),
            Pushed::TooLarge => {
                self.core.metrics.events_too_large.up();
                return false;
            }
            // There is no room, or the stream is over: whoever speaks is told.
            Pushed::Dropped | Pushed::Full | Pushed::AfterSeal | Pushed::Stopped => return false,
        }
        self.pump();
        !self.state.lock().stopped
    }

    /// Says the last thing, or nothing more. A response that is too large becomes an error that says so.
    pub(crate) fn seal(self: &Arc<Self>, last: Option<(&RequestId, Bytes)>) {
        if self.kind == StreamKind::Call {
            self.core.metrics.streams_sealed.up();
        }
        if last.is_none() {
            self.set_fetched();
        }
        self.note_size(last.as_ref().map_or(0, |(_, payload)| payload.len()));
        if self.state.lock().writer.seal(last) == Pushed::TooLarge {
            self.core.metrics.events_too_large.up();
        }
        self.pump();
    }

    /// How many bytes were said on the stream.
    pub(crate) fn said(&self) -> u64 {
        self.said.load(Ordering::Relaxed)
    }

    fn note_size(&self, bytes: usize) {
        self.said.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until it is known where the stream lives.
    pub(crate) async fn opened(&self) -> Opened {
        self.opened.wait_for(|opened| opened != Opened::NotYet).await
    }

    /// The log that the stream is in. Final once [`Outlet::opened`] has answered.
    pub(crate) fn log(&self) -> Arc<dyn Store> {
        self.state.lock().log.clone()
    }

    // --- the reading side, as far as the writer has to know it ---

    /// Notes that a connection reads the stream, until the guard is dropped.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        self.readers.modify(|readers| {
            *readers += 1;
            true
        });
        Reading(self.clone())
    }

    /// Notes that a client has everything, or that there is nothing to have.
    pub(crate) fn set_fetched(&self) {
        self.fetched.store(true, Ordering::Relaxed);
    }

    /// Notes that a connection is over. A call's stream that is in no store dies with it: it has no id to come back with. A
    /// session's own is read again without one.
    pub(crate) fn reader_left(&self) {
        self.state.lock().writer.shrink();
        if self.kind == StreamKind::Call && self.is_unstored() {
            // The process's own memory answers at once.
            let _ = self.log().remove(self.stream).now();
        }
    }

    /// Notes that a question waits for its answer, until the guard is dropped.
    pub(crate) fn ask(self: &Arc<Self>) -> Asking {
        self.asking.fetch_add(1, Ordering::Relaxed);
        Asking(self.clone())
    }

    /// Whether a question on this stream waits for its answer: then clients are told to poll soon.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Since when nobody reads the stream here, if nobody does.
    pub(crate) fn unread_since(&self) -> Option<Millis> {
        (self.readers.get() == 0).then(|| Millis(self.last_read.load(Ordering::Relaxed)))
    }

    /// Waits until a connection reads the stream.
    pub(crate) async fn wait_read(&self) {
        self.readers.wait_for(|readers| readers > 0).await;
    }

    /// Wishes that the connection that reads this stream be closed.
    pub(crate) fn wish_close(&self) {
        self.close_wishes.modify(|wishes| {
            *wishes += 1;
            true
        });
    }

    /// How many wishes there were.
    pub(crate) fn close_wishes(&self) -> u64 {
        self.close_wishes.get()
    }

    /// Waits until there were more than `seen`, and returns how many.
    pub(crate) async fn more_close_wishes(&self, seen: u64) -> u64 {
        self.close_wishes.wait_for(|wishes| wishes > seen).await
    }

    /// Whether there is a wish that no connection has fulfilled yet; the asking one does so now.
    pub(crate) fn take_close_wish(&self) -> bool {
        let wishes = self.close_wishes.get();
        self.wishes_done.swap(wishes, Ordering::Relaxed) < wishes
    }

    /// Carries out what the writer wants. A store that answers at once is dealt with here; one that takes its time gets a
    /// task, which lives only while there is something to write.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.pumping {
            return;
        }
        while let Some(op) = state.writer.next_op() {
            let log = state.log.clone();
            if let Some(outcome) = self.start(&*log, &op).now() {
                if self.settle(&mut state, &op, outcome) == Next::Pause {
                    state.pumping = true;
                    tokio::spawn(self.clone().pump_slowly(Some(op)));
                    return;
                }
            } else {
                state.pumping = true;
                tokio::spawn(self.clone().pump_slowly(Some(op)));
                return;
            }
        }
    }

    async fn pump_slowly(self: Arc<Self>, first: Option<Op>) {
        let mut pause = Duration::from_millis(50);
        let mut next = first;
        loop {
            let op = match next.take() {
                Some(op) => op,
                None => {
                    let mut state = self.state.lock();
                    match state.writer.next_op() {
                        Some(op) => op,
                        None => {
                            state.pumping = false;
                            return;
                        }
                    }
                }
            };
            let log = self.log();
            let outcome = self.start(&*log, &op).await;
            let settled = self.settle(&mut self.state.lock(), &op, outcome);
            if settled == Next::Pause {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            } else {
                pause = Duration::from_millis(50);
            }
        }
    }

    fn start<'a>(&self, log: &'a dyn Store, op: &Op) -> StoreFuture<'a, Outcome> {
        let options = &self.core.options;
        let at = |offset| WriteAt { stream: self.stream, epoch: FIRST_EPOCH, offset };
        match op {
            Op::Create => log
                .create(NewStream {
                    id: self.stream,
                    kind: self.kind,
                    owner: self.core.backend,
                    epoch: FIRST_EPOCH,
                    session: self.session.as_deref().map(Into::into),
                    request_id: self.request_id.as_ref().map(RequestId::to_json),
                    open_ttl: match self.kind {
                        StreamKind::Call => options.open_ttl(),
                        StreamKind::Standalone => options.session_ttl * 2,
                    },
                    max_events: options.max_stream_events,
                    max_bytes: options.max_stream_bytes,
                })
                .map(|created| match created {
                    Ok(()) => Outcome::Done,
                    Err(CreateError::Exists) => Outcome::Exists,
                    Err(CreateError::Full { .. }) => Outcome::Full,
                    Err(CreateError::Unavailable(_)) => Outcome::Unavailable,
                }),
            Op::Append { offset, payload, droppable } => {
                let class = if *droppable { EventClass::Droppable } else { EventClass::Kept };
                log.append(at(*offset), Event { payload: payload.clone(), class }).map(outcome)
            }
            Op::Seal { offset, last } => log.seal(at(*offset), last.clone(), options.sealed_ttl).map(outcome),
        }
    }

    fn settle(&self, state: &mut State, op: &Op, outcome: Outcome) -> Next {
        if matches!(op, Op::Create) {
            if matches!(outcome, Outcome::Full | Outcome::Unavailable) && !self.is_unstored() {
                // The call finishes on its connection: same road, another log, no ids.
                self.core.metrics.streams_unstored.up();
                state.log = self.core.ephemeral.clone();
                let _ = state.writer.on_outcome(Outcome::Unavailable);
                self.opened.set(Opened::Unstored);
                return Next::Go;
            }
            self.opened.modify(|opened| {
                let first = *opened == Opened::NotYet;
                if first {
                    *opened = Opened::Stored;
                }
                first
            });
        }
        let directive = state.writer.on_outcome(outcome);
        self.count_dropped(state);
        match directive {
            Directive::Continue => Next::Go,
            Directive::Retry => Next::Pause,
            Directive::Stop(reason) => {
                tracing::warn!(stream = %Short::stream(self.stream), %reason, "a stream cannot be written any more");
                state.stopped = true;
                // Its response will never come. Whoever waits for it is told so when the stream is gone, and only then.
                if self.kind == StreamKind::Call
                    && matches!(reason, StopReason::Full | StopReason::Lost { .. })
                {
                    self.remove_from(&state.log);
                }
                Next::Go
            }
        }
    }

    /// What is dropped is counted wherever that happens: at the door, for something that must be kept, or in the log.
    fn count_dropped(&self, state: &mut State) {
        let dropped = state.writer.dropped();
        self.core.metrics.events_dropped.add(dropped - std::mem::replace(&mut state.dropped, dropped));
    }

    fn remove_from(&self, log: &Arc<dyn Store>) {
        let (log, stream) = (log.clone(), self.stream);
        if log.remove(stream).now().is_none() {
            tokio::spawn(async move {
                if let Err(error) = log.remove(stream).await {
                    tracing::warn!(stream = %Short::stream(stream), %error, "a stream that cannot be written could not be removed");
                }
            });
        }
    }

    fn is_unstored(&self) -> bool {
        self.opened.get() == Opened::Unstored
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let waits =
            self.kind == StreamKind::Call && !self.fetched.load(Ordering::Relaxed) && !self.is_unstored();
        let expires = waits.then(|| {
            let ttl = millis(self.core.options.sealed_ttl);
            self.core.now().after(ttl)
        });
        self.core.running.remove(self.stream, expires, &self.ended);
    }
}

/// A connection reads the stream while this exists.
pub(crate) struct Reading(Arc<Outlet>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.last_read.store(self.0.core.now().0, Ordering::Relaxed);
        self.0.readers.modify(|readers| {
            *readers -= 1;
            // Nobody waits for fewer.
            false
        });
    }
}

/// A question waits while this exists.
pub(crate) struct Asking(Arc<Outlet>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What to do after an operation.
#[derive(PartialEq, Eq)]
enum Next {
    Go,
    /// The store is away: try again after a pause.
    Pause,
}

#[allow(clippy::needless_pass_by_value, reason = "passed as a function to map")]
fn outcome<T>(written: Result<T, WriteError>) -> Outcome {
    match written {
        Ok(_) => Outcome::Done,
        Err(WriteError::Fenced { .. }) => Outcome::Fenced,
        Err(WriteError::Sealed) => Outcome::Sealed,
        Err(WriteError::OutOfOrder { tail }) => Outcome::OutOfOrder { tail },
        Err(WriteError::Full { .. }) => Outcome::Full,
        Err(WriteError::Gone) => Outcome::Gone,
        Err(WriteError::Unavailable(_)) => Outcome::Unavailable,
    }
}
