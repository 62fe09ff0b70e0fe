//! Why a call failed without a response.

use thiserror::Error;

/// A call that failed without a response of the server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}; {}", if *.may_have_run { "the request may have run, so do not repeat it blindly" } else { "the request did not run" })]
pub struct ClientError {
    /// What happened.
    pub kind: ClientErrorKind,
    /// Whether the server may have acted on the request (SEMANTICS 7.5).
    pub may_have_run: bool,
}

/// What happened to a call that failed without a response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClientErrorKind {
    /// No byte of the request left, because no connection could be made.
    #[error("the server could not be reached")]
    Unreachable,
    /// The stream ended before the response, and it had no id to resume from.
    #[error("the stream ended before the response, and the server gave no event id to resume from")]
    NotResumable,
    /// The server says that nothing is left of the stream (204), yet no response was received.
    #[error("the server says that the stream is over, but the response never came")]
    NothingLeft,
    /// 404: the session is gone; one shared re-initialize follows (SEMANTICS 7.4).
    #[error("the server no longer knows the session (404)")]
    SessionGone,
    /// Another status that repeating does not change.
    #[error("the server refused the request with status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The connection broke after the request was on its way, before any answer.
    #[error("the connection broke before the server answered")]
    Lost,
    /// The server answered in a way that no MCP server does.
    #[error("the server's answer cannot be read: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// The stream cannot be resumed: no credentials that the server takes, or a redirect that is not followed.
    #[error("the stream cannot be read on: {reason}")]
    ResumeRefused {
        /// Why.
        reason: String,
    },
    /// Too many attempts in a row brought no message and no new id.
    #[error("gave up after {attempts} attempts in a row to resume the stream brought nothing new")]
    GaveUp {
        /// How many.
        attempts: u32,
    },
}
