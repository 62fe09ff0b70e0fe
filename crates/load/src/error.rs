//! What can go wrong with a load.

use std::io;

/// Why a request, or a whole load, came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The URL cannot be called.
    #[error("{url} cannot be called: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection, or one that broke.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// What came is not HTTP/1.1, or larger than is read here.
    #[error("the answer cannot be read: {0}")]
    Malformed(&'static str),
    /// An answer that says no.
    #[error("{doing} was answered with {status}: {body}")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// The HTTP status.
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// An answer that is no result.
    #[error("{doing} was not answered with a result: {body}")]
    NoResult {
        /// What was being done.
        doing: &'static str,
        /// The beginning of the body.
        body: String,
    },
    /// A worker of the load ended in another way than with an answer.
    #[error("a connection's worker ended: {0}")]
    Worker(String),
}

impl LoadError {
    pub(crate) fn refused(doing: &'static str, status: u16, body: &[u8]) -> Self {
        Self::Refused { doing, status, body: beginning(body) }
    }

    pub(crate) fn no_result(doing: &'static str, body: &[u8]) -> Self {
        Self::NoResult { doing, body: beginning(body) }
    }
}

/// Enough of a body to see what it is, without what a terminal would act on.
fn beginning(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
