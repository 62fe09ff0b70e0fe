//! Process 1 of a container: a small parent of the real program, which reaps what nobody else does.
//!
//! Processes that lose their parent become children of process 1, and stay as zombies until it asks for their exit. The program cannot
//! do that itself without taking the exits that others of its threads wait for, so it runs as a child, under the same arguments.
//!
//! - Signals are passed on. Those that a terminal sends are not, where there is one: it sends them to the child too.
//! - It ends as the child does: with its exit code, or 128 and the number of the signal.
//! - When the child was killed, what it left has a moment to end: with process 1, the kernel ends everything.

use crate::complain;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::{
    ffi::OsString,
    future::poll_fn,
    io::{self, IsTerminal as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
    task::Poll,
    time::Duration,
};
use tokio::{
    signal::unix::{Signal as Stream, SignalKind, signal},
    time::{Instant, sleep_until},
};

/// What the guard needs to end the processes of a program that was killed: its own grace, and a little.
const LAST: Duration = Duration::from_secs(3);

/// Whether this process has to look after orphans: it is process 1. Sockets that were handed over are for this process alone, so with
/// them it is not.
pub(crate) fn is_needed() -> bool {
    getpid() == Pid::INIT && std::env::var_os("LISTEN_FDS").is_none()
}

/// Runs the program with these arguments, its name first, as a child. `None` where it cannot be started so: then it runs without.
pub(crate) fn lead(args: &[OsString]) -> Option<ExitCode> {
    let led = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(run(args)));
    match led {
        Ok(code) => Some(code),
        Err(error) => {
            complain(&format_args!(
                "as process 1, orphans are not reaped: the program could not be started as a child: {error}"
            ));
            None
        }
    }
}

/// The same for a process that is not the first: orphans below it are made its own (Linux). `args` are those after the hidden role's.
pub fn lead_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(getpid())) {
        complain(&format_args!("orphans do not come here: {error}"));
        return ExitCode::FAILURE;
    }
    let args: Vec<_> = std::iter::once("bowline".into()).chain(args).collect();
    lead(&args).unwrap_or(ExitCode::FAILURE)
}

async fn run(args: &[OsString]) -> io::Result<ExitCode> {
    // All are taken before the child is there: none is lost.
    let mut exits = signal(SignalKind::child())?;
    let mut passed = passed_on()?;
    let own = Path::new("/proc/self/exe");
    let mut command = Command::new(if own.exists() { own.to_owned() } else { std::env::current_exe()? });
    if let Some((name, rest)) = args.split_first() {
        command.arg0(name).args(rest);
    }
    // Not waited for by its handle: it is among those that are reaped below.
    let child = Pid::from_child(&command.spawn()?);
    let _ = std::fs::write("/proc/self/comm", "bowline-init");
    let status = loop {
        if let Some(status) = reap(child) {
            break status;
        }
        tokio::select! {
            _ = exits.recv() => {}
            signal = next(&mut passed) => {
                // It may have ended just now, which the next round sees.
                let _ = kill_process(child, signal);
            }
        }
    };
    if status.terminating_signal().is_some() {
        let until = Instant::now() + LAST;
        while reap_all(|_, _| {}) {
            tokio::select! {
                _ = exits.recv() => {}
                () = sleep_until(until) => break,
            }
        }
    }
    Ok(ExitCode::from(code(status.exit_status(), status.terminating_signal())))
}

/// The signals that are passed on.
fn passed_on() -> io::Result<Vec<(Signal, Stream)>> {
    let terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    let signals = [
        (Signal::TERM, SignalKind::terminate(), true),
        (Signal::USR1, SignalKind::user_defined1(), true),
        (Signal::USR2, SignalKind::user_defined2(), true),
        (Signal::INT, SignalKind::interrupt(), !terminal),
        (Signal::HUP, SignalKind::hangup(), !terminal),
        (Signal::QUIT, SignalKind::quit(), !terminal),
    ];
    // One that is not passed on must not end this process either.
    let streams = signals.map(|(number, kind, passes)| Ok((number, signal(kind)?, passes)));
    let streams = streams.into_iter().collect::<io::Result<Vec<_>>>()?;
    Ok(streams
        .into_iter()
        .filter_map(|(number, stream, passes)| passes.then_some((number, stream)))
        .collect())
}

async fn next(signals: &mut [(Signal, Stream)]) -> Signal {
    poll_fn(|cx| {
        for (number, stream) in signals.iter_mut() {
            if stream.poll_recv(cx).is_ready() {
                return Poll::Ready(*number);
            }
        }
        Poll::Pending
    })
    .await
}

/// Reaps whatever has ended; how `child` did, if it has.
fn reap(child: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    reap_all(|pid, status| {
        if pid == child {
            ended = Some(status);
        }
    });
    ended
}

/// Reaps whatever has ended; whether there is anything else.
fn reap_all(mut see: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => see(pid, status),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn code(exited: Option<i32>, killed: Option<i32>) -> u8 {
    let code = exited.or_else(|| killed.map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_as_its_child_does() {
        assert_eq!(code(Some(0), None), 0);
        assert_eq!(code(Some(2), None), 2);
        assert_eq!(code(None, Some(15)), 143);
        assert_eq!(code(None, None), 255);
    }
}
