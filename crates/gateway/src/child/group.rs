//! A process group and its leader: signals, the end, the reaping.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::time::{Instant, sleep, timeout};

use super::guard::Registration;

/// How long SIGKILL may take. Longer means a process stuck in the kernel.
const KILL_TAKES: Duration = Duration::from_secs(5);
const POLL_FIRST: Duration = Duration::from_millis(2);
const POLL_MOST: Duration = Duration::from_millis(50);

/// The leader of a process group, not yet reaped. Dropping it kills the group and reaps the leader on a thread.
#[derive(Debug)]
pub(crate) struct Leader {
    process: Option<tokio::process::Child>,
    group: Pid,
    /// SIGTERM was sent: once is enough, many servers take a second one as an order to leave at once.
    asked: bool,
    gone: bool,
    /// Released last: the guard forgets the group when it is gone.
    registration: Option<Registration>,
}

impl Leader {
    pub(crate) fn new(process: tokio::process::Child, group: Pid, registration: Registration) -> Self {
        Self { process: Some(process), group, asked: false, gone: false, registration: Some(registration) }
    }

    /// Waits for the leader to exit and reaps it. `None`: the system does not know it any more. Cancel safe.
    pub(crate) async fn exited(&mut self) -> Option<ExitStatus> {
        match &mut self.process {
            None => None,
            Some(process) => {
                let status = process.wait().await.ok();
                self.process = None;
                status
            }
        }
    }

    /// SIGTERM to the group, `grace`, SIGKILL to what is left. Returns how the leader ended, if it had not before;
    /// `Err` when it does not die.
    pub(crate) async fn end(&mut self, grace: Duration) -> Result<Option<ExitStatus>, Unkillable> {
        self.ask();
        let limit = Instant::now() + grace;
        let status = timeout(grace, self.exited()).await.ok();
        if status.is_some() && self.gone_by(limit).await {
            return Ok(status.flatten());
        }
        signal_group(self.group, Signal::KILL);
        let limit = Instant::now() + KILL_TAKES;
        let status = match status {
            Some(status) => status,
            None => timeout(KILL_TAKES, self.exited()).await.map_err(|_| Unkillable)?,
        };
        self.gone_by(limit).await;
        Ok(status)
    }

    /// SIGTERM to the whole group, the first time.
    pub(crate) fn ask(&mut self) {
        if !std::mem::replace(&mut self.asked, true) {
            signal_group(self.group, Signal::TERM);
        }
    }

    /// Waits until no process of the group is left. Only after the leader was reaped.
    async fn gone_by(&mut self, limit: Instant) -> bool {
        let mut pause = POLL_FIRST;
        while !is_gone(self.group) {
            if Instant::now() >= limit {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(POLL_MOST);
        }
        self.gone = true;
        true
    }
}

/// The leader survived SIGKILL: it hangs in the kernel.
#[derive(Debug)]
pub(crate) struct Unkillable;

impl Drop for Leader {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        // The runtime that supervised it is being dropped: no time for grace, and no async code runs any more.
        signal_group(self.group, Signal::KILL);
        let Some(mut process) = self.process.take() else { return };
        let registration = self.registration.take();
        let group = self.group;
        let reap = move || {
            for _ in 0..KILL_TAKES.as_millis() / POLL_MOST.as_millis() {
                if !matches!(process.try_wait(), Ok(None)) && is_gone(group) {
                    break;
                }
                std::thread::sleep(POLL_MOST);
            }
            drop(registration);
        };
        if let Err(error) = std::thread::Builder::new().name("bowline-reap".into()).spawn(reap) {
            tracing::warn!(%error, %group, "a killed child could not be reaped");
        }
    }
}

fn signal_group(group: Pid, signal: Signal) {
    match kill_process_group(group, signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => tracing::warn!(%error, %group, ?signal, "a signal could not be sent to a child"),
    }
}

/// Whether the group has no process left that runs. The leader must have been reaped.
fn is_gone(group: Pid) -> bool {
    // As process 1 of a container the gateway inherits orphans: they are ours to reap.
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    test_kill_process_group(group) == Err(Errno::SRCH) || only_zombies(group)
}

/// Whether all that is left of the group is dead and waits for a slow process 1 to reap it, which no signal hastens.
/// Without `/proc` the answer is no.
fn only_zombies(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut seen = false;
    for process in processes.flatten() {
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        match state_in_group(&stat, group) {
            None => {}
            Some('Z' | 'X') => seen = true,
            Some(_) => return false,
        }
    }
    seen
}

/// The state letter of a `/proc/PID/stat` line when the process is of this group.
fn state_in_group(stat: &str, group: Pid) -> Option<char> {
    // The name, in parentheses, may hold anything, also parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    (fields.nth(1)?.parse() == Ok(group.as_raw_pid())).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let group = Pid::from_raw(42).unwrap();
        assert_eq!(state_in_group("50 (a) b (c)) Z 1 42 42 0 -1", group), Some('Z'));
        assert_eq!(state_in_group("50 (sleep) S 1 43 42 0 -1", group), None);
        assert_eq!(state_in_group("", group), None);
    }
}
