//! What has to be looked at again, and when.

use bowline_proto::legacy::Millis;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Weak},
};

/// Below this many entries nobody looks for those of things that are gone.
const FEW: usize = 1_024;

/// Things by the time at which to look at them. Does not keep them; entries of those that are gone take room only as long
/// as they are not many more than the others, however far away their time is.
pub(crate) struct Expiries<T> {
    heap: BinaryHeap<Reverse<Expiry<T>>>,
    /// How many entries there may be before the dead ones are taken out.
    prune_at: usize,
}

struct Expiry<T> {
    at: Millis,
    of: Weak<T>,
}

impl<T> Default for Expiries<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), prune_at: FEW }
    }
}

impl<T> Expiries<T> {
    /// Looks at `of` again at `at`.
    pub(crate) fn push(&mut self, at: Millis, of: &Arc<T>) {
        if self.heap.len() >= self.prune_at {
            self.heap.retain(|Reverse(entry)| entry.of.strong_count() > 0);
            self.heap.shrink_to(2 * self.heap.len());
            self.prune_at = FEW.max(2 * self.heap.len());
        }
        self.heap.push(Reverse(Expiry { at, of: Arc::downgrade(of) }));
    }

    /// Takes out what has to be looked at now.
    pub(crate) fn take_due(&mut self, now: Millis) -> Vec<Arc<T>> {
        let mut due = Vec::new();
        while self.heap.peek().is_some_and(|Reverse(entry)| entry.at <= now) {
            due.extend(self.heap.pop().and_then(|Reverse(entry)| entry.of.upgrade()));
        }
        due
    }
}

impl<T> PartialEq for Expiry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl<T> Eq for Expiry<T> {}
impl<T> PartialOrd for Expiry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Expiry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_once() {
        let mut expiries = Expiries::default();
        let things: Vec<_> = (0..4).map(Arc::new).collect();
        for (thing, at) in things.iter().zip([30, 10, 20, 40]) {
            expiries.push(Millis(at), thing);
        }
        drop(things[2].clone());
        let due: Vec<u64> = expiries.take_due(Millis(30)).iter().map(|thing| **thing).collect();
        assert_eq!(due, [1, 2, 0]);
        assert!(expiries.take_due(Millis(39)).is_empty());
        assert_eq!(expiries.take_due(Millis(40)).len(), 1);
    }

    #[test]
    fn things_that_are_gone_take_no_room_until_their_time() {
        let mut expiries = Expiries::default();
        let kept: Vec<_> = (0..1_000).map(Arc::new).collect();
        for (n, thing) in (0..).zip(&kept) {
            expiries.push(Millis(1_000_000 + n), thing);
        }
        let mut most = 0;
        for n in 0..100_000 {
            expiries.push(Millis(2_000_000), &Arc::new(n));
            most = most.max(expiries.heap.len());
        }
        assert!(most <= 2 * (kept.len() + FEW), "{most}");
        assert_eq!(expiries.take_due(Millis(1_999_999)).len(), kept.len());
    }
}
