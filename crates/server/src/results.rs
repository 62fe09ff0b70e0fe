//! The results of one session that wait for their client, within a bound.

use bowline_proto::{cursor::StreamId, legacy::Millis};
use std::collections::VecDeque;

/// Streams that are sealed and kept, the oldest first. All are kept equally long, so that is also the order of their expiry.
#[derive(Default)]
pub(crate) struct Results {
    kept: VecDeque<Kept>,
    /// When the oldest expires, or before: it is long ago that it was looked at.
    next: Option<Millis>,
    bytes: u64,
}

struct Kept {
    stream: StreamId,
    expires: Millis,
    bytes: u64,
}

impl Results {
    /// Takes note of a stream of `bytes` that was sealed. Returns the streams that have to go, so that all together have at most
    /// `limit` bytes; the newest stays whatever its size.
    pub(crate) fn keep(
        &mut self,
        stream: StreamId,
        bytes: u64,
        now: Millis,
        expires: Millis,
        limit: u64,
    ) -> Vec<StreamId> {
        if self.next.is_some_and(|next| next <= now) {
            while self.kept.front().is_some_and(|oldest| oldest.expires <= now) {
                self.drop_oldest();
            }
            self.next = self.kept.front().map(|oldest| oldest.expires);
        }
        self.next = self.next.or(Some(expires));
        self.kept.push_back(Kept { stream, expires, bytes });
        self.bytes = self.bytes.saturating_add(bytes);
        let mut gone = Vec::new();
        while self.bytes > limit && self.kept.len() > 1 {
            gone.extend(self.drop_oldest());
        }
        gone
    }

    fn drop_oldest(&mut self) -> Option<StreamId> {
        let oldest = self.kept.pop_front()?;
        self.bytes = self.bytes.saturating_sub(oldest.bytes);
        Some(oldest.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> StreamId {
        StreamId::from_bytes([n; 16])
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stays() {
        let mut results = Results::default();
        let mut keep = |n, bytes, now| results.keep(id(n), bytes, Millis(now), Millis(now + 100), 10);
        assert_eq!(keep(1, 4, 0), []);
        assert_eq!(keep(2, 4, 1), []);
        assert_eq!(keep(3, 4, 2), [id(1)]);
        assert_eq!(keep(4, 50, 3), [id(2), id(3)]);
        assert_eq!(keep(5, 1, 4), [id(4)]);
        // What expired is the store's to drop, and does not count.
        assert_eq!(keep(6, 10, 104), []);
    }
}
