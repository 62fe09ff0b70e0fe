//! Why a call, or a connection, failed.

use crate::AuthError;
use bowline_proto::{client::ClientError, jsonrpc::ErrorObject};
use std::time::Duration;
use thiserror::Error;

/// A call that has no result. A tool's own error (`isError`) is a result, not one of these.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server answered with a JSON-RPC error. It is final: the server decided it, nothing is sent again.
    #[error("the server answered with error {}: {}", .0.code, .0.message)]
    Protocol(ErrorObject),
    /// The request did not get through, and certainly did not run: it can be repeated.
    #[error("{message}; the request did not run")]
    Transport {
        /// What happened, for a person.
        message: String,
    },
    /// No credentials, or the server refuses the ones there are.
    #[error("not authorized: {0}")]
    Auth(AuthError),
    /// Out of time. The server was told to stop where it was reached.
    #[error("no response: {limit} of {after:?} is over")]
    Timeout {
        /// Which limit it was.
        limit: TimeLimit,
        /// How long that is.
        after: Duration,
        /// Whether the server may have acted on the request (SEMANTICS 7.5).
        may_have_run: bool,
    },
    /// The caller took the call back.
    #[error("the call was cancelled")]
    Cancelled,
    /// Nobody can know whether the request ran, and it is not one that may run twice (SEMANTICS 7.5).
    #[error("{message}; the request may have run, so do not repeat it blindly")]
    OutcomeUnknown {
        /// What happened, for a person.
        message: String,
    },
    /// The client was closed, before the request was sent.
    #[error("the client is closed")]
    Closed,
    /// The request cannot be sent as it is, or the answer of one that only reads cannot be read. What may have had an effect, a tool
    /// or a call whose server has asked something already, ends with [`OutcomeUnknown`](Self::OutcomeUnknown) instead.
    #[error("{message}")]
    Invalid {
        /// What is wrong with it, for a person.
        message: String,
    },
}

/// A limit on the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeLimit {
    /// [`CallOptions::timeout`](crate::CallOptions::timeout): the whole call.
    Total,
    /// [`CallOptions::idle_timeout`](crate::CallOptions::idle_timeout): between two signs of life.
    Idle,
}

impl std::fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Total => "the limit of the whole call",
            Self::Idle => "the limit between two signs of life",
        })
    }
}

impl CallError {
    pub(crate) fn transport(message: impl Into<String>) -> Self {
        Self::Transport { message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    /// Whether the server may have acted on the request: false is a promise.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            // What the server answered, it decided itself: it knows.
            Self::Protocol(_) | Self::Cancelled | Self::OutcomeUnknown { .. } => true,
            Self::Timeout { may_have_run, .. } => *may_have_run,
            Self::Transport { .. } | Self::Auth(_) | Self::Closed | Self::Invalid { .. } => false,
        }
    }

    /// This error as a JSON-RPC error, for a program that passes it on. It never says that repeating is safe where nobody
    /// knows: `data.outcome` is `unknown` then.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        let reason = match self {
            Self::Protocol(error) => return error.clone(),
            Self::Transport { .. } => "upstream_unreachable",
            Self::Auth(_) => "unauthorized",
            Self::Timeout { .. } => "timeout",
            Self::Cancelled => "cancelled",
            Self::OutcomeUnknown { .. } => "upstream_lost",
            Self::Closed => "closed",
            Self::Invalid { .. } => "invalid",
        };
        if self.may_have_run() {
            ErrorObject::outcome_unknown(reason, self.to_string())
        } else {
            ErrorObject::internal(reason, self.to_string())
        }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> Self {
        let message = error.kind.to_string();
        if error.may_have_run { Self::OutcomeUnknown { message } } else { Self::Transport { message } }
    }
}

impl From<AuthError> for CallError {
    fn from(error: AuthError) -> Self {
        Self::Auth(error)
    }
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address cannot be used.
    #[error("{url}: {message}")]
    BadUrl {
        /// The address as given.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// Nothing that speaks MCP was found, or it broke off.
    #[error("cannot connect to {target}: {message}")]
    Failed {
        /// Who was called.
        target: String,
        /// What happened.
        message: String,
    },
    /// No credentials, or the server refuses the ones there are.
    #[error("cannot connect to {target}: not authorized: {error}")]
    Auth {
        /// Who was called.
        target: String,
        /// Why.
        error: AuthError,
    },
    /// The server answered `initialize` or `server/discover` with an error.
    #[error("{target} refuses to connect: error {}: {}", .error.code, .error.message)]
    Refused {
        /// Who was called.
        target: String,
        /// The server's error.
        error: ErrorObject,
    },
    /// [`ClientOptions::connect_timeout`](crate::ClientOptions::connect_timeout) is over.
    #[error("cannot connect to {target}: no answer within {after:?}")]
    Timeout {
        /// Who was called.
        target: String,
        /// The limit.
        after: Duration,
    },
}
