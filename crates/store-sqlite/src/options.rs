//! What a store is opened with.

use crate::{Clock, SystemClock};
use std::{fmt, sync::Arc, time::Duration};

/// How durable a change is when it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: it survives a power failure (`synchronous=FULL`, one `fsync` for each commit; on macOS with
    /// `F_FULLFSYNC`).
    #[default]
    Full,
    /// With the operating system: it survives a crash or kill of every process, but a power failure may take the last seconds
    /// (`synchronous=NORMAL`, `fsync` at checkpoints only). The file stays consistent in any case.
    Os,
}

/// How a store works, and its bounds. Start from the default.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// When a change counts as done. Default [`Durability::Full`].
    pub durability: Durability,
    /// What the file may hold.
    pub limits: Limits,
    /// The most bytes of the file, without its write-ahead log. At the bound writes answer `Unavailable` until something was freed.
    /// A file that is larger already keeps its size. Rounded down to pages of 4 KiB. Default 8 GiB.
    pub file_bytes: u64,
    /// How long an operation may take, with its time in the queue and the wait for another process; then it answers `Unavailable`.
    /// Default 5 s.
    pub patience: Duration,
    /// The most changes, and the most reads, that wait for a thread. What comes then waits for a place, within `patience`. At least 1.
    /// Default 4,096.
    pub queue: usize,
    /// The most bytes of payload that wait for the committer. A single larger one is let through alone. Default 64 MiB.
    pub queue_bytes: usize,
    /// The most changes in one commit. At least 1. Default 512.
    pub batch: usize,
    /// The most bytes of payload in one commit, beside the last one that was taken. Default 8 MiB.
    pub batch_bytes: usize,
    /// How many threads read. At least 1. Default 2.
    pub readers: usize,
    /// How often the file is looked at for changes by another process, while somebody waits for changes. Changes by this process
    /// are told at once. Default 25 ms.
    pub wake_interval: Duration,
    /// How long hints (`delivered`, `trim`, `keep`) are collected before they are written. Default 100 ms.
    pub hint_delay: Duration,
    /// Where time comes from. Default [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            limits: Limits::default(),
            file_bytes: 8 << 30,
            patience: Duration::from_secs(5),
            queue: 4_096,
            queue_bytes: 64 << 20,
            batch: 512,
            batch_bytes: 8 << 20,
            readers: 2,
            wake_interval: Duration::from_millis(25),
            hint_delay: Duration::from_millis(100),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("durability", &self.durability)
            .field("limits", &self.limits)
            .field("file_bytes", &self.file_bytes)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Bounds of what the file holds; they count for all processes together. What happens at each of them stands with it.
///
/// The bounds of one stream come with it (`NewStream`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The most streams, open and sealed. At the bound sealed ones are evicted, the oldest seal first; where all are open,
    /// `create` is refused. Default 1,000,000.
    pub streams: u64,
    /// The most events over all streams. At the bound as with `bytes`. Default 10,000,000.
    pub events: u64,
    /// The most bytes of events over all streams: payloads, and [`EVENT_OVERHEAD`](Self::EVENT_OVERHEAD) for each. At the
    /// bound sealed streams are evicted, the oldest seal first; where that is not enough, droppable events are refused at
    /// once, and what must be kept is refused at twice the bound. Default 1 GiB.
    pub bytes: u64,
    /// The most bytes of payload in one event. A larger one is refused, whatever it is. Default 16 MiB.
    pub event_bytes: u64,
    /// The most living sessions. At the bound a new one is refused. Default 1,000,000.
    pub sessions: u64,
    /// The most tombstones of ended sessions. At the bound the oldest makes room. Default 100,000.
    pub tombstones: u64,
    /// The most mailboxes. At the bound a letter for one more is refused. Default 1,000,000.
    pub mailboxes: u64,
    /// The most letters in one box. At the bound one more is refused. Default 1,000.
    pub letters: u64,
    /// The most bytes in one box: keys, payloads, and [`EVENT_OVERHEAD`](Self::EVENT_OVERHEAD) for each letter. At the bound
    /// one more letter is refused. Default 32 MiB.
    pub letter_bytes: u64,
    /// The most bytes over all boxes, counted as in `letter_bytes`. Default 256 MiB.
    pub all_letter_bytes: u64,
}

impl Limits {
    /// What an event or a letter costs beside its payload, in bytes: the rest of its row, and its place in an index.
    pub const EVENT_OVERHEAD: u64 = 56;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 1_000_000,
            events: 10_000_000,
            bytes: 1 << 30,
            event_bytes: 16 << 20,
            sessions: 1_000_000,
            tombstones: 100_000,
            mailboxes: 1_000_000,
            letters: 1_000,
            letter_bytes: 32 << 20,
            all_letter_bytes: 256 << 20,
        }
    }
}
