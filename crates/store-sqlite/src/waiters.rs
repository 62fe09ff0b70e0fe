//! Who waits for a stream, in this process.

use bowline_proto::cursor::StreamId;
use bowline_store::Wakeups;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;

/// The sending ends of all subscriptions. There is one for each stream that somebody waits for.
#[derive(Default)]
pub(crate) struct Waiters {
    streams: Mutex<HashMap<StreamId, Waiter>>,
}

struct Waiter {
    sender: watch::Sender<u64>,
    subscriptions: usize,
}

/// Ends a subscription when it is dropped.
struct Guard {
    waiters: Arc<Waiters>,
    stream: StreamId,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut streams = self.waiters.streams.lock();
        if let Some(waiter) = streams.get_mut(&self.stream) {
            waiter.subscriptions -= 1;
            if waiter.subscriptions == 0 {
                streams.remove(&self.stream);
                if streams.capacity() > 64 && streams.len() * 8 < streams.capacity() {
                    let keep = streams.len() * 2;
                    streams.shrink_to(keep);
                }
            }
        }
    }
}

fn wake(sender: &watch::Sender<u64>) {
    sender.send_modify(|version| *version = version.wrapping_add(1));
}

impl Waiters {
    /// Waits for a stream. Says also whether nobody waited for anything before.
    pub(crate) fn subscribe(self: &Arc<Self>, stream: StreamId) -> (Wakeups, bool) {
        let mut streams = self.streams.lock();
        let first = streams.is_empty();
        let waiter = streams
            .entry(stream)
            .or_insert_with(|| Waiter { sender: watch::Sender::new(0), subscriptions: 0 });
        waiter.subscriptions += 1;
        let guard = Guard { waiters: Arc::clone(self), stream };
        (Wakeups::new(waiter.sender.subscribe(), Some(Box::new(guard))), first)
    }

    /// Wakes whoever waits for one of these.
    pub(crate) fn wake(&self, changed: &[StreamId]) {
        // A woken task must not meet a held lock.
        let senders: Vec<_> = {
            let streams = self.streams.lock();
            changed.iter().filter_map(|id| streams.get(id).map(|waiter| waiter.sender.clone())).collect()
        };
        senders.iter().for_each(wake);
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        let senders: Vec<_> = self.streams.lock().values().map(|waiter| waiter.sender.clone()).collect();
        senders.iter().for_each(wake);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.lock().is_empty()
    }

    /// How many subscriptions there are.
    pub(crate) fn len(&self) -> usize {
        self.streams.lock().values().map(|waiter| waiter.subscriptions).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_subscriptions_that_ended() {
        let waiters = Arc::new(Waiters::default());
        let id = |n: u8| StreamId::from_bytes([n; 16]);
        let (first, was_first) = waiters.subscribe(id(1));
        assert!(was_first);
        let (again, was_first) = waiters.subscribe(id(1));
        assert!(!was_first);
        assert_eq!(waiters.len(), 2);
        drop(first);
        assert_eq!(waiters.len(), 1);
        drop(again);
        assert!(waiters.is_empty());
    }
}
