//! What a memory store counts.

use crate::Figure;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a [`MemoryStore`](super::MemoryStore) holds, and what became of what it no longer holds.
///
/// Gauges include what has expired and was not yet swept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Gauge: streams that are not sealed.
    pub streams_open: u64,
    /// Gauge: sealed streams.
    pub streams_sealed: u64,
    /// Gauge: events in all streams.
    pub events: u64,
    /// Gauge: bytes of events in all streams, counted as in [`MemoryLimits::bytes`](super::MemoryLimits::bytes).
    pub bytes: u64,
    /// Gauge: living sessions.
    pub sessions: u64,
    /// Gauge: tombstones of ended sessions.
    pub tombstones: u64,
    /// Gauge: mailboxes.
    pub mailboxes: u64,
    /// Gauge: bytes of letters, counted as in [`MemoryLimits::letter_bytes`](super::MemoryLimits::letter_bytes).
    pub letter_bytes: u64,
    /// Gauge: subscriptions to wake-ups.
    pub subscriptions: u64,
    /// Counter: sealed streams that were evicted to make room.
    pub streams_evicted: u64,
    /// Counter: events that standalone streams dropped to make room for newer ones.
    pub events_evicted: u64,
    /// Counter: droppable events that were refused at a bound.
    pub events_dropped: u64,
    /// Counter: events to be kept, seals, streams, sessions and letters that were refused at a bound.
    pub refused: u64,
    /// Counter: tombstones that were dropped before their time to make room.
    pub tombstones_evicted: u64,
}

impl MemoryStats {
    /// The same with names and explanations.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        let Self {
            streams_open,
            streams_sealed,
            events,
            bytes,
            sessions,
            tombstones,
            mailboxes,
            letter_bytes,
            subscriptions,
            streams_evicted,
            events_evicted,
            events_dropped,
            refused,
            tombstones_evicted,
        } = *self;
        vec![
            Figure::gauge("store_streams_open", "Streams in the store that are not sealed.", streams_open),
            Figure::gauge("store_streams_sealed", "Sealed streams in the store.", streams_sealed),
            Figure::gauge("store_events", "Messages in the streams of the store.", events),
            Figure::gauge("store_bytes", "Bytes of the messages in the streams of the store.", bytes),
            Figure::gauge("store_sessions", "Session records in the store.", sessions),
            Figure::gauge("store_tombstones", "Ended sessions that the store remembers.", tombstones),
            Figure::gauge("store_mailboxes", "Mailboxes of calls in the store.", mailboxes),
            Figure::gauge("store_letter_bytes", "Bytes of letters in the mailboxes.", letter_bytes),
            Figure::gauge("store_subscriptions", "Readers that wait for news of a stream.", subscriptions),
            Figure::counter(
                "store_streams_evicted",
                "Sealed streams that made room for others before their time.",
                streams_evicted,
            ),
            Figure::counter(
                "store_events_evicted",
                "Messages of standalone streams that made room for newer ones.",
                events_evicted,
            ),
            Figure::counter(
                "store_events_dropped",
                "Progress and log messages that found no room in the store.",
                events_dropped,
            ),
            Figure::counter(
                "store_refused",
                "Streams, sessions, letters and messages to be kept that found no room in the store.",
                refused,
            ),
            Figure::counter(
                "store_tombstones_evicted",
                "Ended sessions that were forgotten before their time to make room.",
                tombstones_evicted,
            ),
        ]
    }
}

/// What one sweep freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Streams past their time.
    pub streams: usize,
    /// Sessions that nobody used.
    pub sessions: usize,
    /// Tombstones past their time.
    pub tombstones: usize,
    /// Mailboxes past their time.
    pub mailboxes: usize,
    /// Leases that were not renewed.
    pub leases: usize,
    /// Whether a bound of the sweep was met, so that more may be waiting.
    pub more: bool,
}

impl Swept {
    /// Everything that was freed.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.streams + self.sessions + self.tombstones + self.mailboxes + self.leases
    }
}

/// A number that several threads change. Only its own value matters, never its order with others.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(super) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    /// Adds `n` unless the sum would be more than `limit`.
    pub(super) fn reserve(&self, n: u64, limit: u64) -> bool {
        self.0
            .fetch_update(Relaxed, Relaxed, |count| count.checked_add(n).filter(|sum| *sum <= limit))
            .is_ok()
    }
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Open and sealed.
    pub(super) streams: Count,
    pub(super) streams_sealed: Count,
    pub(super) events: Count,
    pub(super) bytes: Count,
    pub(super) sessions: Count,
    pub(super) tombstones: Count,
    pub(super) mailboxes: Count,
    pub(super) letter_bytes: Count,
    pub(super) subscriptions: Count,
    pub(super) streams_evicted: Count,
    pub(super) events_evicted: Count,
    pub(super) events_dropped: Count,
    pub(super) refused: Count,
    pub(super) tombstones_evicted: Count,
}

impl Counts {
    pub(super) fn stats(&self) -> MemoryStats {
        let streams_sealed = self.streams_sealed.get();
        MemoryStats {
            // The two are not read at one instant.
            streams_open: self.streams.get().saturating_sub(streams_sealed),
            streams_sealed,
            events: self.events.get(),
            bytes: self.bytes.get(),
            sessions: self.sessions.get(),
            tombstones: self.tombstones.get(),
            mailboxes: self.mailboxes.get(),
            letter_bytes: self.letter_bytes.get(),
            subscriptions: self.subscriptions.get(),
            streams_evicted: self.streams_evicted.get(),
            events_evicted: self.events_evicted.get(),
            events_dropped: self.events_dropped.get(),
            refused: self.refused.get(),
            tombstones_evicted: self.tombstones_evicted.get(),
        }
    }
}
