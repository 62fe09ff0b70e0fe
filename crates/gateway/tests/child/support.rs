//! What the tests share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_gateway::child::{Child, ChildSpec, Exit, Guard, GuardCommand, Lines, Received, StderrPolicy};
use tokio::time::{Instant, timeout};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The example `guarded`, which takes the hidden roles; it is built with the tests.
pub(crate) fn guarded() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("examples/guarded");
    assert!(path.exists(), "{} is missing: run `cargo build -p bowline-gateway --examples`", path.display());
    path
}

pub(crate) fn start_guard() -> Guard {
    let command = GuardCommand {
        program: guarded(),
        guard_args: vec!["__guard".into()],
        launch_args: vec!["__launch".into()],
    };
    Guard::start(command).unwrap()
}

/// A child that runs a shell script.
pub(crate) fn sh(script: &str) -> ChildSpec {
    let mut spec = ChildSpec::new("/bin/sh", ["-c", script]);
    spec.stderr = StderrPolicy::Log;
    spec.kill_grace = Duration::from_millis(200);
    spec
}

pub(crate) fn spawn(script: &str, guard: &Guard) -> (Child, Lines) {
    Child::spawn(sh(script), guard).unwrap()
}

/// The next line as text.
pub(crate) async fn line(lines: &mut Lines) -> String {
    match timeout(PATIENCE, lines.recv()).await.expect("a line in time") {
        Some(Received::Line(line)) => String::from_utf8_lossy(&line).into_owned(),
        other => panic!("expected a line, got {other:?}"),
    }
}

/// The lines up to the end, and the end. Nothing may come after it.
pub(crate) async fn rest(lines: &mut Lines) -> (Vec<String>, Exit) {
    let mut all = Vec::new();
    loop {
        match timeout(PATIENCE, lines.recv()).await.expect("the end in time") {
            Some(Received::Line(line)) => all.push(String::from_utf8_lossy(&line).into_owned()),
            Some(Received::TooLong(_)) => {}
            Some(Received::Exit(exit)) => {
                assert_eq!(lines.recv().await, None);
                return (all, exit);
            }
            None => panic!("the end is an Exit"),
        }
    }
}

/// Whether the process exists. A zombie counts, unless it is process 1 that has to reap it: how quick that is says
/// nothing about us.
pub(crate) fn exists(pid: u32) -> bool {
    let out = Command::new("ps").args(["-o", "stat=,ppid=", "-p", &pid.to_string()]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut fields = text.split_whitespace();
    fields.next().is_some_and(|state| !(state.starts_with('Z') && fields.next() == Some("1")))
}

/// Waits until none of the processes exists.
pub(crate) async fn all_gone(pids: &[u32], within: Duration) {
    let limit = Instant::now() + within;
    while pids.iter().any(|pid| exists(*pid)) {
        assert!(Instant::now() < limit, "still there after {within:?}: {}", show(pids));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn show(pids: &[u32]) -> String {
    let list: Vec<_> = pids.iter().map(u32::to_string).collect();
    let out =
        Command::new("ps").args(["-o", "pid,ppid,pgid,stat,args", "-p", &list.join(",")]).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A directory of its own, removed at the end.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bowline-child-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file that may be run.
    pub(crate) fn script(&self, name: &str, text: &[u8]) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
