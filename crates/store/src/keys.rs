//! Keys that the backends of one store share, where none was configured.

use crate::{StoreFuture, Unavailable};
use bytes::Bytes;

/// A list of keys for event ids and other tokens, the same for every backend (SEMANTICS 5.6).
///
/// The list is replaced as a whole, and only by somebody who knows what it was: of two that start or rotate at the same moment,
/// one wins and both go on with what is in force.
pub trait KeyStore: Send + Sync + 'static {
    /// The keys that all backends share, newest first; empty where none was set.
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>>;

    /// Replaces the list if it still is `before`; returns the list in force afterwards, whoever won. Durable, no expiry.
    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>>;
}
