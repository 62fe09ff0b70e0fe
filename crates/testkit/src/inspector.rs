//! The MCP Inspector in a headless browser, driven by `tests/inspector/inspect.mjs`.

use crate::{ClientRun, clients::variable, repository};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::Command;

/// How the page is opened, and what is done in it.
#[derive(Clone, Debug)]
pub struct Inspector {
    version: &'static str,
    origin: Option<String>,
    refused: bool,
    picture: PathBuf,
    call: (Duration, u32),
}

impl Inspector {
    /// The page is at this origin, on port 80: a name that only the browser resolves, to this machine.
    #[must_use]
    pub fn at(origin: &str) -> Self {
        Self { origin: Some(origin.to_owned()), ..Self::local() }
    }

    /// Version 2, whose page has a server of its own that does the talking.
    #[must_use]
    pub fn version_2() -> Self {
        Self { version: "2", ..Self::local() }
    }

    /// The page is on a port of localhost.
    #[must_use]
    pub fn local() -> Self {
        let (refused, picture, call) = (false, pictures().join("inspector.png"), (Duration::from_secs(4), 8));
        Self { version: "1", origin: None, refused, picture, call }
    }

    /// It must not get a connection.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.refused = true;
        self
    }

    /// The name of the file in `target/` that gets a picture of the page at its end.
    #[must_use]
    pub fn screenshot(mut self, name: &str) -> Self {
        self.picture = pictures().join(name);
        self
    }

    /// How long the tool that it calls takes, and how often that reports progress.
    #[must_use]
    pub fn call(mut self, takes: Duration, progress: u32) -> Self {
        self.call = (takes, progress);
        self
    }

    /// Opens the page, connects to `url`, and does it all. Panics when that is not done in time.
    pub async fn run(&self, url: &str) -> InspectorRun {
        let _ = std::fs::remove_file(&self.picture);
        let mut command = Command::new("node");
        command
            .arg(PathBuf::from(variable("BOWLINE_TEST_INSPECTOR_DIR")).join("inspect.mjs"))
            .arg(url)
            .args(["--inspector", self.version])
            .arg("--screenshot")
            .arg(&self.picture)
            .args(["--ms", &self.call.0.as_millis().to_string(), "--progress", &self.call.1.to_string()])
            .env("BOWLINE_TEST_CHROMIUM", variable("BOWLINE_TEST_CHROMIUM"))
            .env("BOWLINE_TEST_NODE_22", variable("BOWLINE_TEST_NODE_22"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(origin) = &self.origin {
            command.args(["--origin", origin]);
        }
        if self.refused {
            command.args(["--expect", "refused"]);
        }
        let run = ClientRun::of("the inspector".into(), command, Duration::from_secs(120)).await.passed();
        assert!(self.picture.is_file(), "{} was not written", self.picture.display());
        InspectorRun { run, picture: self.picture.clone() }
    }
}

/// What was done in the page; every step of it passed.
#[derive(Clone, Debug)]
pub struct InspectorRun {
    /// The steps.
    pub run: ClientRun,
    picture: PathBuf,
}

impl InspectorRun {
    /// The picture of the page.
    #[must_use]
    pub fn screenshot(&self) -> &Path {
        &self.picture
    }

    /// The names of the steps, in order.
    #[must_use]
    pub fn steps(&self) -> Vec<&str> {
        self.run.steps.iter().filter_map(|step| step["step"].as_str()).collect()
    }
}

/// Cargo's target folder: that of the program that runs, else the usual one.
fn pictures() -> PathBuf {
    let here = std::env::current_exe().ok();
    let built =
        here.as_deref().and_then(|program| program.ancestors().find(|folder| folder.ends_with("target")));
    built.map_or_else(|| repository().join("target"), Path::to_owned)
}
