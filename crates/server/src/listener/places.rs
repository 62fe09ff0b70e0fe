//! Places for connections, and who has to give one up.

use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How often somebody who waits for a place looks for connections that have become idle.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The places of a listener.
pub(super) struct Places {
    free: Arc<Semaphore>,
    max: u32,
    taken: Arc<Taken>,
}

#[derive(Default)]
struct Taken {
    table: Mutex<HashMap<u64, Arc<Use>>>,
    next: AtomicU64,
    /// Counts [`Places::tick`]: a clock that costs a request nothing to read.
    clock: Arc<AtomicU64>,
}

/// What a connection is doing.
pub(super) struct Use {
    clock: Arc<AtomicU64>,
    /// Requests whose answer has not been handed over completely.
    busy: AtomicUsize,
    /// Whether there was any request.
    spoke: AtomicBool,
    /// Since which tick there is no request.
    quiet: AtomicU64,
    leaving: AtomicBool,
    leave: Notify,
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        let max = u32::try_from(max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(max as usize)), max, taken: Arc::default() }
    }

    /// Says that a second went by.
    pub(super) fn tick(&self) {
        self.taken.clock.fetch_add(1, Relaxed);
    }

    /// A place, if one is free.
    pub(super) fn take(&self) -> Option<Place> {
        self.free.clone().try_acquire_owned().ok().map(|free| self.fill(free))
    }

    /// A place, as soon as there is one: idle connections make room, those included that become idle later.
    pub(super) async fn make_room(&self) -> Place {
        loop {
            self.displace();
            if let Ok(place) = tokio::time::timeout(LOOK_AGAIN, self.wait()).await {
                return place;
            }
        }
    }

    /// A place, as soon as one is free.
    async fn wait(&self) -> Place {
        match self.free.clone().acquire_owned().await {
            Ok(free) => self.fill(free),
            // Nobody closes the semaphore; waiting is what harms nobody.
            Err(_) => std::future::pending().await,
        }
    }

    fn fill(&self, free: OwnedSemaphorePermit) -> Place {
        let id = self.taken.next.fetch_add(1, Relaxed);
        let used = Arc::new(Use {
            clock: self.taken.clock.clone(),
            busy: AtomicUsize::new(0),
            spoke: AtomicBool::new(false),
            quiet: AtomicU64::new(self.taken.clock.load(Relaxed)),
            leaving: AtomicBool::new(false),
            leave: Notify::new(),
        });
        self.taken.table.lock().insert(id, used.clone());
        Place { id, used, taken: self.taken.clone(), _free: free }
    }

    /// Makes idle connections leave: about one in a hundred, those first that never said anything, then those that have been quiet
    /// for longest. A connection that is in the middle of a request stays.
    pub(super) fn displace(&self) {
        let mut idle: Vec<_> = self
            .taken
            .table
            .lock()
            .iter()
            .filter(|(_, used)| !used.is_busy() && !used.leaving.load(Relaxed))
            // Within one tick the oldest first: a new one may be about to speak.
            .map(|(id, used)| ((used.spoke(), used.quiet.load(Relaxed), *id), used.clone()))
            .collect();
        let count = (self.max as usize / 128).max(1).min(idle.len());
        if count == 0 {
            return;
        }
        idle.select_nth_unstable_by_key(count - 1, |(order, _)| *order);
        for (_, used) in &idle[..count] {
            used.leaving.store(true, Relaxed);
            used.leave.notify_one();
        }
        tracing::debug!(count, "idle connections make room");
    }

    /// Waits until nobody has a place.
    pub(super) async fn all_free(&self) {
        let _ = self.free.acquire_many(self.max).await;
    }
}

/// The place of one connection.
pub(super) struct Place {
    id: u64,
    used: Arc<Use>,
    taken: Arc<Taken>,
    _free: OwnedSemaphorePermit,
}

impl Place {
    /// What the connection tells of itself.
    pub(super) const fn used(&self) -> &Arc<Use> {
        &self.used
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.table.lock().remove(&self.id);
    }
}

impl Use {
    /// Notes that a request is being answered, until the guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Relaxed);
        self.spoke.store(true, Relaxed);
        Busy(self.clone())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    /// Whether there was any request.
    pub(super) fn spoke(&self) -> bool {
        self.spoke.load(Relaxed)
    }

    /// Waits until the connection has to leave.
    pub(super) async fn must_leave(&self) {
        self.leave.notified().await;
    }
}

/// A request is being answered while this exists.
pub(super) struct Busy(Arc<Use>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.quiet.store(self.0.clock.load(Relaxed), Relaxed);
        self.0.busy.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(place: &Place) -> bool {
        place.used.leaving.load(Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn who_makes_room() {
        let places = Places::new(4);
        let mut four = Vec::new();
        for _ in 0..4 {
            four.push(places.take().unwrap());
            places.tick();
        }
        assert!(places.take().is_none());
        // 0 spoke last and long ago, 1 is being answered, 2 spoke just now, 3 never did.
        drop(four[0].used().request());
        let busy = four[1].used().request();
        places.tick();
        drop(four[2].used().request());
        let left = || four.iter().map(leaves).collect::<Vec<_>>();
        places.displace();
        assert_eq!(left(), [false, false, false, true]);
        four[3].used().must_leave().await;
        places.displace();
        assert_eq!(left(), [true, false, false, true]);
        places.displace();
        places.displace();
        assert_eq!(left(), [true, false, true, true], "an answer is not cut");
        drop(busy);
        four.pop();
        assert!(places.take().is_some());
        drop(four);
        tokio::time::timeout(Duration::from_secs(1), places.all_free()).await.unwrap();
        assert!(places.taken.table.lock().is_empty());
    }
}
