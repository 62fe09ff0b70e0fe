//! The two hidden roles of the program: the guard process and the launcher. Neither starts a runtime or a thread.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// What the guard writes on its stdout when it is ready: proof that the program knows its hidden role.
pub(super) const READY: &[u8] = b"bowline-guard 1\n";
/// The byte that lets a launcher go.
pub(crate) const GO: u8 = b'G';
/// Start of the one line a launcher prints when the system refuses to run the program; the error number follows.
pub(crate) const REFUSED: &[u8] = b"\x01bowline-launch refused ";

/// From SIGTERM to SIGKILL once the gateway is gone.
const GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(25);
/// Longest line on the pipe: a sign and a process id.
const LONGEST: usize = 32;

/// The guard process: call it from `main` when the first argument is `__guard`, before anything else.
///
/// It reads `+PGID` and `-PGID` lines from stdin. When stdin ends, the gateway is gone: every registered process group
/// gets SIGTERM and, 2 s later, SIGKILL. It holds nothing but that pipe.
pub fn guard_main() -> ExitCode {
    // A name for process lists (where there is none, the program's own will do).
    let _ = std::fs::write("/proc/self/comm", "bowline-guard");
    if rustix::io::write(rustix::stdio::stdout(), READY).is_err() {
        return ExitCode::FAILURE; // the gateway left already; nothing was registered
    }
    let mut groups = BTreeSet::new();
    let mut line = Vec::with_capacity(LONGEST);
    let mut chunk = [0; 4096];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut chunk) {
            Ok(0) => break,
            Ok(n) => chunk[..n].iter().for_each(|byte| take(*byte, &mut line, &mut groups)),
            Err(Errno::INTR) => {}
            // Blind, but the gateway may live: leave the groups alone, it starts another guard.
            Err(_) => return ExitCode::FAILURE,
        }
    }
    end_all(groups);
    ExitCode::SUCCESS
}

fn take(byte: u8, line: &mut Vec<u8>, groups: &mut BTreeSet<i32>) {
    if byte != b'\n' {
        if line.len() < LONGEST {
            line.push(byte);
        }
        return;
    }
    let text = String::from_utf8_lossy(line);
    if let Some(group) = text.get(1..).and_then(|digits| digits.parse().ok()).filter(|group| *group > 1) {
        match line[0] {
            b'+' => groups.insert(group),
            b'-' => groups.remove(&group),
            _ => false,
        };
    }
    line.clear();
}

fn end_all(groups: BTreeSet<i32>) {
    let mut groups: Vec<Pid> = groups.into_iter().filter_map(Pid::from_raw).collect();
    let mut signal = Signal::TERM;
    let mut waited = Duration::ZERO;
    loop {
        groups.retain(|group| kill_or_test(*group, waited, signal) != Err(Errno::SRCH));
        if groups.is_empty() || signal == Signal::KILL {
            return;
        }
        sleep(POLL);
        waited += POLL;
        if waited >= GRACE {
            (signal, waited) = (Signal::KILL, Duration::ZERO);
        }
    }
}

/// Sends the signal the first time and then only looks whether the group is still there.
fn kill_or_test(group: Pid, waited: Duration, signal: Signal) -> Result<(), Errno> {
    if waited.is_zero() { kill_process_group(group, signal) } else { test_kill_process_group(group) }
}

/// The launcher: call it from `main` with the arguments after `__launch`, before anything else.
///
/// It waits until the gateway has registered its process group with the guard (one byte on stdin), then becomes the
/// given program. When the gateway dies first, stdin ends and the program never runs: there is no moment in which the
/// program runs unguarded. No descriptor is inherited for this, so none can leak. As in a shell, a file of unknown
/// format is run by `/bin/sh` (a plain spawn refuses it).
pub fn launch_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let Some(program) = args.next() else {
        let _ = writeln!(
            std::io::stderr(),
            "bowline: the launcher was given no program; it is not meant to be run by hand"
        );
        return ExitCode::from(2);
    };
    let mut go = [0];
    loop {
        // Unbuffered, one byte: what follows belongs to the program.
        match rustix::io::read(rustix::stdio::stdin(), &mut go) {
            Ok(1) if go[0] == GO => break,
            Err(Errno::INTR) => {}
            _ => return ExitCode::FAILURE,
        }
    }
    let refused = Command::new(program).args(args).exec();
    let errno = refused.raw_os_error().unwrap_or_default();
    let mut report = REFUSED.to_vec();
    report.extend_from_slice(errno.to_string().as_bytes());
    report.push(b'\n');
    let _ = rustix::io::write(rustix::stdio::stdout(), &report);
    ExitCode::from(if Errno::from_raw_os_error(errno) == Errno::NOENT { 127 } else { 126 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_register_and_release_and_junk_is_ignored() {
        let mut groups = BTreeSet::new();
        let mut line = Vec::new();
        for byte in
            b"+12\n+34\n\n-12\n+1\n+0\n+-5\n+x\n\xFF\n?9\n+99999999999999999999999999999999999999999\n+56\n"
        {
            take(*byte, &mut line, &mut groups);
        }
        assert_eq!(groups, BTreeSet::from([34, 56]));
    }
}
