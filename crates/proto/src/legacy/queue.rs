//! What a writer has not put into the log yet, within bounds.

use bytes::Bytes;
use std::collections::VecDeque;

/// One message that waits for its turn.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) payload: Bytes,
    /// Whether it may be dropped at a bound.
    pub(super) droppable: bool,
    /// Messages of the same key say the same thing, the newest one best.
    pub(super) key: Option<Bytes>,
}

/// What became of an entry at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Queued,
    /// It is in, in place of an older one of its key.
    Coalesced,
    /// There is no room for it.
    Refused,
}

/// A queue with a bound on entries and on bytes. A single entry fits into an empty queue whatever its size.
#[derive(Debug)]
pub(super) struct Queue {
    /// There while something waits, and until [`Queue::shrink`]: most writers have nothing most of the time, and there are many.
    line: Option<Box<Line>>,
    max_entries: u32,
    max_bytes: u32,
    /// Whether the first entry is being written: then it is past changing.
    busy: bool,
    /// How many entries were thrown out in favour of others, and what else its owner has dropped.
    pub(super) dropped: u32,
}

/// A bound in fewer bytes: what is larger is as good as none.
pub(super) const fn word(bound: usize) -> u32 {
    if bound > u32::MAX as usize { u32::MAX } else { bound as u32 }
}

#[derive(Debug, Default)]
struct Line {
    entries: VecDeque<Entry>,
    /// Bytes of payload in all of them.
    bytes: usize,
}

impl Queue {
    pub(super) const fn new(max_entries: usize, max_bytes: usize) -> Self {
        let (max_entries, max_bytes) = (word(max_entries), word(max_bytes));
        Self { line: None, max_entries, max_bytes, busy: false, dropped: 0 }
    }

    pub(super) fn admit(&mut self, entry: Entry) -> Admitted {
        if self.fits(entry.payload.len(), 0, 0) {
            self.push(entry);
            return Admitted::Queued;
        }
        if let Some(at) = self.older_of_its_key(&entry) {
            let freed = self.entries().nth(at).map_or(0, |older| older.payload.len());
            if self.fits(entry.payload.len(), 1, freed) {
                self.remove(at);
                self.push(entry);
                return Admitted::Coalesced;
            }
        }
        if entry.droppable || !self.make_room(entry.payload.len()) {
            return Admitted::Refused;
        }
        self.push(entry);
        Admitted::Queued
    }

    /// The first entry, which is being written from now on.
    pub(super) fn begin(&mut self) -> Option<&Entry> {
        let first = self.line.as_ref().and_then(|line| line.entries.front());
        self.busy = first.is_some();
        first
    }

    /// The first entry was written, or will never be.
    pub(super) fn finish(&mut self) -> Option<Entry> {
        self.busy = false;
        self.remove(0)
    }

    pub(super) const fn note_dropped(&mut self) {
        self.dropped = self.dropped.saturating_add(1);
    }

    /// Gives back room that nothing waits in.
    pub(super) fn shrink(&mut self) {
        match &mut self.line {
            Some(line) if !line.entries.is_empty() => line.entries.shrink_to_fit(),
            line => *line = None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn payloads(&self) -> impl Iterator<Item = &Bytes> {
        self.entries().map(|entry| &entry.payload)
    }

    fn len(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.entries.len())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.line.iter().flat_map(|line| line.entries.iter())
    }

    fn fits(&self, bytes: usize, fewer: usize, freed: usize) -> bool {
        let left = self.len() - fewer;
        left == 0
            || (left < self.max_entries as usize
                && self.line.as_ref().map_or(0, |line| line.bytes) - freed + bytes <= self.max_bytes as usize)
    }

    fn older_of_its_key(&self, entry: &Entry) -> Option<usize> {
        let key = entry.key.as_ref()?;
        let same = |older: &Entry| older.droppable && older.key.as_ref() == Some(key);
        self.entries().skip(self.busy.into()).position(same).map(|at| at + usize::from(self.busy))
    }

    /// Throws out what may be dropped, oldest first, if that makes room for `bytes` more.
    fn make_room(&mut self, bytes: usize) -> bool {
        let mut doomed = 0;
        let mut freed = 0;
        let droppable = |(at, entry): &(usize, &Entry)| entry.droppable && (*at > 0 || !self.busy);
        for (_, entry) in self.entries().enumerate().filter(droppable) {
            if self.fits(bytes, doomed, freed) {
                break;
            }
            doomed += 1;
            freed += entry.payload.len();
        }
        if !self.fits(bytes, doomed, freed) {
            return false;
        }
        for _ in 0..doomed {
            let busy = usize::from(self.busy);
            let oldest = self.entries().skip(busy).position(|entry| entry.droppable);
            if let Some(at) = oldest {
                self.remove(busy + at);
                self.note_dropped();
            }
        }
        true
    }

    fn push(&mut self, entry: Entry) {
        let line = self.line.get_or_insert_default();
        line.bytes += entry.payload.len();
        line.entries.push_back(entry);
    }

    fn remove(&mut self, at: usize) -> Option<Entry> {
        let line = self.line.as_mut()?;
        let entry = line.entries.remove(at)?;
        line.bytes -= entry.payload.len();
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(payload: &'static str, droppable: bool, key: Option<&'static str>) -> Entry {
        Entry { payload: Bytes::from(payload), droppable, key: key.map(Bytes::from) }
    }

    fn texts(queue: &Queue) -> Vec<&str> {
        queue.payloads().map(|payload| str::from_utf8(payload).unwrap()).collect()
    }

    #[test]
    fn the_newest_of_a_key_takes_the_place_of_the_oldest_only_at_the_bound() {
        let mut queue = Queue::new(3, 100);
        assert_eq!(queue.admit(entry("p1", true, Some("t"))), Admitted::Queued);
        assert_eq!(queue.admit(entry("p2", true, Some("t"))), Admitted::Queued);
        assert_eq!(queue.admit(entry("log", true, None)), Admitted::Queued);
        assert_eq!(queue.admit(entry("p3", true, Some("t"))), Admitted::Coalesced);
        assert_eq!(texts(&queue), ["p2", "log", "p3"]);
        assert_eq!(queue.admit(entry("q1", true, Some("u"))), Admitted::Refused);
    }

    #[test]
    fn what_is_being_written_is_never_replaced_or_thrown_out() {
        let mut queue = Queue::new(1, 100);
        queue.admit(entry("p1", true, Some("t")));
        assert_eq!(queue.begin().unwrap().payload, "p1");
        assert_eq!(queue.admit(entry("p2", true, Some("t"))), Admitted::Refused);
        assert_eq!(queue.admit(entry("ask", false, None)), Admitted::Refused);
        assert_eq!(queue.finish().unwrap().payload, "p1");
        assert_eq!(queue.admit(entry("ask", false, None)), Admitted::Queued);
    }

    #[test]
    fn what_must_stay_throws_out_just_as_much_as_it_needs() {
        let mut queue = Queue::new(10, 10);
        queue.admit(entry("aaaa", true, None));
        queue.admit(entry("kk", false, None));
        queue.admit(entry("bbbb", true, None));
        assert_eq!(queue.admit(entry("cccc", false, None)), Admitted::Queued);
        assert_eq!(texts(&queue), ["kk", "bbbb", "cccc"]);
        assert_eq!(queue.dropped, 1);
        assert_eq!(queue.admit(entry("ddddddddd", false, None)), Admitted::Refused, "kk and cccc stay");
        assert_eq!(texts(&queue), ["kk", "bbbb", "cccc"], "and nothing is thrown out in vain");
    }

    #[test]
    fn one_large_entry_fits_into_an_empty_queue() {
        let mut queue = Queue::new(10, 2);
        assert_eq!(queue.admit(entry("large", false, None)), Admitted::Queued);
        assert_eq!(queue.admit(entry("x", false, None)), Admitted::Refused);
    }
}
