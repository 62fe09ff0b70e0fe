//! Carries out what a writer wants, and what its answers demand.

use super::{Making, Opened, Outlet, State};
use crate::{
    fleet::{STORE_PATIENCE, patiently},
    log::Short,
};
use bowline_proto::{
    jsonrpc::RequestId,
    legacy::{Directive, Op, Outcome, StopReason, Writer},
};
use bowline_store::{
    BackendId, CreateError, Event, EventClass, NewStream, ReadError, ReadLimit, Store, StoreFuture,
    StreamKind, WriteAt, WriteError,
};
use std::{sync::Arc, time::Duration};

impl Outlet {
    /// Carries out what the writer wants. A store that answers at once is dealt with here; one that takes its time gets a
    /// task, which lives only while there is something to write.
    pub(super) fn pump(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.pumping {
            return;
        }
        if state.foreign {
            if state.writer.has_work() {
                state.pumping = true;
                crate::task::spawn(self.clone().pump_slowly(None));
            }
            return;
        }
        while let Some(op) = state.writer.next_op() {
            let log = self.log();
            let epoch = state.writer.epoch();
            if let Some(outcome) = self.start(&*log, &op, epoch, state.making.as_deref()).now() {
                match self.settle(&mut state, &op, outcome) {
                    Next::Go => {}
                    Next::Pause => {
                        state.pumping = true;
                        crate::task::spawn(self.clone().pump_slowly(Some(op)));
                        return;
                    }
                    Next::Foreign if state.writer.has_work() => {
                        state.pumping = true;
                        crate::task::spawn(self.clone().pump_slowly(None));
                        return;
                    }
                    Next::Foreign => return,
                }
            } else {
                state.pumping = true;
                crate::task::spawn(self.clone().pump_slowly(Some(op)));
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
                    if foreign && !self.take_back(refused.as_ref()).await {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_secs(2));
                        continue;
                    }
                    refused = None;
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
            let (log, epoch) = (self.log(), self.state.lock().writer.epoch());
            let outcome = self.do_slowly(&*log, &op, epoch).await;
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

    /// Has the store do something, however long that takes. Whoever reads the stream hears when it takes too long.
    async fn do_slowly(&self, log: &dyn Store, op: &Op, epoch: u64) -> Outcome {
        let mut done = self.start(log, op, epoch, self.state.lock().making.as_deref());
        match tokio::time::timeout(STORE_PATIENCE, &mut done).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.note_stuck(&mut self.state.lock(), true);
                done.await
            }
        }
    }

    fn note_stuck(&self, state: &mut State, stuck: bool) {
        if std::mem::replace(&mut state.stuck, stuck) != stuck {
            self.facts.touch();
        }
    }

    /// Takes a session's own stream over from the backend that wrote it last: behind all that is in it, at an epoch that no other
    /// backend uses. `false` where the store cannot be asked now.
    async fn take_back(&self, refused: Option<&Op>) -> bool {
        let at = match refused {
            Some(Op::Append { offset, .. }) => offset.saturating_sub(1),
            _ => 0,
        };
        let one = ReadLimit { events: 1, bytes: 1 };
        let (epoch, incarnation, tail, there) =
            match patiently(self.core.store.read_after(self.stream, at, one)).await {
                Ok(page) if page.sealed => return self.stop(StopReason::Sealed),
                Ok(page) => (page.epoch, page.incarnation, page.tail, page.events.into_iter().next()),
                // Its oldest events are gone, which the writer need not know.
                Err(ReadError::Evicted { oldest }) => {
                    match patiently(self.core.store.read_after(self.stream, oldest.saturating_sub(1), one))
                        .await
                    {
                        Ok(page) => (page.epoch, page.incarnation, page.tail, None),
                        Err(_) => return false,
                    }
                }
                Err(ReadError::Unavailable(_)) => return false,
                // It ends before what this backend had written, and may be another one than that.
                Err(ReadError::Lost { tail }) => {
                    match patiently(self.core.store.read_after(self.stream, tail, one)).await {
                        Ok(page) => (page.epoch, page.incarnation, page.tail, None),
                        Err(_) => return false,
                    }
                }
                Err(ReadError::Gone) => return self.stop(StopReason::Gone),
            };
        let mut state = self.state.lock();
        let is_the_same = state.incarnation == incarnation;
        let written = is_the_same
            && matches!(refused, Some(Op::Append { payload, .. }) if there.as_ref() == Some(payload));
        if is_the_same && tail < at {
            drop(state);
            // Positions in it mean nothing any more. It has to begin again, as another one.
            self.remove_from(&self.core.store);
            return self.stop(StopReason::Lost { tail });
        }
        state.incarnation = incarnation;
        state.writer.take_back(next_epoch(epoch, self.core.backend), tail, written);
        state.foreign = false;
        true
    }

    /// Nothing can be written any more. Always `true`: there is nothing to try again.
    fn stop(&self, reason: StopReason) -> bool {
        let mut state = self.state.lock();
        state.foreign = false;
        state.replace(Writer::stopped(reason));
        true
    }

    fn start<'a>(
        &'a self,
        log: &'a dyn Store,
        op: &Op,
        epoch: u64,
        making: Option<&Making>,
    ) -> StoreFuture<'a, Outcome> {
        let options = &self.core.options;
        let at = |offset| WriteAt { stream: self.stream, epoch, offset };
        match op {
            Op::Create => {
                let stream = NewStream {
                    id: self.stream,
                    kind: self.kind,
                    owner: self.core.backend,
                    epoch,
                    incarnation: making.map_or(0, |making| making.incarnation),
                    session: making.and_then(|making| making.session.as_deref()).map(Into::into),
                    request_id: making.and_then(|making| making.request_id.as_ref()).map(RequestId::to_json),
                    rerun: making.and_then(|making| making.rerun.clone()),
                    open_ttl: match self.kind {
                        StreamKind::Call if self.task => options.open_task_ttl(),
                        StreamKind::Call => options.open_ttl(),
                        StreamKind::Standalone => options.session_ttl * 2,
                    },
                    max_events: options.max_stream_events,
                    max_bytes: options.max_stream_bytes,
                };
                self.create(log, stream)
            }
            Op::Append { offset, payload, droppable } => {
                let class = if *droppable { EventClass::Droppable } else { EventClass::Kept };
                log.append(at(*offset), Event { payload: payload.clone(), class }).map(outcome)
            }
            Op::Seal { offset, last } => {
                let mut keep = options.sealed_ttl;
                if self.task {
                    let age = Duration::from_millis(self.core.now().since(self.started));
                    keep = keep.max(options.task_ttl.saturating_sub(age));
                }
                log.seal(at(*offset), last.clone(), keep).map(outcome)
            }
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
            match fleet.lease.take(core).await {
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
                // Another backend wrote under an epoch that was taken over from it, or made the log again that was gone.
                (Op::Append { .. } | Op::Seal { .. }, Outcome::OutOfOrder { .. }) => true,
                _ => false,
            };
            if other {
                if matches!(op, Op::Create) {
                    self.note_opened(Opened::Stored);
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
            // Kept by the store, or by nobody.
            if let Some(making) = &mut state.making {
                making.rerun = None;
                state.incarnation = making.incarnation;
            }
            if outcome == Outcome::Unavailable && !self.is_unstored() {
                if self.kind == StreamKind::Standalone {
                    let _ = state.writer.on_outcome(outcome);
                    return Next::Pause;
                }
                // Nothing of it is anywhere, and nothing was promised: its client is told to come again.
                self.core.metrics.streams_refused.up();
                state.replace(Writer::stopped(StopReason::Gone));
                self.note_opened(Opened::Away);
                return Next::Go;
            }
            if outcome == Outcome::Full && !self.is_unstored() {
                // The call finishes on its connection: same road, another log, no ids.
                self.core.metrics.streams_unstored.up();
                let _ = state.writer.on_outcome(Outcome::Unavailable);
                self.note_opened(Opened::Unstored);
                return Next::Go;
            }
            if self.kind == StreamKind::Call {
                state.making = None;
            }
            self.facts.modify(|facts| {
                let first = facts.opened == Opened::NotYet;
                if first {
                    facts.opened = Opened::Stored;
                }
                first
            });
        }
        if self.task
            && outcome == Outcome::Done
            && let Op::Append { offset, .. } | Op::Seal { offset, last: Some(_) } = op
        {
            self.log().trim(self.stream, offset.saturating_sub(1));
        }
        let directive = state.writer.on_outcome(outcome);
        self.count_dropped(state);
        match directive {
            Directive::Continue => {
                self.note_stuck(state, false);
                Next::Go
            }
            Directive::Retry => {
                self.note_stuck(state, true);
                Next::Pause
            }
            Directive::Stop(reason) => {
                tracing::warn!(stream = %Short::stream(self.stream), %reason, "a stream cannot be written any more");
                self.facts.touch();
                // Its response will never come. Whoever waits for it is told so when the stream is gone, and only then.
                if self.kind == StreamKind::Call
                    && matches!(reason, StopReason::Full | StopReason::Lost { .. })
                {
                    self.remove_from(&self.log());
                }
                Next::Go
            }
        }
    }

    pub(super) fn note_opened(&self, opened: Opened) {
        self.facts.modify(|facts| {
            facts.opened = opened;
            true
        });
    }

    /// What is dropped is counted wherever that happens: at the door, for something that must be kept, or in the log.
    pub(super) fn count_dropped(&self, state: &mut State) {
        let dropped = u32::try_from(state.writer.dropped()).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut state.dropped, dropped);
        self.core.metrics.events_dropped.add(dropped.saturating_sub(before).into());
    }

    fn remove_from(&self, log: &Arc<dyn Store>) {
        let (log, stream) = (log.clone(), self.stream);
        if log.remove(stream).now().is_none() {
            crate::task::spawn(async move {
                if let Err(error) = log.remove(stream).await {
                    tracing::warn!(stream = %Short::stream(stream), %error, "a stream that cannot be written could not be removed");
                }
            });
        }
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

/// An epoch above `epoch` that no other backend uses: the upper half counts, the lower half names the backend. Two writers of one epoch
/// could take each other's events for their own.
pub(super) const fn next_epoch(epoch: u64, backend: BackendId) -> u64 {
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
