//! What this backend appended a moment ago, in case Redis loses it.
//!
//! Replication is asynchronous: a failover, or a restart from a file that is synced once a second, forgets the last writes that were
//! acknowledged. The one who knows them is the writer. It appends them again, at the same epoch and offset; where the log still
//! has them that changes nothing.
//!
//! Remembered are the acknowledged events of streams that this store made or took over, for [`Options::tail`](crate::Options::tail), and within
//! its bounds in bytes; of a sealed stream its seal, as long. What is lost beyond that: a log that goes less far than what was
//! forgotten here cannot be completed. It is given up as a whole (its readers are told), because a writer that went on would
//! give out offsets a second time.

use crate::options::Options;
use bowline_proto::cursor::StreamId;
use bowline_store::WriteAt;
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    streams: HashMap<StreamId, Tail>,
    /// In the order of their acknowledgement, with what was acknowledged.
    order: VecDeque<(Instant, StreamId, u64)>,
    bytes: usize,
}

#[derive(Debug)]
struct Tail {
    epoch: u64,
    /// The last offset that was acknowledged.
    acked: u64,
    /// The payloads of the last so many offsets before `acked`, and it.
    events: VecDeque<Bytes>,
    bytes: usize,
    seal: Option<Seal>,
    /// When the stream ends by itself, unless it is kept.
    until: Instant,
    given_up: bool,
}

/// A seal that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) at: WriteAt,
    /// The last message; `None` for a cancelled stream.
    pub(crate) last: Option<Bytes>,
    pub(crate) keep: Duration,
}

/// What has to be done about a log that ends at some offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is not ours, or it is whole.
    Nothing,
    /// These were acknowledged and are not there.
    These(Vec<(WriteAt, Bytes)>, Option<Seal>),
    /// Something was acknowledged, is not there, and is not remembered.
    Forgotten,
}

impl Tails {
    /// A stream was made here.
    pub(crate) fn made(&mut self, stream: StreamId, epoch: u64, until: Instant) {
        self.taken(stream, epoch, 0, until);
    }

    /// A stream was taken over that ends at `acked`. What another backend wrote is not remembered here: if the server loses that, the
    /// stream is given up.
    pub(crate) fn taken(&mut self, stream: StreamId, epoch: u64, acked: u64, until: Instant) {
        self.forget(stream);
        let events = VecDeque::new();
        let tail = Tail { epoch, acked, events, bytes: 0, seal: None, until, given_up: false };
        self.streams.insert(stream, tail);
    }

    /// Remembers an event that was acknowledged.
    pub(crate) fn acked(&mut self, at: WriteAt, payload: Bytes, options: &Options) {
        let Some(tail) = self.streams.get_mut(&at.stream) else { return };
        if at.epoch != tail.epoch || at.offset <= tail.acked {
            return;
        }
        if at.offset != tail.acked + 1 {
            // Somebody else was in between, and it is theirs to remember.
            self.bytes -= tail.bytes;
            tail.bytes = 0;
            tail.events.clear();
        }
        tail.acked = at.offset;
        self.bytes += payload.len();
        tail.bytes += payload.len();
        tail.events.push_back(payload);
        while tail.bytes > options.tail_stream_bytes {
            self.bytes -= tail.drop_oldest();
        }
        self.order.push_back((Instant::now(), at.stream, at.offset));
        while self.bytes > options.tail_bytes && self.drop_oldest() {}
    }

    /// Remembers a seal that was acknowledged.
    pub(crate) fn sealed(&mut self, seal: Seal, options: &Options) {
        let at = seal.at;
        let Some(tail) = self.streams.get_mut(&at.stream) else { return };
        if at.epoch != tail.epoch {
            self.forget(at.stream);
            return;
        }
        tail.seal = Some(seal.clone());
        match seal.last {
            Some(last) => self.acked(at, last, options),
            None => self.order.push_back((Instant::now(), at.stream, at.offset)),
        }
    }

    /// The stream lives longer.
    pub(crate) fn kept(&mut self, stream: StreamId, until: Instant) {
        if let Some(tail) = self.streams.get_mut(&stream) {
            tail.until = tail.until.max(until);
        }
    }

    /// The stream is gone, or somebody else's.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        if let Some(tail) = self.streams.remove(&stream) {
            self.bytes -= tail.bytes;
        }
    }

    /// The stream cannot be completed: nothing may be written to it any more.
    pub(crate) fn give_up(&mut self, stream: StreamId) {
        if let Some(tail) = self.streams.get_mut(&stream) {
            tail.given_up = true;
            self.bytes -= std::mem::take(&mut tail.bytes);
            tail.events.clear();
        }
    }

    pub(crate) fn is_given_up(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|tail| tail.given_up)
    }

    /// What a log lacks that ends at `tail` in epoch `epoch`.
    pub(crate) fn missing(&self, stream: StreamId, epoch: u64, tail: u64, sealed: bool) -> Missing {
        let Some(known) = self.streams.get(&stream) else { return Missing::Nothing };
        if epoch > known.epoch || sealed || known.given_up {
            return Missing::Nothing;
        }
        let seal = known.seal.clone();
        if tail >= known.acked && seal.is_none() {
            return Missing::Nothing;
        }
        let count = usize::try_from(known.acked.saturating_sub(tail)).unwrap_or(usize::MAX);
        if count > known.events.len() {
            return Missing::Forgotten;
        }
        let payloads = known.events.iter().skip(known.events.len() - count).cloned();
        let mut events: Vec<_> = (tail + 1..)
            .zip(payloads)
            .map(|(offset, payload)| (WriteAt { stream, epoch: known.epoch, offset }, payload))
            .collect();
        if seal.as_ref().is_some_and(|seal| seal.last.is_some()) {
            // The seal brings it itself.
            events.pop();
        }
        Missing::These(events, seal)
    }

    /// Whether something was acknowledged after `tail`.
    pub(crate) fn is_ahead(&self, stream: StreamId, tail: u64) -> bool {
        self.streams.get(&stream).is_some_and(|known| known.acked > tail || known.seal.is_some())
    }

    /// The streams of which something is remembered.
    pub(crate) fn remembered(&self) -> Vec<StreamId> {
        let some = |tail: &Tail| !tail.given_up && (!tail.events.is_empty() || tail.seal.is_some());
        self.streams.iter().filter(|(_, tail)| some(tail)).map(|(id, _)| *id).collect()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets what was acknowledged before `before`.
    pub(crate) fn prune(&mut self, before: Instant) {
        while self.order.front().is_some_and(|(acked, ..)| *acked < before) {
            self.drop_oldest();
        }
        if self.order.capacity() > 1024 && self.order.len() * 8 < self.order.capacity() {
            let keep = self.order.len() * 2;
            self.order.shrink_to(keep);
        }
    }

    /// Forgets streams that ended by themselves. Looks at every one.
    pub(crate) fn prune_ended(&mut self, now: Instant) {
        let bytes = &mut self.bytes;
        self.streams.retain(|_, tail| {
            let ended = tail.until < now;
            if ended {
                *bytes -= tail.bytes;
            }
            !ended
        });
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, stream, offset)) = self.order.pop_front() else { return false };
        let Some(tail) = self.streams.get_mut(&stream) else { return true };
        // Some of it may be forgotten for the bound of its stream.
        let first = tail.acked + 1 - tail.events.len() as u64;
        if offset >= first && !tail.events.is_empty() {
            self.bytes -= tail.drop_oldest();
        }
        if tail.seal.as_ref().is_some_and(|seal| seal.at.offset <= offset) {
            self.forget(stream);
        }
        true
    }
}

impl Tail {
    fn drop_oldest(&mut self) -> usize {
        let dropped = self.events.pop_front().map_or(0, |payload| payload.len());
        self.bytes -= dropped;
        if self.events.is_empty() {
            self.events.shrink_to_fit();
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId::from_bytes([1; 16]);

    fn at(offset: u64) -> WriteAt {
        WriteAt { stream: ID, epoch: 1, offset }
    }

    fn with(count: u64, options: &Options) -> Tails {
        let mut tails = Tails::default();
        tails.made(ID, 1, Instant::now() + Duration::from_hours(1));
        for offset in 1..=count {
            tails.acked(at(offset), payload(offset), options);
        }
        tails
    }

    fn payload(offset: u64) -> Bytes {
        format!("{offset:010}").into()
    }

    fn these(offsets: std::ops::RangeInclusive<u64>) -> Missing {
        Missing::These(offsets.map(|offset| (at(offset), payload(offset))).collect(), None)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_is_known() {
        let tails = with(5, &Options::default());
        assert_eq!(tails.missing(ID, 1, 5, false), Missing::Nothing);
        assert_eq!(tails.missing(ID, 1, 3, false), these(4..=5));
        assert_eq!(tails.missing(ID, 1, 0, false), these(1..=5));
        // Whoever took it over, or sealed it, has the say.
        assert_eq!(tails.missing(ID, 2, 3, false), Missing::Nothing);
        assert_eq!(tails.missing(ID, 1, 3, true), Missing::Nothing);
        assert_eq!(tails.missing(StreamId::from_bytes([2; 16]), 1, 3, false), Missing::Nothing);
        assert!(tails.is_ahead(ID, 4) && !tails.is_ahead(ID, 5));
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_stream_that_was_taken_over_only_our_own_is_remembered() {
        let options = Options::default();
        let mut tails = with(2, &options);
        tails.taken(ID, 2, 5, Instant::now() + Duration::from_hours(1));
        assert_eq!((tails.missing(ID, 2, 5, false), tails.bytes()), (Missing::Nothing, 0));
        assert_eq!(tails.missing(ID, 1, 4, false), Missing::Forgotten);
        let own = WriteAt { epoch: 2, ..at(6) };
        tails.acked(own, payload(6), &options);
        assert_eq!(tails.missing(ID, 2, 5, false), Missing::These(vec![(own, payload(6))], None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_beyond_a_bound_is_forgotten() {
        let of_a_stream = Options { tail_stream_bytes: 25, ..Options::default() };
        let of_all = Options { tail_bytes: 25, ..Options::default() };
        for options in [of_a_stream, of_all] {
            let tails = with(5, &options);
            assert_eq!(tails.bytes(), 20);
            assert_eq!(tails.missing(ID, 1, 3, false), these(4..=5));
            assert_eq!(tails.missing(ID, 1, 2, false), Missing::Forgotten);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_forgotten() {
        let options = Options::default();
        let mut tails = with(3, &options);
        tokio::time::advance(Duration::from_secs(5)).await;
        tails.acked(at(4), payload(4), &options);
        tails.prune(Instant::now());
        assert_eq!(tails.missing(ID, 1, 3, false), these(4..=4));
        assert_eq!(tails.missing(ID, 1, 2, false), Missing::Forgotten);
        assert_eq!(tails.remembered(), [ID]);
        tokio::time::advance(Duration::from_secs(5)).await;
        tails.prune(Instant::now());
        assert_eq!((tails.remembered(), tails.bytes()), (vec![], 0));
        // That something was acknowledged is known as long as the stream lives.
        assert_eq!(tails.missing(ID, 1, 3, false), Missing::Forgotten);
        tokio::time::advance(Duration::from_hours(2)).await;
        tails.prune_ended(Instant::now());
        assert_eq!(tails.missing(ID, 1, 3, false), Missing::Nothing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_seal_is_remembered_with_its_message() {
        let options = Options::default();
        for last in [Some(payload(3)), None] {
            let mut tails = with(2, &options);
            let seal = Seal { at: at(3), last, keep: Duration::from_secs(9) };
            tails.sealed(seal.clone(), &options);
            let expected = Missing::These(vec![(at(2), payload(2))], Some(seal.clone()));
            assert_eq!(tails.missing(ID, 1, 1, false), expected);
            assert_eq!(tails.missing(ID, 1, 2, false), Missing::These(vec![], Some(seal)));
            assert_eq!(tails.missing(ID, 1, 3, true), Missing::Nothing);
            tokio::time::advance(Duration::from_secs(5)).await;
            tails.prune(Instant::now());
            assert_eq!((tails.remembered(), tails.bytes()), (vec![], 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_given_up_stays_so() {
        let mut tails = with(2, &Options::default());
        tails.give_up(ID);
        assert!(tails.is_given_up(ID));
        assert_eq!((tails.bytes(), tails.remembered()), (0, vec![]));
        tails.forget(ID);
        assert!(!tails.is_given_up(ID));
    }
}
