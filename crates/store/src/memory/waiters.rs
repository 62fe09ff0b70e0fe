//! Who waits for a stream.

use super::{Inner, MemoryStore};
use crate::{WakeBus, Wakeups};
use bowline_proto::cursor::StreamId;
use std::sync::Arc;
use tokio::sync::watch;

/// The sending end for all subscriptions of one stream; there is none where nobody waits.
pub(super) struct Waiter {
    sender: watch::Sender<u64>,
    subscriptions: usize,
}

impl Waiter {
    /// A handle to wake with after the shard's lock was given up: a woken task must not meet a held lock.
    pub(super) fn handle(&self) -> watch::Sender<u64> {
        self.sender.clone()
    }
}

/// Wakes all subscriptions of a stream.
pub(super) fn wake(sender: &watch::Sender<u64>) {
    sender.send_modify(|version| *version = version.wrapping_add(1));
}

impl Inner {
    /// Wakes whoever waits for a stream. No shard may be locked.
    pub(super) fn wake(&self, stream: StreamId) {
        let waiter = self.shard(stream).waiter(stream);
        waiter.iter().for_each(wake);
    }
}

impl super::Shard {
    pub(super) fn waiter(&self, stream: StreamId) -> Option<watch::Sender<u64>> {
        self.waiters.get(&stream).map(Waiter::handle)
    }
}

/// Ends a subscription when it is dropped.
struct Guard {
    inner: Arc<Inner>,
    stream: StreamId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.counts.subscriptions.sub(1);
        let mut shard = self.inner.shard(self.stream);
        if let Some(waiter) = shard.waiters.get_mut(&self.stream) {
            waiter.subscriptions -= 1;
            if waiter.subscriptions == 0 {
                shard.waiters.remove(&self.stream);
                if shard.waiters.capacity() > 64 && shard.waiters.len() * 8 < shard.waiters.capacity() {
                    let keep = shard.waiters.len() * 2;
                    shard.waiters.shrink_to(keep);
                }
            }
        }
    }
}

impl WakeBus for MemoryStore {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        let receiver = {
            let mut shard = self.inner.shard(stream);
            let waiter = shard
                .waiters
                .entry(stream)
                .or_insert_with(|| Waiter { sender: watch::Sender::new(0), subscriptions: 0 });
            waiter.subscriptions += 1;
            waiter.sender.subscribe()
        };
        self.inner.counts.subscriptions.add(1);
        Wakeups::new(receiver, Some(Box::new(Guard { inner: Arc::clone(&self.inner), stream })))
    }
}
