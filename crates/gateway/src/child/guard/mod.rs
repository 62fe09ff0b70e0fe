//! The guard: one small process that ends every child group when the gateway is gone, even after SIGKILL.

mod main;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use self::main::{GO, REFUSED};
pub use self::main::{guard_main, launch_main};
use super::backoff::{Backoff, BackoffPolicy};

/// How long a new guard may take to say that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How to start the hidden roles of the program: [`guard_main`] and [`launch_main`].
#[derive(Debug, Clone)]
pub struct GuardCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments that make it call [`guard_main`].
    pub guard_args: Vec<OsString>,
    /// Arguments that make it call [`launch_main`] with what follows them.
    pub launch_args: Vec<OsString>,
}

impl GuardCommand {
    /// This program itself with `__guard` and `__launch`. On Linux it is run through `/proc/self/exe`, so that an
    /// upgrade that replaces the file on disk does not matter.
    ///
    /// # Errors
    /// The path of the running program is not known.
    pub fn current_exe() -> io::Result<Self> {
        let own = Path::new("/proc/self/exe");
        let program = if own.exists() { own.to_owned() } else { std::env::current_exe()? };
        Ok(Self { program, guard_args: vec!["__guard".into()], launch_args: vec!["__launch".into()] })
    }
}

/// Why the guard could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The program could not be run.
    #[error("cannot start the guard process {program:?}: {source}", program = program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It ran and did not answer as a guard.
    #[error("{program:?} did not answer as a guard process within {} s; its main must call guard_main() first", READY_WITHIN.as_secs(), program = program.display())]
    NotAGuard {
        /// The program.
        program: PathBuf,
    },
}

/// Handle of the guard process; clones share it. The process is replaced when it dies. It leaves when the last handle
/// and the last child are gone.
#[derive(Debug, Clone)]
pub struct Guard(Option<Arc<Owner>>);

impl Guard {
    /// Starts the guard process, in its own process group so that a Ctrl-C does not reach it. Blocks until it answers,
    /// usually a few milliseconds, at most 5 s.
    ///
    /// # Errors
    /// The program cannot be run or is no guard.
    pub fn start(command: GuardCommand) -> Result<Self, GuardError> {
        let (process, pipe) = launch(&command)?;
        let state = State { pid: Pid::from_child(&process), pipe: Some(pipe), ..State::default() };
        let shared = Arc::new(Shared { command, state: Mutex::new(state), closed: Condvar::new() });
        let watched = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("bowline-guard".into())
            .spawn(move || watch(&watched, process))
            .map_err(|source| GuardError::Start { program: shared.command.program.clone(), source })?;
        Ok(Self(Some(Arc::new(Owner(shared)))))
    }

    /// No guard: children are started plainly, in their own process groups. They are still ended on shutdown and drop,
    /// but a gateway killed with SIGKILL leaves behind those that ignore the end of their stdin. For library use
    /// without a program whose `main` can take the hidden roles.
    pub fn none() -> Self {
        Self(None)
    }

    /// Process id of the guard; `None` without one, or while it is being replaced.
    pub fn pid(&self) -> Option<u32> {
        let state = self.0.as_ref()?.0.state.lock();
        state.pipe.as_ref().map(|_| state.pid.as_raw_pid().unsigned_abs())
    }

    /// The command that starts `program` with `args`, through the launcher when there is a guard.
    pub(crate) fn command(&self, program: &Path, args: &[OsString]) -> tokio::process::Command {
        let mut command = match &self.0 {
            None => tokio::process::Command::new(program),
            Some(owner) => {
                let launcher = &owner.0.command;
                let mut command = tokio::process::Command::new(&launcher.program);
                command.args(&launcher.launch_args).arg(program);
                command
            }
        };
        command.args(args).process_group(0);
        command
    }

    /// Tells the guard of a process group. With a guard, the group's leader is a launcher that waits for [`GO`].
    pub(crate) fn register(&self, group: Pid) -> Registration {
        if let Some(owner) = &self.0 {
            let mut state = owner.0.state.lock();
            state.live.insert(group.as_raw_pid());
            state.tell('+', group.as_raw_pid());
        }
        Registration { guard: self.clone(), group }
    }

    /// Whether children are started through the launcher.
    pub(crate) fn gates(&self) -> bool {
        self.0.is_some()
    }
}

/// A process group known to the guard until this is dropped: after the group is gone, as its number may be used again.
#[derive(Debug)]
pub(crate) struct Registration {
    guard: Guard,
    group: Pid,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(owner) = &self.guard.0 {
            let mut state = owner.0.state.lock();
            state.live.remove(&self.group.as_raw_pid());
            state.tell('-', self.group.as_raw_pid());
        }
    }
}

#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.over = true;
        state.pipe = None; // the end of the pipe is what makes the guard leave
        self.0.closed.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    command: GuardCommand,
    state: Mutex<State>,
    closed: Condvar,
}

impl Shared {
    /// Tells a new guard of the live groups and uses it from now on. Under the lock: no child can be registered
    /// between the list and the new pipe.
    fn adopt(&self, mut new: Process, pipe: ChildStdin) -> Result<Process, GuardError> {
        let mut state = self.state.lock();
        if let Err(source) = tell_all(&pipe, &state.live) {
            // Before its pipe ends, or it would end the groups it has heard of.
            let _ = new.kill();
            let _ = new.wait();
            return Err(GuardError::Start { program: self.command.program.clone(), source });
        }
        if !state.over {
            state.pid = Pid::from_child(&new);
            state.pipe = Some(pipe);
        }
        Ok(new)
    }
}

#[derive(Debug)]
struct State {
    pid: Pid,
    /// To the guard; `None` while it is being replaced. Non-blocking.
    pipe: Option<ChildStdin>,
    live: BTreeSet<i32>,
    over: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { pid: Pid::INIT, pipe: None, live: BTreeSet::new(), over: false }
    }
}

impl State {
    /// One write, far below the size up to which a pipe write is atomic. A guard that is dead or stuck is given up;
    /// the watcher starts another one and tells it all of `live`.
    fn tell(&mut self, sign: char, group: i32) {
        let Some(pipe) = &self.pipe else { return };
        match rustix::io::retry_on_intr(|| rustix::io::write(pipe, format!("{sign}{group}\n").as_bytes())) {
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the guard process does not take messages; replacing it");
                if error == Errno::AGAIN {
                    // Stuck, not dead: were the pipe merely closed, it would end every group when it wakes up.
                    let _ = kill_process(self.pid, Signal::KILL);
                }
                self.pipe = None;
            }
        }
    }
}

/// Runs on its own thread, so that it works whatever becomes of the runtime: reaps the guard and replaces it.
fn watch(shared: &Shared, mut process: Process) {
    let now = || tokio::time::Instant::now().into_std();
    let mut backoff = Backoff::new(BackoffPolicy::default());
    backoff.started(now());
    loop {
        let ended = process.wait();
        let mut state = shared.state.lock();
        if state.over {
            return;
        }
        state.pipe = None;
        match ended {
            Ok(status) => tracing::warn!(%status, "the guard process ended; starting another one"),
            Err(error) => tracing::warn!(%error, "the guard process was lost; starting another one"),
        }
        drop(state);
        loop {
            let pause = backoff.ended(now(), 0.0);
            let mut state = shared.state.lock();
            if !state.over && !pause.is_zero() {
                shared.closed.wait_for(&mut state, pause);
            }
            if state.over {
                return;
            }
            drop(state);
            let replaced = launch(&shared.command).and_then(|(new, pipe)| shared.adopt(new, pipe));
            match replaced {
                Ok(new) => {
                    process = new;
                    backoff.started(now());
                    break;
                }
                Err(error) => {
                    tracing::error!(%error, "children are unguarded: they would survive a SIGKILL of the gateway");
                }
            }
        }
    }
}

fn tell_all(pipe: &ChildStdin, live: &BTreeSet<i32>) -> io::Result<()> {
    let text: String = live.iter().map(|group| format!("+{group}\n")).collect();
    let mut text = text.as_bytes();
    while !text.is_empty() {
        let n = match rustix::io::write(pipe, text) {
            Ok(n) => n,
            Err(Errno::AGAIN) => {
                let mut room = [PollFd::new(pipe, PollFlags::OUT)];
                match poll(&mut room, Some(&timespec(READY_WITHIN))) {
                    Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                    _ => continue,
                }
            }
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        text = &text[n..];
    }
    Ok(())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Starts a guard and waits until it has proved to be one.
fn launch(command: &GuardCommand) -> Result<(Process, ChildStdin), GuardError> {
    let program = || command.program.clone();
    let failed = |source| GuardError::Start { program: program(), source };
    let mut process = Command::new(&command.program)
        .args(&command.guard_args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null()) // it must not keep the gateway's terminal or log pipe open
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let (Some(pipe), Some(answer)) = (process.stdin.take(), process.stdout.take()) else {
        return Err(GuardError::NotAGuard { program: program() });
    };
    if !is_ready(&answer) {
        let _ = process.kill();
        let _ = process.wait();
        return Err(GuardError::NotAGuard { program: program() });
    }
    rustix::io::ioctl_fionbio(&pipe, true).map_err(|errno| failed(errno.into()))?;
    Ok((process, pipe))
}

fn is_ready(answer: &ChildStdout) -> bool {
    let mut wait = [PollFd::new(answer, PollFlags::IN)];
    let came = rustix::io::retry_on_intr(|| poll(&mut wait, Some(&timespec(READY_WITHIN))));
    let mut text = [0; main::READY.len()];
    // The guard writes the line at once, so it is here at once.
    came.is_ok_and(|n| n > 0)
        && rustix::io::retry_on_intr(|| rustix::io::read(answer, &mut text))
            .is_ok_and(|n| text[..n] == *main::READY)
}
