//! What a store counts.

use crate::tx::Totals;
use bowline_store::Figure;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened in this process since it opened the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) streams_evicted: u64,
    pub(crate) events_evicted: u64,
    pub(crate) events_dropped: u64,
    pub(crate) refused: u64,
    pub(crate) tombstones_evicted: u64,
}

impl Happened {
    pub(crate) const fn add(&mut self, other: Self) {
        self.streams_evicted += other.streams_evicted;
        self.events_evicted += other.events_evicted;
        self.events_dropped += other.events_dropped;
        self.refused += other.refused;
        self.tombstones_evicted += other.tombstones_evicted;
    }
}

/// A number that several threads change. Only its own value matters, never its order with others.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// As of the last commit that this process made or looked at.
    held: Mutex<(Totals, Happened)>,
    pub(crate) commits: Count,
    pub(crate) changes: Count,
    pub(crate) largest_batch: Count,
    pub(crate) commit_micros: Count,
    pub(crate) wait_micros: Count,
    pub(crate) failed: Count,
    pub(crate) timed_out: Count,
    pub(crate) reads: Count,
    pub(crate) foreign_wakes: Count,
    pub(crate) file_bytes: Count,
    pub(crate) log_bytes: Count,
}

impl Counts {
    /// Notes what the file holds now, and what happened on the way.
    pub(crate) fn note(&self, totals: Totals, happened: Happened) {
        let mut held = self.held.lock();
        held.0 = totals;
        held.1.add(happened);
    }

    pub(crate) fn totals(&self) -> Totals {
        self.held.lock().0
    }

    pub(crate) fn figures(&self, queued: u64, subscriptions: u64) -> Vec<Figure> {
        let (totals, happened) = *self.held.lock();
        let open = totals.streams.saturating_sub(totals.sealed);
        let gauge = Figure::gauge;
        let counter = Figure::counter;
        vec![
            gauge("store_streams_open", "Streams in the store that are not sealed.", open),
            gauge("store_streams_sealed", "Sealed streams in the store.", totals.sealed),
            gauge("store_events", "Messages in the streams of the store.", totals.events),
            gauge("store_bytes", "Bytes of the messages in the streams of the store.", totals.bytes),
            gauge("store_sessions", "Session records in the store.", totals.sessions),
            gauge("store_tombstones", "Ended sessions that the store remembers.", totals.tombstones),
            gauge("store_mailboxes", "Mailboxes of calls in the store.", totals.mailboxes),
            gauge("store_letter_bytes", "Bytes of letters in the mailboxes.", totals.letter_bytes),
            gauge("store_subscriptions", "Readers that wait for news of a stream.", subscriptions),
            gauge("store_queue", "Changes that wait for the committer of the store file.", queued),
            gauge("store_file_bytes", "Bytes of the store file.", self.file_bytes.get()),
            gauge("store_log_bytes", "Bytes of the write-ahead log of the store file.", self.log_bytes.get()),
            gauge("store_batch_largest", "The most changes in one commit so far.", self.largest_batch.get()),
            counter("store_commits", "Commits to the store file.", self.commits.get()),
            counter("store_changes", "Changes in the commits to the store file.", self.changes.get()),
            counter("store_commit_micros", "Microseconds spent in commits.", self.commit_micros.get()),
            counter(
                "store_wait_micros",
                "Microseconds that changes waited from their call to their answer.",
                self.wait_micros.get(),
            ),
            counter("store_reads", "Reads of the store file.", self.reads.get()),
            counter(
                "store_commits_failed",
                "Commits that failed; nothing of them is there.",
                self.failed.get(),
            ),
            counter(
                "store_timeouts",
                "Calls of the store that were given up after the time that they may take.",
                self.timed_out.get(),
            ),
            counter(
                "store_foreign_wakes",
                "Changes by another process that was noticed in the store file.",
                self.foreign_wakes.get(),
            ),
            counter(
                "store_streams_evicted",
                "Sealed streams that made room for others before their time.",
                happened.streams_evicted,
            ),
            counter(
                "store_events_evicted",
                "Messages of standalone streams that made room for newer ones.",
                happened.events_evicted,
            ),
            counter(
                "store_events_dropped",
                "Progress and log messages that found no room in the store.",
                happened.events_dropped,
            ),
            counter(
                "store_refused",
                "Streams, sessions, letters and messages to be kept that found no room in the store.",
                happened.refused,
            ),
            counter(
                "store_tombstones_evicted",
                "Ended sessions that were forgotten before their time to make room.",
                happened.tombstones_evicted,
            ),
        ]
    }
}
