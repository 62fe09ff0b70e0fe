//! The store that keeps everything in the memory of one process.
//!
//! Every answer is there at once: nothing waits, nothing is spawned, and a stream, a session, a box is data and nothing
//! else. Time to live is kept lazily (what is past its time reads as gone) and freed by [`MemoryStore::sweep`].

mod events;
mod expiring;
mod keys;
mod leases;
mod limits;
mod log;
mod mailboxes;
mod order;
mod sessions;
mod stats;
mod streams;
mod waiters;

pub use limits::MemoryLimits;
pub use stats::{MemoryStats, Swept};

use crate::{BackendId, Spread};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;
use expiring::{Expiring, Origin};
use log::Log;
use mailboxes::LetterBox;
use order::Order;
use parking_lot::{Mutex, MutexGuard};
use sessions::Entry;
use stats::Counts;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use waiters::Waiter;

/// How many shards there are: a power of two, well above the number of cores, so that two callers seldom meet.
const SHARDS: usize = 64;

/// How much a write that found no room may sweep before it is refused.
const SWEEP_FOR_ROOM: usize = 1_024;

/// How much is swept under one lock: what expired together must not hold up the callers of its shard.
const SWEEP_AT_ONCE: usize = 256;

/// Keeps everything in memory, within [`MemoryLimits`]. Clones share one store.
///
/// - A call locks one of 64 shards at a time, and never while it waits.
/// - A payload of more than 256 bytes is kept once and shared with its readers. Hand over payloads that are buffers of their own: a slice
///   of a large buffer keeps all of that buffer. Smaller ones are copied.
/// - At a bound, sealed streams go before anything that is still open; [`MemoryStats`] counts them.
/// - Call [`sweep`](Self::sweep) every second or so. Without it nothing is wrong, but memory is freed only under pressure.
///
/// A full mailbox is reported as [`Unavailable`](crate::Unavailable), with the bound that was met in its text: the client may try again.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    shards: Box<[Mutex<Shard>]>,
    leases: Mutex<Expiring<BackendId, bool>>,
    watch: Mutex<leases::Watch>,
    /// How many unsealed call streams each backend owns; none where it owns none.
    owners: Mutex<HashMap<BackendId, u64, Spread>>,
    keys: Mutex<Vec<Bytes>>,
    /// Sealed streams, the oldest seal first.
    seals: Order<StreamId>,
    /// Tombstones, the oldest first.
    graves: Order<Arc<str>>,
    limits: MemoryLimits,
    counts: Counts,
    origin: Origin,
    /// Where the next sweep starts, so that a small budget reaches every shard in time.
    next_sweep: AtomicUsize,
}

struct Shard {
    streams: Expiring<StreamId, Log>,
    sessions: Expiring<Arc<str>, Entry>,
    mailboxes: Expiring<StreamId, LetterBox>,
    /// Only streams that somebody waits for.
    waiters: HashMap<StreamId, Waiter, Spread>,
}

impl MemoryStore {
    /// An empty store. Its time is `tokio::time`, so it follows a paused clock.
    #[must_use]
    pub fn new(limits: MemoryLimits) -> Self {
        let shards = (0..SHARDS)
            .map(|_| {
                Mutex::new(Shard {
                    streams: Expiring::new(),
                    sessions: Expiring::new(),
                    mailboxes: Expiring::new(),
                    waiters: HashMap::default(),
                })
            })
            .collect();
        Self {
            inner: Arc::new(Inner {
                shards,
                leases: Mutex::new(Expiring::new()),
                watch: Mutex::default(),
                owners: Mutex::default(),
                keys: Mutex::default(),
                seals: Order::new(),
                graves: Order::new(),
                limits,
                counts: Counts::default(),
                origin: Origin::new(),
                next_sweep: AtomicUsize::new(0),
            }),
        }
    }

    /// Frees what is past its time, at most `budget` entries of it and 256 of one shard. Costs as much as it
    /// frees, not as much as there is. [`Swept::more`] says whether to call it again at once.
    pub fn sweep(&self, budget: usize) -> Swept {
        self.inner.sweep(budget)
    }

    /// What is held, and what became of the rest.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.inner.counts.stats()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Inner {
    fn shard(&self, stream: StreamId) -> MutexGuard<'_, Shard> {
        self.shard_of(stream.as_bytes())
    }

    /// The shard of a key. Keys are made by servers at random, so all of their bytes may speak.
    fn shard_of(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let hash = key.iter().fold(0_usize, |hash, byte| hash.rotate_left(5) ^ usize::from(*byte));
        let folded = hash ^ (hash >> 6) ^ (hash >> 12) ^ (hash >> 24);
        self.shards[folded % SHARDS].lock()
    }

    /// Makes some room, by what nobody needs any more. Returns whether there was any such thing.
    fn make_room(&self) -> bool {
        self.evict_oldest_seal() || self.sweep(SWEEP_FOR_ROOM).total() > 0
    }

    fn sweep(&self, budget: usize) -> Swept {
        let now = self.origin.now();
        let mut swept = Swept::default();
        let mut budget = budget;
        drain(&mut self.leases.lock(), now, &mut budget, |_, _| swept.leases += 1);
        let start = self.next_sweep.fetch_add(1, Relaxed);
        for index in 0..SHARDS {
            let mut guard = self.shards[start.wrapping_add(index) % SHARDS].lock();
            let shard = &mut *guard;
            let granted = budget.min(SWEEP_AT_ONCE);
            let mut left = granted;
            let wakers = self.sweep_streams(shard, now, &mut left, &mut swept);
            drain(&mut shard.sessions, now, &mut left, |_, entry| {
                match entry {
                    Entry::Live(..) => swept.sessions += 1,
                    Entry::Ended(_) => swept.tombstones += 1,
                }
                self.forget_session(&entry);
            });
            drain(&mut shard.mailboxes, now, &mut left, |_, letters| {
                swept.mailboxes += 1;
                self.forget_letters(&letters);
            });
            drop(guard);
            budget -= granted - left;
            swept.more |= left == 0;
            wakers.iter().for_each(waiters::wake);
        }
        swept
    }
}

/// Frees what ended of one map, as long as something of the budget is left.
fn drain<K: Eq + std::hash::Hash, V>(
    map: &mut Expiring<K, V>,
    now: expiring::Millis,
    left: &mut usize,
    mut freed: impl FnMut(K, V),
) {
    while *left > 0
        && let Some((key, value)) = map.pop(now)
    {
        freed(key, value);
        *left -= 1;
    }
}

#[cfg(test)]
mod tests;
