//! What happened, in order: the checker reads it, people read it, and its hash tells whether two runs were the same.

use bowline_proto::cursor::StreamId;
use parking_lot::Mutex;
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::time::Instant;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Virtual milliseconds since the run began.
    pub at: u64,
    /// What happened.
    pub what: What,
}

/// A position that an event id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream.
    pub stream: StreamId,
    /// The owner's epoch.
    pub epoch: u64,
    /// The last event that a reader has.
    pub offset: u64,
    /// Which connection told it.
    pub poll: u64,
}

/// What kind of fault there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A backend was killed (-9), and started again at the end.
    Crash,
    /// A backend slept (SIGSTOP).
    Pause,
    /// A backend left (SIGTERM), and was replaced at the end.
    Drain,
    /// A backend did not reach the store.
    Partition,
    /// The proxy did not reach a backend.
    Unreachable,
    /// The store was away for all.
    Outage,
    /// The store failed over to a replica, which did not have the last writes.
    Failover,
}

/// What a connection was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A call: its POST, or a GET with a cursor.
    Call(u64),
    /// The standalone stream of a session.
    Standalone(usize),
    /// `initialize`, notifications, answers, DELETE.
    Other,
}

/// What a message in an event is. Calls and requests are told by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum Said {
    /// Nothing: priming, or a parting event.
    Nothing,
    /// Progress of the call of that token: which step, the hash of all steps so far, and which run says so, from 1.
    Progress { call: u64, step: u64, hash: u64, run: u64 },
    /// A question of the call.
    Question { call: u64 },
    /// Something on the standalone stream, said by a call of the session.
    Shout { call: u64, step: u64 },
    /// The result of the request with that id.
    Result { request: u64, call: u64, steps: u64, hash: u64 },
    /// An error for it.
    Error { request: u64, reason: String },
    /// The server gives up a question, or tells to look again at lists.
    Aside,
    /// Anything else: there is nothing else.
    Strange(String),
}

/// How a run of a tool ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its result.
    Result,
    /// It was cancelled and saw it.
    Cancelled,
    /// It was dropped.
    Dropped,
    /// Its process was killed.
    Killed,
}

/// How a call ended for its client without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The connection of the POST broke before there was an id.
    NoId,
    /// The POST was refused with this status.
    Refused(u16),
    /// A poll was answered with this status, and the client takes that for the end.
    PollRefused(u16),
    /// So many polls in a row failed that the client gave up.
    Polls,
    /// The client forgot its cursor, since a connection showed no id.
    Cursor,
    /// It has polled more often than it can.
    Budget,
    /// It was told that there is nothing left.
    Nothing,
    /// It cancelled the call.
    Cancelled,
    /// It ended the session.
    Deleted,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum What {
    /// A backend started.
    Started { backend: usize, incarnation: u32 },
    /// A fault began, and will be over at `until`. `backend` is `None` where it is everybody's.
    Fault { kind: FaultKind, backend: Option<usize>, until: u64 },
    /// The ledger: a tool began to run. `run` tells the runs of one call apart.
    RunBegan { call: u64, run: u64, backend: usize, incarnation: u32 },
    /// The ledger: that run ended.
    RunEnded { call: u64, run: u64, how: End },
    /// The ledger: an answer came for a question of `call`, which says it is for `said`.
    Answered { call: u64, said: Option<u64> },
    /// The store made a stream. Here and below, a session's own logs that follow one another under one id have a name each.
    Made { stream: StreamId, standalone: bool },
    /// The store has dropped a session's own log.
    Evicted { stream: StreamId },
    /// The store gave the stream of a call to another backend, at this epoch.
    TakenOver { stream: StreamId, epoch: u64 },
    /// The store has an event, for good as far as it knows.
    Written { stream: StreamId, epoch: u64, offset: u64, seal: bool, digest: u64, again: bool },
    /// A session began.
    Session { session: usize, client: usize },
    /// A client sent a call. `session` is the number of its session; `repeatable`: its tool may run again.
    Called { call: u64, request: u64, session: usize, client: usize, repeatable: bool },
    /// A request was answered. `proxy`: not by a backend. `answerable`: the session that it named lives as far as its client knows.
    Status {
        connection: u64,
        purpose: Purpose,
        method: &'static str,
        status: u16,
        proxy: bool,
        cursor: bool,
        answerable: bool,
    },
    /// A connection for a cursor was answered with a stream: the cursor that was presented.
    Presented { connection: u64, purpose: Purpose, cursor: Option<Position> },
    /// An event. `bad_id`: its id does not verify for the client's own session and principal.
    Event {
        connection: u64,
        purpose: Purpose,
        id: Option<Position>,
        bad_id: bool,
        said: Said,
        digest: u64,
        retry: Option<u64>,
    },
    /// A connection is over. `clean`: by the server's own will. `injured`: the simulation broke it.
    Over { connection: u64, purpose: Purpose, clean: bool, injured: bool },
    /// A poll failed before it was answered with a stream.
    Failed { connection: u64, purpose: Purpose, injured: bool },
    /// A client says that a call is cancelled; `taken`: 202.
    CancelSent { call: u64, taken: bool },
    /// A client ends its session; `taken`: 204.
    DeleteSent { session: usize, taken: bool },
    /// A call ended for its client without an answer.
    Left { call: u64, why: Left },
    /// Somebody tried what is not theirs: the status, and whether anything of the other came with it.
    Trespass { what: &'static str, status: u16, leaked: bool },
    /// The run is over.
    End,
}

/// The trace of a run.
pub struct Trace {
    origin: Instant,
    entries: Mutex<Vec<Entry>>,
    runs: AtomicU64,
}

impl Trace {
    /// An empty one; its time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now(), entries: Mutex::default(), runs: AtomicU64::new(0) }
    }

    /// When it began.
    #[must_use]
    pub const fn origin(&self) -> Instant {
        self.origin
    }

    /// Milliseconds since it began.
    #[must_use]
    pub fn now(&self) -> u64 {
        Instant::now().duration_since(self.origin).as_millis() as u64
    }

    /// A number for a run of a tool.
    #[must_use]
    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes what happened.
    pub fn note(&self, what: What) {
        let at = self.now();
        self.entries.lock().push(Entry { at, what });
    }

    /// Everything that was noted.
    #[must_use]
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.entries.lock())
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self::new()
    }
}

/// A trace as text, an entry a line.
#[must_use]
pub fn text(entries: &[Entry]) -> String {
    let mut out = String::new();
    for Entry { at, what } in entries {
        let _ = writeln!(out, "{:>6}.{:03} {what:?}", at / 1000, at % 1000);
    }
    out
}

/// The hash of a text.
#[must_use]
pub fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

/// A short digest of a message.
#[must_use]
pub fn digest(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    u64::from_le_bytes(first)
}
