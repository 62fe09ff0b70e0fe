//! Points in time, as arguments.

use std::time::Duration;

/// A point in time: milliseconds since an origin that the caller chooses and keeps (the start of its process, say). Only
/// differences mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// This point `ms` milliseconds later; the end of time where that does not fit.
    #[must_use]
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` until this point; 0 where `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A duration in whole milliseconds; the most that there are where it does not fit.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_wraps_nor_panics_at_the_ends() {
        assert_eq!(Millis(u64::MAX).after(5), Millis(u64::MAX));
        assert_eq!(Millis(3).since(Millis(5)), 0);
        assert_eq!(Millis(3).after(4).since(Millis(5)), 2);
    }
}
