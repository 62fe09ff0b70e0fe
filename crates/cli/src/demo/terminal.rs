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
const CLIENT: usize = 38;
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
        write!(self.out, "{DIM}{time:>8}{RESET}")?;
        // Spaces go before a text and not after it, so that no line ends with some.
        let mut gap = 2;
        for ((style, text), width) in [(client, CLIENT), (wire, WIRE), (server, 0)] {
            if !text.is_empty() {
                let reset = if style.is_empty() { "" } else { RESET };
                write!(self.out, "{:gap$}{style}{text}{reset}", "")?;
                gap = 0;
            }
            gap += width.saturating_sub(text.chars().count());
        }
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
        writeln!(
            self.out,
            "{BOLD}bowline demo{RESET}: one tool call that outlives its connections\n\n\
             MCP clients call tools over HTTP, and the answer streams back over one connection. When it\n\
             breaks (a proxy's time limit, a laptop that sleeps, a deploy), the answer is usually lost,\n\
             and to call again is to run the tool again.\n\n\
             Here a tool counts to {NUMBERS}, one number every {}. Every {} the server itself closes the\n\
             connection before a proxy can, and says when to come back; once the wire is cut in the\n\
             middle of a message. Every message has an event id: the client comes back with the last\n\
             one it saw and reads on from there. The tool never notices.\n",
            seconds(self.pace.tick),
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
                let shown = self.nobody_got_them(wire, "sent, lost half-way: kept")?;
                self.connected = false;
                if shown { Ok(()) } else { self.line(at, (PLAIN, ""), wire, (PLAIN, "")) }
            }
            What::Disconnected { how, back_in_ms } => self.disconnected(at, *how, *back_in_ms),
            What::Resumed { last_event_id } => {
                self.connected = true;
                let client = format!("is back: what came after {}?", tail(last_event_id));
                self.line(at, (CYAN, &client), (CYAN, "--- GET ---------->"), (PLAIN, ""))
            }
            What::Finished => {
                self.result_kept = !self.connected;
                if self.connected {
                    return Ok(());
                }
                self.line(at, (PLAIN, ""), (PLAIN, ""), (YELLOW, "the result; nobody there: kept"))
            }
            What::Result(outcome) => {
                let client = format!("RESULT: 1 + .. + {NUMBERS} = {}", outcome.sum);
                let (client, server) = if self.result_kept {
                    (client + "  caught up", "")
                } else {
                    (client, "the tool is done")
                };
                self.line(at, (GREEN, &client), (DIM, "<------------------"), (PLAIN, server))
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
        if let Some((at_ms, had)) = ledger.first_loss {
            let at = seconds(Duration::from_millis(at_ms / 100 * 100));
            writeln!(
                self.out,
                "\nWithout resumption this call would have been over after {at}, with {had} of {} numbers.",
                verdict.asked
            )?;
        }
        writeln!(
            self.out,
            "\nThe same for any MCP server that speaks stdio; this one needs Node.js:\n\n  \
             {BOLD}bowline serve -- npx -y @modelcontextprotocol/server-everything stdio{RESET}\n"
        )?;
        self.out.flush()
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

#[cfg(test)]
mod tests {
    use super::{
        super::{
            happening::Outcome,
            relay::Traffic,
            verdict::{Ledger, Verdict},
        },
        *,
    };

    /// What a terminal without colours shows of these happenings, 100 ms apart, and of the verdict on them.
    fn shown(happenings: Vec<What>) -> String {
        let mut out = Vec::new();
        let mut view = Timeline::new(&mut out, Pace::new(Duration::from_secs(1)));
        let mut ledger = Ledger::default();
        view.begin().unwrap();
        for (at, what) in (0..).zip(happenings) {
            let happening = Happening { at_ms: at * 100, what };
            ledger.note(&happening);
            view.show(&happening).unwrap();
        }
        view.end(&Verdict::new(3, ledger, Traffic::default())).unwrap();
        let text = String::from_utf8(out).unwrap();
        let plain = anstream::adapter::strip_str(&text).to_string();
        for line in plain.lines() {
            assert!(line.len() <= 100, "{} characters: {line}", line.len());
            assert_eq!(line, line.trim_end());
            assert!(line.is_ascii(), "{line}");
        }
        plain
    }

    fn disconnected(how: Disconnect) -> What {
        What::Disconnected { how, back_in_ms: 2_500 }
    }

    fn resumed() -> What {
        What::Resumed { last_event_id: "a-long-event-id-123456".into() }
    }

    #[test]
    fn a_whole_call() {
        let plain = shown(vec![
            What::SessionOpened { revision: "2025-11-25".into() },
            What::Called,
            What::Started { run: 1 },
            What::StreamOpened { event_id: "a-long-event-id-abcdef".into() },
            What::Counted(1),
            What::Received(1),
            disconnected(Disconnect::ByServer),
            What::Counted(2),
            resumed(),
            What::Received(2),
            What::Counted(3),
            What::Cut,
            disconnected(Disconnect::Broken),
            What::Finished,
            resumed(),
            What::Received(3),
            What::Result(Outcome { numbers: vec![1, 2, 3], sum: 6 }),
        ]);
        let timeline = "
   0.0 s  opens a session                       --- initialize --->  speaks MCP 2025-11-25
   0.1 s  calls the tool: count to 20           --- POST --------->
   0.2 s                                                             the tool starts
   0.3 s  notes its place: event ..abcdef       <-- stream opens --
   0.5 s   1                                    <------------------   1
   0.6 s  is told: come back in 2.5 s           <----- closed -----  hangs up; the tool counts on
   0.7 s                                                              2  nobody there: kept
   0.8 s  is back: what came after ..123456?    --- GET ---------->
   0.9 s   2  caught up                         <------------------
   1.0 s                                        <--X   CUT            3  sent, lost half-way: kept
   1.2 s  connection broken; back in 2.5 s                           the tool counts on
   1.3 s                                                             the result; nobody there: kept
   1.4 s  is back: what came after ..123456?    --- GET ---------->
   1.5 s   3  caught up                         <------------------
   1.6 s  RESULT: 1 + .. + 20 = 6  caught up    <------------------

Nothing lost, nothing twice.
";
        assert!(plain.contains(timeline), "{plain}");
        assert!(plain.contains("over after 0.6 s, with 1 of 3 numbers."), "{plain}");
        assert!(plain.contains("bowline serve -- npx -y @modelcontextprotocol/server-everything stdio"));
    }

    #[test]
    fn what_goes_wrong_is_not_hidden() {
        let plain = shown(vec![
            What::Called,
            What::Started { run: 1 },
            What::StreamOpened { event_id: "id".into() },
            What::Counted(1),
            disconnected(Disconnect::Refused(503)),
            resumed(),
            What::Started { run: 2 },
            What::Received(1),
            What::Received(1),
            What::Failed { error: "the server no longer knows the session (404)".into() },
        ]);
        for part in [
            "turned away; back in 2.5 s            <------ 503 -------",
            " 1  not sent: kept",
            "THE TOOL STARTS AGAIN",
            "THE CALL FAILED",
            "no longer knows the session",
            "Something went wrong.",
            "- lost: 2, 3",
            "- came more than once: 1",
            "- the tool ran 2 times for one call",
            "- the wire was never cut",
        ] {
            assert!(plain.contains(part), "no `{part}` in {plain}");
        }
        assert!(!plain.contains("Nothing lost"));
        assert!(!plain.contains("each once"));
    }

    #[test]
    fn durations_as_people_write_them() {
        for (ms, text) in [(1_000, "1 s"), (2_500, "2.5 s"), (250, "0.25 s"), (30_000, "30 s"), (0, "0 s")] {
            assert_eq!(seconds(Duration::from_millis(ms)), text);
        }
    }
}
