//! Who waits for something that is told.

use std::task::Waker;

/// Those who wait until the next time that something is told. Lies under the lock of what is told of; one word, until somebody waits. Beside
/// it lies how often something was [told](Told).
#[derive(Debug, Default)]
pub(crate) struct Wakers(Option<Box<Waiting>>);

/// How often something was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told(u32);

impl Told {
    pub(crate) const NEVER: Self = Self(0);
}

#[derive(Debug, Default)]
struct Waiting {
    last: u32,
    wakers: Vec<(u32, Waker)>,
}

/// The place of one who waits, good until something is told.
#[derive(Debug, Default)]
pub(crate) struct Place {
    told: Told,
    /// 0 where it has none.
    number: u32,
}

impl Place {
    pub(crate) const NONE: Self = Self { told: Told::NEVER, number: 0 };

    /// Whether it may have to be given back.
    pub(crate) const fn is_taken(&self) -> bool {
        self.number != 0
    }
}

impl Wakers {
    /// Wakes `waker` the next time, in place of the one that was given with `place` before.
    pub(crate) fn add(&mut self, told: Told, place: &mut Place, waker: &Waker) {
        let waiting = self.0.get_or_insert_default();
        let mut places = waiting.wakers.iter_mut();
        if place.is_taken()
            && place.told == told
            && let Some((_, held)) = places.find(|(number, _)| *number == place.number)
        {
            held.clone_from(waker);
            return;
        }
        // More than could wait at a time, between two times that something is told.
        waiting.last = waiting.last.checked_add(1).unwrap_or(1);
        *place = Place { told, number: waiting.last };
        waiting.wakers.reserve_exact(1);
        waiting.wakers.push((place.number, waker.clone()));
    }

    /// Gives a place back.
    pub(crate) fn remove(&mut self, told: Told, place: &mut Place) {
        let number = std::mem::take(&mut place.number);
        if place.told != told {
            return;
        }
        if let Some(waiting) = &mut self.0 {
            waiting.wakers.retain(|(held, _)| *held != number);
            if waiting.wakers.is_empty() {
                self.0 = None;
            }
        }
    }

    /// Tells: whoever waits is to be woken, best after the lock was given up.
    pub(crate) fn take(&mut self, told: &mut Told) -> impl Iterator<Item = Waker> + use<> {
        told.0 = told.0.wrapping_add(1);
        let waiting = self.0.take();
        waiting.into_iter().flat_map(|waiting| waiting.wakers.into_iter().map(|(_, waker)| waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    #[derive(Default)]
    struct Count(AtomicU32);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_is_woken_once_and_who_left_is_not() {
        let counts: [Arc<Count>; 4] = Default::default();
        let waker = |at: usize| Waker::from(counts[at].clone());
        let (mut wakers, mut told) = (Wakers::default(), Told::default());
        let mut places: [Place; 3] = Default::default();
        for (at, place) in places.iter_mut().enumerate() {
            wakers.add(told, place, &waker(at));
            wakers.add(told, place, &waker(at));
        }
        // It moved to another task.
        wakers.add(told, &mut places[2], &waker(3));
        wakers.remove(told, &mut places[1]);
        wakers.take(&mut told).for_each(Waker::wake);
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken(), [1, 0, 0, 1]);
        // A place of before is nobody else's.
        let mut other = Place::NONE;
        wakers.add(told, &mut other, &waker(1));
        wakers.remove(told, &mut places[0]);
        wakers.take(&mut told).for_each(Waker::wake);
        assert_eq!(woken(), [1, 1, 0, 1]);
    }
}
