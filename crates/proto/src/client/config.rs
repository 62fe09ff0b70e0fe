//! How patient a client is.

use crate::time::millis;
use std::time::Duration;

/// When a client connects again, and when it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectPolicy {
    /// The first wait without a `retry` of the server's: anywhere between nothing and this ("full jitter"). It doubles with
    /// every attempt that got nowhere; those waits are anywhere in the upper half.
    pub backoff_base: Duration,
    /// What the wait without a `retry` grows to.
    pub backoff_max: Duration,
    /// The shortest wait, whatever the server says: `retry: 0` is not a reason to spin.
    pub min_wait: Duration,
    /// The longest wait that a server may ask for.
    pub max_wait: Duration,
    /// How many attempts in a row may get nowhere (no message, no new id) before the call fails.
    pub max_attempts: u32,
}

impl Default for ReconnectPolicy {
    /// 1 s to 30 s; between 100 ms and 10 min whatever the server says; 10 attempts.
    fn default() -> Self {
        Self {
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(30),
            min_wait: Duration::from_millis(100),
            max_wait: Duration::from_secs(600),
            max_attempts: 10,
        }
    }
}

impl ReconnectPolicy {
    /// How long to wait before the attempt that follows `failures` attempts that failed, where no server says how long.
    #[must_use]
    pub fn backoff(&self, failures: u32, random: u64) -> Duration {
        Duration::from_millis(self.wait(failures, None, true, random))
    }

    /// Milliseconds to wait before the attempt that follows `failures` attempts that got nowhere.
    ///
    /// - `asked`: what the server asked for: the wait is at least that, up to [`max_wait`](Self::max_wait).
    /// - `backs_off`: whether the attempt before failed, so that repeating it at the server's own pace may do harm.
    ///
    /// The first wait has full jitter, so that clients which were cut off together do not come back together. Later ones are
    /// anywhere in the upper half: a run of small random numbers must not become a loop.
    pub(super) fn wait(&self, failures: u32, asked: Option<u64>, backs_off: bool, random: u64) -> u64 {
        let asked_ms = asked.unwrap_or(0).min(millis(self.max_wait));
        let jittered = if asked.is_none() || backs_off {
            // 32 doublings are beyond any maximum that makes sense.
            let ceiling = millis(self.backoff_base)
                .saturating_mul(1 << failures.min(32))
                .min(millis(self.backoff_max))
                .min(u64::MAX - 1);
            let least = if failures == 0 { 0 } else { ceiling / 2 };
            least + random % (ceiling - least + 1)
        } else {
            0
        };
        asked_ms.max(jittered).max(millis(self.min_wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(failures: u32, asked: Option<u64>, backs_off: bool) -> (u64, u64) {
        let waits =
            (0..100_000).map(|random| ReconnectPolicy::default().wait(failures, asked, backs_off, random));
        waits.fold((u64::MAX, 0), |(low, high), wait| (low.min(wait), high.max(wait)))
    }

    #[test]
    fn without_retry_it_backs_off_from_one_second_to_thirty_with_jitter() {
        assert_eq!(longest(0, None, false), (100, 1_000));
        assert_eq!(longest(3, None, true), (4_000, 8_000));
        assert_eq!(longest(5, None, true), (15_000, 30_000));
        assert_eq!(longest(u32::MAX, None, true), (15_000, 30_000));
    }

    #[test]
    fn a_retry_is_kept_to_and_grows_only_over_failures() {
        assert_eq!(longest(0, Some(2_000), false), (2_000, 2_000));
        assert_eq!(longest(9, Some(2_000), false), (2_000, 2_000));
        assert_eq!(longest(0, Some(2_000), true), (2_000, 2_000));
        assert_eq!(longest(4, Some(2_000), true), (8_000, 16_000));
        assert_eq!(longest(0, Some(0), false), (100, 100), "never spins");
        assert_eq!(longest(0, Some(u64::MAX), false), (600_000, 600_000), "never waits for ever");
    }
}
