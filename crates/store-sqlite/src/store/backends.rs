//! Leases and shared keys.

use super::SqliteStore;
use crate::tx::shared_keys;
use bowline_store::{
    BackendId, BackendRegistry, BackendState, KeyStore, OpenStream, StoreFuture, Unavailable,
};
use bytes::Bytes;
use std::time::Duration;

impl BackendRegistry for SqliteStore {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        StoreFuture::later(async move { self.change(0, move |tx| tx.renew(backend, draining, ttl)).await })
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        StoreFuture::later(async move { self.read(move |view| view.backend(backend).map(Ok)).await })
    }

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        StoreFuture::later(async move { self.read(|view| view.backends().map(Ok)).await })
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        StoreFuture::later(
            async move { self.read(move |view| view.open_streams(backend, limit).map(Ok)).await },
        )
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        StoreFuture::later(async move { self.change(0, move |tx| tx.release(backend)).await })
    }
}

impl KeyStore for SqliteStore {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        StoreFuture::later(async move { self.read(|view| shared_keys(view.conn).map(Ok)).await })
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        StoreFuture::later(async move { self.change(0, move |tx| tx.swap_keys(&before, &after)).await })
    }
}
