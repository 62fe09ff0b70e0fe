//! One response body that reads one stream: a pure [`Reader`] with a log, a clock and a socket around it.

use crate::{
    body::Body,
    core::{Core, Drain},
    fleet::{BACKSTOP, STORE_PATIENCE, orphaned, patiently},
    outlet::{FIRST_EPOCH, Opened, Outlet, Reading},
    post::EndsWithClient,
    random,
    session::{InUse, Session},
    sessions,
    within::within,
};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::{Cursor, CursorKind, CursorRequest, StreamId},
    jsonrpc::{ErrorObject, RequestId},
    legacy::{Close, End, Frame, Millis, PageFacts, Position, Reader, ReaderConfig, Start},
    sse::encode,
};
use bowline_store::{Page, ReadError, ReadLimit, Store, StreamKind, Unavailable, Wakeups};
use bytes::{Bytes, BytesMut};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// What one read of the log may bring. Small enough that a connection holds little, large enough that replay is quick.
const READ: ReadLimit = ReadLimit { events: 256, bytes: 1024 * 1024 };

/// The room for what is written at once, in bytes: that of a small answer, primed.
const ROOM: usize = 512;

/// How often the log is looked at although nothing woke us: wake-ups are hints.
const RECHECK: Duration = Duration::from_secs(5);

/// When a call about began that runs on another backend: its client has come `poll` / 2 times, each for as long as a connection is held.
fn about_when(now: Millis, poll: u64, hold: Option<Duration>) -> Millis {
    let age = (poll / 2).saturating_mul(hold.map_or(0, millis));
    Millis(now.0.saturating_sub(age))
}

fn away() -> ReadError {
    ReadError::Unavailable(Unavailable("the store has not taken the stream in".into()))
}

/// Whether a message of a stream is a request to the client: of all messages that are not the last one, only those have an id.
fn is_question(message: &[u8]) -> bool {
    use bowline_proto::jsonrpc::{Message, parse_message};
    // Notifications are many, and have none.
    let start = &message[..message.len().min(64)];
    start.windows(5).any(|part| part == b"\"id\":")
        && matches!(parse_message(Bytes::copy_from_slice(message)), Ok(Message::Request(_)))
}

/// Which stream a connection reads, and from where.
pub(crate) struct Target {
    pub(crate) stream: StreamId,
    pub(crate) kind: StreamKind,
    /// The id that cursors into the stream carry.
    pub(crate) request_id: Option<RequestId>,
    /// Strictly after this offset; `None` for a standalone stream without a cursor: after what was delivered last.
    pub(crate) after: Option<u64>,
    /// The poll counter of the presented cursor.
    pub(crate) poll: u64,
    /// The epoch that it names; [`FIRST_EPOCH`] where none was presented.
    pub(crate) epoch: u64,
    /// Which log it is a position in, as [`StreamId::of_incarnation`] names it; `None` where none was presented.
    pub(crate) of: Option<StreamId>,
    /// Whether it is of no use any more: the client of a standalone stream is told to look again at everything.
    pub(crate) lost: bool,
    /// The writing end, where it is on this backend.
    pub(crate) outlet: Option<Arc<Outlet>>,
    /// The calls that end with this connection.
    pub(crate) leaving: Option<EndsWithClient>,
    /// Whether a client comes back to it: what is there already is counted as replayed.
    pub(crate) comes_back: bool,
}

/// Why the client of a standalone stream is to look again at everything (SEMANTICS 5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    /// Its position is in an earlier log than the one that is there: all of this one is new to it.
    AnotherLog,
    /// The log has lost what it has read.
    Lost,
}

/// What a call has done beside what is in its log.
enum Turn {
    /// It has wished so often that its connection be closed.
    Wishes(u32),
    /// It is over, and the store has not got its end.
    Over,
}

pub(crate) struct Connection {
    core: Arc<Core>,
    session: Arc<Session>,
    log: Arc<dyn Store>,
    reader: Reader,
    /// `None` where it was over before it was read.
    wakeups: Option<Wakeups>,
    generation: u64,
    /// The stream that is read.
    stream: StreamId,
    /// Where the client stands. It names the log of the stream: [`StreamId::of_incarnation`].
    cursor: Cursor,
    /// The log that is read, where the client's position is in an earlier one: positions are in this one from the next message with an id on.
    next_log: Option<StreamId>,
    /// What the client has to be told before anything else.
    owed: Option<Owed>,
    /// Whether what is written carries ids: the stream is in the store.
    ids: bool,
    outlet: Option<Arc<Outlet>>,
    /// The wishes to close that were looked at.
    wishes_seen: u32,
    drain: watch::Receiver<Drain>,
    /// What the client has got once the frame that was handed over last is written.
    handed: Option<u64>,
    delivered: u64,
    id: String,
    over: bool,
    /// Until the log was read to its end for a client that came back.
    replaying: bool,
    /// Whether the log could not be read the last time.
    away: bool,
    /// Where the client could not be given the end of the call without the store: what is missing before it has to be read first.
    unfinished_at: Option<u64>,
    /// When to look whether the backend that writes the stream lives, where that is another one.
    owner_check: Millis,
    /// Whether a question of another backend's went by that may still wait for its answer.
    asked: bool,
    _leaving: Option<EndsWithClient>,
    _reading: Option<Reading>,
    _in_use: InUse,
}

impl Connection {
    /// Takes the stream over from whoever reads it, and returns the body that reads it from now on.
    ///
    /// # Errors
    /// The stream cannot be read at all.
    pub(crate) async fn open(
        core: &Arc<Core>,
        session: &Arc<Session>,
        target: Target,
    ) -> Result<Body, ReadError> {
        let (log, ids) = match &target.outlet {
            // No id reaches the wire before what it stands for is in the store.
            Some(outlet) => match within(STORE_PATIENCE, outlet.opened()).await {
                Some(Opened::Stored) => (outlet.log(), true),
                Some(Opened::Unstored) => (outlet.log(), false),
                Some(Opened::NotYet | Opened::Away) | None => return Err(away()),
            },
            None => (core.store.clone(), true),
        };
        // Subscribed before anything is read, so that nothing falls in between; a stream that is over has nothing to wake for.
        let is_over = target.outlet.as_ref().is_some_and(|outlet| outlet.is_sealed());
        let wakeups = (!is_over).then(|| log.subscribe(target.stream));
        let attachment = patiently(log.attach(target.stream)).await?;
        if let Some(outlet) = &target.outlet {
            outlet.note_generation(attachment.generation);
        }
        sessions::watch(core, session);
        let now = core.now();
        let standalone = target.kind == StreamKind::Standalone;
        let config = ReaderConfig {
            ids,
            primed: session.revision.features().priming,
            keep_alive: Some(millis(core.options.keep_alive)),
            max_connection: core.options.max_connection.map(millis),
            recheck: millis(RECHECK),
            retry: core.options.retry,
            standalone,
        };
        let offset = target.after.unwrap_or(attachment.delivered);
        let log_id = target.stream.of_incarnation(attachment.incarnation);
        let stands_in = target.of.unwrap_or(log_id);
        let owed = match (stands_in == log_id, target.lost) {
            (false, _) if standalone => Some(Owed::AnotherLog),
            (true, true) => Some(Owed::Lost),
            _ => None,
        };
        let start = Start {
            offset,
            poll: target.poll,
            generation: attachment.generation,
            stream_started: target.outlet.as_ref().map_or_else(
                || about_when(now, target.poll, core.options.max_connection),
                |outlet| outlet.started,
            ),
            random: random::word(),
        };
        let request = target.request_id.as_ref().map_or(CursorRequest::None, CursorRequest::from);
        let kind = if standalone { CursorKind::Standalone } else { CursorKind::Call };
        let mut connection = Self {
            reader: Reader::open(config, start, now),
            wakeups,
            generation: attachment.generation,
            stream: target.stream,
            next_log: (stands_in != log_id).then_some(log_id),
            owed,
            cursor: Cursor {
                kind,
                stream: stands_in,
                epoch: target.epoch,
                offset,
                poll: target.poll,
                request,
            },
            ids,
            wishes_seen: target.outlet.as_ref().map_or(0, |outlet| outlet.close_wishes()),
            drain: core.drain.subscribe(),
            handed: None,
            delivered: attachment.delivered,
            id: String::with_capacity(96),
            over: false,
            replaying: target.comes_back,
            away: false,
            unfinished_at: None,
            owner_check: now.after(millis(BACKSTOP)),
            asked: false,
            _leaving: target.leaving,
            _reading: target.outlet.as_ref().map(Outlet::read),
            _in_use: session.use_now(core),
            outlet: target.outlet,
            core: core.clone(),
            session: session.clone(),
            log,
        };
        if *connection.drain.borrow_and_update() != Drain::No {
            connection.reader.on_close_requested(now, Close::Drain);
        }
        connection.take_close_wish();
        core.metrics.streams_open.up();
        let load = core.load_percent();
        if core.metrics.streams_open.get() > core.options.max_held_streams.max(1) {
            core.metrics.streams_over_budget.up();
            connection.reader.set_load(load);
            connection.reader.on_close_requested(now, Close::Budget);
        }
        // Boxed: it goes from hand to hand.
        Ok(Body::events(futures_util::stream::unfold(Box::new(connection), |mut connection| async move {
            connection.next().await.map(|bytes| (bytes, connection))
        })))
    }

    /// The next bytes for the socket; `None` when the connection is over.
    async fn next(&mut self) -> Option<Bytes> {
        // Only who comes to a standalone stream without a cursor goes by it.
        if let Some(offset) = self.handed.take()
            && offset > self.delivered
            && self.cursor.kind == CursorKind::Standalone
        {
            self.delivered = offset;
            self.log.delivered(self.stream, self.generation, offset);
        }
        if self.over {
            return None;
        }
        let mut out = BytesMut::new();
        loop {
            while let Some(frame) = self.reader.poll_frame() {
                self.encode(&mut out, frame);
            }
            if self.reader.end().is_none()
                && let Some(after) = self.reader.poll_read()
            {
                self.read(after, &mut out).await;
                if self.over {
                    return Some(out.freeze());
                }
                continue;
            }
            if !out.is_empty() {
                // What was written of another log says nothing of this one.
                let stands_here = self.next_log.is_none() && self.owed.is_none();
                self.handed = stands_here.then(|| self.reader.position());
                return Some(out.freeze());
            }
            if self.reader.end().is_some() {
                return None;
            }
            self.wait().await;
        }
    }

    async fn read(&mut self, after: u64, out: &mut BytesMut) {
        if self.owed == Some(Owed::AnotherLog) {
            self.owed = None;
            return self.resync(self.core.now(), 0);
        }
        let read = patiently(self.log.read_after(self.stream, after, READ)).await;
        let now = self.core.now();
        self.away = matches!(read, Err(ReadError::Unavailable(_)));
        match read {
            // It was made again while this connection read the one before: the client comes again, and is told.
            Ok(page) if !self.reads(page.incarnation) => self.lose(&ReadError::Gone, out),
            Ok(page) if self.owed == Some(Owed::Lost) => self.resync(now, page.tail),
            Ok(page) => {
                self.cursor.epoch = page.epoch;
                self.leave_former_owner(page.epoch);
                if self.replaying {
                    let read = page.events.len() as u64;
                    self.core.metrics.events_replayed.add(read);
                    self.replaying = after.saturating_add(read) < page.tail;
                }
                if self.outlet.is_none() {
                    self.asked |= page.events.iter().any(|event| is_question(event));
                    self.look_after_owner(now, &page).await;
                }
                let asking = self.asked || self.outlet.as_ref().is_some_and(|outlet| outlet.is_asking());
                self.reader.on_page(
                    now,
                    PageFacts {
                        events: page.events,
                        tail: page.tail,
                        sealed: page.sealed,
                        generation: page.generation,
                        asking,
                    },
                );
            }
            Err(ReadError::Unavailable(error)) => {
                tracing::debug!(session = %self.session, %error, "a stream cannot be read now");
                self.reader.on_read_failed(now);
                // A call that runs here finishes on its connection; a reader of anything else comes again.
                let finishes = self.outlet.as_ref().is_some_and(|outlet| outlet.kind == StreamKind::Call);
                if !finishes || !self.finish_without_store(now) {
                    self.reader.on_close_requested(now, Close::StoreAway);
                }
            }
            Err(ReadError::Evicted { oldest }) if self.cursor.kind == CursorKind::Standalone => {
                self.resync(now, oldest.saturating_sub(1));
            }
            Err(ReadError::Lost { tail }) if self.cursor.kind == CursorKind::Standalone => {
                self.resync(now, tail);
            }
            // Its session ended: nobody waits for it any more.
            Err(_) if self.session.has_ended() => self.over = true,
            Err(error) => self.lose(&error, out),
        }
    }

    /// Where another backend has taken the call over, the one that runs here has nothing more to say to the client, however long it takes to
    /// find out: what it says stands in no log.
    fn leave_former_owner(&mut self, epoch: u64) {
        if self.cursor.kind == CursorKind::Call
            && self.outlet.as_ref().is_some_and(|outlet| outlet.epoch() < epoch)
        {
            self.outlet = None;
            self._reading = None;
        }
    }

    /// Ends the call of a backend that died: whoever reads it notices.
    async fn look_after_owner(&mut self, now: Millis, page: &Page) {
        if self.cursor.kind != CursorKind::Call || page.sealed || now < self.owner_check {
            return;
        }
        self.owner_check = now.after(millis(BACKSTOP));
        // This backend may have taken the call over since, to run it again.
        let running = self.core.running.get(self.stream);
        if let Some(outlet) = running.filter(|outlet| outlet.epoch() >= page.epoch) {
            outlet.note_generation(self.generation);
            self._reading = Some(outlet.read());
            self.wishes_seen = outlet.close_wishes();
            self.outlet = Some(outlet);
            self.take_close_wish();
            return;
        }
        let request = match &self.cursor.request {
            CursorRequest::Id(id) => RequestId::from_json(id.as_json()).ok(),
            CursorRequest::None | CursorRequest::InRecord => None,
        };
        if orphaned(&self.core, self.stream, page, request.as_ref()).await {
            self.reader.on_wake();
        }
    }

    /// Gives the client what the store has not got of a call that is over, without ids. `false` where what the store has was not read to
    /// its end: then only the store can go on.
    fn finish_without_store(&mut self, now: Millis) -> bool {
        let Some(outlet) = &self.outlet else { return false };
        let position = self.reader.position();
        let Some((first, messages)) = outlet.last_words() else {
            return outlet.is_written_to(position);
        };
        let Some(known) = (position + 1).checked_sub(first) else { return false };
        let tail = first.saturating_sub(1).saturating_add(messages.len() as u64);
        let events = messages.into_iter().skip(usize::try_from(known).unwrap_or(usize::MAX)).collect();
        self.reader.stop_ids();
        self.reader.on_page(
            now,
            PageFacts { events, tail, sealed: true, generation: self.generation, asking: false },
        );
        true
    }

    /// Whether the log that a page is of is the one that is read.
    fn reads(&self, incarnation: u64) -> bool {
        let is_read = self.next_log.unwrap_or(self.cursor.stream);
        self.cursor.kind == CursorKind::Call || self.stream.of_incarnation(incarnation) == is_read
    }

    /// Events of a standalone stream are gone: the client is told to look again at everything, and what is after `tail`
    /// follows.
    fn resync(&mut self, now: Millis, tail: u64) {
        self.owed = None;
        let messages = crate::get::resync_messages(&self.session);
        if messages.is_empty() {
            self.stand_in_log();
        }
        self.reader.on_resync(now, messages, tail);
    }

    /// The client's position is in the log that is read, from here on.
    fn stand_in_log(&mut self) {
        if let Some(log) = self.next_log.take() {
            self.cursor.stream = log;
            self.cursor.epoch = FIRST_EPOCH;
        }
    }

    /// The stream is gone under its reader: the only answer that ends the wait in every client is an error for the
    /// request (SEMANTICS 5.6).
    fn lose(&mut self, error: &ReadError, out: &mut BytesMut) {
        tracing::warn!(session = %self.session, %error, "a stream was lost while it was read");
        self.over = true;
        if let CursorRequest::Id(id) = &self.cursor.request
            && let Ok(id) = RequestId::from_json(id.as_json())
        {
            let error = ErrorObject::outcome_unknown(
                "expired",
                "the server no longer has the messages of this request",
            );
            let response = error.to_response(Some(&id));
            if self.ids {
                let poll = self.cursor.poll.saturating_add(1);
                self.mint(Position { offset: self.reader.position(), poll });
                encode::message(out, &self.id, &response);
            } else {
                encode::data(out, &response);
            }
        }
    }

    /// Waits for anything that the reader wants to know of.
    async fn wait(&mut self) {
        let Some(wakeups) = &mut self.wakeups else {
            // What happened before this may not have been read.
            self.wakeups = Some(self.log.subscribe(self.stream));
            return self.reader.on_wake();
        };
        let deadline = self.reader.deadline().map(|at| self.core.instant(at));
        let timer = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let (away, wishes_seen) = (self.away, self.wishes_seen);
        let tried = self.unfinished_at == Some(self.reader.position());
        let turned = async {
            let Some(outlet) = &self.outlet else { return std::future::pending().await };
            loop {
                // Told from here on, polled or not.
                let turned = outlet.turned();
                let wishes = outlet.close_wishes();
                if wishes > wishes_seen {
                    return Turn::Wishes(wishes);
                }
                // While the store is away, or can be read and not written, nothing else tells that the call is over.
                let stuck = outlet.kind == StreamKind::Call && !tried && outlet.is_stuck();
                if (away || stuck) && outlet.last_words().is_some() {
                    return Turn::Over;
                }
                turned.await;
            }
        };
        tokio::select! {
            // First, whatever else has happened: where the drain has nothing to wait for, the session's end is next, and a
            // client that only sees that is not told when to come back.
            biased;
            _ = self.drain.changed() => self.reader.on_close_requested(self.core.now(), Close::Drain),
            turn = turned => match turn {
                Turn::Wishes(wishes) => {
                    self.wishes_seen = wishes;
                    self.take_close_wish();
                }
                Turn::Over => {
                    if !self.finish_without_store(self.core.now()) {
                        // The store took more than was read here: it is asked again at once, and if it is away the client comes again.
                        // Waiting for the same once more would never wait.
                        self.away = false;
                        self.unfinished_at = Some(self.reader.position());
                        self.reader.on_wake();
                    }
                }
            },
            () = wakeups.changed() => self.reader.on_wake(),
            () = timer => self.reader.on_timeout(self.core.now()),
        }
    }

    fn take_close_wish(&mut self) {
        if self.outlet.as_ref().is_some_and(|outlet| outlet.take_close_wish()) {
            self.reader.on_close_requested(self.core.now(), Close::Handler);
        }
    }

    fn encode(&mut self, out: &mut BytesMut, frame: Frame) {
        if out.is_empty() {
            out.reserve(ROOM);
        }
        match frame {
            Frame::Priming { id, retry_ms } | Frame::Parting { id, retry_ms } => {
                self.mint(id);
                encode::priming(out, &self.id, Some(u64::from(retry_ms)));
            }
            Frame::Message { id: Some(id), payload } => {
                self.stand_in_log();
                self.mint(id);
                encode::message(out, &self.id, &payload);
            }
            Frame::Message { id: None, payload } => encode::data(out, &payload),
            Frame::KeepAlive => encode::comment(out, "keep-alive"),
            Frame::RetryOnly { retry_ms } => encode::retry_only(out, u64::from(retry_ms)),
        }
    }

    fn mint(&mut self, position: Position) {
        self.cursor.offset = position.offset;
        self.cursor.poll = position.poll;
        self.id.clear();
        self.session.cursors(&self.core).mint(&self.cursor, &mut self.id);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let metrics = &self.core.metrics;
        metrics.streams_open.down();
        match self.reader.end() {
            Some(End::Parked | End::Drained | End::StoreAway) => metrics.parked.up(),
            Some(End::Displaced) => metrics.taken_over.up(),
            Some(End::Sealed) => match &self.outlet {
                Some(outlet) => outlet.set_fetched(),
                None => self.core.running.fetched(self.stream),
            },
            None => {}
        }
        // A stream that only this connection could read has nobody left.
        if let Some(outlet) = &self.outlet {
            outlet.reader_left();
        }
    }
}
