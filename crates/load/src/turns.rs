//! One worker's turns: one thing after another, until its share of a plan is done.

use crate::{LoadError, Outcome, Plan};
use tokio::time::Instant;

/// Gives up on a worker that fails this often without a success in between: nothing is learned from more of it.
pub(crate) const MAX_FAILURES_IN_A_ROW: u32 = 20;

/// What each of several workers has of a plan that begins now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    until: Instant,
    most: u64,
}

impl Share {
    pub(crate) fn of(plan: Plan, workers: usize) -> Self {
        Self { until: Instant::now() + plan.time, most: plan.most.div_ceil(workers.max(1) as u64) }
    }
}

/// How far a worker is, and what came of it.
pub(crate) struct Turns {
    share: Share,
    began: Instant,
    /// When the last one ended.
    now: Instant,
    failures_in_a_row: u32,
    outcome: Outcome,
}

impl Turns {
    /// The first turn begins now.
    pub(crate) fn begin(share: Share) -> Self {
        let began = Instant::now();
        Self { share, began, now: began, failures_in_a_row: 0, outcome: Outcome::default() }
    }

    /// Whether there is another one.
    pub(crate) fn go_on(&self) -> bool {
        self.now < self.share.until
            && self.outcome.done < self.share.most
            && self.failures_in_a_row < MAX_FAILURES_IN_A_ROW
    }

    /// How many were done.
    pub(crate) const fn done(&self) -> u64 {
        self.outcome.done
    }

    /// Counts events that a turn brought.
    pub(crate) const fn add_events(&mut self, events: u64) {
        self.outcome.events += events;
    }

    /// A turn has ended; the next one begins. Returns what it brought, if it did not fail.
    pub(crate) fn end<T>(&mut self, turn: Result<T, LoadError>) -> Option<T> {
        let after = Instant::now();
        let took = after - std::mem::replace(&mut self.now, after);
        match turn {
            Ok(brought) => {
                self.outcome.done += 1;
                self.outcome.latency.add(took);
                self.failures_in_a_row = 0;
                Some(brought)
            }
            Err(error) => {
                self.outcome.fail(&error);
                self.failures_in_a_row += 1;
                None
            }
        }
    }

    /// What came of all of them.
    pub(crate) fn over(self) -> Outcome {
        Outcome { time: self.now - self.began, ..self.outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FAILED: Result<(), LoadError> = Err(LoadError::Malformed("no answer"));

    fn plan(most: u64) -> Plan {
        Plan::new(2, Duration::from_secs(10)).at_most(most)
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_ends_when_its_share_is_done_or_the_time_is_over() {
        let mut turns = Turns::begin(Share::of(plan(5), 2));
        for _ in 0..3 {
            assert!(turns.go_on());
            assert_eq!(turns.end(Ok("brought")), Some("brought"));
        }
        assert!(!turns.go_on(), "half of five, rounded up");
        let mut turns = Turns::begin(Share::of(plan(u64::MAX), 2));
        for passed in 1..=5 {
            assert!(turns.go_on());
            tokio::time::sleep(Duration::from_secs(2)).await;
            // A failure takes its time too.
            turns.end(if passed == 2 { FAILED } else { Ok(()) });
        }
        assert!(!turns.go_on());
        let outcome = turns.over();
        assert_eq!((outcome.done, outcome.failed), (4, 1));
        assert_eq!(outcome.time.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_only_fails_is_given_up() {
        let mut turns = Turns::begin(Share::of(plan(u64::MAX), 1));
        for _ in 1..MAX_FAILURES_IN_A_ROW {
            turns.end(FAILED);
        }
        assert!(turns.go_on());
        turns.end(Ok(()));
        for _ in 0..MAX_FAILURES_IN_A_ROW {
            assert!(turns.go_on());
            turns.end(FAILED);
        }
        assert!(!turns.go_on());
    }
}
