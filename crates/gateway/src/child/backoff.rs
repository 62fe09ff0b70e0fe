//! When to start a process again. Pure: time and jitter are arguments.

use std::time::{Duration, Instant};

/// Numbers of a [`Backoff`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffPolicy {
    /// Pause before the second restart; the first is at once. Default 1 s.
    pub first: Duration,
    /// Longest pause. Default 30 s.
    pub longest: Duration,
    /// A process that lived this long is taken as healthy: its crash starts the count anew. Default 60 s.
    pub stable: Duration,
    /// From this many crashes in a row, each within `stable`, the process is crash looping. Default 5.
    pub crash_loop: u32,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            stable: Duration::from_secs(60),
            crash_loop: 5,
        }
    }
}

/// Restart pauses of one process: at once, then `first` doubling up to `longest`.
#[derive(Debug, Clone)]
pub struct Backoff {
    policy: BackoffPolicy,
    crashes: u32,
    started: Option<Instant>,
}

/// Jitter spreads a pause over this share of it.
const SPREAD: f64 = 0.2;

impl Backoff {
    /// A process that was never started.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, crashes: 0, started: None }
    }

    /// The process was started.
    pub fn started(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// The process ended, or could not be started. Returns how long to wait before the next start: never less than the
    /// pause of this step (but for the last fifth of `longest`), never more than `longest`. `jitter` is a random
    /// number from 0 to 1; values outside are clamped.
    pub fn ended(&mut self, now: Instant, jitter: f64) -> Duration {
        if self.is_stable(now) {
            self.crashes = 0;
        }
        self.started = None;
        self.crashes = self.crashes.saturating_add(1);
        if self.crashes == 1 {
            return Duration::ZERO;
        }
        let doublings = (self.crashes - 2).min(31);
        let step = self.policy.first.saturating_mul(1 << doublings).min(self.policy.longest);
        // Fleets that crashed together must not come back together, also at the longest pause.
        let low = step.min(self.policy.longest.saturating_sub(step.mul_f64(SPREAD)));
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
        (low + step.mul_f64(SPREAD * jitter)).min(self.policy.longest)
    }

    /// Whether the process keeps crashing: what turns readiness off.
    pub fn crash_looping(&self, now: Instant) -> bool {
        self.crashes >= self.policy.crash_loop && !self.is_stable(now)
    }

    fn is_stable(&self, now: Instant) -> bool {
        self.started.is_some_and(|at| now.saturating_duration_since(at) >= self.policy.stable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn at_once_then_doubling_to_the_longest() {
        let (now, mut backoff) = (now(), Backoff::new(BackoffPolicy::default()));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            backoff.started(now);
            pauses.push(backoff.ended(now, 0.0).as_secs_f64());
        }
        assert_eq!(pauses, [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 24.0, 24.0]);
        assert_eq!(backoff.ended(now, 1.0), Duration::from_secs(30));
    }

    #[test]
    fn a_stable_minute_forgives() {
        let (start, mut backoff) = (now(), Backoff::new(BackoffPolicy::default()));
        for _ in 0..5 {
            assert!(!backoff.crash_looping(start));
            backoff.started(start);
            backoff.ended(start + Duration::from_secs(59), 0.5);
        }
        assert!(backoff.crash_looping(start));
        backoff.started(start);
        assert!(backoff.crash_looping(start + Duration::from_secs(59)));
        let later = start + Duration::from_secs(60);
        assert!(!backoff.crash_looping(later));
        assert_eq!(backoff.ended(later, 0.5), Duration::ZERO);
        assert!(!backoff.crash_looping(later));
    }

    #[test]
    fn failed_starts_count_as_crashes() {
        let (now, mut backoff) =
            (now(), Backoff::new(BackoffPolicy { crash_loop: 2, ..BackoffPolicy::default() }));
        backoff.ended(now, 0.0);
        backoff.ended(now, 0.0);
        assert!(backoff.crash_looping(now));
    }

    proptest! {
        /// At most one start a second after the first restart, whatever the jitter.
        #[test]
        fn pauses_stay_in_bounds(jitters in proptest::collection::vec(any::<f64>(), 1..80)) {
            let (now, mut backoff) = (now(), Backoff::new(BackoffPolicy::default()));
            for (n, jitter) in jitters.into_iter().enumerate() {
                let pause = backoff.ended(now, jitter);
                prop_assert!(pause <= Duration::from_secs(30));
                prop_assert!(n == 0 || pause >= Duration::from_secs(1));
            }
        }
    }
}
