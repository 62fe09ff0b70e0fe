//! Load on an MCP endpoint over Streamable HTTP, and what it costs the server.
//!
//! Everything runs in the caller's runtime and is bounded: by a time, by a number of connections, and by the sizes that stand with
//! each part. Connections are kept alive. A client here does as little as it can, so that on two cores the server is what is measured:
//! the answer to a call is looked at only as far as it takes to know that it is a result.
//!
//! - [`calls`]: calls, one after another on each connection
//! - [`sessions`]: `initialize`, `notifications/initialized`, DELETE; [`open_sessions`] leaves them open
//! - [`streams`]: open streams that are only read
//! - [`park`]: calls whose client was sent away; [`polls`]: that client coming back
//! - [`process`]: the CPU time and memory of a process on this machine

mod calls;
mod error;
mod histogram;
mod http;
mod mcp;
mod parked;
pub mod process;
mod sessions;
mod streams;
mod target;
mod template;
mod turns;

pub use calls::calls;
pub use error::LoadError;
pub use histogram::Histogram;
pub use mcp::{Answer, Session, call_once, end_sessions, handshake};
pub use parked::{Parked, park, polls};
pub use sessions::{open_sessions, sessions};
pub use streams::{Opened, streams};
pub use target::Target;
pub use template::Template;

use std::time::Duration;

/// How much load, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many connections work at a time, each with one request in flight. At least 1.
    pub connections: usize,
    /// How long. What is under way at the end is finished and counted.
    pub time: Duration,
    /// Ends before the time when so many requests were made.
    pub most: u64,
}

impl Plan {
    /// So many connections for so long.
    #[must_use]
    pub const fn new(connections: usize, time: Duration) -> Self {
        Self { connections, time, most: u64::MAX }
    }

    /// This plan, with an end after `most` requests.
    #[must_use]
    pub const fn at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }
}

/// What came of some load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was done: calls, whole sessions, polls.
    pub done: u64,
    /// What was refused or broke, and is not among the others.
    pub failed: u64,
    /// The first failure, in words.
    pub failure: Option<String>,
    /// Events that were received; 0 where answers are not read as streams.
    pub events: u64,
    /// From the first request to the last answer.
    pub time: Duration,
    /// How long each took.
    pub latency: Histogram,
}

impl Outcome {
    /// How many a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.done as f64 / seconds } else { 0.0 }
    }

    /// Adds what another worker did at the same time.
    fn merge(&mut self, other: Self) {
        self.done += other.done;
        self.failed += other.failed;
        self.events += other.events;
        self.time = self.time.max(other.time);
        self.failure = self.failure.take().or(other.failure);
        self.latency.merge(&other.latency);
    }

    fn fail(&mut self, error: &LoadError) {
        self.failed += 1;
        self.failure.get_or_insert_with(|| error.to_string());
    }
}

/// Runs one worker for each connection and adds up what they did. A worker that ends with an error counts as one failure.
async fn all<W>(workers: impl IntoIterator<Item = W>) -> Outcome
where
    W: Future<Output = Result<Outcome, LoadError>> + Send + 'static,
{
    let mut tasks = tokio::task::JoinSet::new();
    for worker in workers {
        tasks.spawn(worker);
    }
    let mut all = Outcome::default();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(outcome)) => all.merge(outcome),
            Ok(Err(error)) => all.fail(&error),
            Err(error) => all.fail(&LoadError::Worker(error.to_string())),
        }
    }
    all
}

#[cfg(test)]
mod tests;
