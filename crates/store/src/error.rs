//! Why a store refused: each operation has its own small set, so that the transport can choose its answer.

use thiserror::Error;

/// The store cannot be reached or did not answer in time. Nothing is known about the operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the store is unavailable: {0}")]
pub struct Unavailable(
    /// What was tried and what came of it, for the operator.
    pub String,
);

/// Why a stream or a session was not created.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// There is one of that id already.
    #[error("it exists already")]
    Exists,
    /// A bound was met: which one, and its value.
    #[error("the store is full: {what} is limited to {limit}")]
    Full {
        /// The bound that was met.
        what: &'static str,
        /// Its value, in the unit that `what` names.
        limit: u64,
    },
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why an event was not appended, or a stream not sealed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The stream belongs to a later epoch: the writer lost it and must stop.
    #[error("fenced: the stream belongs to epoch {epoch}")]
    Fenced {
        /// The epoch in force.
        epoch: u64,
    },
    /// The stream has its last message. Exactly one seal wins.
    #[error("the stream is sealed")]
    Sealed,
    /// The offset does not follow the last one: the writer has to read the tail first.
    #[error("out of order: the last offset is {tail}")]
    OutOfOrder {
        /// The last offset in the log.
        tail: u64,
    },
    /// A bound was met and the event may be dropped: it was, and the offset is still free.
    #[error("the stream is full: {what} is limited to {limit}")]
    Full {
        /// The bound that was met.
        what: &'static str,
        /// Its value, in the unit that `what` names.
        limit: u64,
    },
    /// The stream is gone: expired, evicted, or never made. A lost log is never started again in silence.
    #[error("the stream is gone")]
    Gone,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a stream cannot be read from a position. A reader never gets a run with a hole instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Events after the position were dropped from the log; the oldest one that is kept.
    #[error("evicted: the oldest event that is kept is {oldest}")]
    Evicted {
        /// The offset of the oldest event that is kept, or the tail + 1 when none is.
        oldest: u64,
    },
    /// The position is after the tail: this is not the log that the position came from.
    #[error("lost: the log ends at {tail}")]
    Lost {
        /// The last offset in the log.
        tail: u64,
    },
    /// The stream is expired, evicted as a whole, or was never made.
    #[error("the stream is gone")]
    Gone,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a session record was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpdateError {
    /// Somebody else changed it first: load it again.
    #[error("the session was changed by somebody else")]
    Conflict,
    /// The session ended, expired or never was.
    #[error("the session is gone")]
    Gone,
    /// See [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
