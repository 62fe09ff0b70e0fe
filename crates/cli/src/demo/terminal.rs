//! The timeline for people: three columns, one line for each thing that happens, at most 100 characters wide.

use super::{
    NUMBERS, Pace, View,
    happening::{Disconnect, Happening, What},
    verdict::Verdict,
};
use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Write},
    time::Duration,
};

// Widths of the columns; the last one may be as wide as what is left of 100.
const CLIENT: usize = 37;
const WIRE: usize = 21;

/// How many characters of an event id are shown: its end, where two ids differ most.
const ID_SHOWN: usize = 6;

const PLAIN: &str = "";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[1;32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const RED: &str = "\x1b[1;31m";
const RESET: &str = "\x1b[0m";

/// Writes the timeline. Colour is always written; the output drops it where it is not wanted.
pub(super) struct Timeline<'a> {
    out: &'a mut (dyn Write + Send),
    pace: Pace,
    /// Whether the client has a connection, as far as the timeline got.
    connected: bool,
    /// Counted while the client was connected and not yet arrived.
    under_way: VecDeque<Happening>,
    /// Counted while nobody was connected, or lost with a connection, and not yet arrived.
    kept: BTreeSet<u64>,
    /// Whether the tool ended while nobody was connected.
    result_kept: bool,
}

/// A text in its colour.
type Cell<'a> = (&'a str, &'a str);

impl<'a> Timeline<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), pace: Pace) -> Self {
        Self {
            out,
            pace,
            connected: false,
            under_way: VecDeque::new(),
            kept: BTreeSet::new(),
            result_kept: false,
        }
    }

    fn line(&mut self, at_ms: u64, client: Cell<'_>, wire: Cell<'_>, server: Cell<'_>) -> io::Result<()> {
        let time = format!("{}.{} s", at_ms / 1_000, at_ms % 1_000 / 100);
        write!(self.out, "{DIM}{time:>8}{RESET}  ")?;
        cell(self.out, client, CLIENT)?;
        cell(self.out, wire, WIRE)?;
        cell(self.out, server, 0)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Shows what is under way as what it turned out to be: not arrived.
    fn nobody_got_them(&mut self, wire: Cell<'_>, fate: &str) -> io::Result<bool> {
        let any = !self.under_way.is_empty();
        while let Some(Happening { at_ms, what }) = self.under_way.pop_front() {
            if let What::Counted(number) = what {
                self.kept.insert(number);
                self.line(at_ms, (PLAIN, ""), wire, (YELLOW, &format!("{number:>2}  {fate}")))?;
            }
        }
        Ok(any)
    }

    fn counted(&mut self, happening: &Happening, number: u64) -> io::Result<()> {
        if self.connected {
            self.under_way.push_back(happening.clone());
            return Ok(());
        }
        self.kept.insert(number);
        let server = format!("{number:>2}  nobody there: kept");
        self.line(happening.at_ms, (PLAIN, ""), (PLAIN, ""), (YELLOW, &server))
    }

    fn received(&mut self, at_ms: u64, number: u64) -> io::Result<()> {
        let text = format!("{number:>2}");
        if self.under_way.front().is_some_and(|front| front.what == What::Counted(number)) {
            self.under_way.pop_front();
            return self.line(at_ms, (PLAIN, &text), (DIM, "<------------------"), (PLAIN, &text));
        }
        let text = if self.kept.remove(&number) { format!("{text}  caught up") } else { text };
        self.line(at_ms, (YELLOW, &text), (DIM, "<------------------"), (PLAIN, ""))
    }

    fn disconnected(&mut self, at_ms: u64, how: Disconnect, back_in_ms: u64) -> io::Result<()> {
        self.nobody_got_them((PLAIN, ""), "not sent: kept")?;
        self.connected = false;
        let back = seconds(Duration::from_millis(back_in_ms));
        match how {
            Disconnect::ByServer => self.line(
                at_ms,
                (CYAN, &format!("is told: come back in {back}")),
                (CYAN, "<----- closed -----"),
                (CYAN, "hangs up; the tool counts on"),
            ),
            Disconnect::Broken => {
                let client = format!("connection broken; back in {back}");
                self.line(at_ms, (RED, &client), (PLAIN, ""), (PLAIN, "the tool counts on"))
            }
            Disconnect::Refused(status) => {
                let client = format!("turned away; back in {back}");
                self.line(at_ms, (RED, &client), (RED, &format!("<------ {status} -------")), (PLAIN, ""))
            }
        }
    }
}

impl View for Timeline<'_> {
    fn begin(&mut self) -> io::Result<()> {
        let tick = seconds(self.pace.tick);
        writeln!(
            self.out,
            "{BOLD}bowline demo{RESET}: one tool call that outlives its connections\n\n\
             An MCP client asks a tool to count to {NUMBERS}, one number every {tick}. Meanwhile the server closes\n\
             the connection every {} (before a proxy does it for want of patience), and once the\n\
             wire is cut in the middle of a message. Usually the rest of the answer is gone with the\n\
             connection, and calling again would run the tool twice. Here the client says which event\n\
             it saw last, and gets what came after it.\n",
            seconds(self.pace.hold),
        )?;
        write!(self.out, "{BOLD}{:>8}  {:CLIENT$}{:WIRE$}server{RESET}\n\n", "time", "client", "wire")?;
        self.out.flush()
    }

    fn show(&mut self, happening: &Happening) -> io::Result<()> {
        let at = happening.at_ms;
        match &happening.what {
            What::SessionOpened { revision } => self.line(
                at,
                (PLAIN, "opens a session"),
                (DIM, "--- initialize --->"),
                (PLAIN, &format!("speaks MCP {revision}")),
            ),
            What::Called => self.line(
                at,
                (BOLD, &format!("calls the tool: count to {NUMBERS}")),
                (BOLD, "--- POST --------->"),
                (PLAIN, ""),
            ),
            What::Started { run } => {
                let text = if *run == 1 { "the tool starts" } else { "THE TOOL STARTS AGAIN" };
                self.line(at, (PLAIN, ""), (PLAIN, ""), (BOLD, text))
            }
            What::StreamOpened { event_id } => {
                self.connected = true;
                let client = format!("notes its place: event {}", tail(event_id));
                self.line(at, (PLAIN, &client), (DIM, "<-- stream opens --"), (PLAIN, ""))
            }
            What::Counted(number) => self.counted(happening, *number),
            What::Received(number) => self.received(at, *number),
            What::Cut => {
                let wire = (RED, "<--X   CUT");
                let shown = self.nobody_got_them(wire, "lost half-way")?;
                self.connected = false;
                if shown { Ok(()) } else { self.line(at, (PLAIN, ""), wire, (PLAIN, "")) }
            }
            What::Disconnected { how, back_in_ms } => self.disconnected(at, *how, *back_in_ms),
            What::Resumed { last_event_id } => {
                self.connected = true;
                let client = format!("is back: what came after {}?", tail(last_event_id));
                self.line(at, (CYAN, &client), (CYAN, "--- GET ---------->"), (PLAIN, ""))
            }
            What::Finished if self.connected => Ok(()),
            What::Finished => {
                self.result_kept = true;
                self.line(at, (PLAIN, ""), (PLAIN, ""), (YELLOW, "the result; nobody there: kept"))
            }
            What::Result(outcome) => {
                let late = if self.result_kept { "  caught up" } else { "" };
                let client = format!("RESULT: the sum is {}{late}", outcome.sum);
                self.line(at, (GREEN, &client), (DIM, "<------------------"), (PLAIN, ""))
            }
            What::Failed { error } => {
                self.line(at, (RED, "THE CALL FAILED"), (PLAIN, ""), (PLAIN, ""))?;
                writeln!(self.out, "          {error}")
            }
        }
    }

    fn end(&mut self, verdict: &Verdict) -> io::Result<()> {
        let (ledger, traffic) = (&verdict.ledger, verdict.traffic);
        if verdict.is_ok() {
            writeln!(self.out, "\n{GREEN}Nothing lost, nothing twice.{RESET}\n")?;
        } else {
            writeln!(self.out, "\n{RED}Something went wrong.{RESET}\n")?;
            for problem in &verdict.problems {
                writeln!(self.out, "  {RED}- {problem}{RESET}")?;
            }
            writeln!(self.out)?;
        }
        let rows = [
            (
                "numbers",
                format!(
                    "{} of {} arrived{}",
                    ledger.received.len(),
                    verdict.asked,
                    if verdict.is_ok() { ", each once and in order" } else { "" }
                ),
            ),
            ("result", format!("arrived {}", times(ledger.results.len() as u64))),
            ("tool", format!("ran {}", times(ledger.runs))),
            (
                "disconnects",
                format!(
                    "{} by the server, {} on the wire; the client came back {}",
                    ledger.closed_by_server,
                    ledger.cut,
                    times(ledger.resumes)
                ),
            ),
            (
                "wire",
                format!(
                    "{} connections, {} bytes up, {} bytes down",
                    traffic.connections, traffic.up, traffic.down
                ),
            ),
        ];
        for (name, text) in rows {
            writeln!(self.out, "  {BOLD}{name:<13}{RESET}{text}")?;
        }
        writeln!(
            self.out,
            "\nThe same for any MCP server that speaks stdio; this one needs Node.js:\n\n  \
             {BOLD}bowline serve -- npx -y @modelcontextprotocol/server-everything stdio{RESET}\n"
        )?;
        self.out.flush()
    }
}

fn cell(out: &mut dyn Write, (style, text): Cell<'_>, width: usize) -> io::Result<()> {
    if style.is_empty() || text.is_empty() {
        write!(out, "{text:<width$}")
    } else {
        write!(out, "{style}{text}{RESET}{:pad$}", "", pad = width.saturating_sub(text.len()))
    }
}

/// The end of an event id.
fn tail(id: &str) -> String {
    let skip = id.chars().count().saturating_sub(ID_SHOWN);
    format!("..{}", id.chars().skip(skip).collect::<String>())
}

fn times(count: u64) -> String {
    match count {
        0 => "never".into(),
        1 => "once".into(),
        2 => "twice".into(),
        count => format!("{count} times"),
    }
}

/// A duration as `2.5 s`, `1 s`, `0.25 s`.
fn seconds(duration: Duration) -> String {
    let text = format!("{:.2}", duration.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}
