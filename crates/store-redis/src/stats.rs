//! What the store counts.

use bowline_store::Figure;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that several tasks change. Only its own value matters, never its order with others.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commands: Count,
    pub(crate) failures: Count,
    pub(crate) reconnects: Count,
    pub(crate) breaker_opens: Count,
    pub(crate) wakeups: Count,
    pub(crate) listens: Count,
    pub(crate) subscriptions: Count,
    pub(crate) hints_dropped: Count,
    pub(crate) events_dropped: Count,
    pub(crate) refused: Count,
    pub(crate) events_resent: Count,
    pub(crate) streams_lost: Count,
    pub(crate) holes: Count,
    pub(crate) tail_bytes: Count,
}

impl Counts {
    /// The same with names and explanations. What Redis holds is for its own monitoring to tell.
    pub(crate) fn figures(&self, connected: bool) -> Vec<Figure> {
        let counter = Figure::counter;
        let gauge = Figure::gauge;
        vec![
            gauge("store_redis_connected", "Whether there is a connection to Redis.", connected.into()),
            counter("store_redis_commands", "Actions sent to Redis.", self.commands.get()),
            counter(
                "store_redis_failures",
                "Actions that failed or had no answer in time.",
                self.failures.get(),
            ),
            counter(
                "store_redis_reconnects",
                "Connections to Redis that were made anew.",
                self.reconnects.get(),
            ),
            counter(
                "store_redis_breaker_opens",
                "Times that the circuit breaker opened.",
                self.breaker_opens.get(),
            ),
            counter("store_redis_wakeups", "Wake-ups that came from other backends.", self.wakeups.get()),
            counter("store_redis_listens", "Connections for wake-ups that were made.", self.listens.get()),
            gauge("store_subscriptions", "Readers that wait for news of a stream.", self.subscriptions.get()),
            counter("store_redis_hints_dropped", "Hints that were not sent.", self.hints_dropped.get()),
            counter(
                "store_events_dropped",
                "Progress and log messages that found no room in the store.",
                self.events_dropped.get(),
            ),
            counter(
                "store_refused",
                "Streams, sessions, letters and messages to be kept that found no room in the store.",
                self.refused.get(),
            ),
            counter(
                "store_redis_events_resent",
                "Messages that Redis had lost and that were appended again.",
                self.events_resent.get(),
            ),
            counter(
                "store_redis_streams_lost",
                "Streams that Redis lost messages of that nobody remembered.",
                self.streams_lost.get(),
            ),
            counter(
                "store_redis_holes",
                "Reads that were refused for a hole in the stream.",
                self.holes.get(),
            ),
            gauge(
                "store_redis_tail_bytes",
                "Bytes of messages that are remembered in case Redis loses them.",
                self.tail_bytes.get(),
            ),
        ]
    }
}
