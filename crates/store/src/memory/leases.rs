//! Leases in memory: few, under one lock.

use super::{Inner, MemoryStore, expiring::Millis, log::Log};
use crate::{BackendId, BackendRegistry, BackendState, OpenStream, StoreFuture, StreamKind, Unavailable};
use std::{collections::BTreeMap, time::Duration};

/// Since when leases are renewed without a break, and when the last one was.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<(Millis, Millis)>);

impl Watch {
    fn go_on(&mut self, now: Millis, ttl: Duration) -> Duration {
        let since = match self.0 {
            Some((since, last)) if last.plus(ttl / 2) >= now => since,
            _ => now,
        };
        self.0 = Some((since, now));
        now.since(since)
    }
}

impl BackendRegistry for MemoryStore {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        let now = self.inner.origin.now();
        let watched = self.inner.watch.lock().go_on(now, ttl);
        let mut leases = self.inner.leases.lock();
        if let Some(state) = leases.get_mut(&backend, now) {
            *state = draining;
            leases.set_deadline(&backend, now.plus(ttl));
        } else {
            leases.insert(backend, draining, now.plus(ttl));
        }
        StoreFuture::ready(Ok(watched))
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

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        let now = self.inner.origin.now();
        let mut found: BTreeMap<BackendId, BackendState> =
            self.inner.owners.lock().keys().map(|owner| (*owner, BackendState::Gone)).collect();
        found.extend(self.inner.leases.lock().living(now).map(|(id, draining)| {
            (*id, if *draining { BackendState::Draining } else { BackendState::Alive })
        }));
        StoreFuture::ready(Ok(found.into_iter().collect()))
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        StoreFuture::ready(Ok(self.inner.open_streams(backend, limit)))
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.inner.leases.lock().remove(&backend);
        StoreFuture::ready(Ok(()))
    }
}

impl Inner {
    /// Looks at every stream: asked only for a backend that is gone, and the endpoints of one process seldom go.
    fn open_streams(&self, backend: BackendId, limit: usize) -> Vec<OpenStream> {
        let mut found = Vec::new();
        let now = self.origin.now();
        if !self.owners.lock().contains_key(&backend) {
            return found;
        }
        for shard in &self.shards {
            let shard = shard.lock();
            let open = shard.streams.living(now).filter_map(|(id, log)| log.open_of(backend, *id));
            found.extend(open.take(limit - found.len()));
            if found.len() >= limit {
                break;
            }
        }
        found
    }

    /// A stream was made.
    pub(super) fn note_open(&self, log: &Log) {
        if log.kind() == StreamKind::Call {
            *self.owners.lock().entry(log.owner()).or_default() += 1;
        }
    }

    /// An open stream was sealed, or is gone.
    pub(super) fn note_closed(&self, log: &Log) {
        if log.kind() != StreamKind::Call {
            return;
        }
        let mut owners = self.owners.lock();
        if let Some(count) = owners.get_mut(&log.owner()) {
            *count -= 1;
            if *count == 0 {
                owners.remove(&log.owner());
            }
        }
    }
}
