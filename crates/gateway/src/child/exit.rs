//! How a process ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// The end of a process, delivered once, after its last line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// How it ended.
    pub reason: ExitReason,
    /// Whether the gateway had asked for it ([`Child::shutdown`](super::Child::shutdown) or drop).
    pub requested: bool,
    /// Time from start to end.
    pub uptime: Duration,
    /// The last lines of its stderr (at most 2 KiB; empty with [`StderrPolicy::Discard`](super::StderrPolicy)). For
    /// operators: it may hold secrets, so it is not part of the text and must not be sent to clients.
    pub stderr_tail: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:.1} s", self.reason, self.uptime.as_secs_f64())?;
        if self.requested { f.write_str(" (asked to stop)") } else { Ok(()) }
    }
}

/// The kinds of end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It closed its stdout and went on living; its process group is being ended.
    StdoutClosed,
    /// The system refused to run it, although the program had been found. The text says why and what to do.
    NotStarted(String),
    /// Nobody saw the end: the runtime that supervised it is gone, or it did not die of SIGKILL within 5 s.
    Lost,
}

impl ExitReason {
    /// What a client may be told: why something could not be started names paths of this machine, and is the operator's.
    #[must_use]
    pub fn for_clients(&self) -> String {
        match self {
            Self::NotStarted(_) => "could not be started".to_owned(),
            other => other.to_string(),
        }
    }
}

impl From<ExitStatus> for ExitReason {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Lost,
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
            Self::StdoutClosed => f.write_str("closed its stdout without exiting"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost => f.write_str("was lost: its end was not seen"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    use rustix::process::Signal;
    Some(match Signal::from_named_raw(signal)? {
        Signal::ABORT => "SIGABRT (it aborted)",
        Signal::BUS => "SIGBUS (it crashed)",
        Signal::FPE => "SIGFPE (it crashed)",
        Signal::HUP => "SIGHUP",
        Signal::ILL => "SIGILL (it crashed)",
        Signal::INT => "SIGINT",
        Signal::KILL => "SIGKILL (by hand, or out of memory)",
        Signal::PIPE => "SIGPIPE",
        Signal::SEGV => "SIGSEGV (it crashed)",
        Signal::TERM => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind follows the name of a server: "the server NAME ...".
    #[test]
    fn each_end_is_said_of_a_server() {
        for (reason, said) in [
            (ExitReason::Code(3), "exited with code 3"),
            (ExitReason::Signal(9), "was killed by SIGKILL (by hand, or out of memory)"),
            (ExitReason::Signal(15), "was killed by SIGTERM"),
            (ExitReason::Signal(63), "was killed by signal 63"),
            (ExitReason::StdoutClosed, "closed its stdout without exiting"),
            (ExitReason::NotStarted("x".into()), "could not be started"),
            (ExitReason::Lost, "was lost: its end was not seen"),
        ] {
            assert_eq!(reason.for_clients(), said);
        }
        let exit = Exit {
            reason: ExitReason::Signal(15),
            requested: true,
            uptime: Duration::from_millis(1500),
            stderr_tail: "hunter2".into(),
        };
        assert_eq!(exit.to_string(), "was killed by SIGTERM after 1.5 s (asked to stop)");
    }
}
