//! Links that carry messages both ways: a child's stdio, HTTP+SSE of 2024-11-05, and custom ones.

mod child;
mod link;
mod sse;
mod subscription;

pub(crate) use child::ChildConnector;
pub(crate) use link::{Live, PipeLink};
pub(crate) use sse::SseConnector;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use thiserror::Error;

/// Opens a pipe to a server, and again after it ended.
pub trait Connector: Send + Sync + 'static {
    /// Opens it. A second call opens another one; the first has ended by then.
    fn connect(&self) -> BoxFuture<'_, Result<Pipe, TransportError>>;

    /// What to call the server in messages to people.
    fn describe(&self) -> String;

    /// Whether the server can only know revisions with a handshake: then nothing else is tried.
    fn is_legacy(&self) -> bool {
        false
    }
}

/// Both ends of an open pipe.
pub struct Pipe {
    /// To the server.
    pub sender: Box<dyn PipeSender>,
    /// From the server.
    pub receiver: Box<dyn PipeReceiver>,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pipe")
    }
}

/// Sends messages.
pub trait PipeSender: Send + 'static {
    /// Sends one JSON-RPC message, as JSON text. The future is dropped before its end only where the whole pipe is given up.
    fn send(&mut self, message: Bytes) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Says that nothing else will be sent, and gives the server at most `within` to end.
    fn close(&mut self, within: std::time::Duration) -> BoxFuture<'_, ()>;
}

/// Receives messages.
pub trait PipeReceiver: Send + 'static {
    /// The next JSON-RPC message, as JSON text. `None`: the pipe has ended. Dropping the future loses nothing.
    fn receive(&mut self) -> BoxFuture<'_, Option<Result<Bytes, TransportError>>>;
}

/// A pipe that cannot be opened, or broke.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TransportError {
    /// What happened, for a person.
    pub message: String,
    /// Whether a byte of the message may have reached the server. `false` is a promise.
    pub may_have_left: bool,
}

impl TransportError {
    /// An error before anything left.
    pub fn before(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_have_left: false }
    }

    /// An error after something may have left.
    pub fn after(message: impl Into<String>) -> Self {
        Self { message: message.into(), may_have_left: true }
    }
}
