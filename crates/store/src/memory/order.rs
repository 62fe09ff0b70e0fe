//! Who comes first when something has to go.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Keys in the order in which they came, over all shards.
///
/// Its lock is taken after a shard's lock or alone; never is a shard locked while it is held.
pub(super) struct Order<K> {
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    last: u64,
    keys: BTreeMap<u64, K>,
}

impl<K> Order<K> {
    pub(super) const fn new() -> Self {
        Self { inner: Mutex::new(Inner { last: 0, keys: BTreeMap::new() }) }
    }

    /// Queues a key and says under which number, from 1.
    pub(super) fn push(&self, key: K) -> u64 {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let number = inner.last;
        inner.keys.insert(number, key);
        number
    }

    /// Takes out what was queued under that number, if it is still there.
    pub(super) fn remove(&self, number: u64) {
        self.inner.lock().keys.remove(&number);
    }

    /// Takes out the oldest.
    pub(super) fn pop(&self) -> Option<(u64, K)> {
        self.inner.lock().keys.pop_first()
    }
}
