//! Streams in memory.

use super::{
    Inner, MemoryLimits, MemoryStore, Shard, Swept, drain,
    expiring::Millis,
    log::{Freed, Log, Place},
    waiters::wake,
};
use crate::{
    Appended, Attachment, CreateError, Event, EventClass, Figure, NewStream, Page, ReadError, ReadLimit,
    SealedStream, StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, WriteAt, WriteError,
};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::watch;

impl StreamLog for MemoryStore {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        StoreFuture::ready(self.inner.create(&stream))
    }

    fn create_sealed(&self, stream: SealedStream) -> StoreFuture<'_, Result<(), CreateError>> {
        StoreFuture::ready(self.inner.create_sealed(stream))
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        let class = event.class;
        StoreFuture::ready(self.inner.write(at, Some(event.payload), class, None))
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        StoreFuture::ready(self.inner.write(at, last, EventClass::Kept, Some(keep)))
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        StoreFuture::ready(self.inner.take_over(by))
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        let now = self.inner.origin.now();
        let shard = self.inner.shard(stream);
        let page = match shard.streams.get(&stream, now) {
            Some(log) => log.read_after(after, limit),
            None => Err(ReadError::Gone),
        };
        StoreFuture::ready(page)
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        let now = self.inner.origin.now();
        let (attachment, waker) = {
            let mut shard = self.inner.shard(stream);
            match shard.streams.get_mut(&stream, now).map(Log::attach) {
                Some(attachment) => (Ok(attachment), shard.waiter(stream)),
                None => (Err(ReadError::Gone), None),
            }
        };
        waker.iter().for_each(wake);
        StoreFuture::ready(attachment)
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        let now = self.inner.origin.now();
        if let Some(log) = self.inner.shard(stream).streams.get_mut(&stream, now) {
            log.note_delivered(generation, offset);
        }
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        let now = self.inner.origin.now();
        if let Some(log) = self.inner.shard(stream).streams.get_mut(&stream, now) {
            self.inner.release(log.trim(offset));
        }
    }

    fn housekeep(&self, budget: usize) {
        // What is left when the budget is used up waits for the next second.
        self.sweep(budget);
    }

    fn figures(&self) -> Vec<Figure> {
        self.stats().figures()
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        let now = self.inner.origin.now();
        let mut shard = self.inner.shard(stream);
        if shard.streams.get(&stream, now).is_some_and(|log| !log.is_sealed()) {
            shard.streams.prolong(&stream, now.plus(ttl), now);
        }
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        let waker = {
            let mut shard = self.inner.shard(stream);
            shard.streams.remove(&stream).and_then(|log| {
                self.inner.forget(&log);
                shard.waiter(stream)
            })
        };
        waker.iter().for_each(wake);
        StoreFuture::ready(Ok(()))
    }
}

/// What one try of a write came to.
enum Try {
    Done(Result<Appended, WriteError>, Option<watch::Sender<u64>>),
    /// The store has no room for it.
    NoRoom,
}

impl Inner {
    fn create(&self, stream: &NewStream) -> Result<(), CreateError> {
        let limit = self.limits.streams;
        loop {
            let now = self.origin.now();
            let mut shard = self.shard(stream.id);
            if shard.streams.get(&stream.id, now).is_some() {
                return Err(CreateError::Exists);
            }
            if self.counts.streams.reserve(1, limit) {
                let log = Log::new(stream);
                self.note_open(&log);
                if let Some(ended) = shard.streams.insert(stream.id, log, now.plus(stream.open_ttl)) {
                    self.forget(&ended);
                }
                return Ok(());
            }
            drop(shard);
            if !self.make_room() {
                self.counts.refused.add(1);
                return Err(CreateError::Full { what: "streams", limit });
            }
        }
    }

    fn create_sealed(&self, stream: SealedStream) -> Result<(), CreateError> {
        let (id, keep, len) = (stream.id, stream.keep, stream.last.len() as u64);
        let mut answer = if len > self.limits.event_bytes {
            Err(CreateError::Full { what: "bytes of one event", limit: self.limits.event_bytes })
        } else {
            self.take_place(len)
        };
        if answer.is_ok() {
            let now = self.origin.now();
            let mut shard = self.shard(id);
            if shard.streams.get(&id, now).is_none() {
                let log = Log::sealed(stream, self.seals.push(id));
                if let Some(ended) = shard.streams.insert(id, log, now.plus(keep)) {
                    self.forget(&ended);
                }
                let waker = shard.waiter(id);
                drop(shard);
                waker.iter().for_each(wake);
                return Ok(());
            }
            drop(shard);
            self.give_place_back(len);
            answer = Err(CreateError::Exists);
        }
        if let Err(CreateError::Full { .. }) = answer {
            self.counts.refused.add(1);
        }
        answer
    }

    /// Takes the room for a sealed stream with one event of `len` bytes out of the bounds.
    fn take_place(&self, len: u64) -> Result<(), CreateError> {
        let cost = len + MemoryLimits::EVENT_OVERHEAD;
        let limit = self.limits.streams;
        while !self.counts.streams.reserve(1, limit) {
            if !self.make_room() {
                return Err(CreateError::Full { what: "streams", limit });
            }
        }
        let limit = self.limits.bytes;
        while !self.counts.bytes.reserve(cost, limit) {
            if !self.make_room() {
                // It must be kept, so there is as much room again.
                let limit = limit.saturating_mul(2);
                if self.counts.bytes.reserve(cost, limit) {
                    break;
                }
                self.counts.streams.sub(1);
                return Err(CreateError::Full { what: "bytes of all streams", limit });
            }
        }
        self.counts.streams_sealed.add(1);
        self.counts.events.add(1);
        Ok(())
    }

    /// Gives it back: there was no need of it.
    fn give_place_back(&self, len: u64) {
        self.counts.streams.sub(1);
        self.counts.streams_sealed.sub(1);
        self.release(Freed { events: 1, payload: len });
    }

    fn take_over(&self, by: TakeOver) -> Result<Option<TakenOver>, WriteError> {
        let now = self.origin.now();
        let (taken, waker) = {
            let mut shard = self.shard(by.stream);
            let Some(log) = shard.streams.get_mut(&by.stream, now) else { return Err(WriteError::Gone) };
            let Some(taken) = log.may_take_over(by)? else { return Ok(None) };
            self.note_closed(log);
            log.give_to(by.owner, by.epoch);
            self.note_open(log);
            shard.streams.prolong(&by.stream, now.plus(by.open_ttl), now);
            (taken, shard.waiter(by.stream))
        };
        waker.iter().for_each(wake);
        Ok(Some(taken))
    }

    /// Appends `payload` where there is one; closes the stream where there is a time to `keep` it.
    fn write(
        &self,
        at: WriteAt,
        mut payload: Option<Bytes>,
        class: EventClass,
        keep: Option<Duration>,
    ) -> Result<Appended, WriteError> {
        let mut limit = self.limits.bytes;
        // What must be kept has as much room again before it is refused too.
        let mut reserve = class == EventClass::Kept;
        let answer = loop {
            match self.try_write(at, &mut payload, class, keep, limit) {
                Try::Done(answer, waker) => {
                    waker.iter().for_each(wake);
                    break answer;
                }
                Try::NoRoom if self.make_room() => {}
                Try::NoRoom if reserve => {
                    reserve = false;
                    limit = limit.saturating_mul(2);
                }
                Try::NoRoom => break Err(WriteError::Full { what: "bytes of all streams", limit }),
            }
        };
        if let Err(WriteError::Full { .. }) = answer {
            let count = match class {
                EventClass::Droppable => &self.counts.events_dropped,
                EventClass::Kept => &self.counts.refused,
            };
            count.add(1);
        }
        answer
    }

    /// Writes under one lock. Takes `payload` only where it is appended.
    fn try_write(
        &self,
        at: WriteAt,
        payload: &mut Option<Bytes>,
        class: EventClass,
        keep: Option<Duration>,
        limit: u64,
    ) -> Try {
        let now = self.origin.now();
        let mut shard = self.shard(at.stream);
        let Some(log) = shard.streams.get_mut(&at.stream, now) else {
            return Try::Done(Err(WriteError::Gone), None);
        };
        let place = if keep.is_some() { log.place_seal(at) } else { log.place_append(at) };
        match place {
            Ok(Place::Next) => {}
            Ok(Place::Again) => return Try::Done(Ok(Appended::Again), None),
            Err(error) => return Try::Done(Err(error), None),
        }
        let cancelled = payload.is_none();
        if let Some(event) = payload {
            match self.take_room(log, event.len() as u64, class, limit) {
                Ok(true) => log.push(at.epoch, std::mem::take(event)),
                Ok(false) => return Try::NoRoom,
                Err(error) => return Try::Done(Err(error), None),
            }
        }
        if let Some(keep) = keep {
            log.close(at.epoch, cancelled, self.seals.push(at.stream));
            self.counts.streams_sealed.add(1);
            self.note_closed(log);
            shard.streams.set_deadline(&at.stream, now.plus(keep));
        }
        Try::Done(Ok(Appended::New), shard.waiter(at.stream))
    }

    /// Takes the room for an event of `len` bytes out of the bounds, and makes it in the stream. Returns whether the store
    /// has it.
    fn take_room(&self, log: &mut Log, len: u64, class: EventClass, limit: u64) -> Result<bool, WriteError> {
        if len > self.limits.event_bytes {
            return Err(WriteError::Full { what: "bytes of one event", limit: self.limits.event_bytes });
        }
        let oldest = log.room_for(len, class)?;
        let cost = len + MemoryLimits::EVENT_OVERHEAD;
        let freed = oldest.cost();
        if cost > freed {
            if !self.counts.bytes.reserve(cost - freed, limit) {
                return Ok(false);
            }
        } else {
            self.counts.bytes.sub(freed - cost);
        }
        self.counts.events.add(1);
        if oldest.events > 0 {
            log.drop_oldest(oldest.events);
            self.counts.events.sub(oldest.events);
            self.counts.events_evicted.add(oldest.events);
        }
        Ok(true)
    }

    fn release(&self, freed: Freed) {
        self.counts.events.sub(freed.events);
        self.counts.bytes.sub(freed.cost());
    }

    /// Settles the accounts of a stream that was taken out.
    fn forget(&self, log: &Log) {
        self.counts.streams.sub(1);
        if log.is_sealed() {
            self.counts.streams_sealed.sub(1);
            self.seals.remove(log.seal_number());
        } else {
            self.note_closed(log);
        }
        self.release(log.held());
    }

    /// Drops the stream that was sealed first. Returns whether there was one.
    pub(super) fn evict_oldest_seal(&self) -> bool {
        let Some((number, stream)) = self.seals.pop() else { return false };
        let waker = {
            let mut shard = self.shard(stream);
            // Between the two locks it may have been removed, and even made anew.
            if shard.streams.peek(&stream).is_none_or(|log| log.seal_number() != number) {
                return true;
            }
            if let Some(log) = shard.streams.remove(&stream) {
                self.forget(&log);
                self.counts.streams_evicted.add(1);
            }
            shard.waiter(stream)
        };
        waker.iter().for_each(wake);
        true
    }

    /// Frees streams past their time; returns whom to wake when the shard is unlocked.
    pub(super) fn sweep_streams(
        &self,
        shard: &mut Shard,
        now: Millis,
        left: &mut usize,
        swept: &mut Swept,
    ) -> Vec<watch::Sender<u64>> {
        let mut wakers = Vec::new();
        let waiters = &shard.waiters;
        drain(&mut shard.streams, now, left, |stream, log| {
            swept.streams += 1;
            self.forget(&log);
            wakers.extend(waiters.get(&stream).map(super::waiters::Waiter::handle));
        });
        wakers
    }
}
