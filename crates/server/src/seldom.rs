//! Log lines that strangers can cause: said now and then, so that nobody fills the disk with them.

use bowline_proto::legacy::Millis;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long one such line stands for the next ones.
const EVERY: Millis = Millis(10_000);

/// Says when the next line is due.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// When the next one is, in [`Millis`].
    next: AtomicU64,
}

impl Seldom {
    /// Whether a line may be written now; then the next one is due after a while.
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let later = now.0.saturating_add(EVERY.0);
        // Of several at the same moment one wins.
        now.0 >= next && self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_due_and_then_one_every_ten_seconds() {
        let seldom = Seldom::default();
        let due: Vec<u64> = (0..25_000).filter(|now| seldom.is_due(Millis(*now))).collect();
        assert_eq!(due, [0, 10_000, 20_000]);
        assert!(seldom.is_due(Millis(u64::MAX)));
    }
}
