//! The built program, started in front of a server and watched.

use crate::{Dir, PATIENCE, Session, processes, repository};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    ffi::OsString,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::watch,
};

/// The name of the variable that marks every process of a test.
const MARKER: &str = "TESTKIT_MARKER";

/// `bowline serve`, to be started. It listens on a free port of 127.0.0.1 unless told otherwise.
#[derive(Debug)]
pub struct Serve {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    command: Vec<OsString>,
    listen: String,
    fixture: bool,
    led: bool,
}

impl Serve {
    /// In front of the fixture server. `built` is `env!("CARGO_BIN_EXE_bowline")`; `BOWLINE_BIN` goes before it.
    #[must_use]
    pub fn fixture(built: &str) -> Self {
        let fixture = repository().join("tests/fixtures/fixture_server.py");
        let mut serve = Self::command(built, [python().into_os_string(), "-B".into(), fixture.into()]);
        serve.fixture = true;
        serve
    }

    /// In front of any stdio server.
    pub fn command<A: Into<OsString>>(built: &str, command: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: std::env::var_os("BOWLINE_BIN").unwrap_or_else(|| built.into()).into(),
            args: Vec::new(),
            env: Vec::new(),
            command: command.into_iter().map(Into::into).collect(),
            listen: "127.0.0.1:0".into(),
            fixture: false,
            led: false,
        }
    }

    /// Options of `bowline serve`, separated by blanks.
    #[must_use]
    pub fn with(mut self, options: &str) -> Self {
        self.args.extend(options.split_whitespace().map(Into::into));
        self
    }

    /// Further arguments of the server behind.
    #[must_use]
    pub fn server_args(mut self, options: &str) -> Self {
        self.command.extend(options.split_whitespace().map(Into::into));
        self
    }

    /// A variable for the program.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Below the process that reaps orphans, as it would be in a container of its own.
    #[must_use]
    pub const fn led(mut self) -> Self {
        self.led = true;
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address.to_string();
        self
    }

    /// Starts it and waits until it has said where it serves.
    pub async fn start(self) -> Program {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let dir = Dir::new();
        let value = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let marker = format!("{MARKER}={value}.");
        // A session of its own, so that everything below it, zombies included, can be told by that.
        let mut command = Command::new("setsid");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BOWLINE_") {
                command.env_remove(name);
            }
        }
        command
            .arg(&self.program)
            .args(self.led.then_some("__init"))
            .args(["serve", "--listen", &self.listen])
            .args(&self.args)
            .arg("--")
            .args(&self.command)
            .env(MARKER, format!("{value}."))
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.fixture {
            command.env("FIXTURE_LOG", dir.join("received"));
        }
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot start {}: {error}; run `cargo xtask test`", self.program.display())
        });
        let pid = child.id().expect("it was just started");
        let log = Arc::new(Mutex::new(Vec::new()));
        let (announced, mut endpoint) = watch::channel(None);
        let lines = BufReader::new(child.stderr.take().expect("piped"));
        tokio::spawn(capture(lines, log.clone(), announced));
        let mut program = Program { child, pid, marker, dir, log, address: None, url: String::new() };
        let found = tokio::time::timeout(PATIENCE, endpoint.wait_for(Option::is_some)).await;
        let Ok(Ok(found)) = found else {
            let ended = program.child.try_wait();
            panic!("no endpoint was announced ({ended:?}); it said:\n{}", program.said());
        };
        let (url, address) = found.clone().expect("waited for");
        drop(found);
        program.url = url;
        program.address = Some(address);
        program
    }
}

/// Reads lines until the end, and finds the first URL.
async fn capture(
    mut lines: BufReader<tokio::process::ChildStderr>,
    log: Arc<Mutex<Vec<String>>>,
    announced: watch::Sender<Option<(String, SocketAddr)>>,
) {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if announced.borrow().is_none()
            && let Some(found) = endpoint_in(&text)
        {
            announced.send_replace(Some(found));
        }
        log.lock().push(text);
    }
}

fn endpoint_in(line: &str) -> Option<(String, SocketAddr)> {
    let url = &line[line.find("http://")?..];
    let end = url.find(|c: char| c.is_whitespace() || "\"',)".contains(c)).unwrap_or(url.len());
    let url = &url[..end];
    let authority = url["http://".len()..].split('/').next()?;
    Some((url.to_owned(), authority.parse().ok().filter(|address: &SocketAddr| address.port() != 0)?))
}

/// The program while it runs. Dropped, it is killed with everything below it, and what it said is shown if the test failed.
#[derive(Debug)]
pub struct Program {
    child: Child,
    pid: u32,
    marker: String,
    dir: Dir,
    log: Arc<Mutex<Vec<String>>>,
    address: Option<SocketAddr>,
    url: String,
}

impl Program {
    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address.expect("set once it is announced")
    }

    /// The URL that it announced.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id, which is its session's too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What every process of it carries in its environment.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// A folder of this program's own.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// What it has written to stderr so far.
    #[must_use]
    pub fn said(&self) -> String {
        self.log.lock().join("\n")
    }

    /// A session in a revision.
    pub async fn session(&self, revision: &str) -> Session {
        Session::start(self.address(), revision).await
    }

    /// A session in the newest legacy revision.
    pub async fn client(&self) -> Session {
        self.session("2025-11-25").await
    }

    /// What the fixture servers behind it have received, in order, each message once it is whole.
    #[must_use]
    pub fn received(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.join("received")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until a fixture server has received a message that `wanted` takes.
    pub async fn has_received(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        crate::eventually(what, PATIENCE, || self.received().iter().any(&wanted)).await;
    }

    /// The lines of a ledger in its folder: one for each time that the tool `count` ran.
    #[must_use]
    pub fn ledger(&self, name: &str) -> usize {
        std::fs::read_to_string(self.dir.join(name)).unwrap_or_default().lines().count()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        processes::signal(self.pid, Signal::TERM);
    }

    /// Sends SIGKILL to the program alone; what is below it has to notice.
    pub fn kill(&self) {
        processes::kill(self.pid);
    }

    /// Waits until it has ended.
    pub async fn wait(&mut self) -> ExitStatus {
        match tokio::time::timeout(PATIENCE * 2, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("it did not end; it said:\n{}", self.said()),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its processes, itself included.
    #[must_use]
    pub fn processes(&self) -> Vec<processes::Process> {
        processes::marked(&self.marker, self.pid)
    }

    /// The processes that serve sessions: those of the fixture.
    #[must_use]
    pub fn servers(&self) -> Vec<processes::Process> {
        let fixture = |process: &processes::Process| {
            let mut words = process.command.split(' ');
            words.next().is_some_and(|program| program.contains("python"))
                && words.any(|word| word.ends_with("fixture_server.py"))
        };
        self.processes().into_iter().filter(fixture).collect()
    }

    /// Waits until neither it nor anything below it is left; panics with what is.
    pub async fn assert_none_left(&self, within: Duration) {
        processes::assert_none_left(&self.marker, self.pid, within).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}\n---", self.url, self.said());
        }
        let _ = self.child.start_kill();
        // What was started while the list was read is on the next one.
        for _ in 0..50 {
            let left: Vec<_> = self.processes().into_iter().filter(|process| !process.is_zombie()).collect();
            if left.is_empty() {
                break;
            }
            for process in left {
                processes::kill(process.pid);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.try_wait();
    }
}

/// The interpreter for the fixture: that of the runner where there is one. It needs no packages.
fn python() -> PathBuf {
    std::env::var_os("BOWLINE_TEST_PYTHON").map_or_else(|| "python3".into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_in_what_is_said() {
        for line in [
            "serving http://127.0.0.1:4711/mcp",
            "2026-11-30T18:00:00Z  INFO bowline: serving at http://127.0.0.1:4711/mcp, session mode stateful",
            r#"{"level":"INFO","url":"http://127.0.0.1:4711/mcp","message":"serving"}"#,
        ] {
            let (url, address) = endpoint_in(line).unwrap();
            assert_eq!((url.as_str(), address.port()), ("http://127.0.0.1:4711/mcp", 4711));
        }
        for line in ["serving", "see https://example.com/", "http://127.0.0.1:0/mcp", "http://localhost/"] {
            assert_eq!(endpoint_in(line), None, "{line}");
        }
    }
}
