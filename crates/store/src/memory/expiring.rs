//! A map whose entries end by themselves, freed at a cost proportional to what ended.

use crate::Spread;
use std::{
    borrow::Borrow,
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Duration,
};
use tokio::time::Instant;

/// A point in time: milliseconds since the store was made. Eight bytes, where an `Instant` has sixteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Millis(u64);

impl Millis {
    /// The point `span` after this one. Part milliseconds count as whole ones, so that nothing ends early.
    pub(super) fn plus(self, span: Duration) -> Self {
        let millis = u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// What has passed since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Where the store's time starts.
#[derive(Debug)]
pub(super) struct Origin(Instant);

impl Origin {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Millis {
        let passed = Instant::now().saturating_duration_since(self.0);
        Millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Entries with deadlines. An entry that is past its deadline is not found any more; [`Expiring::pop`] frees it.
///
/// Each entry stands once in `queue`. A deadline that moves away leaves it there, to be queued again when its turn comes;
/// so prolonging an entry costs nothing. Keys are ids that were drawn at random.
pub(super) struct Expiring<K, V> {
    slots: HashMap<K, Box<Slot<V>>, Spread>,
    queue: BTreeSet<(Millis, K)>,
}

struct Slot<V> {
    deadline: Millis,
    /// Where it stands in `queue`: at its deadline or before.
    queued: Millis,
    value: V,
}

/// One step of freeing.
pub(super) enum Popped<K, V> {
    /// It ended.
    Ended(K, V),
    /// Its life was prolonged meanwhile: queued again.
    Requeued,
    /// Nothing has ended.
    Nothing,
}

impl<K: Clone + Eq + Hash + Ord, V> Expiring<K, V> {
    pub(super) fn new() -> Self {
        Self { slots: HashMap::default(), queue: BTreeSet::new() }
    }

    pub(super) fn get<Q>(&self, key: &Q, now: Millis) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.get(key).filter(|slot| now < slot.deadline).map(|slot| &slot.value)
    }

    pub(super) fn get_mut<Q>(&mut self, key: &Q, now: Millis) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.get_mut(key).filter(|slot| now < slot.deadline).map(|slot| &mut slot.value)
    }

    /// Every entry that has not ended, in no order.
    pub(super) fn living(&self, now: Millis) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter(move |(_, slot)| now < slot.deadline).map(|(key, slot)| (key, &slot.value))
    }

    /// Looks at an entry, ended or not.
    pub(super) fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.get(key).map(|slot| &slot.value)
    }

    /// Puts an entry in. What was there under that key, ended or not, is returned.
    pub(super) fn insert(&mut self, key: K, value: V, deadline: Millis) -> Option<V> {
        let before = self.remove(&key);
        self.queue.insert((deadline, key.clone()));
        self.slots.insert(key, Box::new(Slot { deadline, queued: deadline, value }));
        before
    }

    /// Takes an entry out, ended or not.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (key, slot) = self.slots.remove_entry(key)?;
        self.queue.remove(&(slot.queued, key));
        self.shrink();
        Some(slot.value)
    }

    /// Moves the deadline of a living entry, to and fro.
    pub(super) fn set_deadline<Q>(&mut self, key: &Q, deadline: Millis)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.deadline = deadline;
        if deadline < slot.queued {
            let queued = std::mem::replace(&mut slot.queued, deadline);
            if let Some((key, _)) = self.slots.get_key_value(key) {
                let key = key.clone();
                let mut place = (queued, key);
                self.queue.remove(&place);
                place.0 = deadline;
                self.queue.insert(place);
            }
        }
    }

    /// Moves the deadline of a living entry away, never nearer.
    pub(super) fn prolong<Q>(&mut self, key: &Q, deadline: Millis, now: Millis)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(slot) = self.slots.get_mut(key)
            && now < slot.deadline
        {
            slot.deadline = slot.deadline.max(deadline);
        }
    }

    /// Frees one entry that ended, or queues one again.
    pub(super) fn pop(&mut self, now: Millis) -> Popped<K, V> {
        if self.queue.first().is_none_or(|(queued, _)| now < *queued) {
            return Popped::Nothing;
        }
        let Some((_, key)) = self.queue.pop_first() else { return Popped::Nothing };
        match self.slots.get_mut(&key) {
            Some(slot) if now < slot.deadline => {
                slot.queued = slot.deadline;
                self.queue.insert((slot.deadline, key));
                Popped::Requeued
            }
            _ => match self.slots.remove(&key) {
                Some(slot) => {
                    self.shrink();
                    Popped::Ended(key, slot.value)
                }
                None => Popped::Requeued,
            },
        }
    }

    /// Gives memory back after a burst, seldom enough that each entry pays for it once.
    fn shrink(&mut self) {
        if self.slots.capacity() > 64 && self.slots.len() * 8 < self.slots.capacity() {
            self.slots.shrink_to(self.slots.len() * 2);
        }
    }

    /// How many entries the table has place for, and the size of the part of an entry that is not in the table.
    #[cfg(test)]
    pub(super) fn layout(&self) -> (usize, usize, usize) {
        (self.slots.len(), self.slots.capacity(), size_of::<Slot<V>>())
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Millis {
        Millis(millis)
    }

    #[test]
    fn ends_at_the_deadline_and_frees_only_what_ended() {
        let mut map = Expiring::new();
        map.insert(1, "a", at(10));
        map.insert(2, "b", at(20));
        assert_eq!(map.get(&1, at(9)), Some(&"a"));
        assert_eq!(map.get(&1, at(10)), None);
        assert!(matches!(map.pop(at(9)), Popped::Nothing));
        assert!(matches!(map.pop(at(10)), Popped::Ended(1, "a")));
        assert!(matches!(map.pop(at(10)), Popped::Nothing));
        assert_eq!(map.get(&2, at(19)), Some(&"b"));
    }

    #[test]
    fn a_deadline_moves_both_ways_with_one_place_in_the_queue() {
        let mut map = Expiring::new();
        map.insert(1, (), at(10));
        map.prolong(&1, at(30), at(0));
        map.prolong(&1, at(5), at(0));
        assert_eq!(map.queued(), 1);
        assert!(matches!(map.pop(at(10)), Popped::Requeued));
        assert!(matches!(map.pop(at(29)), Popped::Nothing));
        map.set_deadline(&1, at(12));
        assert_eq!(map.queued(), 1);
        assert!(map.get(&1, at(12)).is_none());
        assert!(matches!(map.pop(at(12)), Popped::Ended(1, ())));
        assert_eq!(map.queued(), 0);
    }

    #[test]
    fn what_ended_is_not_prolonged() {
        let mut map = Expiring::new();
        map.insert(1, (), at(10));
        map.prolong(&1, at(30), at(10));
        assert!(map.get(&1, at(11)).is_none());
    }

    #[test]
    fn gives_memory_back_after_a_burst() {
        let mut map = Expiring::new();
        for key in 0..10_000 {
            map.insert(key, (), at(10));
        }
        while !matches!(map.pop(at(10)), Popped::Nothing) {}
        let (len, capacity, _) = map.layout();
        assert_eq!(len, 0);
        assert!(capacity <= 64, "{capacity}");
    }

    #[test]
    fn part_milliseconds_count_whole() {
        assert_eq!(at(1).plus(Duration::from_micros(1)), at(2));
        assert_eq!(at(1).plus(Duration::MAX), at(u64::MAX));
    }
}
