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
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

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
}

/// What a connection is doing.
pub(super) struct Use {
    origin: Instant,
    /// Requests whose answer has not been handed over completely.
    busy: AtomicUsize,
    /// Whether there was any request.
    spoke: AtomicBool,
    /// Since when there is no request, in milliseconds since `origin`.
    quiet: AtomicU64,
    leaving: AtomicBool,
    leave: Notify,
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        let max = u32::try_from(max.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { free: Arc::new(Semaphore::new(max as usize)), max, taken: Arc::default() }
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
            origin: Instant::now(),
            busy: AtomicUsize::new(0),
            spoke: AtomicBool::new(false),
            quiet: AtomicU64::new(0),
            leaving: AtomicBool::new(false),
            leave: Notify::new(),
        });
        self.taken.table.lock().insert(id, used.clone());
        Place { id, used, taken: self.taken.clone(), _free: free }
    }

    /// Makes idle connections leave: about one in a hundred, those first that never said anything, then those that have been quiet
    /// for longest. A connection that is in the middle of a request stays.
    fn displace(&self) {
        let now = Instant::now();
        let mut idle: Vec<_> = self
            .taken
            .table
            .lock()
            .values()
            .filter(|used| !used.is_busy() && !used.leaving.load(Relaxed))
            .map(|used| ((used.spoke.load(Relaxed), used.quiet_since()), used.clone()))
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
        tracing::debug!(count, open_for = ?now.duration_since(idle[0].1.origin), "idle connections make room");
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

    fn quiet_since(&self) -> Instant {
        self.origin + Duration::from_millis(self.quiet.load(Relaxed))
    }
}

/// A request is being answered while this exists.
pub(super) struct Busy(Arc<Use>);

impl Drop for Busy {
    fn drop(&mut self) {
        let quiet = Instant::now().duration_since(self.0.origin).as_millis();
        self.0.quiet.store(u64::try_from(quiet).unwrap_or(u64::MAX), Relaxed);
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
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(places.take().is_none());
        // 0 spoke last and long ago, 1 is being answered, 2 spoke just now, 3 never did.
        drop(four[0].used().request());
        let busy = four[1].used().request();
        tokio::time::advance(Duration::from_secs(1)).await;
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
