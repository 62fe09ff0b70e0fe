//! One stdio server process: started, fed with lines, read line by line, and ended with everything it started.
//!
//! Knows nothing of MCP but that messages are lines. A process runs in its own process group, so wrappers such as `npx`
//! or `sh` and what they start end together. [`Guard`] ends the groups even when the gateway is killed with SIGKILL.
//! What is not covered: a process that leaves its group on purpose (`setsid`). Unix only; tested on Linux.
//!
//! ```no_run
//! use bowline_gateway::child::{Child, ChildSpec, Guard, GuardCommand, Received, guard_main, launch_main};
//!
//! fn main() -> std::process::ExitCode {
//!     let mut args = std::env::args_os().skip(1);
//!     match args.next().as_deref().and_then(|role| role.to_str()) {
//!         Some("__guard") => return guard_main(),
//!         Some("__launch") => return launch_main(args),
//!         _ => {}
//!     }
//!     // ... in a tokio runtime:
//!     async fn run() -> Result<(), Box<dyn std::error::Error>> {
//!         let guard = Guard::start(GuardCommand::current_exe()?)?;
//!         let (child, mut lines) = Child::spawn(ChildSpec::new("cat", [] as [&str; 0]), &guard)?;
//!         child.send("{}".into()).await?;
//!         assert_eq!(lines.recv().await, Some(Received::Line("{}".into())));
//!         child.shutdown(std::time::Duration::from_secs(1)).await;
//!         Ok(())
//!     }
//!     std::process::ExitCode::SUCCESS
//! }
//! ```
#![cfg(unix)]

mod backoff;
mod exit;
mod framing;
mod group;
mod guard;
mod resolve;
mod spec;
mod stderr;
mod stdin;
mod stdout;
mod supervise;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::Pid;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

pub use self::backoff::{Backoff, BackoffPolicy};
pub use self::exit::{Exit, ExitReason};
use self::group::Leader;
pub use self::guard::{Guard, GuardCommand, GuardError, guard_main, launch_main};
pub use self::resolve::SpawnError;
pub use self::spec::{ChildSpec, Environment, PRIVATE_PREFIX, QueueBounds, StderrPolicy};
pub use self::stdin::SendError;
use self::stdin::StdinQueue;
pub(crate) use self::stdout::lost;
use self::stdout::{Counters, Phase, Reader};
pub use self::stdout::{Dropped, Lines, Received};
use self::supervise::Supervisor;

/// Handle of a running process. Dropping it stops the process in the background, as [`Child::shutdown`] does; when the
/// runtime is dropped too, with SIGKILL at once.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    stdin: StdinQueue,
    stop: watch::Sender<Option<Duration>>,
    phase: watch::Receiver<Phase>,
    gone: watch::Receiver<bool>,
    counters: Arc<Counters>,
}

/// What a process has done so far. Counts only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildStats {
    /// Lines of stdout delivered.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lines dropped because they were longer than `max_line`.
    pub too_long: u64,
    /// Bytes accepted for stdin and not yet written, now.
    pub queued: usize,
}

impl Child {
    /// Starts the process. Returns when the system has taken it; that the program itself could not be run (a missing
    /// interpreter, say) may also come as [`ExitReason::NotStarted`]. Blocks for the time of a fork, a millisecond or so.
    ///
    /// # Errors
    /// The program is missing or not executable, its directory is missing, the system refuses, or there is no tokio
    /// runtime (with IO and time enabled).
    pub fn spawn(spec: ChildSpec, guard: &Guard) -> Result<(Self, Lines), SpawnError> {
        let name: Arc<str> = spec.name.as_str().into();
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(SpawnError::NoRuntime { name: spec.name });
        }
        let environment = spec.environment.resolve(std::env::vars_os());
        let program = resolve::resolve(&spec, &environment)?;
        let mut command = guard.command(&program, &spec.args);
        command.env_clear().envs(environment).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if spec.stderr == StderrPolicy::Discard { Stdio::null() } else { Stdio::piped() });
        if let Some(dir) = &spec.cwd {
            command.current_dir(dir);
        }
        let refused = |source: std::io::Error| {
            let why = if guard.gates() {
                format!("the launcher could not be run: {source}")
            } else {
                resolve::refusal(&program, source.raw_os_error().unwrap_or_default())
            };
            SpawnError::Refused { name: spec.name.clone(), why, source }
        };
        let mut process = command.spawn().map_err(refused)?;
        let started = Instant::now();
        let group = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(group), Some(stdin), Some(stdout)) = (group, process.stdin.take(), process.stdout.take())
        else {
            return Err(refused(std::io::ErrorKind::BrokenPipe.into()));
        };
        let stderr = process.stderr.take();
        let leader = Leader::new(process, group, guard.register(group));
        if guard.gates() {
            // One byte into an empty pipe: does not block. Should the launcher be dead, its exit will tell.
            let _ = rustix::io::write(&stdin, &[guard::GO]);
        }

        let counters = Arc::new(Counters::default());
        let (queue, source) = stdin::queue(Arc::clone(&name), &spec.queue);
        let (reader, lines) = Reader::new(&spec, Arc::clone(&name), guard.gates(), Arc::clone(&counters));
        let (phase, phases) = watch::channel(Phase::Running);
        let (stop, stops) = watch::channel(None);
        let (gone, all_gone) = watch::channel(false);
        let (close_stdin, closing) = watch::channel(false);
        let (ended, stdout_ended) = oneshot::channel();
        let tail = stderr::Tail::default();
        let supervisor = Supervisor {
            program,
            leader,
            stop: stops,
            stdin_grace: spec.stdin_grace,
            kill_grace: spec.kill_grace,
            started,
            stdout: stdout_ended,
            stdin_room: Arc::clone(&source.room),
            stdin: tokio::spawn(stdin::write_lines(stdin, source, closing)),
            close_stdin,
            stderr: stderr.map(|stderr| {
                tokio::spawn(stderr::forward(stderr, Arc::clone(&name), spec.stderr, tail.clone()))
            }),
            tail,
            phase,
            gone,
            name,
        };
        tokio::spawn(reader.run(stdout, phases.clone(), ended));
        tokio::spawn(supervisor.run());
        Ok((
            Self {
                pid: group.as_raw_pid().unsigned_abs(),
                stdin: queue,
                stop,
                phase: phases,
                gone: all_gone,
                counters,
            },
            lines,
        ))
    }

    /// Process id, also the id of the process group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Queues one line for stdin, without its line end; waits for room when the process reads slowly. Lines of one
    /// caller stay in order. Cancel safe: a line is queued whole or not at all. `Ok` means queued: whether the process
    /// read it, only its answer can tell.
    ///
    /// # Errors
    /// The process ended or is being stopped; there was no room within
    /// [`QueueBounds::send_timeout`]; the line contains a line feed.
    pub async fn send(&self, line: Bytes) -> Result<(), SendError> {
        self.stdin.send(line).await
    }

    /// Queues one line for stdin without waiting, in order with [`Child::send`].
    ///
    /// # Errors
    /// As [`Child::send`], and when there is no room now.
    pub fn try_send(&self, line: Bytes) -> Result<(), SendError> {
        self.stdin.try_send(line)
    }

    /// Waits until nothing is written to the process any more: it closed its stdin (which is noticed at the next line; what
    /// was queued then is lost), ended, or is being stopped. Cancel safe.
    pub async fn stdin_closed(&self) {
        self.stdin.ended().await;
    }

    /// Asks the process to stop, as [`Child::shutdown`] does, without waiting for its end.
    pub fn stop(&self, grace: Duration) {
        self.stop.send_modify(|asked| *asked = Some(asked.map_or(grace, |earlier| earlier.min(grace))));
    }

    /// How the process ended, once it has. May be known before the last lines are received.
    pub fn exit(&self) -> Option<Exit> {
        match &*self.phase.borrow() {
            Phase::Over(exit) => Some(exit.clone()),
            _ => None,
        }
    }

    /// Stops the process and waits until nothing of its group is left: closes stdin after what is queued, waits
    /// `grace`, SIGTERM to the group, [`ChildSpec::kill_grace`], SIGKILL to the group. What it still writes reaches
    /// [`Lines`]. May be called more than once, also when it has ended by itself; a shorter grace counts from the first
    /// request. Cancel safe: once polled, the process is stopped in any case.
    pub async fn shutdown(&self, grace: Duration) -> Exit {
        self.stop(grace);
        let mut gone = self.gone.clone();
        let _ = gone.wait_for(|gone| *gone).await;
        self.exit().unwrap_or_else(lost)
    }

    /// What it has done so far.
    pub fn stats(&self) -> ChildStats {
        ChildStats {
            lines: self.counters.lines.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            too_long: self.counters.too_long.load(Ordering::Relaxed),
            queued: self.stdin.queued(),
        }
    }
}
