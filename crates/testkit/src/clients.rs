//! Real clients: programs that use the official SDKs with stock settings.

use crate::repository;
use serde_json::Value;
use std::{
    ffi::OsString,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::process::{Child, Command};

/// One of the client programs in `tests/clients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealClient {
    /// The TypeScript SDK, version 1.
    TypeScript1,
    /// The TypeScript SDK, version 2.
    TypeScript2,
    /// The Python SDK.
    Python,
    /// The Rust SDK.
    Rmcp,
}

/// What a client printed, and how it ended.
#[derive(Clone, Debug)]
pub struct ClientRun {
    /// Which client ran which scenario.
    pub name: String,
    /// One object a step; the last one is `done`.
    pub steps: Vec<Value>,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stderr.
    pub stderr: String,
}

/// A variable that the runner sets. Never skipped where it is missing: a test that did not run is no test.
pub(crate) fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| {
        panic!("{name} is not set: run `cargo xtask test`, which installs the clients and sets it")
    })
}

/// The command of the reference server on stdio, as the runner installed it.
#[must_use]
pub fn everything_server() -> [OsString; 3] {
    let modules = PathBuf::from(variable("BOWLINE_TEST_NODE_DIR")).join("node_modules");
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    assert!(script.is_file(), "{} is missing: run `cargo xtask test`", script.display());
    ["node".into(), script.into(), "stdio".into()]
}

impl RealClient {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TypeScript1, Self::TypeScript2, Self::Python, Self::Rmcp];

    /// The command for a scenario, to be run or killed by the caller.
    #[must_use]
    pub fn command(self, url: &str, scenario: &str) -> Command {
        let node = |script| {
            let mut command = Command::new("node");
            command.arg(PathBuf::from(variable("BOWLINE_TEST_NODE_DIR")).join(script));
            command
        };
        let mut command = match self {
            Self::TypeScript1 => node("v1.mjs"),
            Self::TypeScript2 => node("v2.mjs"),
            Self::Python => {
                let mut command = Command::new(variable("BOWLINE_TEST_PYTHON"));
                command.arg("-B").arg(repository().join("tests/clients/python/client.py"));
                command
            }
            Self::Rmcp => Command::new(variable("BOWLINE_TEST_RMCP_CLIENT")),
        };
        command
            .arg(url)
            .args(scenario.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Starts a scenario: its name and options, separated by blanks.
    #[must_use]
    pub fn spawn(self, url: &str, scenario: &str) -> Child {
        self.command(url, scenario).spawn().unwrap_or_else(|error| panic!("cannot start {self:?}: {error}"))
    }

    /// Runs a scenario to its end. Panics when it is still running after `within`.
    pub async fn run(self, url: &str, scenario: &str, within: Duration) -> ClientRun {
        ClientRun::of(format!("{self:?} {scenario}"), self.command(url, scenario), within).await
    }
}

impl ClientRun {
    /// Runs a command that prints steps to its end.
    pub(crate) async fn of(name: String, mut command: Command, within: Duration) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let output = tokio::time::timeout(within, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("{name}: not done within {within:?}")).unwrap();
        let stdout = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let steps = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
            .collect();
        Self {
            name,
            steps,
            status: output.status,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Panics unless every step passed; returns the run.
    pub fn passed(self) -> Self {
        let done = self.steps.last().is_some_and(|step| step["step"] == "done" && step["ok"] == true);
        let failed: Vec<_> =
            self.steps.iter().filter(|step| step["ok"] != true).map(Value::to_string).collect();
        assert!(
            done && failed.is_empty() && self.status.success(),
            "{}: {}, failed steps:\n{}\nof {} steps; stderr:\n{}",
            self.name,
            self.status,
            failed.join("\n"),
            self.steps.len(),
            self.stderr
        );
        self
    }

    /// The line of a step. Panics when there is none.
    #[must_use]
    pub fn step(&self, name: &str) -> &Value {
        let step = self.steps.iter().find(|step| step["step"] == name);
        step.unwrap_or_else(|| panic!("no step {name}: {:?}", self.steps))
    }
}
