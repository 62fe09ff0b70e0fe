//! Where chance comes from: the same seed, the same decisions.

use std::time::Duration;

/// A source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The source of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// The same, small ones as likely as large ones: each doubling has the same share.
    pub fn scaled(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = (from.max(1).ilog2(), to.max(1).ilog2());
        let top = 2_u64 << self.between(u64::from(low), u64::from(high));
        self.between(from, top.clamp(from, to))
    }

    /// Whether something happens that does so `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time from `from` to `to` milliseconds.
    pub fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }

    /// A source of its own, for somebody who decides at times of his own.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all_and_bounds_are_kept() {
        let (mut a, mut b) = (Chance::new(7), Chance::new(7));
        for _ in 0..10_000 {
            let number = a.scaled(5, 1_000_000);
            assert!((5..=1_000_000).contains(&number), "{number}");
            assert_eq!(number, b.scaled(5, 1_000_000));
            assert!((3..=4).contains(&a.between(3, 4)) && b.between(3, 4) >= 3);
        }
        assert_ne!(a.fork().below(u64::MAX), a.fork().below(u64::MAX));
    }
}
