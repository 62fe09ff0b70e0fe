//! How long a client is told to wait before it polls again: SEMANTICS 5.4 and 5.11.

use crate::time::millis;
use std::time::Duration;

/// The longest wait while a request of ours is unanswered: somebody at the other end has to see the question (SEMANTICS 5.11).
const ASKING_MAX_MS: u64 = 2_000;

/// After how much of a call's age the wait doubles.
const DOUBLES_EVERY_MS: u64 = 60_000;

/// How the `retry` of a stream is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait for a call that has just begun. It doubles with every minute of the call's age.
    pub base: Duration,
    /// What the wait grows to, whether by age or by load; jitter comes on top.
    pub max: Duration,
    /// The operator's own value: told as it is, without growth, jitter, load or floor.
    pub explicit: Option<Duration>,
    /// The longest outage that a restart may cause. Clients commonly give up after two failed polls, so the wait is never
    /// below half of it.
    pub expected_outage: Duration,
}

impl Default for RetryPolicy {
    /// 2 s, growing to 30 s, and an outage of 4 s.
    fn default() -> Self {
        Self {
            base: Duration::from_secs(2),
            max: Duration::from_secs(30),
            explicit: None,
            expected_outage: Duration::from_secs(4),
        }
    }
}

impl RetryPolicy {
    /// The wait in milliseconds to tell a client whose call is `age_of_call` old.
    ///
    /// - `load_percent`: 100 where there is no more load than usual (and for anything below), 200 to double the wait.
    /// - `random`: any 64 bits; they choose a place between 20 % less and 20 % more.
    /// - `asking`: whether a request of ours waits for its answer. Then the wait is at most 2 s, but still not below
    ///   the floor: a client that has given up answers nothing.
    #[must_use]
    pub fn pick(&self, age_of_call: Duration, load_percent: u32, random: u64, asking: bool) -> u32 {
        if let Some(explicit) = self.explicit {
            return u32::try_from(explicit.as_millis()).unwrap_or(u32::MAX);
        }
        let max = millis(self.max);
        // 32 doublings are beyond any maximum that fits into the answer.
        let doublings = (millis(age_of_call) / DOUBLES_EVERY_MS).min(32);
        let grown = millis(self.base).saturating_mul(1 << doublings).min(max);
        let loaded = grown.saturating_mul(u64::from(load_percent.max(100))) / 100;
        let mut wait = jitter(loaded.min(max), random);
        if asking {
            wait = wait.min(ASKING_MAX_MS);
        }
        let floor = millis(self.expected_outage).div_ceil(2);
        u32::try_from(wait.max(floor)).unwrap_or(u32::MAX)
    }
}

/// `wait`, 20 % less to 20 % more.
fn jitter(wait: u64, random: u64) -> u64 {
    let wait = wait.min(u64::from(u32::MAX));
    let span = wait * 2 / 5;
    wait - wait / 5 + random % (span + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(policy: &RetryPolicy, age_s: u64, load: u32, asking: bool) -> (u32, u32) {
        let picks = (0..20_000).map(|random| policy.pick(Duration::from_secs(age_s), load, random, asking));
        picks.fold((u32::MAX, 0), |(low, high), pick| (low.min(pick), high.max(pick)))
    }

    #[test]
    fn doubles_every_minute_up_to_the_maximum_with_jitter_either_way() {
        let policy = RetryPolicy::default();
        // The floor cuts what jitter would take from the first two seconds.
        assert_eq!(range(&policy, 0, 100, false), (2_000, 2_400));
        assert_eq!(range(&policy, 59, 100, false), (2_000, 2_400));
        assert_eq!(range(&policy, 60, 100, false), (3_200, 4_800));
        assert_eq!(range(&policy, 180, 100, false), (12_800, 19_200));
        assert_eq!(range(&policy, 240, 100, false), (24_000, 36_000));
        assert_eq!(range(&policy, 1_000_000_000, 100, false), (24_000, 36_000));
    }

    #[test]
    fn load_raises_it_up_to_the_same_maximum() {
        let policy = RetryPolicy::default();
        assert_eq!(range(&policy, 0, 300, false), (4_800, 7_200));
        assert_eq!(range(&policy, 0, u32::MAX, false), (24_000, 36_000));
        assert_eq!(range(&policy, 0, 0, false), (2_000, 2_400));
    }

    #[test]
    fn a_question_of_ours_is_seen_soon_but_not_at_the_price_of_the_floor() {
        assert_eq!(range(&RetryPolicy::default(), 600, 400, true), (2_000, 2_000));
        let quick = RetryPolicy { expected_outage: Duration::from_secs(1), ..RetryPolicy::default() };
        assert_eq!(range(&quick, 0, 100, true), (1_600, 2_000));
        let slow = RetryPolicy { expected_outage: Duration::from_secs(10), ..RetryPolicy::default() };
        assert_eq!(range(&slow, 600, 100, true), (5_000, 5_000));
    }

    #[test]
    fn an_explicit_value_is_told_as_it_is() {
        let policy = RetryPolicy { explicit: Some(Duration::from_millis(7)), ..RetryPolicy::default() };
        assert_eq!(range(&policy, 3_600, 900, true), (7, 7));
    }

    proptest! {
        #[test]
        fn any_policy_keeps_its_floor_and_its_ceiling(
            base in any::<u64>(), max in any::<u64>(), outage in 0u64..1_000_000, age in any::<u64>(),
            load in any::<u32>(), random in any::<u64>(), asking in any::<bool>(),
        ) {
            let policy = RetryPolicy {
                base: Duration::from_millis(base),
                max: Duration::from_millis(max),
                explicit: None,
                expected_outage: Duration::from_millis(outage),
            };
            let pick = u64::from(policy.pick(Duration::from_millis(age), load, random, asking));
            let floor = outage.div_ceil(2);
            prop_assert!(pick >= floor);
            prop_assert!(pick <= floor.max(max.saturating_add(max / 5)));
            if asking {
                prop_assert!(pick <= floor.max(ASKING_MAX_MS));
            }
        }
    }
}
