//! What went wrong, for people, for programs, and as an exit code.

use super::{
    output::{self, Output},
    text::clean,
};
use crate::complain;
use bowline_client::{CallError, ConnectError, ErrorObject, Raw, code};
use std::{fmt, io};

/// The tool says that it failed.
pub(super) const TOOL: u8 = 1;
const USAGE: u8 = 2;
const PROTOCOL: u8 = 3;
const TRANSPORT: u8 = 4;
const AUTH: u8 = 5;
const UNKNOWN: u8 = 6;
const HERE: u8 = 7;

/// Why there is no result.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    message: String,
    object: ErrorObject,
    /// stdout is closed: whoever read it has had enough.
    unread: bool,
}

impl Failure {
    fn new(code: u8, message: impl Into<String>, reason: &str) -> Self {
        let message = message.into();
        Self { code, object: ErrorObject::internal(reason, message.clone()), message, unread: false }
    }

    /// What was typed makes no sense.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message, "usage")
    }

    /// The server is fine, this machine is not.
    pub(super) fn here(message: impl Into<String>) -> Self {
        Self::new(HERE, message, "local")
    }

    /// The server's answer is not what it should be.
    pub(super) fn answer(message: impl Into<String>) -> Self {
        Self::new(PROTOCOL, message, "invalid")
    }

    /// stdout cannot be written.
    pub(super) fn output(error: &io::Error) -> Self {
        let mut failure = Self::here(format!("stdout: {error}"));
        failure.unread = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }

    /// A request that had no result; `runs`: it is one that must not run twice.
    pub(super) fn call(error: &CallError, runs: bool) -> Self {
        let code = match error {
            CallError::Protocol(_) | CallError::Invalid { .. } => PROTOCOL,
            CallError::Auth(_) => AUTH,
            error if runs && error.may_have_run() => UNKNOWN,
            _ => TRANSPORT,
        };
        Self { code, message: error.to_string(), object: error.to_error_object(), unread: false }
    }

    /// A request that only reads.
    pub(super) fn reading(error: &CallError) -> Self {
        Self::call(error, false)
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.unread { 0 } else { self.code }
    }

    /// Says it on stderr, and as JSON on stdout where that is wanted.
    pub(super) fn report(&self, output: Output) {
        if self.unread {
            return;
        }
        // It may hold the words of a server.
        complain(self);
        if output == Output::Json && self.code != USAGE {
            let object = Raw::from_value(&self.object).unwrap_or_else(|_| Raw::empty_object());
            // The message is on stderr in any case.
            drop(output::line(Raw::from_members([("error", object)]).as_str()));
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let message = error.to_string();
        match error {
            ConnectError::BadUrl { .. } => Self::usage(message),
            ConnectError::Auth { .. } => Self::new(AUTH, message, "unauthorized"),
            ConnectError::Refused { error, .. } => {
                Self { code: PROTOCOL, message, object: error, unread: false }
            }
            _ => Self::new(TRANSPORT, message, "upstream_unreachable"),
        }
    }
}

impl From<crate::client::SetupError> for Failure {
    fn from(error: crate::client::SetupError) -> Self {
        Self::usage(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.message))
    }
}

/// Whether the server does not know the method.
pub(super) fn is_unknown_method(error: &CallError) -> bool {
    matches!(error, CallError::Protocol(error) if error.code == code::METHOD_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_client::{AuthError, TimeLimit};
    use std::time::Duration;

    #[test]
    fn each_kind_has_its_code() {
        let late = |may_have_run| CallError::Timeout {
            limit: TimeLimit::Total,
            after: Duration::ZERO,
            may_have_run,
        };
        let lost = || CallError::OutcomeUnknown { message: "lost".into() };
        for (error, runs, code) in [
            (CallError::Protocol(ErrorObject::new(-1, "x")), true, 3),
            (CallError::Invalid { message: "x".into() }, true, 3),
            (CallError::Transport { message: "x".into() }, true, 4),
            (late(false), true, 4),
            (CallError::Closed, true, 4),
            (CallError::Auth(AuthError::new("x")), true, 5),
            (late(true), true, 6),
            (lost(), true, 6),
            (late(true), false, 4),
            (lost(), false, 4),
        ] {
            assert_eq!(Failure::call(&error, runs).exit_code(), code, "{error:?}");
        }
        let coloured = CallError::Protocol(ErrorObject::new(-1, "\u{1b}[2Jx"));
        assert!(Failure::reading(&coloured).to_string().ends_with(" [2Jx"));
        let unreachable = ConnectError::Failed { target: "a".into(), message: "b".into() };
        assert_eq!(Failure::from(unreachable).exit_code(), 4);
        assert_eq!(
            Failure::from(ConnectError::Auth { target: "a".into(), error: AuthError::new("x") }).exit_code(),
            5
        );
        assert_eq!(Failure::output(&io::ErrorKind::BrokenPipe.into()).exit_code(), 0);
        assert_eq!(Failure::output(&io::ErrorKind::StorageFull.into()).exit_code(), 7);
    }
}
