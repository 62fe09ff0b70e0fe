//! Shared keys in memory: shared by the endpoints of one process.

use super::MemoryStore;
use crate::{KeyStore, StoreFuture, Unavailable};
use bytes::Bytes;

impl KeyStore for MemoryStore {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        StoreFuture::ready(Ok(self.inner.keys.lock().clone()))
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        let mut keys = self.inner.keys.lock();
        if *keys == before {
            *keys = after;
        }
        StoreFuture::ready(Ok(keys.clone()))
    }
}
