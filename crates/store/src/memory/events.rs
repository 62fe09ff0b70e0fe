//! The events of one stream, in as few bytes as they take.

use crate::ReadLimit;
use bytes::Bytes;
use std::collections::VecDeque;

/// An event of at most so many bytes is copied to the others: a buffer of its own would cost as much again.
const SMALL: usize = 256;

/// How many of the messages that servers send begin. A small event that begins like one of these is kept without it; of several that fit
/// the first is taken ([`beginning_of`]). Their places are never stored for longer than a process lives.
const BEGINNINGS: [&str; 5] = [
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#,
    r#"{"jsonrpc":"2.0","method":"notifications/"#,
    r#"{"jsonrpc":"2.0","id":"#,
    "",
];

/// Their lengths, one for each place that a mark can name.
const LENGTHS: [u8; 128] = {
    let mut lengths = [0; 128];
    let mut n = 0;
    while n < BEGINNINGS.len() {
        lengths[n] = BEGINNINGS[n].len() as u8;
        n += 1;
    }
    lengths
};

/// Events, oldest first, and before them a label: a text that goes with them. Small ones lie one behind the other and are copied for
/// whoever reads them, all of one read together; large ones are shared.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The length of the label and the label; then, from `start` on, small events, each between two [marks](Mark), so that they are found
    /// from both ends: who reads a stream while it is written is near the last. Large ones are marks alone. Empty where there was never
    /// anything to put here.
    bytes: Vec<u8>,
    /// What lies between the label and this was dropped.
    start: u32,
    count: u32,
    large: Option<Box<Large>>,
}

#[derive(Debug, Default)]
struct Large(VecDeque<Bytes>);

/// What stands on both sides of an event: how many bytes of it are kept, and, times [`Mark::BEGINNING`], which of [`BEGINNINGS`] is before
/// them. Or that the next large one stands here.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u16);

impl Mark {
    /// The bytes of a mark.
    const LEN: usize = 2;
    /// The first power of two above [`SMALL`].
    const BEGINNING: u16 = 512;
    const LARGE: Self = Self(u16::MAX);

    /// The mark of an event, and what is kept of it.
    fn of(event: &[u8]) -> (Self, &[u8]) {
        if event.len() > SMALL {
            return (Self::LARGE, &[]);
        }
        let beginning = beginning_of(event);
        let kept = &event[BEGINNINGS[beginning].len()..];
        (Self(beginning as u16 * Self::BEGINNING + kept.len() as u16), kept)
    }

    fn kept(self) -> usize {
        if self == Self::LARGE { 0 } else { usize::from(self.0 % Self::BEGINNING) }
    }

    /// Writes the beginning. Written out: each is then copied by a few instructions.
    fn put_beginning(self, out: &mut Vec<u8>) {
        let mut put = |n: usize| out.extend_from_slice(BEGINNINGS[n].as_bytes());
        match self.0 / Self::BEGINNING {
            0 => put(0),
            1 => put(1),
            2 => put(2),
            3 => put(3),
            _ => {}
        }
    }

    /// The length of the event, where it is a small one.
    fn length(self) -> usize {
        usize::from(LENGTHS[usize::from(self.0 / Self::BEGINNING)]) + self.kept()
    }
}

/// Marks, and what is kept behind them, one by one.
struct Walk<'a>(&'a [u8]);

impl<'a> Iterator for Walk<'a> {
    type Item = (Mark, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (mark, rest) = self.0.split_first_chunk()?;
        let mark = Mark(u16::from_le_bytes(*mark));
        let (kept, rest) = rest.split_at_checked(mark.kept())?;
        self.0 = rest.get(Mark::LEN..)?;
        Some((mark, kept))
    }
}

/// Which of [`BEGINNINGS`] an event has. Written out: so it takes a few comparisons, and it is done for every event.
fn beginning_of(event: &[u8]) -> usize {
    let begins = |n: usize| event.starts_with(BEGINNINGS[n].as_bytes());
    if !begins(2) {
        return if begins(3) { 3 } else { 4 };
    }
    if begins(0) {
        return 0;
    }
    if begins(1) { 1 } else { 2 }
}

/// The bytes of the length of the label.
const LABEL: usize = 4;

/// A place between two events: how many bytes and how many large ones are before it.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    large: usize,
}

impl Events {
    /// No events, with a label of these parts.
    ///
    /// # Panics
    /// With a label of 4 GiB or more.
    pub(super) fn labelled<const N: usize>(label: [&str; N]) -> Self {
        let length = label.iter().map(|part| part.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(LABEL + length);
        bytes.extend(u32::try_from(length).expect("a label is short").to_le_bytes());
        label.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        Self { start: bytes.len() as u32, bytes, ..Self::default() }
    }

    /// The label; empty where there is none.
    pub(super) fn label(&self) -> &[u8] {
        self.bytes.get(LABEL..self.label_end()).unwrap_or_default()
    }

    /// Drops the label.
    pub(super) fn drop_label(&mut self) {
        let end = self.label_end();
        if end > LABEL {
            self.bytes.drain(LABEL..end);
            self.bytes[..LABEL].fill(0);
            self.start -= (end - LABEL) as u32;
        }
    }

    fn label_end(&self) -> usize {
        self.bytes.first_chunk().map_or(0, |length| LABEL + u32::from_le_bytes(*length) as usize)
    }

    pub(super) const fn len(&self) -> usize {
        self.count as usize
    }

    pub(super) fn push(&mut self, event: Bytes) {
        let (mark, kept) = Mark::of(&event);
        let more = kept.len() + 2 * Mark::LEN;
        if self.bytes.is_empty() {
            grow(&mut self.bytes, LABEL + more);
            self.bytes.extend_from_slice(&[0; LABEL]);
            self.start = LABEL as u32;
        }
        grow(&mut self.bytes, more);
        self.bytes.extend_from_slice(&mark.0.to_le_bytes());
        self.bytes.extend_from_slice(kept);
        self.bytes.extend_from_slice(&mark.0.to_le_bytes());
        self.count += 1;
        if mark == Mark::LARGE {
            let large = &mut self.large.get_or_insert_default().0;
            if large.capacity() == large.len() {
                large.reserve_exact(1 + large.len() / 2);
            }
            large.push_back(event);
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
        let mut end = self.first();
        let bytes = (0..count).map(|_| self.step(&mut end)).sum();
        if let Some(large) = &mut self.large {
            large.0.drain(..end.large);
        }
        self.count -= count as u32;
        self.start = end.at as u32;
        // What was dropped is moved over when it is more than what is left: so each byte is moved once.
        let (label, dropped) = (self.label_end(), end.at - self.label_end());
        if dropped > SMALL.max(self.bytes.len() - end.at) || self.count == 0 {
            self.close_up();
            if self.bytes.capacity() > label + 2 * (SMALL + self.bytes.len()) {
                self.shrink();
            }
        }
        bytes
    }

    /// The events from the one at `start` on, as many as the limit allows, and one at least where there is one.
    pub(super) fn get(&self, start: usize, limit: ReadLimit) -> Vec<Bytes> {
        let first = self.find(start);
        let part = || Walk(&self.bytes[first.at..]);
        let (mut count, mut bytes, mut copied, mut large) = (0, 0_usize, 0, first.large);
        for (mark, _) in part() {
            let small = mark != Mark::LARGE;
            let length = if small { mark.length() } else { self.length(mark, &mut large) };
            bytes = bytes.saturating_add(length);
            if count > 0 && (count >= limit.events || bytes > limit.bytes) {
                break;
            }
            count += 1;
            copied += if small { length } else { 0 };
        }
        let mut out = Vec::with_capacity(copied);
        for (mark, kept) in part().take(count) {
            mark.put_beginning(&mut out);
            out.extend_from_slice(kept);
        }
        let (mut copied, mut large) = (Bytes::from(out), first.large);
        let mut events = Vec::with_capacity(count);
        for (mark, _) in part().take(count) {
            events.push(if mark == Mark::LARGE {
                large += 1;
                self.large.as_ref().map(|held| held.0[large - 1].clone()).unwrap_or_default()
            } else {
                copied.split_to(mark.length())
            });
        }
        events
    }

    /// Gives back the room that nothing is in.
    pub(super) fn shrink(&mut self) {
        self.close_up();
        if self.count == 0 && self.label().is_empty() {
            (self.bytes, self.start) = (Vec::new(), 0);
        }
        self.bytes.shrink_to_fit();
        match &mut self.large {
            Some(large) if !large.0.is_empty() => large.0.shrink_to_fit(),
            large => *large = None,
        }
    }

    /// Takes out what was dropped.
    fn close_up(&mut self) {
        let label = self.label_end();
        self.bytes.drain(label..self.start as usize);
        self.start = label as u32;
    }

    /// The place before the first event.
    const fn first(&self) -> Place {
        Place { at: self.start as usize, large: 0 }
    }

    /// The place before the event at `start`, from whichever end is nearer.
    fn find(&self, start: usize) -> Place {
        let behind = self.len().saturating_sub(start);
        if start < behind {
            let mut place = self.first();
            for _ in 0..start {
                self.step(&mut place);
            }
            return place;
        }
        let large = self.large.as_ref().map_or(0, |large| large.0.len());
        let mut place = Place { at: self.bytes.len(), large };
        for _ in 0..behind {
            let mark = self.mark(place.at - Mark::LEN);
            place.at -= mark.kept() + 2 * Mark::LEN;
            place.large -= usize::from(mark == Mark::LARGE);
        }
        place
    }

    /// Goes over the event behind `place`; returns its length.
    fn step(&self, place: &mut Place) -> usize {
        let mark = self.mark(place.at);
        place.at += mark.kept() + 2 * Mark::LEN;
        self.length(mark, &mut place.large)
    }

    /// The length of the event of that mark; before it there are so many large ones.
    fn length(&self, mark: Mark, large: &mut usize) -> usize {
        if mark == Mark::LARGE {
            *large += 1;
            return self.large.as_ref().map_or(0, |held| held.0[*large - 1].len());
        }
        mark.length()
    }

    fn mark(&self, at: usize) -> Mark {
        Mark(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    /// The bytes that this takes beside itself.
    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        let ring = |large: &Large| size_of::<Large>() + large.0.capacity() * size_of::<Bytes>();
        self.bytes.capacity() + self.large.as_deref().map_or(0, ring)
    }
}

/// Makes room for `more`. Most calls say little: exactly as much at first, a quarter as much again later.
fn grow(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        bytes.reserve_exact(more.max(bytes.len() / 4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_whatever_was_dropped_before() {
        let mut events = Events::labelled(["a label", " of two"]);
        let mut expected: VecDeque<Bytes> = VecDeque::new();
        // Lengths on both sides of the bound, in no order, some with one of the beginnings or a part of it.
        for n in 0..400_usize {
            let beginning = BEGINNINGS[n / 7 % BEGINNINGS.len()].as_bytes();
            let beginning = &beginning[..beginning.len().saturating_sub(n / 3 % 3)];
            let event = Bytes::from([beginning, &vec![n as u8; n * 89 % 300]].concat());
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
        assert_eq!(events.label(), b"a label of two");
        events.drop_label();
        assert!(events.label().is_empty() && events.lengths(0).eq(expected.iter().map(Bytes::len)));
        events.drop_oldest(expected.len());
        events.shrink();
        assert_eq!((events.len(), events.heap()), (0, 0));
    }

    #[test]
    fn small_events_take_their_bytes_and_two_lengths() {
        let mut events = Events::labelled(["of whom", ""]);
        for length in [66, 67, 68] {
            events.push(Bytes::from(vec![0; length]));
        }
        assert_eq!(events.heap(), LABEL + 7 + 66 + 67 + 68 + 3 * 4);
    }

    #[test]
    fn what_messages_begin_with_takes_nothing() {
        let mut events = Events::default();
        for beginning in BEGINNINGS {
            let event = Bytes::from(format!("{beginning}1234"));
            events.push(event.clone());
            assert_eq!(events.get(events.len() - 1, ReadLimit { events: 1, bytes: 0 }), [event]);
        }
        events.shrink();
        assert_eq!(events.heap(), LABEL + BEGINNINGS.len() * (4 + 2 * Mark::LEN));
        assert!(
            usize::from(u16::MAX / Mark::BEGINNING) > BEGINNINGS.len(),
            "none is like the mark of large ones"
        );
    }

    #[test]
    fn a_stream_that_drops_what_it_takes_in_does_not_grow() {
        let mut events = Events::default();
        for n in 0..10_000_u32 {
            events.push(Bytes::from(vec![0; n as usize % 200]));
            if n >= 20 {
                events.drop_oldest(1);
            }
            assert!(events.heap() <= 3 * 20 * 200, "{}", events.heap());
        }
        assert_eq!(events.len(), 20);
    }
}
