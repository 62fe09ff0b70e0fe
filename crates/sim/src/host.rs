//! A process of the simulation: it runs, sleeps, or is dead, and with it everything that it started.

use bowline_server::simulation::{Admission, Host};
use parking_lot::Mutex;
use std::{collections::BTreeMap, task::Waker};
use tokio::time::Instant;

/// The time at which every run begins, in milliseconds since 1970.
const BEGIN_UNIX_MS: u64 = 1_800_000_000_000;

/// One incarnation of one backend.
pub(crate) struct Process {
    /// Which backend it is.
    pub(crate) backend: usize,
    /// Which of its incarnations, from 1.
    pub(crate) incarnation: u32,
    /// What its wall clock shows more than it should; clocks of hosts differ.
    skew_ms: i64,
    origin: Instant,
    state: Mutex<State>,
}

struct State {
    admission: Admission,
    next: u64,
    /// The tasks that live, in the order in which they began.
    tasks: BTreeMap<u64, Option<Waker>>,
}

impl Process {
    /// A process that runs. `origin` is when the simulation began.
    #[must_use]
    pub(crate) fn new(backend: usize, incarnation: u32, skew_ms: i64, origin: Instant) -> Self {
        let state = State { admission: Admission::Runs, next: 0, tasks: BTreeMap::new() };
        Self { backend, incarnation, skew_ms, origin, state: Mutex::new(state) }
    }

    /// What it is like now.
    #[must_use]
    pub(crate) fn admission(&self) -> Admission {
        self.state.lock().admission
    }

    /// Stops, wakes or kills it. Who is dead stays so.
    pub(crate) fn set(&self, admission: Admission) {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            if state.admission == Admission::Dead {
                return;
            }
            state.admission = admission;
            state.tasks.values().flatten().cloned().collect()
        };
        if admission != Admission::Sleeps {
            wakers.iter().for_each(Waker::wake_by_ref);
        }
    }
}

impl Host for Process {
    fn admit(&self, task: u64, waker: &Waker) -> Admission {
        let mut state = self.state.lock();
        match state.tasks.get_mut(&task) {
            Some(Some(known)) if known.will_wake(waker) => {}
            Some(place) => *place = Some(waker.clone()),
            None => {}
        }
        state.admission
    }

    fn begin(&self) -> u64 {
        let mut state = self.state.lock();
        state.next += 1;
        let task = state.next;
        state.tasks.insert(task, None);
        task
    }

    fn end(&self, task: u64) {
        self.state.lock().tasks.remove(&task);
    }

    fn unix_ms(&self) -> u64 {
        let passed = Instant::now().duration_since(self.origin).as_millis() as u64;
        (BEGIN_UNIX_MS + passed).saturating_add_signed(self.skew_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_server::simulation::hosted;
    use std::{sync::Arc, time::Duration};

    struct Dropped(Arc<Mutex<bool>>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            *self.0.lock() = true;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_sleeps_through_its_timers_and_dies_with_what_it_holds() {
        let process = Arc::new(Process::new(0, 1, 0, Instant::now()));
        let (ticks, dropped) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(false)));
        let (counted, held) = (ticks.clone(), Dropped(dropped.clone()));
        tokio::spawn(hosted(process.clone(), async move {
            let _held = held;
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                *counted.lock() += 1;
            }
        }));
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(*ticks.lock(), 3);
        process.set(Admission::Sleeps);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(*ticks.lock(), 3);
        process.set(Admission::Runs);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(*ticks.lock(), 4, "the timer that had passed");
        process.set(Admission::Dead);
        process.set(Admission::Runs);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((*ticks.lock(), *dropped.lock()), (4, true));
    }
}
