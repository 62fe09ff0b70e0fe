//! The timeline of `demo --kill`, for people and for machines.

use super::{
    super::{
        NUMBERS, Pace,
        happening::{Disconnect, Happening, What},
        json,
    },
    Deed, LAST_NUMBERS,
    verdict::Story,
};
use serde_json::{Value, json as object};
use std::io::{self, Write};

/// The width of the columns of the two calls.
const COLUMN: usize = 29;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[1;32m";
const CYAN: &str = "\x1b[36m";
const RED: &str = "\x1b[1;31m";
const RESET: &str = "\x1b[0m";

pub(super) struct View<'a> {
    out: &'a mut (dyn Write + Send),
    json: bool,
    pace: Pace,
}

impl<'a> View<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), json: bool, pace: Pace) -> Self {
        Self { out, json, pace }
    }

    fn object(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.out, "{value}")?;
        self.out.flush()
    }

    /// One line: a column, counted from 0, and a text in its colour.
    fn line(&mut self, at_ms: u64, column: usize, colour: &str, text: &str) -> io::Result<()> {
        let time = format!("{}.{} s", at_ms / 1_000, at_ms % 1_000 / 100);
        let gap = 2 + column * COLUMN;
        writeln!(self.out, "{DIM}{time:>8}{RESET}{:gap$}{colour}{text}{RESET}", "")?;
        self.out.flush()
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(
            self.out,
            "{BOLD}bowline demo --kill{RESET}: one session, two processes, and neither of them stays\n\n\
             Two `bowline serve` share a store, a file. A client has one session and two calls, which count\n\
             to {NUMBERS}, one number every {:?}, each on one of them. The wire is cut, then A is killed (SIGKILL):\n\
             nobody can know how far its call got, so its client is told just that, and nothing is run\n\
             twice. Then B is told to leave (SIGTERM), as in a deploy. The session lives on.\n",
            self.pace.tick
        )?;
        let (first, second) = ("first call (on A)", "second call (on B)");
        writeln!(self.out, "{BOLD}{:>8}  {first:COLUMN$}{second:COLUMN$}backends{RESET}\n", "time")?;
        self.out.flush()
    }

    pub(super) fn deed(&mut self, at_ms: u64, deed: Deed) -> io::Result<()> {
        if self.json {
            let (what, backend, pid, code) = match deed {
                Deed::Started(name, pid) => ("started", name, Some(pid), None),
                Deed::Killed(name) => ("killed", name, None, None),
                Deed::Replaced(name, pid) => ("replaced", name, Some(pid), None),
                Deed::ToldToLeave(name) => ("told_to_leave", name, None, None),
                Deed::Left(name, code) => ("left", name, None, code),
            };
            let line = object!({ "at_ms": at_ms, "who": "demo", "what": what, "backend": backend.to_string(),
                "pid": pid, "code": code });
            return self.object(&line);
        }
        let (colour, text) = match deed {
            Deed::Started(name, pid) => ("", format!("{name} serves (pid {pid})")),
            Deed::Killed(name) => (RED, format!("{name} is KILLED (SIGKILL)")),
            Deed::Replaced(name, pid) => ("", format!("{name} takes its place (pid {pid})")),
            Deed::ToldToLeave(name) => (CYAN, format!("{name} is told to leave (SIGTERM)")),
            Deed::Left(name, Some(code)) => (CYAN, format!("{name} has left, exit code {code}")),
            Deed::Left(name, None) => (RED, format!("{name} was ended by a signal")),
        };
        self.line(at_ms, 2, colour, &text)
    }

    /// What call `call` saw; 0 is the wire.
    pub(super) fn seen(&mut self, call: u64, happening: &Happening) -> io::Result<()> {
        if self.json {
            let mut line = json::describe(&happening.what);
            line["at_ms"] = happening.at_ms.into();
            line["call"] = call.into();
            return self.object(&line);
        }
        let (colour, text) = match &happening.what {
            What::SessionOpened { .. } => ("", "opens a session".into()),
            What::Called if call == 3 => (BOLD, format!("one more call: to {LAST_NUMBERS}")),
            What::Called => (BOLD, format!("calls: count to {NUMBERS}")),
            What::Received(number) => ("", format!("{number:>2}")),
            What::Cut => (RED, "the wire is CUT".into()),
            What::Disconnected { how, back_in_ms } => {
                let back = format!("back in {}.{} s", back_in_ms / 1_000, back_in_ms % 1_000 / 100);
                match how {
                    Disconnect::ByServer => (CYAN, format!("is sent away; {back}")),
                    Disconnect::Broken => (RED, format!("broken; {back}")),
                    Disconnect::Refused(status) => (RED, format!("turned away ({status}); {back}")),
                }
            }
            What::Resumed { .. } => (CYAN, "is back: what came after?".into()),
            What::Result(outcome) => (GREEN, format!("RESULT: {}", outcome.sum)),
            What::Failed { error } => {
                let error: Value = serde_json::from_str(error).unwrap_or_else(|_| object!(error));
                let data = &error["data"];
                match (data["reason"].as_str(), data["outcome"].as_str()) {
                    (Some(reason), Some(outcome)) => (RED, format!("{reason}, outcome {outcome}")),
                    _ => (RED, format!("FAILED: {error}")),
                }
            }
            What::StreamOpened { .. } | What::Started { .. } | What::Counted(_) | What::Finished => {
                return Ok(());
            }
        };
        let column = match call {
            0 => 2,
            2 => 1,
            _ => 0,
        };
        self.line(happening.at_ms, column, colour, &text)
    }

    pub(super) fn end(&mut self, story: &Story, problems: &[String]) -> io::Result<()> {
        let (first, second, last) = (story.first(), story.second(), story.last());
        if self.json {
            return self.object(&object!({
                "who": "demo", "what": "verdict", "ok": problems.is_empty(), "problems": problems,
                "told_after_ms": story.told_after(), "runs": story.runs,
                "received": [first.received.len(), second.received.len(), last.received.len()],
                "results": [first.results.len(), second.results.len(), last.results.len()],
            }));
        }
        if problems.is_empty() {
            writeln!(self.out, "\n{GREEN}Nothing lost in silence, nothing run twice.{RESET}\n")?;
        } else {
            writeln!(self.out, "\n{RED}Something went wrong.{RESET}\n")?;
            for problem in problems {
                writeln!(self.out, "  {RED}- {problem}{RESET}")?;
            }
            writeln!(self.out)?;
        }
        let told = story.told_after().map_or_else(
            || "its client was never told".into(),
            |ms| format!("its client was told {}.{} s after the kill", ms / 1_000, ms % 1_000 / 100),
        );
        let rows = [
            (
                "first call",
                format!("{} numbers; {told}; the tool ran {}", first.received.len(), story.runs[0]),
            ),
            (
                "second call",
                format!(
                    "{} of {NUMBERS} numbers, {} result, over {} disconnects; the tool ran {}",
                    second.received.len(),
                    second.results.len(),
                    second.resumes,
                    story.runs[1]
                ),
            ),
            (
                "session",
                match last.results.len() {
                    1 => "lives on: a call after both had gone has its result".into(),
                    other => format!("{other} results of a call after both had gone"),
                },
            ),
        ];
        for (name, text) in rows {
            writeln!(self.out, "  {BOLD}{name:<13}{RESET}{text}")?;
        }
        writeln!(
            self.out,
            "\nThe same for any MCP server that speaks stdio, with as many processes as you like:\n\n  \
             {BOLD}bowline serve --store redis://HOST -- COMMAND{RESET}\n"
        )?;
        self.out.flush()
    }
}
