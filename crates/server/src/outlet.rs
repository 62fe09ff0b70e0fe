//! The writing end of one stream: a pure [`Writer`] with a store behind it.

use crate::{
    core::Core,
    fleet::{BACKSTOP, patiently},
    log::Short,
    session::Session,
};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::RequestId,
    legacy::{Directive, Millis, Op, Outcome, Pushed, StopReason, Writer, WriterConfig},
};
use bowline_store::{
    BackendId, CreateError, Event, EventClass, NewStream, ReadError, ReadLimit, Store, StoreFuture,
    StreamKind, WriteAt, WriteError,
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
use tokio::sync::{Notify, futures::Notified, watch};

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
    /// The store is away: there is no stream, and nothing can be said.
    Away,
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
    opened: watch::Sender<Opened>,
    /// Connections that read the stream on this backend now.
    readers: watch::Sender<usize>,
    last_read: AtomicU64,
    close_wishes: watch::Sender<u64>,
    /// The wishes that a connection has fulfilled.
    wishes_done: AtomicU64,
    /// Questions on this stream that wait for their answer.
    asking: AtomicUsize,
    said: AtomicU64,
    /// Whether a client has everything that there is to have.
    fetched: AtomicBool,
    /// The newest attachment that was seen, so that readers on other backends are noticed.
    generation: AtomicU64,
    /// Told when nothing can be written any more, and when the last thing was said.
    turned: Notify,
}

struct State {
    writer: Writer,
    log: Arc<dyn Store>,
    /// Whether somebody is carrying out the writer's operations.
    pumping: bool,
    /// Whether nothing can be written any more, and why.
    stopped: Option<StopReason>,
    /// Whether another backend writes the stream now: it is taken over when there is something to say.
    foreign: bool,
    /// How many messages the writer has dropped that were counted.
    dropped: u64,
}

impl State {
    fn replace(&mut self, writer: Writer) {
        self.writer = writer;
        self.dropped = 0;
    }
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
                stopped: None,
                foreign: false,
                dropped: 0,
            }),
            opened: watch::Sender::new(opened),
            readers: watch::Sender::new(0),
            last_read: AtomicU64::new(core.now().0),
            close_wishes: watch::Sender::new(0),
            wishes_done: AtomicU64::new(0),
            asking: AtomicUsize::new(0),
            said: AtomicU64::new(0),
            fetched: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            turned: Notify::new(),
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
        self.state.lock().stopped.is_none()
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
        self.turned.notify_waiters();
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
        // The sender lives in `self`, so the wait ends with an answer.
        self.opened
            .subscribe()
            .wait_for(|opened| *opened != Opened::NotYet)
            .await
            .map_or(Opened::Unstored, |opened| *opened)
    }

    /// The log that the stream is in. Final once [`Outlet::opened`] has answered.
    pub(crate) fn log(&self) -> Arc<dyn Store> {
        self.state.lock().log.clone()
    }

    /// Waits until another backend has taken the stream of a call over, or the store has not taken it in: its call has no business
    /// here any more.
    pub(crate) async fn lost(&self) -> Lost {
        loop {
            let turned = self.turned.notified();
            if *self.opened.borrow() == Opened::Away {
                return Lost::StoreAway;
            }
            if matches!(self.state.lock().stopped, Some(StopReason::Fenced | StopReason::Sealed)) {
                return Lost::Owner;
            }
            turned.await;
        }
    }

    /// What the store has not got of a stream that is over: a connection can be given it without the store.
    pub(crate) fn last_words(&self) -> Option<(u64, Vec<Bytes>)> {
        self.state.lock().writer.last_words()
    }

    /// Whether somebody who has read up to `offset` has all that the store confirmed.
    pub(crate) fn is_written_to(&self, offset: u64) -> bool {
        let (next, _) = self.state.lock().writer.backlog();
        offset.saturating_add(1) >= next
    }

    /// Told when [`Outlet::last_words`] may be there.
    pub(crate) fn turned(&self) -> Notified<'_> {
        self.turned.notified()
    }

    // --- the reading side, as far as the writer has to know it ---

    /// Notes the attachment of a connection on this backend.
    pub(crate) fn note_generation(&self, generation: u64) {
        self.generation.fetch_max(generation, Ordering::Relaxed);
    }

    /// Looks whether a client reads the stream on another backend, or did since the last look. While the store is away nobody knows, and
    /// the answer is yes.
    pub(crate) async fn is_read_elsewhere(&self) -> bool {
        if !self.core.is_shared() || self.is_unstored() {
            return false;
        }
        let tail = self.state.lock().writer.backlog().0.saturating_sub(1);
        let nothing = ReadLimit { events: 1, bytes: 1 };
        let read = match patiently(self.core.store.read_after(self.stream, tail, nothing)).await {
            Ok(page) => page.generation > self.generation.fetch_max(page.generation, Ordering::Relaxed),
            Err(ReadError::Unavailable(_)) => true,
            Err(_) => false,
        };
        if read {
            self.last_read.store(self.core.now().0, Ordering::Relaxed);
        }
        read
    }

    /// Notes that a connection reads the stream, until the guard is dropped.
    pub(crate) fn read(self: &Arc<Self>) -> Reading {
        self.readers.send_modify(|readers| *readers += 1);
        Reading(self.clone())
    }

    /// Notes that a client has everything, or that there is nothing to have.
    pub(crate) fn set_fetched(&self) {
        self.fetched.store(true, Ordering::Relaxed);
    }

    /// Notes that a connection is over. A call's stream that is in no store dies with it: it has no id to come back with. A
    /// session's own is read again without one.
    pub(crate) fn reader_left(&self) {
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
        (*self.readers.borrow() == 0).then(|| Millis(self.last_read.load(Ordering::Relaxed)))
    }

    /// Waits until a connection reads the stream, here or on another backend.
    pub(crate) async fn wait_read(&self) {
        let mut readers = self.readers.subscribe();
        let here = readers.wait_for(|readers| *readers > 0);
        let elsewhere = async {
            if !self.core.is_shared() || self.is_unstored() {
                return std::future::pending().await;
            }
            let mut wakeups = self.core.store.subscribe(self.stream);
            // Who has attached before may have gone.
            let _ = self.is_read_elsewhere().await;
            loop {
                tokio::select! {
                    () = wakeups.changed() => {}
                    () = tokio::time::sleep(BACKSTOP) => {}
                }
                if self.is_read_elsewhere().await {
                    return;
                }
            }
        };
        tokio::select! {
            _ = here => {}
            () = elsewhere => {}
        }
    }

    /// Wishes that the connection that reads this stream be closed.
    pub(crate) fn wish_close(&self) {
        self.close_wishes.send_modify(|wishes| *wishes += 1);
    }

    /// How connections learn of a wish.
    pub(crate) fn close_wishes(&self) -> watch::Receiver<u64> {
        self.close_wishes.subscribe()
    }

    /// Whether there is a wish that no connection has fulfilled yet; the asking one does so now.
    pub(crate) fn take_close_wish(&self) -> bool {
        let wishes = *self.close_wishes.borrow();
        self.wishes_done.swap(wishes, Ordering::Relaxed) < wishes
    }

    /// Carries out what the writer wants. A store that answers at once is dealt with here; one that takes its time gets a
    /// task, which lives only while there is something to write.
    fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.pumping {
            return;
        }
        if state.foreign {
            if state.writer.has_work() {
                state.pumping = true;
                tokio::spawn(self.clone().pump_slowly(None));
            }
            return;
        }
        while let Some(op) = state.writer.next_op() {
            let log = state.log.clone();
            let epoch = state.writer.epoch();
            if let Some(outcome) = self.start(&*log, &op, epoch).now() {
                match self.settle(&mut state, &op, outcome) {
                    Next::Go => {}
                    Next::Pause => {
                        state.pumping = true;
                        tokio::spawn(self.clone().pump_slowly(Some(op)));
                        return;
                    }
                    Next::Foreign if state.writer.has_work() => {
                        state.pumping = true;
                        tokio::spawn(self.clone().pump_slowly(None));
                        return;
                    }
                    Next::Foreign => return,
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
        // What was refused last because another backend writes the stream: it may be in the log all the same.
        let mut refused = None;
        loop {
            let op = match next.take() {
                Some(op) => op,
                None => {
                    let foreign = {
                        let mut state = self.state.lock();
                        if state.foreign && !state.writer.has_work() {
                            state.pumping = false;
                            return;
                        }
                        state.foreign
                    };
                    if foreign && !self.take_back(refused.take()).await {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(2));
                        continue;
                    }
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
            let (log, epoch) = {
                let state = self.state.lock();
                (state.log.clone(), state.writer.epoch())
            };
            let outcome = self.start(&*log, &op, epoch).await;
            let settled = self.settle(&mut self.state.lock(), &op, outcome);
            match settled {
                Next::Go => pause = Duration::from_millis(50),
                Next::Pause => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                Next::Foreign => refused = Some(op),
            }
        }
    }

    /// Takes a session's own stream over from the backend that wrote it last: behind all that is in it, at an epoch that no other
    /// backend uses. `false` where the store cannot be asked now.
    async fn take_back(&self, refused: Option<Op>) -> bool {
        let at = match &refused {
            Some(Op::Append { offset, .. }) => offset.saturating_sub(1),
            _ => 0,
        };
        let one = ReadLimit { events: 1, bytes: 1 };
        let (epoch, tail, there) = match patiently(self.core.store.read_after(self.stream, at, one)).await {
            Ok(page) if page.sealed => return self.stop(StopReason::Sealed),
            Ok(page) => (page.epoch, page.tail, page.events.into_iter().next()),
            // Its oldest events are gone, which the writer need not know.
            Err(ReadError::Evicted { oldest }) => {
                match patiently(self.core.store.read_after(self.stream, oldest.saturating_sub(1), one)).await
                {
                    Ok(page) => (page.epoch, page.tail, None),
                    Err(_) => return false,
                }
            }
            Err(ReadError::Unavailable(_)) => return false,
            Err(ReadError::Lost { tail }) => return self.stop(StopReason::Lost { tail }),
            Err(ReadError::Gone) => return self.stop(StopReason::Gone),
        };
        let written = matches!(&refused, Some(Op::Append { payload, .. }) if there.as_ref() == Some(payload));
        let mut state = self.state.lock();
        state.writer.take_back(next_epoch(epoch, self.core.backend), tail, written);
        state.foreign = false;
        true
    }

    /// Nothing can be written any more. Always `true`: there is nothing to try again.
    fn stop(&self, reason: StopReason) -> bool {
        let mut state = self.state.lock();
        state.foreign = false;
        state.stopped = Some(reason);
        state.replace(Writer::stopped(reason));
        true
    }

    fn start<'a>(&'a self, log: &'a dyn Store, op: &Op, epoch: u64) -> StoreFuture<'a, Outcome> {
        let options = &self.core.options;
        let at = |offset| WriteAt { stream: self.stream, epoch, offset };
        match op {
            Op::Create => self.create(
                log,
                NewStream {
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
                },
            ),
            Op::Append { offset, payload, droppable } => {
                let class = if *droppable { EventClass::Droppable } else { EventClass::Kept };
                log.append(at(*offset), Event { payload: payload.clone(), class }).map(outcome)
            }
            Op::Seal { offset, last } => log.seal(at(*offset), last.clone(), options.sealed_ttl).map(outcome),
        }
    }

    /// Makes the stream. Its owner needs a lease, or others would take it for one of a backend that died.
    fn create<'a>(&'a self, log: &'a dyn Store, stream: NewStream) -> StoreFuture<'a, Outcome> {
        let outcome = |created| match created {
            Ok(()) => Outcome::Done,
            Err(CreateError::Exists) => Outcome::Exists,
            Err(CreateError::Full { .. }) => Outcome::Full,
            Err(CreateError::Unavailable(_)) => Outcome::Unavailable,
        };
        let core = &self.core;
        let Some(fleet) = core.fleet.as_ref().filter(|_| !self.is_unstored()) else {
            return log.create(stream).map(outcome);
        };
        if fleet.lease.is_held(core) {
            let made = log.create(stream);
            return match made.try_now() {
                Ok(made) => StoreFuture::ready(outcome(made)),
                Err(made) => StoreFuture::later(async move { outcome(patiently(made).await) }),
            };
        }
        StoreFuture::later(async move {
            let asked = core.now();
            let leased = patiently(log.renew(core.backend, core.is_draining(), core.options.lease_ttl)).await;
            fleet.lease.note(core, asked, leased.is_ok());
            match leased {
                Ok(()) => outcome(patiently(log.create(stream)).await),
                Err(_) => Outcome::Unavailable,
            }
        })
    }

    fn settle(&self, state: &mut State, op: &Op, outcome: Outcome) -> Next {
        let shared_by_writers =
            self.kind == StreamKind::Standalone && self.core.is_shared() && !self.is_unstored();
        if shared_by_writers {
            let other = match (op, outcome) {
                (Op::Create, Outcome::Exists) => true,
                (Op::Append { .. } | Op::Seal { .. }, Outcome::Fenced) => true,
                // Another backend wrote under an epoch that was taken over from it.
                (Op::Append { offset, .. }, Outcome::OutOfOrder { tail }) => tail >= *offset,
                _ => false,
            };
            if other {
                if matches!(op, Op::Create) {
                    self.opened.send_replace(Opened::Stored);
                }
                // What it has stays in its queue until it is taken back for good.
                let epoch = state.writer.epoch();
                let _ = state.writer.on_outcome(Outcome::Unavailable);
                state.writer.take_back(epoch, 0, false);
                state.foreign = true;
                return Next::Foreign;
            }
        }
        if matches!(op, Op::Create) {
            if outcome == Outcome::Unavailable && !self.is_unstored() {
                if self.kind == StreamKind::Standalone {
                    let _ = state.writer.on_outcome(outcome);
                    return Next::Pause;
                }
                // Nothing of it is anywhere, and nothing was promised: its client is told to come again.
                self.core.metrics.streams_refused.up();
                state.replace(Writer::stopped(StopReason::Gone));
                state.stopped = Some(StopReason::Gone);
                self.opened.send_replace(Opened::Away);
                self.turned.notify_waiters();
                return Next::Go;
            }
            if outcome == Outcome::Full && !self.is_unstored() {
                // The call finishes on its connection: same road, another log, no ids.
                self.core.metrics.streams_unstored.up();
                state.log = self.core.ephemeral.clone();
                let _ = state.writer.on_outcome(Outcome::Unavailable);
                self.opened.send_replace(Opened::Unstored);
                return Next::Go;
            }
            self.opened.send_if_modified(|opened| {
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
                state.stopped = Some(reason);
                self.turned.notify_waiters();
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
        *self.opened.borrow() == Opened::Unstored
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
        self.0.readers.send_modify(|readers| *readers -= 1);
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
    /// Another backend writes the stream: take it over once there is something to say.
    Foreign,
}

/// Why a call has no business here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Another backend ended it, because this one seemed dead.
    Owner,
    /// The store did not take its stream in.
    StoreAway,
}

/// An epoch above `epoch` that no other backend uses: the upper half counts, the lower half names the backend. Two writers of one epoch
/// could take each other's events for their own.
const fn next_epoch(epoch: u64, backend: BackendId) -> u64 {
    (((epoch >> 32) + 1) << 32) | (backend.0 & 0xffff_ffff)
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
