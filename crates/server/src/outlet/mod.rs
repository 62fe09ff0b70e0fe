//! The writing end of one stream: a pure [`Writer`] with a store behind it.

mod pump;
mod reading;

pub(crate) use reading::Reading;

use crate::{core::Core, fleet::patiently, modern::TASKS, random, session::Session, watched::Watched};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::RequestId,
    legacy::{Millis, Pushed, StopReason, Writer, WriterConfig},
};
use bowline_store::{EventClass, ReadError, ReadLimit, Store, StreamKind};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The epoch of the first writer of a call's stream.
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
///
/// A call that waits has one (a test counts its bytes).
pub(crate) struct Outlet {
    pub(crate) stream: StreamId,
    pub(crate) kind: StreamKind,
    pub(crate) started: Millis,
    core: Arc<Core>,
    /// Whether its session ended; never set where there is none.
    ended: Arc<AtomicBool>,
    /// Whether it is the log of a task: then each event makes those before it obsolete.
    task: bool,
    state: Mutex<State>,
    facts: Watched<Facts>,
    last_read: AtomicU64,
    /// The wishes that a connection has fulfilled.
    wishes_done: AtomicU32,
    /// Questions on this stream that wait for their answer.
    asking: AtomicU32,
    said: AtomicU64,
    /// Whether a client has everything that there is to have.
    fetched: AtomicBool,
    /// The newest attachment that was seen, so that readers on other backends are noticed. Nobody comes back four billion times.
    generation: AtomicU32,
}

/// What a stream is made with for other backends that may have to end it, or to go on with it.
struct Making {
    session: Option<Arc<str>>,
    request_id: Option<RequestId>,
    /// What is kept with the stream to run its call again.
    rerun: Option<Bytes>,
    /// Tells a session's own log from those before it.
    incarnation: u64,
}

/// What others wait for. All of it in one place: there are many of these, and few who wait.
#[derive(Clone, Copy, Debug)]
struct Facts {
    opened: Opened,
    /// Connections that read the stream on this backend now.
    readers: u32,
    close_wishes: u32,
}

struct State {
    writer: Writer,
    /// Whether somebody is carrying out the writer's operations.
    pumping: bool,
    /// Whether another backend writes the stream now: it is taken over when there is something to say.
    foreign: bool,
    /// Which of a session's own logs the writer's offsets are of; 0 where it has not met one yet.
    incarnation: u64,
    /// Whether the store does not take in what is to be written, or takes longer than a client may be kept waiting.
    stuck: bool,
    /// `None` once the stream of a call is made, and where no other backend uses the store; a session's own may have to be made again.
    making: Option<Box<Making>>,
    /// How many messages the writer has dropped that were counted.
    dropped: u32,
}

impl State {
    fn replace(&mut self, writer: Writer) {
        self.writer = writer;
        self.dropped = 0;
    }
}

impl Outlet {
    /// A stream that will be kept in the store; with `rerun`, what it takes to run its call again is kept with it.
    pub(crate) fn new(
        core: &Arc<Core>,
        kind: StreamKind,
        stream: StreamId,
        session: Option<&Session>,
        request_id: Option<&RequestId>,
        rerun: Option<Bytes>,
    ) -> Arc<Self> {
        let (session, ended) = (session.map(|session| session.id.clone()), session.map(Session::ended));
        let ended = ended.unwrap_or_default();
        let outlet = Self::on(core, Opened::NotYet, kind, stream, (session, ended), request_id);
        if let Some(making) = &mut outlet.state.lock().making {
            making.rerun = rerun;
        }
        outlet
    }

    /// The stream of a call that this backend has taken over at `epoch`, where it ended at `tail`.
    pub(crate) fn taken_over(
        core: &Arc<Core>,
        stream: StreamId,
        session: &Session,
        request_id: &RequestId,
        epoch: u64,
        tail: u64,
    ) -> Arc<Self> {
        let of = if session.stateless {
            (None, Arc::default())
        } else {
            (Some(session.id.clone()), session.ended())
        };
        Self::after(core, stream, of, request_id, epoch, tail)
    }

    /// The same for the log of a task.
    pub(crate) fn task_taken_over(
        core: &Arc<Core>,
        stream: StreamId,
        request: &RequestId,
        epoch: u64,
        tail: u64,
    ) -> Arc<Self> {
        Self::after(core, stream, (Some(TASKS.into()), Arc::default()), request, epoch, tail)
    }

    fn after(
        core: &Arc<Core>,
        stream: StreamId,
        of: (Option<Arc<str>>, Arc<AtomicBool>),
        request_id: &RequestId,
        epoch: u64,
        tail: u64,
    ) -> Arc<Self> {
        let outlet = Self::on(core, Opened::Stored, StreamKind::Call, stream, of, Some(request_id));
        {
            let mut state = outlet.state.lock();
            state.writer = Writer::take_over(writer_config(core), epoch, tail);
            state.making = None;
        }
        core.running.add(&outlet);
        outlet
    }

    /// The log of a task; with `rerun`, what it takes to run the task again is kept with it.
    pub(crate) fn task(
        core: &Arc<Core>,
        stream: StreamId,
        request: &RequestId,
        rerun: Option<Bytes>,
    ) -> Arc<Self> {
        let of = (Some(TASKS.into()), Arc::default());
        let outlet = Self::on(core, Opened::NotYet, StreamKind::Call, stream, of, Some(request));
        if let Some(making) = &mut outlet.state.lock().making {
            making.rerun = rerun;
        }
        outlet
    }

    /// A stream without ids, which lives in this process and with its connection only.
    pub(crate) fn unstored(core: &Arc<Core>, stream: StreamId) -> Arc<Self> {
        let of = (None, Arc::default());
        Self::on(core, Opened::Unstored, StreamKind::Call, stream, of, None)
    }

    fn on(
        core: &Arc<Core>,
        opened: Opened,
        kind: StreamKind,
        stream: StreamId,
        (session, ended): (Option<Arc<str>>, Arc<AtomicBool>),
        request_id: Option<&RequestId>,
    ) -> Arc<Self> {
        Arc::new(Self {
            stream,
            kind,
            started: core.now(),
            core: core.clone(),
            task: session.as_deref() == Some(TASKS),
            ended,
            state: Mutex::new(State {
                writer: Writer::new(writer_config(core), first_epoch(core, kind)),
                pumping: false,
                foreign: false,
                incarnation: 0,
                stuck: false,
                // Whose a stream is matters to other backends, and which log it is to whoever makes it again.
                making: (core.is_shared() || kind == StreamKind::Standalone).then(|| {
                    let incarnation = new_incarnation(kind);
                    Box::new(Making { session, request_id: request_id.cloned(), rerun: None, incarnation })
                }),
                dropped: 0,
            }),
            facts: Watched::new(Facts { opened, readers: 0, close_wishes: 0 }),
            last_read: AtomicU64::new(core.now().0),
            wishes_done: AtomicU32::new(0),
            asking: AtomicU32::new(0),
            said: AtomicU64::new(0),
            fetched: AtomicBool::new(false),
            generation: AtomicU32::new(0),
        })
    }

    /// The epoch at which this backend writes the stream. Where the log is at a later one, another backend writes it, whether this one has
    /// noticed or not.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().writer.epoch()
    }

    /// Whether this backend writes the stream, at a later epoch than that.
    pub(crate) fn writes_after(&self, epoch: u64) -> bool {
        let state = self.state.lock();
        state.writer.stop_reason().is_none() && state.writer.epoch() > epoch
    }

    /// Makes the stream even if nothing is said yet.
    pub(crate) fn open(self: &Arc<Self>) {
        self.state.lock().writer.open();
        self.pump();
    }

    /// Makes a session's own stream anew, which the store has lost: what is said from now on is in it.
    pub(crate) fn begin_again(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            // Who is at work on it finds out, and has something to say.
            if state.pumping || self.kind != StreamKind::Standalone || self.is_unstored() {
                return;
            }
            state.replace(Writer::new(writer_config(&self.core), first_epoch(&self.core, self.kind)));
            state.foreign = false;
            state.incarnation = 0;
            if let Some(making) = &mut state.making {
                making.incarnation = new_incarnation(self.kind);
            }
            self.note_opened(Opened::NotYet);
        }
        self.open();
    }

    /// Whether the log that was written is no more, or not what it was, and nothing can be written until it [begins
    /// again](Self::begin_again).
    pub(crate) fn has_lost_its_log(&self) -> bool {
        matches!(self.state.lock().writer.stop_reason(), Some(StopReason::Gone | StopReason::Lost { .. }))
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
        self.state.lock().writer.stop_reason().is_none()
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
        self.facts.touch();
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
        self.facts.wait_for(|facts| facts.opened != Opened::NotYet).await.opened
    }

    /// The log that the stream is in. Final once [`Outlet::opened`] has answered.
    pub(crate) fn log(&self) -> Arc<dyn Store> {
        if self.is_unstored() { self.core.ephemeral.clone() } else { self.core.store.clone() }
    }

    /// Waits until another backend has taken the stream of a call over, or the store has not taken it in: its call has no business
    /// here any more.
    pub(crate) async fn lost(&self) -> Lost {
        loop {
            let turned = self.facts.changed();
            if self.facts.get().opened == Opened::Away {
                return Lost::StoreAway;
            }
            if matches!(self.state.lock().writer.stop_reason(), Some(StopReason::Fenced | StopReason::Sealed))
            {
                return Lost::Owner;
            }
            turned.await;
        }
    }

    /// Whether the store says that another backend has ended the stream, or writes it. Waits for a store that is away.
    pub(crate) async fn was_taken_over(&self) -> bool {
        if self.is_unstored() {
            return false;
        }
        let one = ReadLimit { events: 1, bytes: 1 };
        loop {
            let (epoch, tail) = {
                let state = self.state.lock();
                (state.writer.epoch(), state.writer.backlog().0.saturating_sub(1))
            };
            match patiently(self.core.store.read_after(self.stream, tail, one)).await {
                Ok(page) => return page.sealed || page.epoch > epoch,
                Err(ReadError::Unavailable(_)) => tokio::time::sleep(Duration::from_secs(1)).await,
                // What is gone is noticed by who writes.
                Err(_) => return false,
            }
        }
    }

    /// Whether the store takes nothing in now, whether it can be read or not.
    pub(crate) fn is_stuck(&self) -> bool {
        self.state.lock().stuck
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

    /// Whether the store has the last word.
    pub(crate) fn is_sealed(&self) -> bool {
        self.state.lock().writer.sealed()
    }

    /// Whether the store has confirmed all that was said.
    pub(crate) fn is_written(&self) -> bool {
        self.state.lock().writer.idle()
    }

    /// Told when [`Outlet::last_words`] may be there or the store [takes nothing in](Self::is_stuck), and of other things.
    pub(crate) fn turned(&self) -> impl Future<Output = ()> {
        self.facts.changed()
    }

    fn is_unstored(&self) -> bool {
        self.facts.get().opened == Opened::Unstored
    }
}

fn writer_config(core: &Core) -> WriterConfig {
    WriterConfig { max_event_bytes: core.options.max_event_bytes, ..WriterConfig::default() }
}

/// The epoch that a stream is made at. Of a session's own log there are several writers, and a backend that still writes a log that is gone
/// must not pass for the one that has made it again.
fn first_epoch(core: &Core, kind: StreamKind) -> u64 {
    match kind {
        StreamKind::Standalone if core.is_shared() => pump::next_epoch(0, core.backend),
        StreamKind::Standalone | StreamKind::Call => FIRST_EPOCH,
    }
}

/// Which of the logs under one id a log is that is about to be made. Calls have ids of their own.
fn new_incarnation(kind: StreamKind) -> u64 {
    match kind {
        StreamKind::Standalone => random::word().max(1),
        StreamKind::Call => 0,
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

/// Why a call has no business here any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Another backend ended it, because this one seemed dead.
    Owner,
    /// The store did not take its stream in.
    StoreAway,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_waits_takes_few_bytes() {
        // With its counts of owners this fits into a block of 224 bytes of the usual allocators.
        assert_eq!(size_of::<Outlet>(), 200);
    }
}
