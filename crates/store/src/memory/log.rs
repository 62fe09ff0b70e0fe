//! One stream: its events, its writer's epoch, its seal, its reader.

use super::{MemoryLimits, events::Events};
use crate::{
    Attachment, BackendId, EventClass, NewStream, OpenStream, Page, ReadError, ReadLimit, SealedStream,
    StreamKind, TakeOver, TakenOver, WriteAt, WriteError,
};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;

/// A stream in memory. It knows neither time nor the bounds of the whole store.
///
/// There are many of these (a test counts the bytes).
#[derive(Debug)]
pub(super) struct Log {
    /// Their label says whose a call is, for the reaper: the request's id, which is JSON and so has no such character, a NUL, and the
    /// session. A session without an id, or a request, is none. It is dropped when the stream is sealed.
    events: Events,
    /// The offset before the first of `events`.
    dropped: u64,
    epoch: u64,
    owner: BackendId,
    /// Bytes of payload in `events`.
    bytes: u64,
    /// Its number in the order of seals; 0 while it is open.
    seal_number: u64,
    /// `None` where all of it is as it is at first.
    rare: Option<Box<Rare>>,
    generation: u32,
    max_events: u32,
    max_bytes: u32,
    kind: StreamKind,
    /// Whether it was sealed without a last message.
    cancelled: bool,
}

/// What the streams of most calls never have.
#[derive(Debug)]
struct Rare {
    /// What it takes to run the call again; dropped when it is sealed.
    rerun: Option<Bytes>,
    /// The first offset that the epoch in force may have written: only what is not before it can be a retry.
    epoch_start: u64,
    /// The last offset that was reported as delivered.
    delivered: u64,
    /// Which log of a session it is; 0 for those of calls.
    incarnation: u64,
}

impl Rare {
    const NONE: Self = Self { rerun: None, epoch_start: 1, delivered: 0, incarnation: 0 };

    fn of(stream: &NewStream) -> Option<Box<Self>> {
        let rerun = stream.rerun.clone().filter(|_| stream.kind == StreamKind::Call);
        let incarnation = stream.incarnation;
        (rerun.is_some() || incarnation != 0).then(|| Box::new(Self { rerun, incarnation, ..Self::NONE }))
    }
}

/// A bound in fewer bytes: what is larger is as good as none.
fn word(bound: u64) -> u32 {
    u32::try_from(bound).unwrap_or(u32::MAX)
}

/// What [`word`] made of a bound.
fn bound(word: u32) -> u64 {
    if word == u32::MAX { u64::MAX } else { word.into() }
}

/// Where a write belongs that nothing speaks against.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Next,
    Again,
}

/// What became free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) events: u64,
    pub(super) payload: u64,
}

impl Freed {
    /// In bytes as [`MemoryLimits::bytes`] counts them.
    pub(super) const fn cost(self) -> u64 {
        self.payload + self.events * MemoryLimits::EVENT_OVERHEAD
    }
}

impl Log {
    pub(super) fn new(stream: &NewStream) -> Self {
        Self {
            rare: Rare::of(stream),
            events: match (stream.request_id.as_deref(), stream.session.as_deref()) {
                (None, None) => Events::default(),
                _ if stream.kind == StreamKind::Standalone => Events::default(),
                (request_id, session) => {
                    Events::labelled([request_id.unwrap_or_default(), "\0", session.unwrap_or_default()])
                }
            },
            dropped: 0,
            epoch: stream.epoch,
            owner: stream.owner,
            generation: 0,
            max_events: word(stream.max_events),
            max_bytes: word(stream.max_bytes),
            bytes: 0,
            seal_number: 0,
            kind: stream.kind,
            cancelled: false,
        }
    }

    pub(super) const fn kind(&self) -> StreamKind {
        self.kind
    }

    pub(super) const fn owner(&self) -> BackendId {
        self.owner
    }

    /// What the reaper has to know, where this is an unsealed call's of `backend`.
    pub(super) fn open_of(&self, backend: BackendId, id: StreamId) -> Option<OpenStream> {
        if self.owner != backend || self.kind != StreamKind::Call || self.is_sealed() {
            return None;
        }
        let (request_id, session) = self.of();
        Some(OpenStream { id, kind: self.kind, epoch: self.epoch, tail: self.tail(), session, request_id })
    }

    /// The request that the stream answers, and the session it belongs to.
    fn of(&self) -> (Option<String>, Option<String>) {
        let mut parts = self.events.label().splitn(2, |byte| *byte == 0).map(|part| {
            // Both were texts.
            String::from_utf8(part.to_vec()).ok().filter(|part| !part.is_empty())
        });
        (parts.next().flatten(), parts.next().flatten())
    }

    pub(super) fn tail(&self) -> u64 {
        self.dropped + self.events.len() as u64
    }

    pub(super) const fn seal_number(&self) -> u64 {
        self.seal_number
    }

    pub(super) const fn is_sealed(&self) -> bool {
        self.seal_number != 0
    }

    /// All that it holds.
    pub(super) fn held(&self) -> Freed {
        Freed { events: self.events.len() as u64, payload: self.bytes }
    }

    /// What a new owner gets, if it may have the call; `None` where nothing was kept to run it again by.
    pub(super) fn may_take_over(&self, by: TakeOver) -> Result<Option<TakenOver>, WriteError> {
        if by.epoch < self.epoch || (by.epoch == self.epoch && by.owner != self.owner) {
            return Err(WriteError::Fenced { epoch: self.epoch });
        }
        if self.is_sealed() {
            return Err(WriteError::Sealed);
        }
        Ok(self.rare().rerun.as_ref().map(|rerun| {
            let (request_id, session) = self.of();
            TakenOver { tail: self.tail(), session, request_id, rerun: rerun.clone() }
        }))
    }

    /// Gives the stream to another backend.
    pub(super) fn give_to(&mut self, owner: BackendId, epoch: u64) {
        self.take_over(epoch);
        self.owner = owner;
    }

    /// Where an append belongs.
    pub(super) fn place_append(&self, at: WriteAt) -> Result<Place, WriteError> {
        self.fence(at)?;
        if self.is_sealed() {
            return Err(WriteError::Sealed);
        }
        let tail = self.tail();
        if at.offset == tail + 1 {
            Ok(Place::Next)
        } else if at.epoch == self.epoch && (self.rare().epoch_start..=tail).contains(&at.offset) {
            Ok(Place::Again)
        } else {
            Err(WriteError::OutOfOrder { tail })
        }
    }

    /// Where a seal belongs.
    pub(super) fn place_seal(&self, at: WriteAt) -> Result<Place, WriteError> {
        self.fence(at)?;
        let tail = self.tail();
        if self.is_sealed() {
            let sealed_at = tail + u64::from(self.cancelled);
            let same = at.epoch == self.epoch && at.offset == sealed_at;
            return if same { Ok(Place::Again) } else { Err(WriteError::Sealed) };
        }
        if at.offset == tail + 1 { Ok(Place::Next) } else { Err(WriteError::OutOfOrder { tail }) }
    }

    const fn fence(&self, at: WriteAt) -> Result<(), WriteError> {
        if at.epoch < self.epoch { Err(WriteError::Fenced { epoch: self.epoch }) } else { Ok(()) }
    }

    /// What has to be dropped so that an event of `len` bytes fits the stream's own bounds.
    pub(super) fn room_for(&self, len: u64, class: EventClass) -> Result<Freed, WriteError> {
        let mut freed = Freed::default();
        if self.kind == StreamKind::Standalone {
            for length in self.events.lengths(0) {
                if self.refusal(len, freed).is_none() {
                    break;
                }
                freed.events += 1;
                freed.payload += length as u64;
            }
        }
        match (self.refusal(len, freed), class) {
            (Some(refusal), EventClass::Droppable) => Err(refusal),
            _ => Ok(freed),
        }
    }

    fn refusal(&self, len: u64, freed: Freed) -> Option<WriteError> {
        if self.events.len() as u64 - freed.events >= bound(self.max_events) {
            Some(WriteError::Full { what: "events of one stream", limit: self.max_events.into() })
        } else if self.bytes - freed.payload + len > bound(self.max_bytes) {
            Some(WriteError::Full { what: "bytes of one stream", limit: self.max_bytes.into() })
        } else {
            None
        }
    }

    /// Drops the oldest `count` events.
    pub(super) fn drop_oldest(&mut self, count: u64) -> Freed {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.events.len());
        let payload = self.events.drop_oldest(count) as u64;
        self.dropped += count as u64;
        self.bytes -= payload;
        Freed { events: count as u64, payload }
    }

    /// Drops the events up to `offset`.
    pub(super) fn trim(&mut self, offset: u64) -> Freed {
        self.drop_oldest(offset.saturating_sub(self.dropped))
    }

    /// Appends at a place that was found to be the next one.
    pub(super) fn push(&mut self, epoch: u64, payload: Bytes) {
        self.take_over(epoch);
        self.bytes += payload.len() as u64;
        self.events.push(payload);
    }

    /// Closes the stream; the last message, if any, was pushed before.
    pub(super) fn close(&mut self, epoch: u64, cancelled: bool, seal_number: u64) {
        self.take_over(epoch);
        self.cancelled = cancelled;
        self.seal_number = seal_number;
        self.events.drop_label();
        if let Some(rare) = &mut self.rare {
            rare.rerun = None;
        }
        self.events.shrink();
    }

    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&Rare::NONE)
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(Rare::NONE))
    }

    fn take_over(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.rare_mut().epoch_start = self.tail() + 1;
        }
    }

    /// A call's stream that has its only message.
    pub(super) fn sealed(stream: SealedStream, seal_number: u64) -> Self {
        let mut log = Self::new(&stream.to_new());
        log.push(stream.epoch, stream.last);
        log.close(stream.epoch, false, seal_number);
        log
    }

    pub(super) fn read_after(&self, after: u64, limit: ReadLimit) -> Result<Page, ReadError> {
        let tail = self.tail();
        if after > tail {
            return Err(ReadError::Lost { tail });
        }
        if after < self.dropped {
            return Err(ReadError::Evicted { oldest: self.dropped + 1 });
        }
        let start = usize::try_from(after - self.dropped).unwrap_or(usize::MAX);
        Ok(Page {
            events: self.events.get(start, limit),
            tail,
            sealed: self.is_sealed(),
            epoch: self.epoch,
            incarnation: self.rare().incarnation,
            owner: self.owner,
            generation: self.generation.into(),
        })
    }

    pub(super) fn attach(&mut self) -> Attachment {
        // A stream is not read four billion times.
        self.generation = self.generation.saturating_add(1);
        let Rare { delivered, incarnation, .. } = *self.rare();
        Attachment { generation: self.generation.into(), delivered, incarnation }
    }

    pub(super) fn note_delivered(&mut self, generation: u64, offset: u64) {
        if generation == u64::from(self.generation) {
            let offset = offset.min(self.tail());
            if offset > self.rare().delivered {
                self.rare_mut().delivered = offset;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn heap(&self) -> usize {
        self.events.heap()
    }
}
