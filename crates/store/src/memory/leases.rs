//! Leases in memory: few, under one lock.

use super::MemoryStore;
use crate::{BackendId, BackendRegistry, BackendState, StoreFuture, Unavailable};
use std::time::Duration;

impl BackendRegistry for MemoryStore {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<(), Unavailable>> {
        let now = self.inner.origin.now();
        let mut leases = self.inner.leases.lock();
        if let Some(state) = leases.get_mut(&backend, now) {
            *state = draining;
            leases.set_deadline(&backend, now.plus(ttl));
        } else {
            leases.insert(backend, draining, now.plus(ttl));
        }
        StoreFuture::ready(Ok(()))
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        let now = self.inner.origin.now();
        let state = match self.inner.leases.lock().get(&backend, now) {
            Some(false) => BackendState::Alive,
            Some(true) => BackendState::Draining,
            None => BackendState::Gone,
        };
        StoreFuture::ready(Ok(state))
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.inner.leases.lock().remove(&backend);
        StoreFuture::ready(Ok(()))
    }
}
