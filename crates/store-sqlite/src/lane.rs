//! A bounded queue from tasks to threads.

use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What waits for a thread. Tasks wait for a place in it without blocking; threads wait for work.
pub(crate) struct Lane<J> {
    state: Mutex<State<J>>,
    ready: Condvar,
    places: Arc<Semaphore>,
    /// One permit for each byte.
    bytes: Arc<Semaphore>,
    all_bytes: u32,
}

struct State<J> {
    queue: VecDeque<Queued<J>>,
    /// Whether somebody asked for a look although nothing is queued.
    nudged: bool,
    closed: bool,
}

/// Something with its places in the lane, which become free when it is dropped.
pub(crate) struct Queued<J> {
    pub(crate) job: J,
    pub(crate) bytes: usize,
    _place: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// A place in a lane.
pub(crate) struct Place {
    bytes: usize,
    place: OwnedSemaphorePermit,
    held: Option<OwnedSemaphorePermit>,
}

/// What a thread came back with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<T> {
    Work(T),
    /// Nobody came in the given time, or somebody nudged.
    Idle,
    /// The lane is closed and empty.
    Closed,
}

impl<J> Lane<J> {
    /// A lane with so many places and bytes, at least one each.
    pub(crate) fn new(places: usize, bytes: usize) -> Self {
        let all_bytes = u32::try_from(bytes.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self {
            state: Mutex::new(State { queue: VecDeque::new(), nudged: false, closed: false }),
            ready: Condvar::new(),
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            bytes: Arc::new(Semaphore::new(usize::try_from(all_bytes).unwrap_or(usize::MAX))),
            all_bytes,
        }
    }

    /// Waits for a place; `None` when the lane was closed.
    pub(crate) async fn place(&self, bytes: usize) -> Option<Place> {
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let held = match u32::try_from(bytes).unwrap_or(u32::MAX).min(self.all_bytes) {
            0 => None,
            count => Some(Arc::clone(&self.bytes).acquire_many_owned(count).await.ok()?),
        };
        Some(Place { bytes, place, held })
    }

    /// Queues something. Where the lane was closed it is dropped.
    pub(crate) fn push(&self, place: Place, job: J) {
        let mut state = self.state.lock();
        if !state.closed {
            let Place { bytes, place, held } = place;
            state.queue.push_back(Queued { job, bytes, _place: place, _bytes: held });
            self.ready.notify_one();
        }
    }

    /// Has a waiting thread look up.
    pub(crate) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.ready.notify_one();
    }

    /// Lets nothing in any more. What is queued is still handed out.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.places.close();
        self.bytes.close();
        self.ready.notify_all();
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Takes one, waiting for at most `patience` where there is none.
    pub(crate) fn take_one(&self, patience: Option<Duration>) -> Turn<Queued<J>> {
        match self.take(1, 0, patience) {
            Turn::Work(mut jobs) => jobs.pop().map_or(Turn::Idle, Turn::Work),
            Turn::Idle => Turn::Idle,
            Turn::Closed => Turn::Closed,
        }
    }

    /// Takes up to `count`, until they are `bytes` together, waiting for at most `patience` where there is none.
    pub(crate) fn take(
        &self,
        count: usize,
        bytes: usize,
        patience: Option<Duration>,
    ) -> Turn<Vec<Queued<J>>> {
        let mut state = self.state.lock();
        while state.queue.is_empty() {
            if state.closed {
                return Turn::Closed;
            }
            if std::mem::take(&mut state.nudged) {
                return Turn::Idle;
            }
            match patience {
                None => self.ready.wait(&mut state),
                Some(patience) => {
                    if self.ready.wait_for(&mut state, patience).timed_out() && state.queue.is_empty() {
                        return if state.closed { Turn::Closed } else { Turn::Idle };
                    }
                }
            }
        }
        let mut taken = Vec::new();
        let mut size = 0;
        while let Some(job) = state.queue.pop_front() {
            size += job.bytes;
            taken.push(job);
            if taken.len() >= count || size >= bytes {
                break;
            }
        }
        Turn::Work(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));

    fn taken(turn: Turn<Vec<Queued<u32>>>) -> Turn<Vec<u32>> {
        match turn {
            Turn::Work(jobs) => Turn::Work(jobs.into_iter().map(|queued| queued.job).collect()),
            Turn::Idle => Turn::Idle,
            Turn::Closed => Turn::Closed,
        }
    }

    #[tokio::test]
    async fn a_batch_ends_at_its_count_and_at_its_bytes() {
        let lane = Lane::new(10, 1_000);
        for (job, bytes) in [(1, 10), (2, 10), (3, 100), (4, 0), (5, 0)] {
            lane.push(lane.place(bytes).await.unwrap(), job);
        }
        assert_eq!(taken(lane.take(10, 50, SOON)), Turn::Work(vec![1, 2, 3]));
        assert_eq!(taken(lane.take(1, 50, SOON)), Turn::Work(vec![4]));
        assert_eq!(lane.len(), 1);
        assert_eq!(taken(lane.take(9, 50, SOON)), Turn::Work(vec![5]));
        assert_eq!(taken(lane.take(9, 50, SOON)), Turn::Idle);
    }

    #[tokio::test]
    async fn places_and_bytes_are_bounded_until_what_took_them_is_done() {
        let lane = Lane::new(2, 100);
        lane.push(lane.place(100).await.unwrap(), 1);
        assert!(tokio::time::timeout(Duration::from_millis(5), lane.place(1)).await.is_err(), "bytes");
        lane.push(lane.place(0).await.unwrap(), 2);
        let full = || tokio::time::timeout(Duration::from_millis(5), lane.place(0));
        assert!(full().await.is_err(), "places");
        let held = lane.take(1, 1, SOON);
        assert!(full().await.is_err(), "still being worked on");
        drop(held);
        assert!(full().await.is_ok());
        // Larger than all of it: let through alone.
        assert!(lane.place(1_000).await.is_some());
    }

    #[tokio::test]
    async fn a_closed_lane_hands_out_what_it_has() {
        let lane = Lane::new(10, 10);
        let late = lane.place(0).await.unwrap();
        lane.push(lane.place(0).await.unwrap(), 1);
        lane.close();
        lane.push(late, 2);
        assert!(lane.place(0).await.is_none());
        assert_eq!(taken(lane.take(9, 9, None)), Turn::Work(vec![1]));
        assert_eq!(taken(lane.take(9, 9, None)), Turn::Closed);
    }
}
