//! Mailboxes: what a client says to a running call, from any backend to the call's owner.

use crate::{StoreFuture, Unavailable};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;
use std::time::Duration;

/// One message in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Its place, from 1.
    pub number: u64,
    /// What it is deduplicated by: the id of the request that it answers, or a name for a cancel.
    pub key: String,
    /// One JSON-RPC message as JSON text.
    pub payload: Bytes,
}

/// One mailbox for each call.
///
/// Delivery is at least once; a letter with a key that the box has already is dropped.
pub trait Mailbox: Send + Sync + 'static {
    /// Puts a letter into the box of the call whose stream is `stream`; the box is kept for `ttl`. The box needs no stream: a
    /// cancel may come before the call said anything. Returns whether the letter is new. Wakes the stream's waiters.
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>>;

    /// The letters after number `after`, oldest first.
    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>>;

    /// Drops the box: its call ended.
    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>>;
}
