//! Hints: sent as soon as the connection takes them, the newest only, by nobody who waits.

use crate::{actions::Action, call::Call, store::Inner};
use bowline_proto::cursor::StreamId;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// How many are under way at once.
const AT_ONCE: usize = 64;

/// What is to be said about one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    generation: u64,
    delivered: u64,
    trim: u64,
    keep: Duration,
    wake: bool,
}

impl Hint {
    pub(crate) const fn delivered(generation: u64, delivered: u64) -> Self {
        Self { generation, delivered, ..Self::NOTHING }
    }

    pub(crate) const fn trim(trim: u64) -> Self {
        Self { trim, ..Self::NOTHING }
    }

    pub(crate) const fn keep(keep: Duration) -> Self {
        Self { keep, ..Self::NOTHING }
    }

    /// Other backends are to read it again.
    pub(crate) const fn wake() -> Self {
        Self { wake: true, ..Self::NOTHING }
    }

    const NOTHING: Self = Self { generation: 0, delivered: 0, trim: 0, keep: Duration::ZERO, wake: false };

    /// Both in one.
    fn merge(&mut self, newer: Self) {
        if newer.generation > self.generation {
            (self.generation, self.delivered) = (newer.generation, newer.delivered);
        } else if newer.generation == self.generation {
            self.delivered = self.delivered.max(newer.delivered);
        }
        self.trim = self.trim.max(newer.trim);
        self.keep = self.keep.max(newer.keep);
        self.wake |= newer.wake;
    }
}

/// What was not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    pending: Mutex<HashMap<StreamId, Hint>>,
    some: Notify,
}

impl Hints {
    /// Notes a hint; returns whether there was room for it.
    pub(crate) fn add(&self, stream: StreamId, hint: Hint, limit: usize) -> bool {
        let mut pending = self.pending.lock();
        let is_full = pending.len() >= limit;
        match pending.get_mut(&stream) {
            Some(known) => known.merge(hint),
            None if is_full => return false,
            None => {
                pending.insert(stream, hint);
            }
        }
        self.some.notify_one();
        true
    }

    /// Takes what is pending for one stream.
    pub(crate) fn take(&self, stream: StreamId) -> Option<Hint> {
        self.pending.lock().remove(&stream)
    }
}

/// Sends hints for ever.
pub(crate) async fn send(inner: Arc<Inner>) {
    loop {
        inner.hints.some.notified().await;
        let pending = std::mem::take(&mut *inner.hints.pending.lock());
        stream::iter(pending)
            .for_each_concurrent(AT_ONCE, |(stream, hint)| {
                let inner = &inner;
                async move { inner.send_hint(stream, hint).await }
            })
            .await;
    }
}

impl Inner {
    /// Sends one hint, once.
    pub(crate) async fn send_hint(&self, stream: StreamId, hint: Hint) {
        if hint != (Hint { wake: hint.wake, ..Hint::NOTHING }) {
            let names = &self.names;
            let call = Call::new(Action::Hint)
                .key(names.record(stream))
                .key(names.events(stream))
                .key(names.owners(names.partition(stream)))
                .key(names.rerun(stream))
                .arg(hint.generation)
                .arg(hint.delivered)
                .arg(hint.trim)
                .arg(crate::store::millis(hint.keep, 0));
            if self.link.run(call).await.is_err() {
                self.link.counts.hints_dropped.add(1);
            }
        }
        if hint.wake {
            let call = Call::new(Action::Wake).key(self.names.waiters(stream));
            if self.link.run(self.introduce(call, stream)).await.is_err() {
                self.link.counts.hints_dropped.add(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_kind_is_kept() {
        let hints = Hints::default();
        let id = StreamId::from_bytes([1; 16]);
        for hint in [
            Hint::delivered(2, 5),
            Hint::delivered(2, 4),
            Hint::delivered(1, 9),
            Hint::trim(3),
            Hint::trim(2),
            Hint::keep(Duration::from_secs(2)),
            Hint::wake(),
        ] {
            assert!(hints.add(id, hint, 1));
        }
        assert!(!hints.add(StreamId::from_bytes([2; 16]), Hint::trim(1), 1), "there is room for one stream");
        let expected =
            Hint { generation: 2, delivered: 5, trim: 3, keep: Duration::from_secs(2), wake: true };
        assert_eq!(hints.take(id), Some(expected));
        assert_eq!(hints.take(id), None);
    }
}
