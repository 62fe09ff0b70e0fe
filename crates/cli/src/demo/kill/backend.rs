//! A backend of `demo --kill`: this program's own `serve` in another process.

use super::{super::DemoError, counter};
use crate::demo::Pace;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A folder for the store and the ledger, which is removed when the demo is over.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("bowline-demo-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    pub(super) fn store(&self) -> PathBuf {
        self.0.join("store.db")
    }

    pub(super) fn ledger(&self) -> PathBuf {
        self.0.join("ledger")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running backend. Dropped, it is killed.
pub(super) struct Backend {
    child: Child,
    pid: u32,
    pub(super) address: SocketAddr,
}

impl Backend {
    /// Starts one on the store in `folder`, and waits until it serves. `program` is this program's file.
    pub(super) async fn start(program: &Path, folder: &Folder, pace: Pace) -> Result<Self, DemoError> {
        let ms = |duration: Duration| format!("{}ms", duration.as_millis().max(1));
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BOWLINE_") {
                command.env_remove(name);
            }
        }
        let mut store = std::ffi::OsString::from("sqlite:");
        store.push(folder.store());
        command
            .args(["serve", "--port", "0", "--response", "sse", "--log-level", "error", "--store"])
            .arg(store)
            .args([
                "--retry",
                &ms(pace.retry),
                "--drain-timeout",
                &ms((pace.tick * 30).max(Duration::from_secs(20))),
            ])
            .arg("--")
            .arg(program)
            .arg(counter::ROLE)
            .arg(folder.ledger())
            .arg(pace.tick.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let failed = |error: io::Error| DemoError::Backend(error.to_string());
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().ok_or_else(|| DemoError::Backend("it ended at once".into()))?;
        let mut lines = BufReader::new(child.stderr.take().expect("it was piped")).lines();
        let mut said = String::new();
        let address = loop {
            match lines.next_line().await.map_err(failed)? {
                Some(line) => {
                    if let Some(address) = address_in(&line) {
                        break address;
                    }
                    said.push_str(&line);
                }
                None => return Err(DemoError::Backend(format!("it said: {said}"))),
            }
        };
        // What it says later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, pid, address })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// SIGKILL.
    pub(super) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// SIGTERM.
    pub(super) fn terminate(&self) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // Gone already: then its status says so.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// The address in the line that says where it serves.
fn address_in(line: &str) -> Option<SocketAddr> {
    line.split_once("http://")?.1.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found() {
        assert_eq!(address_in("  http://127.0.0.1:4711/mcp"), Some(([127, 0, 0, 1], 4711).into()));
        assert_eq!(address_in("serving"), None);
    }
}
