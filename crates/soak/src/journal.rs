//! What everybody writes down, one JSON object a line, and how it is read again. The clients in `tests/clients` write the same
//! form.
//!
//! Names: a client is `GROUP-PROCESS.NUMBER` (`ts1-0.3`), a session `CLIENT/INCARNATION.NUMBER`, a call `SESSION.NUMBER`. So a
//! call's name says whose it is.

use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

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

/// Milliseconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// A file that several processes may append to.
#[derive(Clone, Debug)]
pub struct Journal(Arc<File>);

impl Journal {
    /// Opens one.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Writes one event down, in one piece.
    pub fn note(&self, event: Event) {
        let mut line = serde_json::to_vec(&Line { t: now(), event }).expect("an event is JSON");
        line.push(b'\n');
        // A journal that cannot be written makes the run worthless.
        (&*self.0).write_all(&line).expect("the journal can be written");
    }
}

/// Reads every journal (`*.jsonl`) in a folder, in the order of time.
///
/// A writer that is killed may leave half a line behind; in the ledger, which has many writers, the next line follows on it at once. Half lines
/// are left out, as many as processes were killed.
///
/// # Errors
/// A file that cannot be read, or a line that is no event.
pub fn read(folder: &Path) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut halves = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for (number, text) in text[..whole].lines().enumerate() {
            halves += parse(text, &mut lines).map_err(|error| {
                io::Error::other(format!("{}:{}: {error}: {text}", path.display(), number + 1))
            })?;
        }
    }
    let killed = |line: &&Line| matches!(line.event, Event::ChildKilled { .. } | Event::ClientKilled { .. });
    let killed = lines.iter().filter(killed).count();
    if halves > killed {
        return Err(io::Error::other(format!(
            "{halves} lines are cut short, but {killed} writers were killed"
        )));
    }
    lines.sort_by_key(|line: &Line| line.t);
    Ok(lines)
}

/// Reads one line, or what is whole of several that stand on one. Returns how many are not whole.
fn parse(text: &str, lines: &mut Vec<Line>) -> serde_json::Result<usize> {
    let error = match serde_json::from_str(text) {
        Ok(line) => {
            lines.push(line);
            return Ok(0);
        }
        Err(error) => error,
    };
    let Some(start) = text.rfind("{\"t\":").filter(|start| *start > 0) else { return Err(error) };
    lines.push(serde_json::from_str(&text[start..])?);
    match serde_json::from_str(&text[..start]) {
        // It lacks no more than its end of line.
        Ok(line) => lines.push(line),
        Err(_) => return Ok(1),
    }
    Ok(0)
}

/// The session of a call.
#[must_use]
pub fn session_of(call: &str) -> &str {
    call.rsplit_once('.').map_or(call, |(session, _)| session)
}

/// The client of a call or a session.
#[must_use]
pub fn client_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(client, _)| client)
}

/// The text that the tool writes for a call: its name again and again.
#[must_use]
pub fn payload(call: &str, size: u64) -> String {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let unit = format!("{call}|");
    let mut text = unit.repeat(size.div_ceil(unit.len()));
    text.truncate(size);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let how = How::Result { of: "a".into(), good: true, asked: "none".into() };
        let line = Line { t: 5, event: Event::End { call: "raw-0.1/0.2.3".into(), how } };
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(
            text,
            r#"{"t":5,"e":"end","call":"raw-0.1/0.2.3","how":"result","of":"a","good":true,"asked":"none"}"#
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
        let sample = Line { t: 1, event: Event::Sample(Sample::default()) };
        assert_eq!(serde_json::from_str::<Line>(&serde_json::to_string(&sample).unwrap()).unwrap(), sample);
    }

    #[test]
    fn half_a_line_spoils_no_other_one() {
        let event = Event::Response { call: "raw-0.1/0.2.3".into() };
        let whole = serde_json::to_string(&Line { t: 5, event }).unwrap();
        let read = |text: &str| {
            let mut lines = Vec::new();
            parse(text, &mut lines).map(|halves| (lines.len(), halves)).ok()
        };
        assert_eq!(read(&whole), Some((1, 0)));
        assert_eq!(read(&format!("{whole}{whole}")), Some((2, 0)));
        assert_eq!(read(&format!("{}{whole}", &whole[..20])), Some((1, 1)));
        assert_eq!(read(&whole[..20]), None);
        assert_eq!(read(&format!("{whole}{}", &whole[..20])), None);
    }

    #[test]
    fn names_say_whose() {
        assert_eq!(session_of("ts1-0.3/1.2.9"), "ts1-0.3/1.2");
        assert_eq!(client_of("ts1-0.3/1.2.9"), "ts1-0.3");
        assert_eq!(payload("ab", 7), "ab|ab|a");
    }
}
