//! Times, counted in buckets: bounded whatever their number.

use std::time::Duration;

/// Buckets within one power of two: a time is known to within 1 %.
const STEPS: u64 = 64;

/// Times above 2^40 ns (18 minutes) are counted as that.
const MAX: u64 = 1 << 40;

/// How long things took. Takes about 20 KB once there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts one time.
    pub fn add(&mut self, time: Duration) {
        let at = bucket(u64::try_from(time.as_nanos()).unwrap_or(MAX));
        if self.counts.len() <= at {
            self.counts.resize(bucket(MAX) + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many were counted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.total
    }

    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The time that `share` of all (0 to 1) did not exceed; 0 where nothing was counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(middle(at));
            }
        }
        Duration::ZERO
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min(MAX);
    if nanos < 2 * STEPS {
        return usize::try_from(nanos).unwrap_or(0);
    }
    // How far the time has to be shifted so that STEPS..2 * STEPS is left.
    let shift = u64::from(nanos.ilog2() - STEPS.ilog2());
    usize::try_from(shift * STEPS + (nanos >> shift)).unwrap_or(0)
}

/// The middle of a bucket, in nanoseconds.
fn middle(at: usize) -> u64 {
    let at = at as u64;
    if at < 2 * STEPS {
        return at;
    }
    let shift = at / STEPS - 1;
    let start = (at % STEPS + STEPS) << shift;
    start + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_to_within_one_percent() {
        let mut at = 1_u64;
        let mut before = 0;
        while at < MAX {
            for nanos in [at, at + at / 3, at + at / 2] {
                let known = middle(bucket(nanos));
                assert!(known.abs_diff(nanos) * 100 <= nanos, "{nanos} {known}");
                assert!(bucket(nanos) >= before);
                before = bucket(nanos);
            }
            at *= 2;
        }
        assert_eq!(bucket(u64::MAX), bucket(MAX));
    }

    #[test]
    fn quantiles_are_those_of_all_that_was_counted() {
        let mut one = Histogram::default();
        let mut two = Histogram::default();
        assert_eq!(one.quantile(0.5), Duration::ZERO);
        for n in 1..=50_u64 {
            one.add(Duration::from_nanos(n));
            two.add(Duration::from_nanos(n + 50));
        }
        one.merge(&two);
        assert_eq!(one.len(), 100);
        for (share, nanos) in [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (1.0, 100)] {
            assert_eq!(one.quantile(share), Duration::from_nanos(nanos), "{share}");
        }
    }
}
