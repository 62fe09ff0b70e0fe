//! Processes as `/proc` shows them (Linux): who descends from whom, and who was started by a test, even when its parent is
//! gone.

use crate::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::{collections::BTreeSet, fs, time::Duration};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// The session that it belongs to; zombies still tell.
    pub session: u32,
    /// `R`, `S`, `Z` for a zombie, and so on.
    pub state: char,
    /// When it was started, in clock ticks since boot: with the id, a name that is never used again.
    pub started: u64,
    /// Its command line; a zombie's name in parentheses.
    pub command: String,
}

impl Process {
    /// Reads one; `None` when it does not exist.
    #[must_use]
    pub fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything, parentheses too.
        let (head, tail) = (stat.find('(')?, stat.rfind(')')?);
        let fields: Vec<_> = stat[tail + 1..].split_whitespace().collect();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            command: if line.is_empty() { stat[head..=tail].to_owned() } else { line.trim_end().to_owned() },
        })
    }

    /// Whether it has ended and waits for its parent to notice.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        self.state == 'Z'
    }

    /// A zombie whose parent is process 1 or the test itself is left out of account: how quick those are says nothing about
    /// the program.
    fn counts(&self) -> bool {
        !(self.is_zombie() && (self.parent == 1 || self.parent == std::process::id()))
    }

    fn carries(&self, marker: &str) -> bool {
        self.command.contains(marker)
            || fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|environment| {
                environment.windows(marker.len()).any(|window| window == marker.as_bytes())
            })
    }
}

/// Every process there is.
#[must_use]
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("these tests need /proc: Linux");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).collect()
}

/// Every process below `pid`, whatever the depth; not itself.
#[must_use]
pub fn descendants(pid: u32) -> Vec<Process> {
    let mut left = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = BTreeSet::from([pid]);
    loop {
        let (below, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|p| parents.contains(&p.parent));
        if below.is_empty() {
            return found;
        }
        parents = below.iter().map(|process| process.pid).collect();
        found.extend(below);
        left = others;
    }
}

/// Every process that has `marker` in its environment or its command line, or belongs to a session that one of those, or
/// process `leader`, has started. This one is left out. Found even when re-parented; zombies by their session.
#[must_use]
pub fn marked(marker: &str, leader: u32) -> Vec<Process> {
    let own = std::process::id();
    let all = all();
    let own_session = all.iter().find(|process| process.pid == own).map(|process| process.session);
    let carrying: BTreeSet<u32> =
        all.iter().filter(|process| process.carries(marker)).map(|process| process.pid).collect();
    let mut sessions: BTreeSet<u32> = BTreeSet::from([leader]);
    sessions.extend(all.iter().filter(|p| carrying.contains(&p.pid)).map(|p| p.session));
    // 0 is the kernel's, and ours holds the runner of the tests.
    sessions.retain(|session| *session != 0 && Some(*session) != own_session);
    all.into_iter()
        .filter(|process| carrying.contains(&process.pid) || sessions.contains(&process.session))
        .filter(|process| process.pid != own)
        .collect()
}

/// Waits until no process of [`marked`] is left; panics with what is left after `within`.
pub async fn assert_none_left(marker: &str, leader: u32, within: Duration) {
    let limit = tokio::time::Instant::now() + within;
    loop {
        let left: Vec<_> = marked(marker, leader).into_iter().filter(Process::counts).collect();
        if left.is_empty() {
            return;
        }
        assert!(tokio::time::Instant::now() < limit, "left after {within:?}: {left:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a process has ended; a zombie has not been noticed, so it counts as there.
pub async fn gone(pid: u32, within: Duration) {
    eventually(&format!("process {pid} ends"), within, || !Process::read(pid).is_some_and(|p| p.counts()))
        .await;
}

/// Whether a process exists, zombies of process 1 left out.
#[must_use]
pub fn exists(pid: u32) -> bool {
    Process::read(pid).is_some_and(|process| process.counts())
}

/// Sends a signal to one process. One that is gone is no failure.
pub fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// Sends SIGKILL to one process.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::process::Command;

    #[tokio::test]
    async fn what_was_re_parented_is_found_by_its_marker() {
        let marker = format!("TESTKIT_SELF={}", std::process::id());
        let (name, value) = marker.split_once('=').unwrap();
        // The shell in the middle ends at once; its child lives on under process 1 or a subreaper.
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!"])
            .env(name, value)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = shell.stdout.take().unwrap();
        tokio::io::AsyncBufReadExt::read_line(&mut tokio::io::BufReader::new(stdout), &mut line)
            .await
            .unwrap();
        shell.wait().await.unwrap();
        let pid: u32 = line.trim().parse().unwrap();
        let found = marked(&marker, 0);
        assert!(found.iter().any(|process| process.pid == pid), "{found:?}");
        kill(pid);
        assert_none_left(&marker, 0, Duration::from_secs(5)).await;
        assert!(!exists(pid));
    }

    #[tokio::test]
    async fn descendants_are_found_at_any_depth_and_zombies_too() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; true' & echo $!; sleep 60; true"])
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = shell.id().unwrap();
        eventually("a sleep below", Duration::from_secs(5), || descendants(pid).len() == 3).await;
        let below = descendants(pid);
        for process in &below {
            kill(process.pid);
        }
        let inner =
            below.iter().find(|process| process.parent == pid && process.command.starts_with("sh")).unwrap();
        eventually("a zombie", Duration::from_secs(5), || {
            Process::read(inner.pid).is_none_or(|process| process.is_zombie())
        })
        .await;
        shell.kill().await.unwrap();
    }
}
