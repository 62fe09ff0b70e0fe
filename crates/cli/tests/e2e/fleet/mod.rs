//! Several processes on one store, from the outside: restarted, killed, put to sleep, cut off from the store. SEMANTICS 6.
//!
//! `BOWLINE_FLEET_LONG=1` makes them as long as the promises are meant: minutes instead of seconds.

mod calls;
mod elsewhere;
mod figures;
mod kills;
mod onebox;
mod outages;
mod rerun;
mod rolling;
mod sleepers;

use crate::common::fixture;
use bowline_testkit::{Dir, Program, Redis};
use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};
use tokio::time::Instant;

/// Whether the long versions are wanted.
fn long() -> bool {
    std::env::var_os("BOWLINE_FLEET_LONG").is_some_and(|value| !value.is_empty())
}

/// Backends on one store, each with an address that it keeps.
struct Fleet {
    options: String,
    backends: Vec<Program>,
}

impl Fleet {
    /// `count` backends with options, `--store` among them.
    async fn start(count: usize, options: &str) -> Self {
        let mut backends = Vec::new();
        for _ in 0..count {
            backends.push(fixture().with(options).start().await);
        }
        Self { options: options.to_owned(), backends }
    }

    /// The same on a Redis.
    async fn on(redis: &Redis, count: usize, options: &str) -> Self {
        Self::start(count, &format!("--store {} {options}", redis.url())).await
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.backends.iter().map(Program::address).collect()
    }

    /// Another process at the address of one that has ended.
    async fn replace(&mut self, which: usize) {
        let address = self.backends[which].address();
        self.backends[which] = fixture().with(&self.options).listen(address).start().await;
    }

    /// SIGTERM, the end, and another process in its place. Returns how long it took to leave.
    async fn restart(&mut self, which: usize) -> Duration {
        let began = Instant::now();
        self.backends[which].terminate();
        while !self.backends[which].has_ended() {
            assert!(Instant::now() - began < Duration::from_secs(90), "it does not leave");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let status = self.backends[which].wait().await;
        assert_eq!(status.code(), Some(0), "{}", self.backends[which].said());
        let left = Instant::now() - began;
        self.replace(which).await;
        left
    }
}

/// What the tool `job` wrote down: how often each key was begun, and how often it was ended.
fn ledger(file: &Path) -> BTreeMap<String, (usize, usize)> {
    let mut jobs: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let mut words = line.split(' ');
        let (what, key) = (words.next().unwrap(), words.next().unwrap());
        let job = jobs.entry(key.to_owned()).or_default();
        match what {
            "start" => job.0 += 1,
            _ => job.1 += 1,
        }
    }
    jobs
}

/// A folder and the ledger in it.
fn new_ledger() -> (Dir, std::path::PathBuf) {
    let dir = Dir::new();
    let file = dir.join("ledger");
    (dir, file)
}

/// The value that `share` of all are not above.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small"
    )]
    let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len());
    sorted[at - 1]
}
