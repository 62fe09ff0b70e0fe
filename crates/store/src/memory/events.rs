//! The events of one stream, in as few bytes as they take.

use crate::ReadLimit;
use bytes::{Buf as _, Bytes};
use std::collections::VecDeque;

/// An event of at most so many bytes is copied to the others: a buffer of its own would cost as much again.
const SMALL: usize = 256;

/// Events, oldest first. Small ones lie one behind the other and are copied for whoever reads them, all of one read together; large ones
/// are shared.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Small ones, each with its length before and behind it, so that they are found from both ends: who reads a stream while it is written
    /// is near the last. [`LARGE`] in place of the lengths stands for the next large one.
    ring: VecDeque<u8>,
    count: u32,
    large: Option<Box<Large>>,
}

#[derive(Debug, Default)]
struct Large(VecDeque<Bytes>);

const LARGE: u16 = u16::MAX;

/// The bytes of a length.
const LEN: usize = 2;

/// A place between two events: how many bytes of the ring and how many large ones are before it.
#[derive(Clone, Copy, Default)]
struct Place {
    at: usize,
    large: usize,
}

impl Events {
    pub(super) const fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn push(&mut self, event: Bytes) {
        let small = event.len() <= SMALL;
        let (mark, bytes) = if small { (event.len() as u16, &event[..]) } else { (LARGE, &[][..]) };
        grow(&mut self.ring, bytes.len() + 2 * LEN);
        self.ring.extend(&mark.to_le_bytes());
        self.ring.extend(bytes);
        self.ring.extend(&mark.to_le_bytes());
        self.count += 1;
        if !small {
            let large = self.large.get_or_insert_default();
            grow(&mut large.0, 1);
            large.0.push_back(event);
        }
    }

    /// The lengths of the events from the one at `start` on.
    pub(super) fn lengths(&self, start: usize) -> impl Iterator<Item = usize> {
        let mut place = self.find(start);
        (start..self.len()).map(move |_| self.step(&mut place))
    }

    /// Drops the oldest `count`; returns how many bytes they had.
    pub(super) fn drop_oldest(&mut self, count: usize) -> usize {
        let count = count.min(self.len());
        let mut end = Place::default();
        let bytes = (0..count).map(|_| self.step(&mut end)).sum();
        self.ring.drain(..end.at);
        if let Some(large) = &mut self.large {
            large.0.drain(..end.large);
        }
        self.count -= count as u32;
        if self.ring.capacity() > 2 * (SMALL + self.ring.len()) {
            self.shrink();
        }
        bytes
    }

    /// The events from the one at `start` on, as many as the limit allows, and one at least where there is one.
    pub(super) fn get(&self, start: usize, limit: ReadLimit) -> Vec<Bytes> {
        let first = self.find(start);
        let (mut end, mut count, mut bytes) = (first, 0, 0_usize);
        while start + count < self.len() && (count == 0 || count < limit.events) {
            let mut next = end;
            bytes = bytes.saturating_add(self.step(&mut next));
            if count > 0 && bytes > limit.bytes {
                break;
            }
            (end, count) = (next, count + 1);
        }
        let mut copied = self.copy(first.at, end.at);
        let mut large = first.large;
        let event = |_| {
            let mark = copied.get_u16_le();
            let event = if mark == LARGE {
                large += 1;
                self.large.as_ref().map(|held| held.0[large - 1].clone()).unwrap_or_default()
            } else {
                copied.split_to(mark.into())
            };
            copied.advance(LEN);
            event
        };
        (0..count).map(event).collect()
    }

    /// Gives back the room that nothing is in.
    pub(super) fn shrink(&mut self) {
        self.ring.shrink_to_fit();
        match &mut self.large {
            Some(large) if !large.0.is_empty() => large.0.shrink_to_fit(),
            large => *large = None,
        }
    }

    /// The place before the event at `start`, from whichever end is nearer.
    fn find(&self, start: usize) -> Place {
        let (mut place, behind) = (Place::default(), self.len().saturating_sub(start));
        if start < behind {
            for _ in 0..start {
                self.step(&mut place);
            }
            return place;
        }
        let large = self.large.as_ref().map_or(0, |large| large.0.len());
        place = Place { at: self.ring.len(), large };
        for _ in 0..behind {
            match self.mark(place.at - LEN) {
                LARGE => place = Place { at: place.at - 2 * LEN, large: place.large - 1 },
                length => place.at -= 2 * LEN + usize::from(length),
            }
        }
        place
    }

    /// Goes over the event behind `place`; returns its length.
    fn step(&self, place: &mut Place) -> usize {
        let mark = self.mark(place.at);
        place.at += 2 * LEN;
        if mark == LARGE {
            place.large += 1;
            return self.large.as_ref().map_or(0, |large| large.0[place.large - 1].len());
        }
        place.at += usize::from(mark);
        usize::from(mark)
    }

    fn mark(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.ring[at], self.ring[at + 1]])
    }

    fn copy(&self, start: usize, end: usize) -> Bytes {
        let (one, other) = self.ring.as_slices();
        let mut out = Vec::with_capacity(end - start);
        out.extend_from_slice(&one[start.min(one.len())..end.min(one.len())]);
        out.extend_from_slice(&other[start.saturating_sub(one.len())..end.saturating_sub(one.len())]);
        out.into()
    }

    /// The bytes that this takes beside itself.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        let ring = |large: &Large| size_of::<Large>() + large.0.capacity() * size_of::<Bytes>();
        self.ring.capacity() + self.large.as_deref().map_or(0, ring)
    }
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
        let mut events = Events::default();
        let mut expected: VecDeque<Bytes> = VecDeque::new();
        // Lengths on both sides of the bound, in no order.
        for n in 0..400_usize {
            let event = Bytes::from(vec![n as u8; n * 89 % 300]);
            events.push(event.clone());
            expected.push_back(event);
            if n % 7 == 6 {
                let count = n % 9;
                let bytes: usize = expected.drain(..count).map(|event| event.len()).sum();
                assert_eq!(events.drop_oldest(count), bytes);
            }
            assert_eq!(events.len(), expected.len());
            for start in [0, expected.len() / 3, expected.len() - expected.len() / 3, expected.len()] {
                let count = (expected.len() - start).min(n % 5);
                let all = ReadLimit { events: count, bytes: usize::MAX };
                let read = events.get(start, all);
                let least = count.max(1).min(expected.len() - start);
                assert!(read.iter().eq(expected.range(start..start + least)), "{n}");
                let few = events.get(start, ReadLimit { events: usize::MAX, bytes: 500 });
                assert!(few.len() <= 1 || few.iter().map(Bytes::len).sum::<usize>() <= 500);
                assert!(few.iter().eq(expected.range(start..start + few.len())));
                let next = expected.get(start + few.len()).map_or(501, Bytes::len);
                assert!(
                    few.iter().map(Bytes::len).sum::<usize>() + next > 500,
                    "no fewer than there is room for"
                );
                assert!(events.lengths(start).eq(expected.range(start..).map(Bytes::len)));
            }
        }
        events.drop_oldest(expected.len());
        events.shrink();
        assert_eq!((events.len(), events.heap()), (0, 0));
    }

    #[test]
    fn small_events_take_their_bytes_and_two_lengths() {
        let mut events = Events::default();
        for length in [66, 67, 68] {
            events.push(Bytes::from(vec![0; length]));
        }
        assert_eq!(events.heap(), 66 + 67 + 68 + 3 * 4);
    }
}
