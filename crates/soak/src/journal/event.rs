//! The events of a journal.
//!
//! Names: a client is `GROUP-PROCESS.NUMBER` (`ts1-0.3`), a session `CLIENT/INCARNATION.NUMBER`, a call `SESSION.NUMBER`. So a
//! call's name says whose it is.

use serde::{Deserialize, Serialize};

/// What a call asks the tool to do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// How long it works, in milliseconds.
    pub ms: u64,
    /// How many times it reports progress meanwhile.
    pub progress: u64,
    /// How long the text of its result is, in bytes.
    pub size: u64,
    /// What it asks the client half-way.
    pub ask: Ask,
    /// Whether it sends a log message.
    pub log: bool,
}

/// A question of the tool.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// None.
    #[default]
    None,
    /// `elicitation/create`.
    Elicit,
    /// `sampling/createMessage`.
    Sample,
}

/// What the client means to do with a call.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Have its result.
    #[default]
    Finish,
    /// Cancel it with `notifications/cancelled`.
    Cancel,
    /// End its session with DELETE while it runs.
    Delete,
    /// Go away and never come back for it.
    Leave,
}

/// How a call ended for its client.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum How {
    /// With a result: whose it says it is, whether every byte of it is right, and what became of the tool's question
    /// (`none`, `answered`, `unanswered`, `refused`, `foreign`).
    Result {
        /// The call that the result names.
        of: String,
        /// Whether the text is what the tool had to write.
        good: bool,
        /// What the tool says of its question.
        asked: String,
    },
    /// With a JSON-RPC error.
    Error {
        /// Its code.
        code: i64,
        /// `data.reason`.
        reason: Option<String>,
        /// `data.outcome`.
        outcome: Option<String>,
        /// Its message.
        message: String,
    },
    /// Refused before it ran, with this status.
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The connection, or what a client makes of it, failed, and there is nothing to resume from.
    Lost {
        /// What the client says.
        why: String,
    },
    /// Nothing came within the bound.
    Timeout,
    /// It was cancelled, and its stream ended without a response.
    Cancelled,
    /// Its session is gone, because the client ended it.
    Deleted,
    /// Its session is gone, because it was not used for so many milliseconds: earlier requests of it have not arrived.
    Expired {
        /// Since the last request was sent that was answered.
        idle_ms: u64,
    },
    /// The client went away.
    Left,
    /// Its stream ended without a response, and nothing was left of it.
    Nothing,
}

/// Why the network did something.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Reset after so many bytes to the client.
    CutDown,
    /// Reset after so many bytes to the server: it has read half a request.
    CutUp,
    /// Reset after a time.
    CutAfter,
    /// Read slowly for a while.
    Slow,
    /// Not read for a while.
    Stall,
}

impl FaultKind {
    /// Whether the connection is gone afterwards.
    #[must_use]
    pub fn cuts(self) -> bool {
        matches!(self, Self::CutDown | Self::CutUp | Self::CutAfter)
    }
}

/// How a session ended for its client.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parting {
    /// With a DELETE that was answered.
    Deleted,
    /// Without a word.
    Left,
    /// It was left alone for longer than it lives, and was gone then.
    Expired,
}

/// Something that happened.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "e")]
pub enum Event {
    // --- clients
    /// A session was opened.
    Opened {
        /// Its name.
        session: String,
    },
    /// A session ended for its client.
    Closed {
        /// Its name.
        session: String,
        /// How.
        parting: Parting,
    },
    /// A call is about to be sent.
    Sent {
        /// Its name.
        call: String,
        /// What it asks for.
        plan: Plan,
        /// What the client means to do with it.
        intent: Intent,
        /// Within so many milliseconds it has to have ended for its client.
        bound_ms: u64,
    },
    /// Progress came for a call.
    Progress {
        /// The call whose token it carries.
        call: String,
        /// The call that it names.
        of: String,
        /// The number.
        n: u64,
    },
    /// A question or a log message came in a session.
    Heard {
        /// The session that it came in.
        session: String,
        /// The call that it names.
        of: String,
        /// `ask` or `log`.
        what: String,
    },
    /// A response came for a call. There may be one.
    Response {
        /// The call whose id it carries.
        call: String,
    },
    /// A call's stream was asked for again.
    Resumed {
        /// The call.
        call: String,
    },
    /// A cancel was taken (202).
    CancelTaken {
        /// The call.
        call: String,
    },
    /// A call has ended for its client.
    End {
        /// The call.
        call: String,
        /// How.
        #[serde(flatten)]
        how: How,
    },
    /// Somebody asked for another one's session or stream, and was answered so.
    Probe {
        /// The status.
        status: u16,
    },
    /// A session was answered with 404.
    Gone {
        /// The session.
        session: String,
        /// Since the last request was sent that was answered, in milliseconds.
        idle_ms: u64,
    },
    /// Something came that may not come.
    Odd {
        /// What.
        what: String,
    },

    // --- the tool
    /// A call began to run.
    Start {
        /// The call.
        call: String,
        /// The process.
        pid: u32,
    },
    /// A call has run to its end; its result is about to be written.
    Finish {
        /// The call.
        call: String,
        /// The process.
        pid: u32,
    },
    /// A running call was told that it is cancelled.
    Stopped {
        /// The call.
        call: String,
        /// The process.
        pid: u32,
    },

    // --- the driver
    /// The network did something to a connection of a client.
    Fault {
        /// The client.
        client: String,
        /// What.
        kind: FaultKind,
        /// How long before that the answer at hand had shown its client an event id, in milliseconds; absent where it had not.
        id_ms: Option<u64>,
    },
    /// A process of the tool was killed.
    ChildKilled {
        /// The process.
        pid: u32,
    },
    /// A process of clients was killed.
    ClientKilled {
        /// Its name, `ts1-0`: that of all its clients up to the dot.
        process: String,
    },
    /// What the program looks like.
    Sample(Sample),
    /// The end: what was left.
    Left {
        /// Every process that was still there 10 s after the program had ended.
        processes: Vec<String>,
        /// How the program ended.
        exit: Option<i32>,
    },
}

/// The program at one moment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Where in the run: `warm` before there is load, `load`, `end` when every client has gone and every session ended.
    pub phase: Phase,
    /// Resident memory, in KiB.
    pub rss_kib: u64,
    /// Open descriptors.
    pub fds: u64,
    /// Processes of the tool.
    pub children: u64,
    /// CPU time used so far, in milliseconds.
    pub cpu_ms: u64,
    /// Every plain number of `/metrics`, without its prefix.
    pub metrics: std::collections::BTreeMap<String, u64>,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before any client.
    Warm,
    /// While clients work.
    #[default]
    Load,
    /// Afterwards.
    End,
}

/// An event with its time and who says so.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Milliseconds since 1970: every process of the run is on one machine.
    pub t: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}
