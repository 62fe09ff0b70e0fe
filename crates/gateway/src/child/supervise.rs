//! The life of one process, from start to the last process of its group.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::exit::{Exit, ExitReason};
use super::group::{Leader, Unkillable};
use super::resolve::refusal;
use super::stderr::Tail;
use super::stdout::{Ended, Phase};

/// Stdout usually ends a moment before the exit is seen. Longer than this, and the process lives on without it.
const EXIT_AFTER_EOF: Duration = Duration::from_millis(250);
/// How long the exit waits for the last words on stderr.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long the exit waits for the launcher's report, which is in the pipe already.
const REPORT: Duration = Duration::from_millis(500);

/// A request to stop: `None` until there is one, then the grace before SIGTERM. When the sender is dropped, that is a
/// request with the usual grace.
pub(crate) type Stop = watch::Receiver<Option<Duration>>;

/// Everything that is needed to supervise one process.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) name: Arc<str>,
    pub(crate) program: PathBuf,
    pub(crate) leader: Leader,
    pub(crate) stop: Stop,
    pub(crate) stdin_grace: Duration,
    pub(crate) kill_grace: Duration,
    pub(crate) started: Instant,
    /// Ends when stdout does.
    pub(crate) stdout: oneshot::Receiver<Ended>,
    pub(crate) stdin: JoinHandle<()>,
    pub(crate) stdin_room: Arc<Semaphore>,
    pub(crate) close_stdin: watch::Sender<bool>,
    pub(crate) stderr: Option<JoinHandle<()>>,
    pub(crate) tail: Tail,
    pub(crate) phase: watch::Sender<Phase>,
    /// Turns true when no process is left.
    pub(crate) gone: watch::Sender<bool>,
}

enum First {
    Exited(Option<ExitStatus>),
    StdoutEnded(Option<Ended>),
    Stop,
}

impl Supervisor {
    /// Runs until the process group is gone.
    pub(crate) async fn run(mut self) {
        let first = tokio::select! {
            biased;
            status = self.leader.exited() => First::Exited(status),
            ended = &mut self.stdout => First::StdoutEnded(ended.ok()),
            () = requested(&mut self.stop) => First::Stop,
        };
        match first {
            First::Exited(status) => self.exited(status, None).await,
            First::StdoutEnded(ended) => match timeout(EXIT_AFTER_EOF, self.leader.exited()).await {
                Ok(status) => self.exited(status, ended).await,
                Err(_) => {
                    self.over(ExitReason::StdoutClosed).await;
                    self.close_stdin.send_replace(true);
                    if let Err(Unkillable) = self.leader.end(self.kill_grace).await {
                        self.hangs().await;
                    }
                }
            },
            First::Stop => self.stop().await,
        }
        self.finish();
    }

    /// The leader is gone: tell, and end what it left behind.
    async fn exited(&mut self, status: Option<ExitStatus>, stdout: Option<Ended>) {
        self.phase.send_replace(Phase::Draining);
        self.leader.ask();
        let mut reason = status.map_or(ExitReason::Lost, ExitReason::from);
        if matches!(reason, ExitReason::Code(126 | 127)) {
            let stdout = match stdout {
                Some(ended) => Some(ended),
                None => timeout(REPORT, &mut self.stdout).await.ok().and_then(Result::ok),
            };
            if let Some(Ended::Refused(errno)) = stdout {
                reason = ExitReason::NotStarted(refusal(&self.program, errno));
            }
        }
        self.over(reason).await;
        let _ = self.leader.end(self.kill_grace).await; // the leader is reaped: only its group can be left
    }

    /// Close stdin, wait, SIGTERM, wait, SIGKILL.
    async fn stop(&mut self) {
        self.close_stdin.send_replace(true);
        let start = Instant::now();
        let status = tokio::select! {
            biased;
            status = self.leader.exited() => Some(status),
            () = grace_over(&mut self.stop, start, self.stdin_grace) => None,
        };
        match status {
            Some(status) => self.exited(status, None).await,
            None => match self.leader.end(self.kill_grace).await {
                Ok(status) => self.exited(status, None).await,
                Err(Unkillable) => self.hangs().await,
            },
        }
    }

    async fn hangs(&mut self) {
        tracing::error!(
            target: "bowline::child",
            child = %self.name,
            "the process does not die of SIGKILL: it hangs in the kernel (a dead network file system?)"
        );
        self.over(ExitReason::Lost).await;
        self.finish();
        let _ = self.leader.exited().await;
    }

    /// Publishes the end, once: nothing more is written, callers get their error.
    async fn over(&mut self, reason: ExitReason) {
        if matches!(*self.phase.borrow(), Phase::Over(_)) {
            return;
        }
        let requested = self.stop.borrow().is_some() || self.stop.has_changed().is_err();
        let uptime = Instant::now() - self.started;
        self.stdin_room.close();
        if !matches!(reason, ExitReason::StdoutClosed) {
            self.stdin.abort();
            if let Some(stderr) = &mut self.stderr {
                let _ = timeout(LAST_WORDS, stderr).await;
            }
        }
        let exit = Exit { reason, requested, uptime, stderr_tail: self.tail.text() };
        if requested {
            tracing::debug!(target: "bowline::child", child = %self.name, "{exit}");
        } else {
            tracing::warn!(target: "bowline::child", child = %self.name, "{exit}");
        }
        self.phase.send_replace(Phase::Over(exit));
    }

    fn finish(&mut self) {
        self.stdin.abort();
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
        self.gone.send_replace(true);
    }
}

/// Waits for a request to stop; a dropped handle is one.
async fn requested(stop: &mut Stop) {
    let _ = stop.wait_for(Option::is_some).await;
}

/// Waits until the grace is over, which a later request may shorten.
async fn grace_over(stop: &mut Stop, start: Instant, usual: Duration) {
    loop {
        let grace = stop.borrow_and_update().unwrap_or(usual);
        tokio::select! {
            () = sleep_until(start + grace) => return,
            changed = stop.changed() => if changed.is_err() {
                return sleep_until(start + grace).await;
            }
        }
    }
}
