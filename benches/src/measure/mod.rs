//! Servers under load: which runs there are, and what they share.
//!
//! Every run starts the servers that it compares on one core, stays on another itself, and takes turns: one round of each, again and again.
//! What is compared are figures of one round, so that a machine that is busy with something else disturbs both. A figure is the median of
//! its rounds.

mod calls;
mod counts;
mod gateway;
mod memory;
mod polls;
mod scale;
mod server;
mod start;
mod stats;

pub use server::Failed;

use bowline_load::{Outcome, Plan, process};
use server::{Cores, Server};
use std::{io::Write as _, path::PathBuf, time::Duration};

/// What a whole measurement is told.
#[derive(Debug)]
pub struct Bench {
    /// Shorter rounds and fewer of them.
    pub quick: bool,
    /// Measures the servers of other languages too, where `benches/peers` has them installed.
    pub peers: bool,
    /// The folder that this workspace's programs are in.
    pub programs: PathBuf,
    /// The workspace's own folder.
    pub benches: PathBuf,
    /// The program `bowline`, for what it serves itself.
    pub bowline: Option<PathBuf>,
    /// The interpreter that has the Python SDK.
    pub python: Option<PathBuf>,
    /// The program `mcp-proxy`.
    pub mcp_proxy: Option<PathBuf>,
    cores: Cores,
}

type Run = fn(&Bench) -> std::pin::Pin<Box<dyn Future<Output = Result<(), Failed>> + '_>>;

macro_rules! run {
    ($function:path) => {
        |bench| Box::pin($function(bench))
    };
}

/// Every run: its name, what it measures, and what does it. Those of the second list are the curves, which a quick measurement leaves out.
const RUNS: &[(&str, &str, Run)] = &[
    ("calls", "tools/call without a session", run!(calls::plain)),
    ("large", "the same with 100 KB", run!(calls::large)),
    ("many", "the same on 256 connections", run!(calls::many)),
    ("session", "tools/call in a session, as JSON and as a primed, stored stream", run!(calls::session)),
    ("initialize", "initialize, initialized, DELETE", run!(calls::initialize)),
    ("notify", "progress notifications of one call", run!(calls::notify)),
    ("polls", "a poll with nothing new", run!(polls::polls)),
    ("memory", "bytes of an idle session, an open GET stream, a parked call", run!(memory::memory)),
    ("start", "start to first answer, idle memory, size, crates", run!(start::start)),
    ("gateway", "a stdio server behind bowline serve", run!(gateway::gateway)),
];

const CURVES: &[(&str, &str, Run)] = &[
    ("counts", "instructions and allocations of a whole call (valgrind)", run!(counts::counts)),
    ("scale-sessions", "calls and bytes with 1 to 100,000 idle sessions", run!(scale::sessions)),
    ("scale-parked", "calls and bytes with 1 to 100,000 parked calls", run!(scale::parked)),
    ("scale-streams", "5,000 open streams with one event a second each", run!(scale::streams)),
    ("stalled", "1 stalled reader among 1,000", run!(scale::stalled)),
];

impl Bench {
    /// A measurement with the programs in `programs`.
    #[must_use]
    pub fn new(programs: PathBuf, benches: PathBuf) -> Self {
        let cores = Cores::find();
        Self {
            quick: false,
            peers: false,
            programs,
            benches,
            bowline: None,
            python: None,
            mcp_proxy: None,
            cores,
        }
    }

    /// The names of all runs, each with what it measures.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        RUNS.iter().chain(CURVES).map(|(name, about, _)| (*name, *about))
    }

    /// Runs those that are named; where none is, all (a quick measurement: all but the curves). What was measured goes to stdout, one
    /// figure a line: `figure`, its name, whose it is, the value, with tabs between them.
    ///
    /// # Errors
    /// When a name is unknown; at the end, when a run failed.
    pub async fn run(&self, names: &[String]) -> Result<(), Failed> {
        if let Some(unknown) = names.iter().find(|name| Self::names().all(|(known, _)| known != **name)) {
            return Err(Failed(format!("there is no run {unknown:?}")));
        }
        self.cores.take_load_core();
        eprintln!("{}", self.cores);
        let mut failed = Vec::new();
        let curves = if self.quick && names.is_empty() { &[] } else { CURVES };
        for (name, about, run) in RUNS.iter().chain(curves) {
            if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
                continue;
            }
            let began = tokio::time::Instant::now();
            eprintln!("{name}: {about}");
            if let Err(error) = run(self).await {
                eprintln!("!!! {name}: {error}");
                failed.push(format!("{name}: {error}"));
            }
            eprintln!("{name}: {:.0} s", (tokio::time::Instant::now() - began).as_secs_f64());
        }
        if failed.is_empty() { Ok(()) } else { Err(Failed(failed.join("; "))) }
    }

    /// The length of a round.
    fn round(&self) -> Duration {
        if self.quick { Duration::from_millis(500) } else { Duration::from_secs(2) }
    }

    /// How many rounds.
    fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    fn plan(&self, connections: usize) -> Plan {
        Plan::new(connections, self.round())
    }
}

/// Says what was measured.
fn figure(name: &str, subject: &str, value: f64) {
    // A reader that is gone is no reason to stop: what is measured is shown on stderr too.
    let _ = writeln!(std::io::stdout(), "figure\t{name}\t{subject}\t{value}");
    eprintln!("    {name:24} {subject:16} {value:.2}");
}

/// One round of one server.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// CPU time of the server for one request, in microseconds.
    cpu_us: f64,
    /// Requests a second, as the load saw them.
    rate: f64,
    p50_us: f64,
    p99_us: f64,
}

/// A round of load on a server. Any failure fails the run: what is measured is answers, not refusals.
async fn sample(server: &Server, load: impl Future<Output = Outcome>) -> Result<Sample, Failed> {
    let before = process::cpu_time(server.pid)?;
    let outcome = load.await;
    let cpu = process::cpu_time(server.pid)?.saturating_sub(before);
    if outcome.failed > 0 || outcome.done == 0 {
        return Err(Failed(format!(
            "{}: {} of {} failed: {}",
            server.name,
            outcome.failed,
            outcome.done + outcome.failed,
            outcome.failure.unwrap_or_default()
        )));
    }
    Ok(Sample {
        cpu_us: cpu.as_secs_f64() * 1e6 / outcome.done as f64,
        rate: outcome.per_second(),
        p50_us: outcome.latency.quantile(0.5).as_secs_f64() * 1e6,
        p99_us: outcome.latency.quantile(0.99).as_secs_f64() * 1e6,
    })
}

/// Says what rounds of `subjects` were like, the first of which is the floor: `NAME.us`, `NAME.ratio`, `NAME.per-core`.
fn compare(name: &str, subjects: &[&str], rounds: &[Vec<Sample>]) {
    for (at, subject) in subjects.iter().enumerate() {
        let of = |value: &dyn Fn(&[Sample]) -> f64| stats::median(rounds.iter().map(|round| value(round)));
        let us = of(&|round| round[at].cpu_us);
        figure(&format!("{name}.us"), subject, us);
        figure(&format!("{name}.per-core"), subject, 1e6 / us);
        figure(&format!("{name}.ratio"), subject, of(&|round| round[at].cpu_us / round[0].cpu_us));
        figure(&format!("{name}.p50"), subject, of(&|round| round[at].p50_us));
        figure(&format!("{name}.p99"), subject, of(&|round| round[at].p99_us));
        figure(&format!("{name}.spread"), subject, of(&|round| round[at].p99_us / round[at].p50_us));
        figure(&format!("{name}.rate"), subject, of(&|round| round[at].rate));
    }
}
