//! Hints: small changes that may be lost. They are collected and written together.

use crate::clock::Moment;
use bowline_proto::cursor::StreamId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The most streams with hints; what comes for one more is lost.
const MOST: usize = 16_384;

/// What was hinted of one stream since the last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hint {
    /// A generation, and the offset up to which it wrote to its connection.
    pub(crate) delivered: Option<(u64, u64)>,
    /// The offset up to which events may go.
    pub(crate) trim: Option<u64>,
    /// How long the stream is wanted at least.
    pub(crate) keep: Option<Moment>,
}

#[derive(Default)]
pub(crate) struct Hints(Mutex<HashMap<StreamId, Hint>>);

impl Hints {
    /// Notes a hint. Says whether it is the first since the last flush.
    pub(crate) fn note(&self, stream: StreamId, change: impl FnOnce(&mut Hint)) -> bool {
        let mut hints = self.0.lock();
        let first = hints.is_empty();
        if hints.len() < MOST || hints.contains_key(&stream) {
            change(hints.entry(stream).or_default());
        }
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes what was hinted of one stream.
    pub(crate) fn take(&self, stream: StreamId) -> Option<Hint> {
        self.0.lock().remove(&stream)
    }

    /// Takes everything.
    pub(crate) fn take_all(&self) -> HashMap<StreamId, Hint> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Hint {
    pub(crate) fn note_delivered(&mut self, generation: u64, offset: u64) {
        self.delivered = Some(match self.delivered {
            Some((newer, at)) if newer > generation => (newer, at),
            Some((same, at)) if same == generation => (same, at.max(offset)),
            _ => (generation, offset),
        });
    }

    pub(crate) fn note_trim(&mut self, offset: u64) {
        self.trim = self.trim.max(Some(offset));
    }

    pub(crate) fn note_keep(&mut self, until: Moment) {
        self.keep = self.keep.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_reader_and_the_furthest_positions_count() {
        let mut hint = Hint::default();
        hint.note_delivered(2, 5);
        hint.note_delivered(2, 3);
        hint.note_delivered(1, 9);
        hint.note_trim(4);
        hint.note_trim(2);
        hint.note_keep(Moment(7));
        hint.note_keep(Moment(6));
        assert_eq!(hint, Hint { delivered: Some((2, 5)), trim: Some(4), keep: Some(Moment(7)) });
        hint.note_delivered(3, 1);
        assert_eq!(hint.delivered, Some((3, 1)));
    }

    #[test]
    fn there_is_a_bound() {
        let hints = Hints::default();
        let id = |n: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&n.to_be_bytes());
            StreamId::from_bytes(bytes)
        };
        for n in 0..MOST + 10 {
            assert_eq!(hints.note(id(n), |hint| hint.note_trim(1)), n == 0);
        }
        hints.note(id(0), |hint| hint.note_trim(9));
        assert_eq!(hints.take(id(0)).unwrap().trim, Some(9));
        assert_eq!(hints.take_all().len(), MOST - 1);
        assert!(hints.is_empty());
    }
}
