//! The half of a stream that writes: SEMANTICS 5.2, 5.7.

use super::queue::{Admitted, Entry, Queue, word};
use crate::jsonrpc::{ErrorObject, RequestId};
use bytes::Bytes;
use thiserror::Error;

/// The bounds of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterConfig {
    /// How many events may wait for the log.
    pub max_queue_events: usize,
    /// How many bytes of payload may wait for the log. One event alone may be larger.
    pub max_queue_bytes: usize,
    /// The largest event, in bytes. Over it a response becomes an error with `data.reason` `too_large`, an event that may be
    /// dropped is, and a request of ours fails.
    pub max_event_bytes: usize,
}

impl Default for WriterConfig {
    /// 256 events, 4 MiB; an event of 16 MiB.
    fn default() -> Self {
        Self { max_queue_events: 256, max_queue_bytes: 4 << 20, max_event_bytes: 16 << 20 }
    }
}

/// Something for the log to do. Every one is safe to repeat after an answer that got lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Make the stream.
    Create,
    /// Append one event.
    Append {
        /// Its offset: the last one + 1.
        offset: u64,
        /// One JSON-RPC message as JSON text.
        payload: Bytes,
        /// Whether the log may refuse it at a bound.
        droppable: bool,
    },
    /// Append the last message, if any, and close the stream.
    Seal {
        /// The last offset + 1, whether there is a message or not.
        offset: u64,
        /// The last message.
        last: Option<Bytes>,
    },
}

/// What the log said to an [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, now or by an earlier try.
    Done,
    /// A create met a stream of that id.
    Exists,
    /// A bound was met, and nothing was written.
    Full,
    /// The stream belongs to a later epoch.
    Fenced,
    /// The stream has its last message already.
    Sealed,
    /// The offset does not follow the last one.
    OutOfOrder {
        /// The last offset in the log.
        tail: u64,
    },
    /// The stream is gone: expired, evicted or never made.
    Gone,
    /// Nothing is known: no answer in time.
    Unavailable,
}

/// What the shell does after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Directive {
    /// Ask [`Writer::next_op`] again.
    Continue,
    /// The same, after a pause that the shell chooses: the same operation comes again.
    Retry,
    /// Nothing more can be written. What was not is in [`Writer::backlog`].
    Stop(StopReason),
}

/// Why nothing more can be written to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StopReason {
    /// There was a stream of that id before ours: the id is not unique.
    #[error("a stream of this id exists already")]
    Exists,
    /// The store has no room for what must not be dropped.
    #[error("the store is full")]
    Full,
    /// Another backend took the stream over.
    #[error("another backend took the stream over")]
    Fenced,
    /// Somebody else sealed the stream.
    #[error("the stream was sealed by somebody else")]
    Sealed,
    /// The log is not the one that was written: it lost events that it had confirmed.
    #[error("the log lost events: it ends at {tail}")]
    Lost {
        /// The last offset in the log.
        tail: u64,
    },
    /// The stream is gone.
    #[error("the stream is gone")]
    Gone,
}

/// What became of a message that was given to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It will be written.
    Queued,
    /// It will be written, in place of an older one with the same progress token.
    Coalesced,
    /// It may be dropped and was: it is too large, or there is no room. Counted.
    Dropped,
    /// It must not be dropped and there is no room now: give it again after the next outcome, or fail it. Nothing was
    /// queued.
    Full,
    /// It is larger than an event may be. A request of ours fails; for a last message the error is written that says so.
    TooLarge,
    /// The stream has, or is about to have, its last message.
    AfterSeal,
    /// The writer has stopped.
    Stopped,
}

/// How a stream ends.
#[derive(Debug)]
struct Last {
    message: Option<Bytes>,
    /// There until the message is an error of ours.
    id: Option<RequestId>,
}

/// The writer of one stream: the only one that assigns its offsets, with one operation under way at a time.
///
/// The shell loops: perform what [`next_op`](Self::next_op) returns, hand the result to [`on_outcome`](Self::on_outcome), do what that
/// says. Nothing is issued before something was pushed, sealed or [opened](Self::open), and nothing but the creation before the
/// stream is there.
///
/// There is one for each call that runs, and most of them have nothing to do: what is rare takes a pointer.
#[derive(Debug)]
pub struct Writer {
    queue: Queue,
    epoch: u64,
    /// The next offset to be written.
    next: u64,
    /// How the stream ends, from when that is wanted until it has: it follows when the queue is empty.
    last: Option<Box<Last>>,
    stopped: Option<Box<StopReason>>,
    max_event_bytes: u32,
    coalesced: u32,
    wanted: bool,
    created: bool,
    sealed: bool,
    in_flight: bool,
    /// Whether the operation at hand was tried before, with an outcome that nobody knows.
    unsure: bool,
    /// Whether this writer has ever been confirmed an offset.
    confirmed: bool,
}

impl Writer {
    /// The writer of a stream that is not there yet. `epoch` is at least 1.
    #[must_use]
    pub const fn new(config: WriterConfig, epoch: u64) -> Self {
        Self {
            queue: Queue::new(config.max_queue_events, config.max_queue_bytes),
            epoch,
            next: 1,
            last: None,
            stopped: None,
            max_event_bytes: word(config.max_event_bytes),
            coalesced: 0,
            wanted: false,
            created: false,
            sealed: false,
            in_flight: false,
            unsure: false,
            confirmed: false,
        }
    }

    /// A writer that can write nothing, and has nothing.
    #[must_use]
    pub fn stopped(reason: StopReason) -> Self {
        let mut writer = Self::new(
            WriterConfig { max_queue_events: 0, max_queue_bytes: 0, max_event_bytes: usize::MAX },
            0,
        );
        writer.stopped = Some(Box::new(reason));
        writer
    }

    /// The writer that takes over a stream whose last offset is `tail`, at a higher epoch than the log's.
    #[must_use]
    pub const fn take_over(config: WriterConfig, epoch: u64, tail: u64) -> Self {
        let mut writer = Self::new(config, epoch);
        writer.created = true;
        writer.next = tail.saturating_add(1);
        writer
    }

    /// Goes on at another epoch, after `tail`: another writer took the stream over, and
    /// this one takes it back with what it has not written. With `written`, the operation that was refused last is in the log all
    /// the same: it was tried before, and the answer got lost.
    ///
    /// For a stream that several writers share, each with epochs of its own; what it stopped for before is forgotten.
    pub fn take_back(&mut self, epoch: u64, tail: u64, written: bool) {
        self.epoch = epoch;
        self.next = tail.saturating_add(1);
        self.created = true;
        self.in_flight = false;
        self.unsure = false;
        self.confirmed = false;
        self.stopped = None;
        if written {
            self.queue.finish();
        }
    }

    /// Whether there is something to write once the stream is there.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.last.is_some()
    }

    /// What the log has not confirmed of a stream that is about to be sealed, with the offset of the first message, as in
    /// [`backlog`](Self::backlog). Nothing is added to it any more, so a connection that is open can be given it when the store is
    /// away. `None` where the last message was not said yet, or is in the log.
    #[must_use]
    pub fn last_words(&self) -> Option<(u64, Vec<Bytes>)> {
        self.last.is_some().then(|| self.backlog())
    }

    /// The epoch of every operation of this writer.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives back room that nothing waits in: the call may be quiet for long.
    pub fn shrink(&mut self) {
        self.queue.shrink();
    }

    /// Asks for the stream to be made, although nothing was said yet.
    pub const fn open(&mut self) {
        self.wanted = true;
    }

    /// Takes a message of the call: `droppable` for progress and log notifications, with the token of a progress
    /// notification (its JSON text) as its `coalesce_key`.
    pub fn push(&mut self, payload: Bytes, droppable: bool, coalesce_key: Option<Bytes>) -> Pushed {
        if self.stopped.is_some() {
            return Pushed::Stopped;
        }
        if self.is_ending() {
            return Pushed::AfterSeal;
        }
        if payload.len() > self.max_event_bytes() {
            if droppable {
                self.queue.note_dropped();
                return Pushed::Dropped;
            }
            return Pushed::TooLarge;
        }
        match self.queue.admit(Entry { payload, droppable, key: coalesce_key }) {
            Admitted::Queued => {
                self.wanted = true;
                Pushed::Queued
            }
            Admitted::Coalesced => {
                self.coalesced = self.coalesced.saturating_add(1);
                Pushed::Coalesced
            }
            Admitted::Refused if droppable => {
                self.queue.note_dropped();
                Pushed::Dropped
            }
            Admitted::Refused => Pushed::Full,
        }
    }

    /// Closes the stream behind everything that was pushed: with the response to the request of that id, or without a message
    /// (a cancelled call, a session that ended). There is always room for it, and the first seal counts. A response that
    /// is too large is replaced by an error for the same request.
    pub fn seal(&mut self, last: Option<(&RequestId, Bytes)>) -> Pushed {
        if self.stopped.is_some() {
            return Pushed::Stopped;
        }
        if self.is_ending() {
            return Pushed::AfterSeal;
        }
        self.wanted = true;
        let (last, id, pushed) = match last {
            None => (None, None, Pushed::Queued),
            Some((id, payload)) if payload.len() > self.max_event_bytes() => {
                let error = too_large(id, payload.len(), self.max_event_bytes());
                (Some(error), None, Pushed::TooLarge)
            }
            Some((id, payload)) => (Some(payload), Some(id.clone()), Pushed::Queued),
        };
        self.last = Some(Box::new(Last { message: last, id }));
        pushed
    }

    /// The next operation, unless one is under way or there is nothing to do.
    #[must_use]
    pub fn next_op(&mut self) -> Option<Op> {
        if self.in_flight || self.stopped.is_some() || !self.wanted {
            return None;
        }
        let op = self.current_op()?;
        self.in_flight = true;
        Some(op)
    }

    /// What came of the operation that is under way.
    pub fn on_outcome(&mut self, outcome: Outcome) -> Directive {
        if let Some(reason) = self.stop_reason() {
            return Directive::Stop(reason);
        }
        if !std::mem::take(&mut self.in_flight) {
            return Directive::Continue;
        }
        let unsure = std::mem::replace(&mut self.unsure, outcome == Outcome::Unavailable);
        match outcome {
            Outcome::Done => self.on_done(),
            // Ids cannot be guessed: after a try of ours without an answer it is ours.
            Outcome::Exists if unsure && !self.created => self.on_done(),
            Outcome::Exists => self.stop(StopReason::Exists),
            Outcome::Full => self.on_full(),
            Outcome::Fenced => self.stop(StopReason::Fenced),
            Outcome::Sealed => self.stop(StopReason::Sealed),
            // The writer before this one was still writing when its tail was read.
            Outcome::OutOfOrder { tail } if !self.confirmed && tail >= self.next => {
                self.next = tail.saturating_add(1);
                Directive::Continue
            }
            Outcome::OutOfOrder { tail } => self.stop(StopReason::Lost { tail }),
            Outcome::Gone => self.stop(StopReason::Gone),
            // It may have been written: it comes again as it was.
            Outcome::Unavailable => Directive::Retry,
        }
    }

    /// Whether the stream is in the log: ids may reach the wire.
    #[must_use]
    pub const fn created(&self) -> bool {
        self.created
    }

    /// Why nothing more can be written, if so.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stopped.as_deref().copied()
    }

    /// Whether the log has confirmed the seal.
    #[must_use]
    pub const fn sealed(&self) -> bool {
        self.sealed
    }

    /// Whether everything that was given has reached the log.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.queue.is_empty() && self.last.is_none() && (self.created || !self.wanted)
    }

    /// How many messages that may be dropped were, at any bound.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.queue.dropped as u64
    }

    /// How many progress notifications were replaced by newer ones before they were written.
    #[must_use]
    pub const fn coalesced(&self) -> u64 {
        self.coalesced as u64
    }

    /// What the log has not confirmed, with the offset of the first message: a connection that is open can still be given
    /// these when the store is away. The first one may be in the log nevertheless.
    #[must_use]
    pub fn backlog(&self) -> (u64, Vec<Bytes>) {
        let last = self.last.as_ref().and_then(|last| last.message.as_ref());
        (self.next, self.queue.payloads().chain(last).cloned().collect())
    }

    /// Whether the stream has, or is about to have, its last message.
    const fn is_ending(&self) -> bool {
        self.sealed || self.last.is_some()
    }

    /// The largest event, in bytes.
    const fn max_event_bytes(&self) -> usize {
        if self.max_event_bytes == u32::MAX { usize::MAX } else { self.max_event_bytes as usize }
    }

    fn current_op(&mut self) -> Option<Op> {
        if !self.created {
            return Some(Op::Create);
        }
        if let Some(entry) = self.queue.begin() {
            let (payload, droppable) = (entry.payload.clone(), entry.droppable);
            return Some(Op::Append { offset: self.next, payload, droppable });
        }
        self.last.as_ref().map(|last| Op::Seal { offset: self.next, last: last.message.clone() })
    }

    /// The operation at hand is the one that [`current_op`](Self::current_op) gave: nothing changes before its outcome.
    fn on_done(&mut self) -> Directive {
        if !self.created {
            self.created = true;
        } else if self.queue.finish().is_some() {
            self.next += 1;
            self.confirmed = true;
        } else {
            self.last = None;
            self.sealed = true;
            self.confirmed = true;
        }
        Directive::Continue
    }

    fn on_full(&mut self) -> Directive {
        if !self.created {
            return self.stop(StopReason::Full);
        }
        if let Some(entry) = self.queue.begin() {
            if !entry.droppable {
                return self.stop(StopReason::Full);
            }
            self.queue.finish();
            self.queue.note_dropped();
            return Directive::Continue;
        }
        // No room for the response: an error in its place ends the call for its caller.
        if let Some(last) = &mut self.last
            && let Some(id) = last.id.take()
        {
            let length = last.message.as_ref().map_or(0, Bytes::len);
            last.message = Some(no_room(&id, length));
            return Directive::Continue;
        }
        self.stop(StopReason::Full)
    }

    fn stop(&mut self, reason: StopReason) -> Directive {
        self.stopped = Some(Box::new(reason));
        Directive::Stop(reason)
    }
}

/// The response that stands in for one of `length` bytes, which is larger than an event may be.
#[must_use]
pub fn too_large(id: &RequestId, length: usize, limit: usize) -> Bytes {
    let message = format!(
        "The response has {length} bytes; a message of a stream may have {limit}. Ask for less at a time."
    );
    ErrorObject::outcome_unknown("too_large", message).to_response(Some(id))
}

fn no_room(id: &RequestId, length: usize) -> Bytes {
    let message =
        format!("The response has {length} bytes and the stream has no room for it. Ask for less at a time.");
    ErrorObject::outcome_unknown("too_large", message).to_response(Some(id))
}

#[cfg(test)]
mod tests;
