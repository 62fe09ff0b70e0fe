//! The decisions of the simulation itself: the same seed and name, the same decisions.

use crate::entropy::step;
use std::time::Duration;

/// A source of decisions.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The source of one part of a run: what one part decides does not change what another one does.
    #[must_use]
    pub fn of(seed: u64, part: &str) -> Self {
        let hash = blake3::hash(format!("{seed}/{part}").as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }

    fn next(&mut self) -> u64 {
        let (state, word) = step(self.0);
        self.0 = state;
        word
    }

    /// A number below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Whether something happens that does so `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time from `from` to `to` milliseconds.
    pub fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }

    /// One of them; there is at least one.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_share_their_decisions() {
        let draw = |seed, part| Chance::of(seed, part).below(u64::MAX);
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
        let mut chance = Chance::of(3, "range");
        assert!((0..1000).all(|_| (4..=6).contains(&chance.between(4, 6))));
        assert_eq!(chance.below(0), 0);
    }
}
