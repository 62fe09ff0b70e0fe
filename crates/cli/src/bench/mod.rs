//! `bowline bench`: load on any MCP endpoint, and what it took.

mod options;
mod report;

pub(crate) use options::BenchOptions;

use crate::complain;
use bowline_load::{
    LoadError, Outcome, Plan, Session, Target, Template, calls, end_sessions, open_sessions, park, polls,
    process, sessions, streams,
};
use options::{Output, What};
use report::{Report, Usage};
use std::{io::Write as _, process::ExitCode, time::Duration};
use tokio::time::Instant;

/// How many connections open sessions and calls that are only to be there.
const OPENERS: usize = 32;

/// Runs it on a runtime of its own, for the program.
pub(crate) fn main(options: &BenchOptions) -> ExitCode {
    if let Err(why) = options.check() {
        complain(&why);
        return crate::USAGE.into();
    }
    bowline_server::raise_file_limit();
    // One thread: on the machine of the server the others are the server's.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format_args!("the runtime could not be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let reports = match runtime.block_on(run(options)) {
        Ok(reports) => reports,
        Err(error) => {
            complain(&error);
            return ExitCode::FAILURE;
        }
    };
    let text = match options.output {
        Output::Text => reports.iter().map(Report::text).collect::<Vec<_>>().join("\n"),
        Output::Json => report::json(&options.url, &reports),
    };
    // A reader that went away has seen what it wanted.
    let _ = anstream::stdout().write_all(text.as_bytes());
    if reports.iter().all(Report::is_good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(options: &BenchOptions) -> Result<Vec<Report>, LoadError> {
    let target = Target::find(&options.url, &options.headers).await?;
    let bench = Bench { options, target, template: options.template() };
    let mut reports = Vec::new();
    for what in options.wanted() {
        reports.push(match what {
            What::Calls => bench.calls().await?,
            What::Sessions => bench.sessions().await?,
            What::Streams => bench.streams().await?,
            What::Parked => bench.parked().await?,
            What::Polls => bench.polls().await?,
        });
    }
    Ok(reports)
}

struct Bench<'a> {
    options: &'a BenchOptions,
    target: Target,
    template: Template,
}

impl Bench<'_> {
    fn plan(&self) -> Plan {
        Plan::new(self.options.connections, self.options.duration).at_most(self.options.requests)
    }

    /// What the server's process has used so far, where it is told which that is.
    fn usage(&self) -> Option<Usage> {
        let pid = self.options.pid?;
        Some(Usage { cpu: process::cpu_time(pid).ok()?, memory: process::resident(pid).ok()? })
    }

    async fn open(&self, count: usize) -> Result<Vec<Session>, LoadError> {
        open_sessions(&self.target, count, OPENERS).await
    }

    /// What was opened for a measurement is not left behind. A server that does not let go is not what was asked about.
    async fn close(&self, sessions: &[Session]) {
        if let Err(error) = end_sessions(&self.target, sessions).await {
            tracing::debug!(%error, "sessions could not be ended");
        }
    }

    async fn calls(&self) -> Result<Report, LoadError> {
        let sessions = self.open(self.options.sessions.unwrap_or(self.options.connections)).await?;
        let before = self.usage();
        let outcome = calls(&self.target, self.plan(), &sessions, &self.template).await;
        let report = Report::of_load("calls", &outcome, before, self.usage());
        self.close(&sessions).await;
        Ok(report)
    }

    async fn sessions(&self) -> Result<Report, LoadError> {
        let before = self.usage();
        let outcome = sessions(&self.target, self.plan()).await;
        Ok(Report::of_load("sessions", &outcome, before, self.usage()))
    }

    async fn streams(&self) -> Result<Report, LoadError> {
        let sessions = self.open(self.options.count).await?;
        let before = self.usage();
        let began = Instant::now();
        let opened = streams(&self.target, &sessions, None).await?;
        let after = self.usage();
        tokio::time::sleep(self.options.duration).await;
        let outcome = Outcome {
            done: opened.len() as u64 - opened.ended(),
            failed: opened.ended(),
            failure: (opened.ended() > 0).then(|| "streams ended while they were held".to_owned()),
            events: opened.messages(),
            time: Instant::now() - began,
            ..Outcome::default()
        };
        drop(opened);
        self.close(&sessions).await;
        Ok(Report::of_things("streams", &outcome, before, after))
    }

    async fn parked(&self) -> Result<Report, LoadError> {
        let sessions = self.open(self.parking_sessions()).await?;
        let before = self.usage();
        let began = Instant::now();
        let parked = self.park(&sessions).await;
        let after = self.usage();
        let outcome = Outcome {
            done: parked.as_ref().map_or(0, Vec::len) as u64,
            time: Instant::now() - began,
            ..Outcome::default()
        };
        self.close(&sessions).await;
        parked.map(|_| Report::of_things("parked", &outcome, before, after))
    }

    async fn polls(&self) -> Result<Report, LoadError> {
        let sessions = self.open(self.parking_sessions()).await?;
        let report = match self.park(&sessions).await {
            Ok(parked) => {
                let before = self.usage();
                let outcome = polls(&self.target, self.plan(), &sessions, &parked, self.options.hold).await;
                Ok(Report::of_load("polls", &outcome, before, self.usage()))
            }
            Err(error) => Err(error),
        };
        self.close(&sessions).await;
        report
    }

    /// Servers bound how many calls a session may run: a few for each.
    fn parking_sessions(&self) -> usize {
        self.options.sessions.unwrap_or_else(|| self.options.count.div_ceil(16))
    }

    async fn park(&self, sessions: &[Session]) -> Result<Vec<bowline_load::Parked>, LoadError> {
        let hold: Duration = self.options.hold;
        park(&self.target, sessions, &self.template, self.options.count, self.options.connections, hold).await
    }
}

#[cfg(test)]
mod tests;
