//! What a memory store may hold.

/// Bounds of a [`MemoryStore`](super::MemoryStore). What happens at each of them stands with it.
///
/// The bounds of one stream come with it ([`NewStream`](crate::NewStream)); these are for all of them together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// The most streams, open and sealed. At the bound sealed ones are evicted, the oldest seal first; where all are open,
    /// `create` is refused. Default 1,000,000.
    pub streams: u64,
    /// The most bytes of events over all streams: payloads, and [`EVENT_OVERHEAD`](Self::EVENT_OVERHEAD) for each. At the
    /// bound sealed streams are evicted, the oldest seal first; where that is not enough, droppable events are refused at
    /// once, and what must be kept is refused at twice the bound. Default 1 GiB.
    pub bytes: u64,
    /// The most bytes of payload in one event. A larger one is refused, whatever it is: the writer replaces it by an error
    /// that says so. Default 16 MiB.
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

impl MemoryLimits {
    /// What an event or a letter costs beside its payload, in bytes: its place in the log, and the count of those who hold
    /// the payload.
    pub const EVENT_OVERHEAD: u64 = 56;
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            streams: 1_000_000,
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
