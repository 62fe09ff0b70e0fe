//! A map whose entries end by themselves, freed at a cost proportional to what ended.

use crate::Spread;
use hashbrown::HashTable;
use std::{
    borrow::Borrow,
    hash::{BuildHasher as _, Hash},
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
/// There are many of these, so what finds an entry, by its key or by its deadline, is a number of four bytes: its place among the others.
/// Keys are ids that were drawn at random.
pub(super) struct Expiring<K, V> {
    /// All entries, in no order and without gaps: the last one takes the place of one that goes.
    slots: Vec<Box<Slot<K, V>>>,
    /// Their places, found by their keys.
    table: HashTable<u32>,
    /// Their places, as a heap: no deadline is before that of the parent, the first one is the next.
    heap: Vec<u32>,
    hasher: Spread,
}

struct Slot<K, V> {
    key: K,
    deadline: Millis,
    /// Where it stands in `heap`.
    queued: u32,
    value: V,
}

impl<K: Eq + Hash, V> Expiring<K, V> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), table: HashTable::new(), heap: Vec::new(), hasher: Spread::default() }
    }

    pub(super) fn get<Q>(&self, key: &Q, now: Millis) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.find(key).map(|at| &self.slots[at]).filter(|slot| now < slot.deadline).map(|slot| &slot.value)
    }

    pub(super) fn get_mut<Q>(&mut self, key: &Q, now: Millis) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let at = self.find(key)?;
        let slot = &mut self.slots[at];
        (now < slot.deadline).then_some(&mut slot.value)
    }

    /// Every entry that has not ended, in no order.
    pub(super) fn living(&self, now: Millis) -> impl Iterator<Item = (&K, &V)> {
        self.slots.iter().filter(move |slot| now < slot.deadline).map(|slot| (&slot.key, &slot.value))
    }

    /// Looks at an entry, ended or not.
    pub(super) fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.find(key).map(|at| &self.slots[at].value)
    }

    /// Puts an entry in. What was there under that key, ended or not, is returned.
    pub(super) fn insert(&mut self, key: K, value: V, deadline: Millis) -> Option<V> {
        let before = self.remove(&key);
        let place = u32::try_from(self.slots.len()).expect("so many entries have no room in memory");
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.table
            .insert_unique(hasher.hash_one(&key), place, |at| hasher.hash_one(&slots[*at as usize].key));
        grow(&mut self.slots);
        self.slots.push(Box::new(Slot { key, deadline, queued: place, value }));
        grow(&mut self.heap);
        self.heap.push(place);
        self.rise(place as usize);
        before
    }

    /// Takes an entry out, ended or not.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let at = self.find(key)?;
        Some(self.take(at).value)
    }

    /// Moves the deadline of an entry, to and fro.
    pub(super) fn set_deadline<Q>(&mut self, key: &Q, deadline: Millis)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(at) = self.find(key) {
            self.slots[at].deadline = deadline;
            self.settle(self.slots[at].queued as usize);
        }
    }

    /// Moves the deadline of a living entry away, never nearer.
    pub(super) fn prolong<Q>(&mut self, key: &Q, deadline: Millis, now: Millis)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(at) = self.find(key)
            && now < self.slots[at].deadline
            && self.slots[at].deadline < deadline
        {
            self.slots[at].deadline = deadline;
            self.sink(self.slots[at].queued as usize);
        }
    }

    /// Frees one entry that ended, if there is one.
    pub(super) fn pop(&mut self, now: Millis) -> Option<(K, V)> {
        let first = *self.heap.first()? as usize;
        (self.slots[first].deadline <= now).then(|| {
            let slot = self.take(first);
            (slot.key, slot.value)
        })
    }

    /// The place of an entry.
    fn find<Q>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let same = |at: &u32| self.slots[*at as usize].key.borrow() == key;
        self.table.find(self.hasher.hash_one(key), same).map(|at| *at as usize)
    }

    /// Takes out the entry at that place.
    fn take(&mut self, at: usize) -> Slot<K, V> {
        let queued = self.slots[at].queued as usize;
        self.heap.swap_remove(queued);
        if let Some(moved) = self.heap.get(queued) {
            self.slots[*moved as usize].queued = queued as u32;
            self.settle(queued);
        }
        self.unlist(at, None);
        let last = self.slots.len() - 1;
        if at != last {
            self.unlist(last, Some(at));
        }
        let slot = self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.heap[moved.queued as usize] = at as u32;
        }
        self.shrink();
        *slot
    }

    /// Changes what the table says of the entry at that place: that it is at another one, or nowhere.
    fn unlist(&mut self, at: usize, to: Option<usize>) {
        let hash = self.hasher.hash_one(&self.slots[at].key);
        // Every entry is in the table.
        if let Ok(mut listed) = self.table.find_entry(hash, |listed| *listed as usize == at) {
            match to {
                Some(to) => *listed.get_mut() = to as u32,
                None => drop(listed.remove()),
            }
        }
    }

    fn deadline(&self, queued: usize) -> Millis {
        self.slots[self.heap[queued] as usize].deadline
    }

    /// Moves an entry of the heap to where it belongs.
    fn settle(&mut self, queued: usize) {
        self.rise(queued);
        self.sink(queued);
    }

    fn rise(&mut self, mut queued: usize) {
        while queued > 0 && self.deadline(queued) < self.deadline((queued - 1) / 2) {
            self.swap(queued, (queued - 1) / 2);
            queued = (queued - 1) / 2;
        }
    }

    fn sink(&mut self, mut queued: usize) {
        loop {
            let children = 2 * queued + 1..(2 * queued + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.deadline(*child)) else { return };
            if self.deadline(queued) <= self.deadline(child) {
                return;
            }
            self.swap(queued, child);
            queued = child;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for queued in [one, other] {
            self.slots[self.heap[queued] as usize].queued = queued as u32;
        }
    }

    /// Gives memory back after a burst, seldom enough that each entry pays for it once.
    fn shrink(&mut self) {
        let len = self.slots.len();
        if self.slots.capacity() > 64 && len * 8 < self.slots.capacity() {
            self.slots.shrink_to(len * 2);
            self.heap.shrink_to(len * 2);
            let (slots, hasher) = (&self.slots, &self.hasher);
            self.table.shrink_to(len * 2, |at| hasher.hash_one(&slots[*at as usize].key));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many bytes all entries take, without what they point to.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        // A table of that capacity is full to seven eighths; each place has a byte of the hash.
        let table = self.table.capacity() * 8 / 7 * (size_of::<u32>() + 1);
        let slots = self.slots.capacity() * size_of::<usize>() + self.slots.len() * size_of::<Slot<K, V>>();
        table + slots + self.heap.capacity() * size_of::<u32>()
    }
}

/// Makes room for one more, and for a few beside: there are as many of these as there are entries.
fn grow<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(4.max(list.len() / 4));
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
        assert_eq!(map.pop(at(9)), None);
        assert_eq!(map.pop(at(10)), Some((1, "a")));
        assert_eq!(map.pop(at(10)), None);
        assert_eq!(map.get(&2, at(19)), Some(&"b"));
    }

    #[test]
    fn a_deadline_moves_both_ways() {
        let mut map = Expiring::new();
        map.insert(1, (), at(10));
        map.prolong(&1, at(30), at(0));
        map.prolong(&1, at(5), at(0));
        assert_eq!(map.pop(at(29)), None);
        map.set_deadline(&1, at(12));
        assert!(map.get(&1, at(12)).is_none());
        assert_eq!(map.pop(at(12)), Some((1, ())));
        assert_eq!(map.pop(at(100)), None);
    }

    #[test]
    fn what_ended_is_not_prolonged() {
        let mut map = Expiring::new();
        map.insert(1, (), at(10));
        map.prolong(&1, at(30), at(10));
        assert!(map.get(&1, at(11)).is_none());
    }

    /// The same, done simply.
    type Reference = std::collections::BTreeMap<u64, (u64, u64)>;

    #[test]
    fn whatever_is_done_to_it_everything_is_found_and_ends_in_order() {
        let (mut map, mut reference) = (Expiring::new(), Reference::new());
        let (mut random, mut now) = (1_u64, 0);
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (key, later) = (random >> 40 & 0xff, now + (random >> 50) % 64);
            let living = reference.get(&key).is_some_and(|(_, deadline)| now < *deadline);
            match random >> 33 & 7 {
                0..=2 => {
                    let before = reference.insert(key, (step, later)).map(|(value, _)| value);
                    assert_eq!(map.insert(key, step, at(later)), before);
                }
                3 => assert_eq!(map.remove(&key), reference.remove(&key).map(|(value, _)| value)),
                4 => {
                    map.set_deadline(&key, at(later));
                    reference.entry(key).and_modify(|(_, deadline)| *deadline = later);
                }
                5 => {
                    map.prolong(&key, at(later), at(now));
                    if living {
                        reference.entry(key).and_modify(|(_, deadline)| *deadline = later.max(*deadline));
                    }
                }
                _ => now += random >> 60,
            }
            while let Some((ended, value)) = map.pop(at(now)) {
                let first = reference.values().map(|(_, deadline)| *deadline).min();
                assert_eq!(
                    reference.remove(&ended).map(|(value, deadline)| (value, Some(deadline))),
                    Some((value, first))
                );
            }
            assert!(reference.values().all(|(_, deadline)| now < *deadline));
            assert_eq!(map.len(), reference.len());
            assert_eq!(map.get(&key, at(now)), reference.get(&key).map(|(value, _)| value));
            if step % 64 == 0 {
                assert!(reference.iter().all(|(key, (value, _))| map.peek(key) == Some(value)));
                assert_eq!(map.living(at(now)).count(), reference.len());
            }
        }
    }

    #[test]
    fn gives_memory_back_after_a_burst() {
        let mut map = Expiring::new();
        for key in 0..10_000 {
            map.insert(key, (), at(10));
        }
        let full = map.heap();
        while map.pop(at(10)).is_some() {}
        assert_eq!(map.len(), 0);
        assert!(map.heap() * 64 <= full, "{} of {full}", map.heap());
    }

    #[test]
    fn part_milliseconds_count_whole() {
        assert_eq!(at(1).plus(Duration::from_micros(1)), at(2));
        assert_eq!(at(1).plus(Duration::MAX), at(u64::MAX));
    }
}
