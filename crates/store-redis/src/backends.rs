//! Leases, the list of backends, and the keys that they share.

use crate::{
    actions::Action,
    call::{Call, Reply, Strange},
    link::strange,
    listen::read_id,
    store::{Inner, RedisStore, later, millis},
};
use bowline_store::{
    BackendId, BackendRegistry, BackendState, KeyStore, OpenStream, StoreFuture, StreamKind, Unavailable,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use std::time::Duration;
use tokio::time::Instant;

/// How many partitions are asked at once.
const AT_ONCE: usize = 16;

/// How many streams one answer names.
const PAGE: usize = 256;

/// How long who was put on the list is taken to be on it.
const ENLISTED: Duration = Duration::from_secs(20);

/// How long a backend without a lease and without streams stays on the list, in milliseconds: longer than somebody takes who
/// was only asleep to put itself back.
const REMEMBERED: u64 = 60_000;

impl BackendRegistry for RedisStore {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        let names = &self.inner.names;
        let call = Call::new(Action::Renew)
            .key(names.backends())
            .key(names.lease(backend))
            .key(names.layout())
            .key(names.watch())
            .arg(backend.to_string())
            .arg(if draining { "draining" } else { "alive" })
            .arg(millis(ttl, 1));
        later(async move {
            let mut reply = self.inner.link.run(call).await?;
            self.inner.enlisted.lock().insert(backend, Instant::now());
            if reply.text().as_deref() != Ok("ok") {
                return Err(strange("renew"));
            }
            reply.number().map(Duration::from_millis).map_err(|_| strange("renew"))
        })
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        let call = Call::new(Action::Lease).key(self.inner.names.lease(backend));
        later(async move {
            let mut reply = self.inner.link.run(call).await?;
            reply.text().and_then(|word| state(&word)).map_err(|_| strange("lease"))
        })
    }

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        later(self.inner.backends())
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        later(self.inner.open_streams(backend, limit))
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        let call = Call::new(Action::Release).key(self.inner.names.lease(backend));
        later(async move { self.inner.link.run(call).await.map(|_| ()) })
    }
}

impl KeyStore for RedisStore {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        let call = Call::new(Action::Shared).key(self.inner.names.shared_keys());
        later(async move { Ok(self.inner.link.run(call).await?.collect()) })
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        let call = Call::new(Action::Swap)
            .key(self.inner.names.shared_keys())
            .arg(before.len() as u64)
            .args(before)
            .args(after);
        later(async move { Ok(self.inner.link.run(call).await?.collect()) })
    }
}

fn state(word: &str) -> Result<BackendState, Strange> {
    match word {
        "alive" => Ok(BackendState::Alive),
        "draining" => Ok(BackendState::Draining),
        "gone" => Ok(BackendState::Gone),
        _ => Err(Strange),
    }
}

fn read_backend(text: &str) -> Result<BackendId, Strange> {
    u64::from_str_radix(text, 16).map(BackendId).map_err(|_| Strange)
}

/// Reads the list of backends: who, how, for how many milliseconds without a renewal.
fn read_list(mut reply: Reply) -> Result<Vec<(BackendId, BackendState, u64)>, Strange> {
    if reply.text()? != "ok" {
        return Err(Strange);
    }
    let mut list = Vec::new();
    while let Ok(backend) = reply.text() {
        list.push((read_backend(&backend)?, state(&reply.text()?)?, reply.number()?));
    }
    Ok(list)
}

fn read_streams(mut reply: Reply) -> Result<Vec<OpenStream>, Strange> {
    if reply.text()? != "ok" {
        return Err(Strange);
    }
    let optional = |text: String| text.strip_prefix('=').map(str::to_owned);
    let mut streams = Vec::new();
    while let Some(id) = reply.next() {
        streams.push(OpenStream {
            id: read_id(&id).ok_or(Strange)?,
            kind: StreamKind::Call,
            epoch: reply.number()?,
            tail: reply.number()?,
            session: optional(reply.text()?),
            request_id: optional(reply.text()?),
        });
    }
    Ok(streams)
}

impl Inner {
    /// Sees to it that who writes streams is on the list, also where it never had a lease.
    pub(crate) async fn enlist(&self, backend: BackendId) -> Result<(), Unavailable> {
        let now = Instant::now();
        let is_known =
            self.enlisted.lock().get(&backend).is_some_and(|since| now.duration_since(*since) < ENLISTED);
        if is_known {
            return Ok(());
        }
        let call = Call::new(Action::Enlist).key(self.names.backends()).arg(backend.to_string());
        self.link.run(call).await?;
        let mut enlisted = self.enlisted.lock();
        enlisted.retain(|_, since| now.duration_since(*since) < ENLISTED);
        enlisted.insert(backend, now);
        Ok(())
    }

    async fn backends(&self) -> Result<Vec<(BackendId, BackendState)>, Unavailable> {
        let names = &self.names;
        let call = Call::new(Action::Backends).key(names.backends()).key(names.leases());
        let listed = read_list(self.link.run(call).await?).map_err(|_| strange("backends"))?;
        let mut found = Vec::new();
        for (backend, state, age) in listed {
            if state != BackendState::Gone || !self.open_streams(backend, 1).await?.is_empty() {
                found.push((backend, state));
            } else if age > REMEMBERED {
                let call = Call::new(Action::Forget)
                    .key(names.backends())
                    .key(names.lease(backend))
                    .arg(backend.to_string());
                self.link.run(call).await?;
            }
        }
        found.sort_unstable_by_key(|(backend, _)| *backend);
        Ok(found)
    }

    async fn open_streams(&self, backend: BackendId, limit: usize) -> Result<Vec<OpenStream>, Unavailable> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut partitions = stream::iter(0..self.names.partitions())
            .map(|partition| self.owned(partition, backend, limit.min(PAGE)))
            .buffer_unordered(AT_ONCE);
        let mut found = Vec::new();
        while let Some(streams) = partitions.next().await {
            found.extend(streams?);
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// Open streams of one owner in one partition. Where there are more than a page, the others are found when these are sealed.
    async fn owned(
        &self,
        partition: usize,
        owner: BackendId,
        limit: usize,
    ) -> Result<Vec<OpenStream>, Unavailable> {
        let call = Call::new(Action::Owned)
            .key(self.names.owned(partition, owner))
            .key(self.names.records(partition))
            .arg(limit as u64);
        read_streams(self.link.run(call).await?).map_err(|_| strange("owned"))
    }
}
