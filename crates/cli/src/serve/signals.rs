//! The signals that end the program.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
};

/// A wish to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Terminate,
    Interrupt,
    HangUp,
}

impl Leave {
    /// The name of the signal.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
            Self::HangUp => "SIGHUP",
        }
    }

    /// The exit code of a program that this signal ended: 128 and its number.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The same as a number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
            Self::HangUp => 129,
        }
    }
}

/// Takes SIGTERM, SIGINT and SIGHUP from now on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    terminal: bool,
    reload: Option<Arc<Notify>>,
}

impl Signals {
    /// Starts to listen. `reload` is told of a SIGHUP that is no wish to leave.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new(reload: Option<Arc<Notify>>) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            terminal: io::stderr().is_terminal(),
            reload,
        })
    }

    /// The next wish to leave. SIGHUP is one when the terminal that it is about is ours; else files are to be read again, and
    /// where there are none, it is to be ignored, as under `nohup`. Cancel safe.
    pub(crate) async fn next(&mut self) -> Leave {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => return Leave::Terminate,
                Some(()) = self.interrupt.recv() => return Leave::Interrupt,
                Some(()) = self.hang_up.recv() => {
                    if self.terminal {
                        return Leave::HangUp;
                    }
                    if let Some(reload) = &self.reload {
                        reload.notify_one();
                        continue;
                    }
                    tracing::info!("SIGHUP is ignored: there is nothing to reload; SIGTERM stops");
                }
                else => std::future::pending().await,
            }
        }
    }
}
