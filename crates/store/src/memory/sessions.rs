//! Sessions in memory.

use super::{Inner, MemoryStore};
use crate::{
    CreateError, SessionLookup, SessionRecord, SessionStore, StoreFuture, Unavailable, UpdateError, Version,
};
use std::{sync::Arc, time::Duration};

/// What is known of a session id.
pub(super) enum Entry {
    Live(Version, Arc<SessionRecord>),
    /// A tombstone, with its number in the order of tombstones.
    Ended(u64),
}

impl SessionStore for MemoryStore {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        StoreFuture::ready(self.inner.create_session(id, record, ttl))
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let now = self.inner.origin.now();
        let found = match self.inner.shard_of(id.as_bytes()).sessions.get(id, now) {
            Some(Entry::Live(version, record)) => SessionLookup::Live(*version, Arc::clone(record)),
            Some(Entry::Ended(_)) => SessionLookup::Ended,
            None => SessionLookup::Unknown,
        };
        StoreFuture::ready(Ok(found))
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let now = self.inner.origin.now();
        let standalone = record.standalone;
        let answer = match self.inner.shard_of(id.as_bytes()).sessions.get_mut(id, now) {
            Some(Entry::Live(current, kept)) if *current == version => {
                *current = Version(version.0 + 1);
                *kept = Arc::new(record);
                Ok(*current)
            }
            Some(Entry::Live(..)) => Err(UpdateError::Conflict),
            Some(Entry::Ended(_)) | None => Err(UpdateError::Gone),
        };
        if answer.is_ok() {
            self.inner.wake(standalone);
        }
        StoreFuture::ready(answer)
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        let now = self.inner.origin.now();
        let mut shard = self.inner.shard_of(id.as_bytes());
        if matches!(shard.sessions.get(id, now), Some(Entry::Live(..))) {
            shard.sessions.prolong(id, now.plus(ttl), now);
        }
        StoreFuture::ready(Ok(()))
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        StoreFuture::ready(Ok(self.inner.delete_session(id, tombstone)))
    }
}

impl Inner {
    fn create_session(&self, id: &str, record: SessionRecord, ttl: Duration) -> Result<Version, CreateError> {
        let limit = self.limits.sessions;
        let version = Version(1);
        loop {
            let now = self.origin.now();
            let mut shard = self.shard_of(id.as_bytes());
            if shard.sessions.get(id, now).is_some() {
                return Err(CreateError::Exists);
            }
            if self.counts.sessions.reserve(1, limit) {
                let entry = Entry::Live(version, Arc::new(record));
                if let Some(ended) = shard.sessions.insert(Arc::from(id), entry, now.plus(ttl)) {
                    self.forget_session(&ended);
                }
                return Ok(version);
            }
            drop(shard);
            if self.sweep(super::SWEEP_FOR_ROOM).sessions == 0 {
                self.counts.refused.add(1);
                return Err(CreateError::Full { what: "sessions", limit });
            }
        }
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> bool {
        let now = self.origin.now();
        let standalone = {
            let mut shard = self.shard_of(id.as_bytes());
            let Some(entry) = shard.sessions.get_mut(id, now) else { return false };
            let Entry::Live(_, record) = entry else { return false };
            let standalone = record.standalone;
            let number = self.graves.push(Arc::from(id));
            *entry = Entry::Ended(number);
            self.counts.sessions.sub(1);
            self.counts.tombstones.add(1);
            shard.sessions.set_deadline(id, now.plus(tombstone));
            standalone
        };
        self.wake(standalone);
        while self.counts.tombstones.get() > self.limits.tombstones && self.evict_oldest_grave() {}
        true
    }

    /// Drops the oldest tombstone. Returns whether there was one.
    fn evict_oldest_grave(&self) -> bool {
        let Some((number, id)) = self.graves.pop() else { return false };
        let mut shard = self.shard_of(id.as_bytes());
        if matches!(shard.sessions.peek(&*id), Some(Entry::Ended(at)) if *at == number)
            && shard.sessions.remove(&*id).is_some()
        {
            self.counts.tombstones.sub(1);
            self.counts.tombstones_evicted.add(1);
        }
        true
    }

    /// Settles the accounts of an entry that was taken out.
    pub(super) fn forget_session(&self, entry: &Entry) {
        match entry {
            Entry::Live(..) => self.counts.sessions.sub(1),
            Entry::Ended(number) => {
                self.counts.tombstones.sub(1);
                self.graves.remove(*number);
            }
        }
    }
}
