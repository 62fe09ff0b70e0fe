//! A server that is measured: a child process on a core of its own.

use super::Bench;
use bowline_load::{LoadError, Target};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{fmt, io, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// Why there is no figure.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<LoadError> for Failed {
    fn from(error: LoadError) -> Self {
        Self(error.to_string())
    }
}

/// How long a server has for its first word.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which cores the server and the load are on; `None` where there are not two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores(Option<(usize, usize)>);

impl Cores {
    pub(super) fn find() -> Self {
        let ours = sched_getaffinity(None).ok();
        let mut ours = ours.iter().flat_map(|set| (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)));
        Self(ours.next().zip(ours.next()))
    }

    /// This thread, and what it starts from now on, goes to the load's core.
    pub(super) fn take_load_core(self) {
        self.take(|(_, load)| load);
    }

    fn take_server_core(self) {
        self.take(|(server, _)| server);
    }

    fn take(self, which: fn((usize, usize)) -> usize) {
        if let Some(cores) = self.0 {
            let mut set = CpuSet::new();
            set.set(which(cores));
            // Where that is not allowed, the system places both as it likes; the figures are CPU time all the same.
            let _ = sched_setaffinity(None, &set);
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((server, load)) => write!(f, "servers on core {server}, load on core {load}"),
            None => f.write_str("one core for servers and load"),
        }
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) pid: u32,
    pub(super) target: Target,
    child: Child,
}

impl Bench {
    /// Starts one of this workspace's servers, which prints `listening PORT`.
    pub(super) async fn start(
        &self,
        name: &'static str,
        program: &str,
        args: &[&str],
    ) -> Result<Server, Failed> {
        let mut command = Command::new(self.programs.join(program));
        command.args(args);
        self.start_command(name, command).await
    }

    pub(super) async fn floor(&self, args: &[&str]) -> Result<Server, Failed> {
        self.start("floor", "floor", args).await
    }

    pub(super) async fn bowline(&self, args: &[&str]) -> Result<Server, Failed> {
        self.start("bowline", "echo", args).await
    }

    pub(super) async fn rmcp(&self, args: &[&str]) -> Result<Server, Failed> {
        self.start("rmcp", "rmcp-echo", args).await
    }

    /// Starts a server that prints `listening PORT`.
    pub(super) async fn start_command(
        &self,
        name: &'static str,
        mut command: Command,
    ) -> Result<Server, Failed> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = self.spawn(&mut command)?;
        let stdout = child.stdout.take().ok_or_else(|| Failed(format!("{name} has no stdout")))?;
        let mut lines = BufReader::new(stdout).lines();
        let said = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(port) = line.strip_prefix("listening ") {
                    return Ok(port.to_owned());
                }
            }
            Err(Failed(format!("{name} ended before it listened")))
        };
        let port = tokio::time::timeout(PATIENCE, said)
            .await
            .map_err(|_| Failed(format!("{name} does not say where it listens")))??;
        self.started(name, child, &format!("http://127.0.0.1:{port}/mcp")).await
    }

    /// Starts a server that listens at `port` and does not say so.
    pub(super) async fn start_on(
        &self,
        name: &'static str,
        mut command: Command,
        port: u16,
    ) -> Result<Server, Failed> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = self.spawn(&mut command)?;
        let listening = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening)
            .await
            .map_err(|_| Failed(format!("{name} does not listen at its port")))?;
        self.started(name, child, &format!("http://127.0.0.1:{port}/mcp")).await
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, Failed> {
        self.cores.take_server_core();
        let child = command.spawn();
        self.cores.take_load_core();
        let program = Path::new(command.as_std().get_program()).display().to_string();
        child.map_err(|error| Failed(format!("{program} cannot be started: {error}")))
    }

    async fn started(&self, name: &'static str, child: Child, url: &str) -> Result<Server, Failed> {
        let pid = child.id().ok_or_else(|| Failed(format!("{name} ended at once")))?;
        Ok(Server { name, pid, target: Target::find(url, &[]).await?, child })
    }
}

impl Server {
    /// Ends it and waits until it is gone.
    pub(super) async fn stop(mut self) {
        let _ = self.child.kill().await;
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub(super) async fn terminate(mut self) -> Result<(), Failed> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(io::Error::from)?;
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.map_err(|_| Failed(format!("{} does not end", self.name)))??;
        Ok(())
    }

    /// The memory that it has in RAM, in bytes, once that stays as it is.
    pub(super) async fn memory(&self) -> Result<u64, Failed> {
        let mut before = bowline_load::process::resident(self.pid)?;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = bowline_load::process::resident(self.pid)?;
            if now.abs_diff(before) < 64 * 1024 {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }
}

/// A port of the loopback interface that is free now.
pub(super) fn free_port() -> Result<u16, Failed> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
