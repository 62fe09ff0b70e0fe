//! Who comes first when something has to go.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How many keys stand together. One that stays long holds on to the room of all of them.
const TOGETHER: u64 = 32;

/// Keys in the order in which they came, over all shards.
///
/// Its lock is taken after a shard's lock or alone; never is a shard locked while it is held.
pub(super) struct Order<K> {
    inner: Mutex<Inner<K>>,
}

/// Nearly all keys come, and go again by their number, in the order of their numbers, which have no gaps: so they stand in runs, and only
/// the runs are looked for.
struct Inner<K> {
    last: u64,
    /// The run of the last number.
    newest: Run<K>,
    /// Those before it that hold any.
    older: BTreeMap<u64, Run<K>>,
}

/// The keys of so many numbers in a row. Has no room of its own until there is one.
struct Run<K> {
    held: usize,
    keys: Vec<Option<K>>,
}

impl<K> Run<K> {
    const EMPTY: Self = Self { held: 0, keys: Vec::new() };

    fn push(&mut self, place: usize, key: K) {
        self.keys.reserve_exact(TOGETHER as usize - self.keys.len());
        // The first run begins with the number 1.
        self.keys.resize_with(place, || None);
        self.keys.push(Some(key));
        self.held += 1;
    }

    fn take(&mut self, place: usize) {
        if self.keys.get_mut(place).and_then(Option::take).is_some() {
            self.held -= 1;
        }
    }

    /// Takes out the first, with its place.
    fn pop(&mut self) -> Option<(usize, K)> {
        if self.held == 0 {
            return None;
        }
        let (place, key) = self.keys.iter_mut().enumerate().find_map(|(at, key)| Some((at, key.take()?)))?;
        self.held -= 1;
        Some((place, key))
    }
}

/// The number of the run that `number` is in, and its place there.
const fn place(number: u64) -> (u64, usize) {
    (number / TOGETHER, (number % TOGETHER) as usize)
}

impl<K> Order<K> {
    pub(super) const fn new() -> Self {
        let inner = Inner { last: 0, newest: Run::EMPTY, older: BTreeMap::new() };
        Self { inner: Mutex::new(inner) }
    }

    /// Queues a key and says under which number, from 1.
    pub(super) fn push(&self, key: K) -> u64 {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let number = inner.last;
        let (run, at) = place(number);
        if at == 0 {
            let full = std::mem::replace(&mut inner.newest, Run::EMPTY);
            if full.held > 0 {
                inner.older.insert(run - 1, full);
            }
        }
        inner.newest.push(at, key);
        number
    }

    /// Takes out what was queued under that number, if it is still there.
    pub(super) fn remove(&self, number: u64) {
        let mut inner = self.inner.lock();
        let (run, at) = place(number);
        if run == place(inner.last).0 {
            return inner.newest.take(at);
        }
        if let Some(older) = inner.older.get_mut(&run) {
            older.take(at);
            if older.held == 0 {
                inner.older.remove(&run);
            }
        }
    }

    /// Takes out the oldest.
    pub(super) fn pop(&self) -> Option<(u64, K)> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let (run, taken) = match inner.older.first_entry() {
            Some(mut oldest) => {
                let (run, taken) = (*oldest.key(), oldest.get_mut().pop());
                if oldest.get().held == 0 {
                    oldest.remove();
                }
                (run, taken)
            }
            None => (place(inner.last).0, inner.newest.pop()),
        };
        taken.map(|(at, key)| (run * TOGETHER + at as u64, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are the same in each run.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % sides
        }
    }

    #[test]
    fn it_is_a_map_from_numbers_to_keys() {
        for seed in 0..200 {
            let (order, mut expected, mut dice) = (Order::new(), BTreeMap::new(), Dice(seed));
            let mut last = 0;
            // Rather more goes than comes, or less.
            let comes = 2 + dice.roll(5);
            for _ in 0..dice.roll(400) {
                match dice.roll(8) {
                    what if what < comes => {
                        last += 1;
                        assert_eq!(order.push(last * 7), last);
                        expected.insert(last, last * 7);
                    }
                    7 => assert_eq!(order.pop(), expected.pop_first()),
                    _ => {
                        let number = last.saturating_sub(dice.roll(100));
                        order.remove(number);
                        expected.remove(&number);
                    }
                }
                assert!(order.inner.lock().older.values().all(|run| run.held > 0), "an empty run is kept");
            }
            while let Some(first) = order.pop() {
                assert_eq!(Some(first), expected.pop_first());
            }
            assert!(expected.is_empty());
        }
    }
}
