//! The bounds of an adapter.

use std::time::Duration;

/// The bounds of an [`RmcpHandler`](crate::RmcpHandler). Those of calls and sessions are the endpoint's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long a handler runs on after its call was cancelled or its session ended; then it is dropped. Default 2 s, as
    /// [`bowline_server::Options::cancel_grace`].
    pub cancel_grace: Duration,
    /// How many requests of one session's handler may wait for the client at once. Default 64; the next one gets an error.
    pub max_questions: usize,
    /// How many messages may be on their way to one session's service. Default 256, never less than 1. A request waits for
    /// room; a notification that finds none is dropped.
    pub queue: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { cancel_grace: Duration::from_secs(2), max_questions: 64, queue: 256 }
    }
}
