//! The events of one stream, in as few bytes as they take.

use bytes::Bytes;
use std::collections::VecDeque;

/// An event of at most so many bytes is copied to the others: a buffer of its own would cost as much again.
const SMALL: usize = 256;

/// No more bytes of small events than this lie together, so that a distance between two of them fits into 32 bits.
const MOST: usize = 1 << 30;

/// Events, oldest first. Small ones lie one behind the other and are copied for whoever reads them, all of one read together; large ones
/// are shared.
#[derive(Debug, Default)]
pub(super) struct Events {
    places: VecDeque<Place>,
    /// The bytes of the small ones.
    small: VecDeque<u8>,
    /// How many bytes of small ones were dropped; starts again at 0 behind the largest number.
    small_gone: u32,
    large: Option<Box<Large>>,
}

/// The large ones.
#[derive(Debug, Default)]
struct Large {
    ring: VecDeque<Bytes>,
    /// How many were dropped, in the same way.
    gone: u32,
}

impl Large {
    fn at(&self, place: Place) -> &Bytes {
        &self.ring[place.at.wrapping_sub(self.gone) as usize]
    }
}

/// Where an event is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// How many bytes of small ones came before it, or how many large ones, dropped ones and all.
    at: u32,
    /// Its length, where it is a small one.
    len: u32,
}

impl Place {
    const LARGE: u32 = u32::MAX;

    const fn is_small(self) -> bool {
        self.len != Self::LARGE
    }
}

impl Events {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn push(&mut self, event: Bytes) {
        grow(&mut self.places, 1);
        if event.len() <= SMALL && self.small.len() < MOST {
            grow(&mut self.small, event.len());
            self.places
                .push_back(Place { at: after(self.small_gone, self.small.len()), len: event.len() as u32 });
            self.small.extend(&event[..]);
        } else {
            let large = self.large.get_or_insert_default();
            self.places.push_back(Place { at: after(large.gone, large.ring.len()), len: Place::LARGE });
            grow(&mut large.ring, 1);
            large.ring.push_back(event);
        }
    }

    /// The lengths of the events from the one at `start` on.
    pub(super) fn lengths(&self, start: usize) -> impl Iterator<Item = usize> {
        self.places.range(start.min(self.len())..).map(|place| self.length(*place))
    }

    /// Drops the oldest `count`; returns how many bytes they had.
    pub(super) fn drop_oldest(&mut self, count: usize) -> usize {
        let (mut small, mut large, mut bytes) = (0, 0, 0);
        for place in self.places.range(..count) {
            let length = self.length(*place);
            bytes += length;
            if place.is_small() {
                small += length;
            } else {
                large += 1;
            }
        }
        self.places.drain(..count);
        self.small.drain(..small);
        self.small_gone = after(self.small_gone, small);
        if let Some(held) = &mut self.large {
            held.ring.drain(..large);
            held.gone = after(held.gone, large);
        }
        if self.places.capacity() > 4 + 2 * self.places.len() {
            self.shrink();
        }
        bytes
    }

    /// `count` events from the one at `start` on, all of which are there.
    pub(super) fn get(&self, start: usize, count: usize) -> Vec<Bytes> {
        let wanted = || self.places.range(start..start + count);
        let mut copied = Bytes::new();
        if let Some(first) = wanted().find(|place| place.is_small()) {
            let length = wanted().filter(|place| place.is_small()).map(|place| place.len as usize).sum();
            copied = self.copy(first.at.wrapping_sub(self.small_gone) as usize, length);
        }
        let event = |place: &Place| match &self.large {
            Some(large) if !place.is_small() => large.at(*place).clone(),
            _ => copied.split_to(place.len as usize),
        };
        wanted().map(event).collect()
    }

    /// Gives back the room that nothing is in.
    pub(super) fn shrink(&mut self) {
        self.places.shrink_to_fit();
        self.small.shrink_to_fit();
        match &mut self.large {
            Some(large) if !large.ring.is_empty() => large.ring.shrink_to_fit(),
            large => *large = None,
        }
    }

    fn length(&self, place: Place) -> usize {
        match &self.large {
            Some(large) if !place.is_small() => large.at(place).len(),
            _ => place.len as usize,
        }
    }

    fn copy(&self, start: usize, length: usize) -> Bytes {
        let (one, other) = self.small.as_slices();
        let mut out = Vec::with_capacity(length);
        let of_one = &one[start.min(one.len())..(start + length).min(one.len())];
        out.extend_from_slice(of_one);
        let rest = start.saturating_sub(one.len());
        out.extend_from_slice(&other[rest..rest + length - of_one.len()]);
        out.into()
    }

    /// The bytes that this takes beside itself.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        let ring = |large: &Large| size_of::<Large>() + large.ring.capacity() * size_of::<Bytes>();
        let large = self.large.as_deref().map_or(0, ring);
        self.places.capacity() * size_of::<Place>() + self.small.capacity() + large
    }
}

/// A number of things that came before, of which some are gone and `held` are not.
const fn after(gone: u32, held: usize) -> u32 {
    gone.wrapping_add(held as u32)
}

/// Makes room for `more`. Most calls say little: exactly as much at first, half as much again later.
fn grow<T>(ring: &mut VecDeque<T>, more: usize) {
    if ring.capacity() - ring.len() < more {
        ring.reserve_exact(more.max(ring.len() / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_whatever_was_dropped_before() {
        let large = Large { gone: u32::MAX - 3, ..Large::default() };
        let mut events =
            Events { small_gone: u32::MAX - 700, large: Some(Box::new(large)), ..Events::default() };
        let mut expected: VecDeque<Bytes> = VecDeque::new();
        // Lengths on both sides of the bound, in no order.
        for n in 0..400_usize {
            let length = n * 89 % 300;
            let event = Bytes::from(vec![n as u8; length]);
            events.push(event.clone());
            expected.push_back(event);
            if n % 7 == 6 {
                let count = n % 9;
                let bytes: usize = expected.drain(..count).map(|event| event.len()).sum();
                assert_eq!(events.drop_oldest(count), bytes);
            }
            assert_eq!(events.len(), expected.len());
            for start in [0, expected.len() / 2, expected.len()] {
                let count = (expected.len() - start).min(n % 5);
                assert!(events.get(start, count).iter().eq(expected.range(start..start + count)), "{n}");
                assert!(events.lengths(start).eq(expected.range(start..).map(Bytes::len)));
            }
        }
        events.drop_oldest(expected.len());
        events.shrink();
        assert_eq!((events.len(), events.heap()), (0, 0));
    }

    #[test]
    fn small_events_take_their_bytes_and_a_place() {
        let mut events = Events::default();
        for length in [66, 67, 68] {
            events.push(Bytes::from(vec![0; length]));
        }
        assert!(events.heap() <= 66 + 67 + 68 + 33 + 3 * 8, "{}", events.heap());
        events.shrink();
        assert_eq!(events.heap(), 66 + 67 + 68 + 3 * 8);
    }
}
