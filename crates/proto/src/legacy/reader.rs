//! One connection that reads one stream: SEMANTICS 5.2, 5.3, 5.5, 5.8 and 5.9.

use super::RetryPolicy;
use crate::time::Millis;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;

/// What a displaced connection of a standalone stream is told to wait, so that two clients do not fight for ever
/// (SEMANTICS 2).
const DISPLACED_RETRY_MS: u32 = 10_000;

/// A place in a stream as an event id names it. The cursor codec adds the stream, its epoch and the MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The last offset that a client with this id has.
    pub offset: u64,
    /// Counts the connections and partings of the stream, so that an id is fresh where the offset is not.
    pub poll: u64,
}

/// How a connection reads; the same for every connection of a stream.
#[derive(Clone, Copy, Debug)]
pub struct ReaderConfig {
    /// Whether messages carry ids: the stream is in the store. Batches of `2025-03-26` are not.
    pub ids: bool,
    /// Whether the client negotiated priming. Without [`ids`](Self::ids) this has no effect.
    pub primed: bool,
    /// How long nothing may be written before a comment is, in milliseconds; `None` for no comments.
    pub keep_alive: Option<u64>,
    /// How long a primed connection is held before it is parked, in milliseconds; `None` or 0 for ever.
    pub max_connection: Option<u64>,
    /// After how many milliseconds without a wake-up the log is read all the same: wake-ups are hints and get lost. 0 for
    /// never.
    pub recheck: u64,
    /// How the client's wait is chosen.
    pub retry: RetryPolicy,
    /// Whether this is a session's own stream (GET) and not that of a call.
    pub standalone: bool,
}

/// Where a connection starts.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The first message that is written is the one strictly after this offset.
    pub offset: u64,
    /// The poll counter of the cursor that the client presented; 0 where there was none.
    pub poll: u64,
    /// The generation of this connection's attachment. 0 where the stream is not attached to.
    pub generation: u64,
    /// When the call began: the wait between polls grows with its age.
    pub stream_started: Millis,
    /// Any 64 bits, for jitter.
    pub random: u64,
}

/// What one read of the log returned.
#[derive(Clone, Debug, Default)]
pub struct PageFacts {
    /// The events after the position that was read from, in order and without a hole.
    pub events: Vec<Bytes>,
    /// The last offset in the log.
    pub tail: u64,
    /// Whether the event at `tail` is the last one for ever.
    pub sealed: bool,
    /// The generation of the stream's newest attachment.
    pub generation: u64,
    /// Whether a request of ours on this stream waits for its answer.
    pub asking: bool,
}

/// Why the server wants to be rid of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The handler asked for it.
    Handler,
    /// This backend is about to stop.
    Drain,
    /// There are more connections than the budget allows.
    Budget,
    /// The log cannot be read: the client gets its position back under a fresh id and a longer wait (SEMANTICS 5.6).
    StoreAway,
}

/// What is to be written next, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An event with an id, a `retry` and empty data: the first on a primed connection.
    Priming {
        /// Where the client stands.
        id: Position,
        /// Its wait, in milliseconds.
        retry_ms: u32,
    },
    /// An event with one JSON-RPC message as its data.
    Message {
        /// Where the client stands once it has it; `None` for an event without an id.
        id: Option<Position>,
        /// The JSON text.
        payload: Bytes,
    },
    /// A comment.
    KeepAlive,
    /// An event with an id, a `retry` and empty data: the last on a connection that is parked.
    Parting {
        /// Where the client stands.
        id: Position,
        /// Its wait, in milliseconds.
        retry_ms: u32,
    },
    /// A bare `retry` field: no id, no data, no event.
    RetryOnly {
        /// The wait, in milliseconds.
        retry_ms: u32,
    },
}

/// Why a connection is over. The body ends cleanly in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was written and nothing will follow: the stream is sealed.
    Sealed,
    /// The stream goes on without a connection; the client polls.
    Parked,
    /// A newer connection reads the stream.
    Displaced,
    /// This backend is about to stop; the stream goes on.
    Drained,
    /// The log cannot be read at the moment.
    StoreAway,
}

/// One connection reading one stream.
///
/// The shell subscribes to the stream's wake-ups first, then loops: write what [`poll_frame`](Self::poll_frame) returns until
/// that is `None`; stop if [`end`](Self::end) says so; if [`poll_read`](Self::poll_read) gives an offset, read the log after it
/// and hand the result to [`on_page`](Self::on_page); else wait for a wake-up ([`on_wake`](Self::on_wake)), a wish to close
/// ([`on_close_requested`](Self::on_close_requested)) or the [`deadline`](Self::deadline)
/// ([`on_timeout`](Self::on_timeout)). After every `on_*` it polls again. At most one page is held, and the next is
/// wanted only when it has been polled: a slow client slows nobody but itself.
///
/// It is opened only once the stream is in the store: its first frame names a place in it.
#[derive(Debug)]
pub struct Reader {
    config: ReaderConfig,
    start: Start,
    /// The newest time that was told.
    now: Millis,
    opened: Millis,
    last_write: Millis,
    last_read: Millis,
    /// The last offset whose message was polled.
    position: u64,
    /// What was read and not polled yet; with each message where the client stands after it, if that moves.
    page: VecDeque<(Option<u64>, Bytes)>,
    /// The tail of a stream that is sealed.
    sealed_at: Option<u64>,
    priming: bool,
    keep_alive: bool,
    /// Whether the log is known or suspected to hold more than was read.
    stale: bool,
    reading: bool,
    read_once: bool,
    closing: Option<End>,
    end: Option<End>,
    asking: bool,
    load_percent: u32,
    /// How many waits were chosen: each has its own jitter.
    retries: u64,
}

impl Reader {
    /// A connection at `start`.
    #[must_use]
    pub const fn open(config: ReaderConfig, start: Start, now: Millis) -> Self {
        Self {
            priming: config.primed && config.ids,
            config,
            start,
            now,
            opened: now,
            last_write: now,
            last_read: now,
            position: start.offset,
            page: VecDeque::new(),
            sealed_at: None,
            keep_alive: false,
            stale: true,
            reading: false,
            read_once: false,
            closing: None,
            end: None,
            asking: false,
            load_percent: 100,
            retries: 0,
        }
    }

    /// Sets how much longer than usual clients are to wait, 100 for no longer: see [`RetryPolicy::pick`].
    pub const fn set_load(&mut self, percent: u32) {
        self.load_percent = percent;
    }

    /// From now on messages carry no ids and the connection is never parked: the store is away, and the messages come from the
    /// call itself. The client keeps the last id it has.
    pub const fn stop_ids(&mut self) {
        self.config.ids = false;
        self.priming = false;
    }

    /// Where to read the log from, if it is to be read now. One read at a time: the answer goes to
    /// [`on_page`](Self::on_page), a failure to [`on_close_requested`](Self::on_close_requested) as [`Close::StoreAway`], or
    /// to [`on_read_failed`](Self::on_read_failed) to try again.
    #[must_use]
    pub fn poll_read(&mut self) -> Option<u64> {
        if !self.wants_page() {
            return None;
        }
        self.reading = true;
        // A wake-up that comes during the read is not answered by it.
        self.stale = false;
        Some(self.position)
    }

    /// Whether [`poll_read`](Self::poll_read) would give an offset.
    #[must_use]
    pub fn wants_page(&self) -> bool {
        // A connection that is to close reads once all the same: every poll gets something done.
        let open = self.end.is_none() && (self.closing.is_none() || self.owes_a_read());
        open && self.stale && !self.reading && self.page.is_empty()
    }

    /// The log may have grown, or the stream a newer reader. Any number of these is harmless.
    pub const fn on_wake(&mut self) {
        self.stale = true;
    }

    /// What a read returned.
    pub fn on_page(&mut self, now: Millis, facts: PageFacts) {
        self.now = now;
        self.last_read = now;
        self.reading = false;
        self.read_once = true;
        if self.end.is_some() {
            return;
        }
        if facts.generation > self.start.generation && self.start.generation > 0 {
            self.displace();
            return;
        }
        self.asking = facts.asking;
        let mut offset = self.position;
        for payload in facts.events {
            offset += 1;
            self.page.push_back((Some(offset), payload));
        }
        if facts.sealed {
            self.sealed_at = Some(facts.tail);
        }
        // A page that brought nothing although there is more waits for the next wake-up: no spinning on a store that errs.
        if offset < facts.tail && offset > self.position {
            self.stale = true;
        }
    }

    /// The events after the position are gone from a standalone stream (SEMANTICS 5.6): `messages` tell the client to look
    /// again at everything, and the reader goes on strictly after `tail`. Only the last message moves the client's
    /// position, so a client that is cut off before it is told again.
    pub fn on_resync(&mut self, now: Millis, messages: Vec<Bytes>, tail: u64) {
        self.now = now;
        self.last_read = now;
        self.reading = false;
        self.read_once = true;
        self.stale = true;
        if messages.is_empty() {
            self.position = tail;
        }
        let last = messages.len().saturating_sub(1);
        for (index, payload) in messages.into_iter().enumerate() {
            self.page.push_back(((index == last).then_some(tail), payload));
        }
    }

    /// The read failed in a way that is worth another try, which is made at the next wake-up or recheck.
    pub const fn on_read_failed(&mut self, now: Millis) {
        self.now = now;
        self.last_read = now;
        self.reading = false;
    }

    /// The server wants the connection closed. It is, where the client's revision allows that; what was read already is
    /// written first. A connection that must not be closed early takes no notice.
    pub fn on_close_requested(&mut self, now: Millis, why: Close) {
        self.now = now;
        if self.end.is_some() || matches!(self.closing, Some(End::Displaced | End::StoreAway)) {
            return;
        }
        let closing = match why {
            Close::StoreAway => Some(End::StoreAway),
            _ if self.closing.is_some() => self.closing,
            Close::Drain if self.parks() || self.config.standalone => Some(End::Drained),
            Close::Handler | Close::Budget if self.parks() => Some(End::Parked),
            Close::Handler | Close::Budget | Close::Drain => None,
        };
        self.closing = closing;
    }

    /// The [`deadline`](Self::deadline) has come. Harmless at any other time.
    pub fn on_timeout(&mut self, now: Millis) {
        self.now = now;
        if self.end.is_some() {
            return;
        }
        if self.closing.is_none() && reached(self.hold_ends(), now) {
            self.closing = Some(End::Parked);
        }
        if reached(self.recheck_at(), now) {
            self.stale = true;
        }
        if reached(self.keep_alive_at(), now) {
            self.keep_alive = true;
            self.last_write = now;
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called, if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        if self.end.is_some() {
            return None;
        }
        let hold_ends = if self.closing.is_none() { self.hold_ends() } else { None };
        [hold_ends, self.recheck_at(), self.keep_alive_at()].into_iter().flatten().min()
    }

    /// The next thing to write. Poll until it is `None`, after every other call.
    #[must_use]
    pub fn poll_frame(&mut self) -> Option<Frame> {
        let frame = self.next_frame()?;
        self.last_write = self.now;
        self.keep_alive = false;
        Some(frame)
    }

    /// Where the client stands once it has every frame that was polled.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Why the connection is over, once every frame was polled.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    fn next_frame(&mut self) -> Option<Frame> {
        if self.end.is_some() {
            return None;
        }
        if self.priming {
            self.priming = false;
            let retry_ms = self.pick_retry(1);
            return Some(Frame::Priming { id: self.id(1), retry_ms });
        }
        if let Some((offset, payload)) = self.page.pop_front() {
            self.position = offset.unwrap_or(self.position);
            let id = (self.config.ids && offset.is_some()).then(|| self.id(1));
            return Some(Frame::Message { id, payload });
        }
        if self.sealed_at.is_some_and(|tail| self.position >= tail) {
            self.end = Some(End::Sealed);
            return None;
        }
        if let Some(end) = self.closing
            && !self.owes_a_read()
        {
            self.end = Some(end);
            return Some(self.last_frame(end));
        }
        self.keep_alive.then_some(Frame::KeepAlive)
    }

    fn last_frame(&mut self, end: End) -> Frame {
        let retry_ms = match end {
            End::Displaced => return Frame::RetryOnly { retry_ms: DISPLACED_RETRY_MS },
            End::StoreAway => self.pick_retry(2),
            End::Sealed | End::Parked | End::Drained => self.pick_retry(1),
        };
        if self.parks() { Frame::Parting { id: self.id(2), retry_ms } } else { Frame::RetryOnly { retry_ms } }
    }

    /// A newer connection has the stream, and what was not written yet is its to write. No parting: its id would lead the
    /// client back to before what the newer connection says.
    fn displace(&mut self) {
        self.page.clear();
        self.sealed_at = None;
        self.priming = false;
        if self.config.standalone {
            self.closing = Some(End::Displaced);
        } else {
            self.end = Some(End::Displaced);
        }
    }

    /// Whether the connection may be closed before the stream ends, with an id to come back with.
    const fn parks(&self) -> bool {
        self.config.primed && self.config.ids
    }

    /// Whether a connection that is to close has not looked into the log yet although it can.
    const fn owes_a_read(&self) -> bool {
        !self.read_once && !matches!(self.closing, Some(End::StoreAway))
    }

    /// The position under the poll counter of the cursor that was presented, plus `more`.
    const fn id(&self, more: u64) -> Position {
        Position { offset: self.position, poll: self.start.poll.saturating_add(more) }
    }

    fn pick_retry(&mut self, factor: u32) -> u32 {
        // Notifications of a session are no less urgent when the session is old.
        let age = if self.config.standalone { 0 } else { self.now.since(self.start.stream_started) };
        let load = self.load_percent.max(100).saturating_mul(factor);
        self.retries += 1;
        let random = mix(self.start.random.wrapping_add(self.retries));
        self.config.retry.pick(Duration::from_millis(age), load, random, self.asking)
    }

    const fn hold_ends(&self) -> Option<Millis> {
        match self.config.max_connection {
            Some(hold) if hold > 0 && self.parks() => Some(self.opened.after(hold)),
            _ => None,
        }
    }

    fn recheck_at(&self) -> Option<Millis> {
        let idle = !self.reading && !self.stale && self.page.is_empty();
        if idle && self.config.recheck > 0 { Some(self.last_read.after(self.config.recheck)) } else { None }
    }

    const fn keep_alive_at(&self) -> Option<Millis> {
        match self.config.keep_alive {
            Some(pause) if pause > 0 => Some(self.last_write.after(pause)),
            _ => None,
        }
    }
}

const fn reached(deadline: Option<Millis>, now: Millis) -> bool {
    match deadline {
        Some(at) => at.0 <= now.0,
        None => false,
    }
}

/// Spreads consecutive numbers over all 64 bits (the finaliser of `SplitMix64`).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
