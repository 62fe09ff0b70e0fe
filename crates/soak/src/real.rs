//! Clients on the official SDKs: a few long-lived processes, each with many clients in it, killed now and then.

use crate::{
    chance::Chance,
    journal::{Event, Journal, now},
    options::Tempo,
};
use serde_json::json;
use std::{ffi::OsString, io, path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep_until, timeout},
};

/// An SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    /// TypeScript, version 1.
    TypeScript1,
    /// TypeScript, version 2.
    TypeScript2,
    /// Python.
    Python,
    /// Rust.
    Rmcp,
}

impl Sdk {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TypeScript1, Self::TypeScript2, Self::Python, Self::Rmcp];

    /// The beginning of the names of its clients.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::TypeScript1 => "ts1",
            Self::TypeScript2 => "ts2",
            Self::Python => "py",
            Self::Rmcp => "rmcp",
        }
    }

    fn command(self) -> Result<Command, String> {
        let folder = bowline_testkit::repository().join("tests/clients");
        let command = match self {
            Self::TypeScript1 | Self::TypeScript2 => {
                // The packages are found from where the script is.
                let script = PathBuf::from(variable("BOWLINE_TEST_NODE_DIR")?).join("soak.mjs");
                let mut command = Command::new("node");
                command.arg(script).arg(self.group());
                command
            }
            Self::Python => {
                let mut command = Command::new(variable("BOWLINE_TEST_PYTHON")?);
                command.arg("-B").arg(folder.join("python/soak.py"));
                command
            }
            Self::Rmcp => {
                let mut command = Command::new(variable("BOWLINE_TEST_RMCP_CLIENT")?);
                command.arg("soak");
                command
            }
        };
        Ok(command)
    }
}

fn variable(name: &str) -> Result<OsString, String> {
    std::env::var_os(name)
        .ok_or_else(|| format!("{name} is not set: run it as `cargo xtask soak`, or with --raw-only"))
}

/// A process of clients.
#[derive(Debug)]
pub struct Process {
    /// Its SDK.
    pub sdk: Sdk,
    /// Its name: that of all its clients up to the dot.
    pub name: String,
    /// Its clients: name and URL.
    pub clients: Vec<(String, String)>,
    /// Their token.
    pub token: String,
    /// The folder of the journals.
    pub folder: PathBuf,
    /// How fast everything goes.
    pub tempo: Tempo,
    /// When they stop.
    pub until: u64,
}

impl Process {
    fn start(&self, incarnation: u64, seed: u64) -> Result<Child, String> {
        let journal = self.folder.join(format!("{}-{incarnation}.jsonl", self.name));
        let clients: Vec<_> =
            self.clients.iter().map(|(name, url)| json!({ "name": name, "url": url })).collect();
        let config = json!({ "clients": clients, "token": self.token, "incarnation": incarnation, "seed": seed % (1 << 31),
            "until": self.until, "journal": journal, "longest_call": self.tempo.longest_call,
            "longest_pause": self.tempo.longest_pause, "grace": self.tempo.grace });
        let errors = self.folder.join(format!("{}.stderr", self.name));
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(errors);
        let errors = errors.map_err(|error| format!("no file for what {} says: {error}", self.name))?;
        let mut command = self.sdk.command()?;
        command
            .arg(config.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .kill_on_drop(true);
        command.spawn().map_err(|error| format!("cannot start {}: {error}", self.name))
    }

    /// Keeps it running, killed now and then, until its clients stop. `grace` is how long they may take for that.
    ///
    /// # Errors
    /// It cannot be started, ends badly, or does not end.
    pub async fn work(self, journal: Journal, mut chance: Chance) -> Result<(), String> {
        for incarnation in 0.. {
            let mut child = self.start(incarnation, chance.below(u64::MAX))?;
            let left = Duration::from_millis(self.until.saturating_sub(now()));
            let life = chance.ms(self.tempo.client_kills / 2, self.tempo.client_kills * 3);
            let kill = sleep_until(Instant::now() + life);
            let status: io::Result<_> = tokio::select! {
                status = child.wait() => status,
                // Noted before and after: the moment is somewhere between.
                () = kill, if life + Duration::from_secs(1) < left => {
                    journal.note(Event::ClientKilled { process: self.name.clone() });
                    let _ = child.kill().await;
                    journal.note(Event::ClientKilled { process: self.name.clone() });
                    continue;
                }
            };
            return match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(format!("{} ended with {status}: see its .stderr", self.name)),
                Err(error) => Err(format!("{}: {error}", self.name)),
            };
        }
        Ok(())
    }

    /// The same, given up after the time that the last calls may take.
    ///
    /// # Errors
    /// As [`Self::work`].
    pub async fn work_in_time(self, journal: Journal, chance: Chance) -> Result<(), String> {
        let name = self.name.clone();
        let limit = self.until.saturating_sub(now()) + self.tempo.grace + self.tempo.longest_call + 30_000;
        match timeout(Duration::from_millis(limit), self.work(journal, chance)).await {
            Ok(done) => done,
            Err(_) => Err(format!("{name} did not stop in time")),
        }
    }
}
