//! Streams: append-only logs with one writer, contiguous offsets, and one seal.

use crate::{BackendId, CreateError, Figure, ReadError, StoreFuture, WriteError};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;
use std::time::Duration;

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// The messages that answer one request; sealed by its response.
    Call,
    /// A session's own messages; sealed when the session ends. At a bound its oldest events are evicted (SEMANTICS 5.6 says
    /// what a reader is told then).
    Standalone,
}

/// A stream to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStream {
    /// 128 unguessable bits.
    pub id: StreamId,
    /// What it carries.
    pub kind: StreamKind,
    /// The backend that writes it.
    pub owner: BackendId,
    /// The epoch of its first writer, at least 1.
    pub epoch: u64,
    /// Tells it from earlier streams of the same id, whose positions mean nothing in it: a number that none of them had, drawn at random. 0
    /// where an id is used once.
    pub incarnation: u64,
    /// The session it belongs to, where there is one.
    pub session: Option<String>,
    /// The JSON text of the id of the request that it answers; `None` for a standalone stream.
    pub request_id: Option<String>,
    /// What it takes to run the call again where its owner dies; `None` where it must not be. Kept until the stream is sealed, and given to
    /// whoever [takes it over](StreamLog::take_over). The caller bounds its size.
    pub rerun: Option<Bytes>,
    /// How long it is kept while it is not sealed.
    pub open_ttl: Duration,
    /// How many events it may hold.
    pub max_events: u64,
    /// How many bytes of payload it may hold.
    pub max_bytes: u64,
}

/// A call's stream that is over as it is made: the answer to a call that has nothing else to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedStream {
    /// 128 unguessable bits.
    pub id: StreamId,
    /// The backend that answers.
    pub owner: BackendId,
    /// Its epoch, at least 1.
    pub epoch: u64,
    /// The one message, at offset 1.
    pub last: Bytes,
    /// How long it is kept from now on.
    pub keep: Duration,
}

impl SealedStream {
    /// What [`StreamLog::create`] makes of it, for a store that makes it and seals it then.
    #[must_use]
    pub const fn to_new(&self) -> NewStream {
        NewStream {
            id: self.id,
            kind: StreamKind::Call,
            incarnation: 0,
            owner: self.owner,
            epoch: self.epoch,
            session: None,
            request_id: None,
            rerun: None,
            open_ttl: self.keep,
            max_events: 1,
            max_bytes: self.last.len() as u64,
        }
    }

    /// Where its message stands, and the seal with it.
    #[must_use]
    pub const fn place(&self) -> WriteAt {
        WriteAt { stream: self.id, epoch: self.epoch, offset: 1 }
    }
}

/// What may happen to an event at a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Progress and log notifications: may be dropped, and that is counted.
    Droppable,
    /// Responses and requests of the server: never dropped for a bound of the stream.
    Kept,
}

/// One message in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// One JSON-RPC message as JSON text; never an SSE frame.
    pub payload: Bytes,
    /// What may happen to it at a bound.
    pub class: EventClass,
}

/// The place of a write: the single writer assigns offsets, the store checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteAt {
    /// The stream.
    pub stream: StreamId,
    /// The writer's epoch. One higher than the log's takes the stream over.
    pub epoch: u64,
    /// The last offset + 1; the first event of a stream has offset 1.
    pub offset: u64,
}

/// What came of an append that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log.
    New,
    /// It was in the log already, at this epoch and offset: a retry after an answer that got lost.
    Again,
}

/// A call that is to be gone on with by another backend than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// Its stream.
    pub stream: StreamId,
    /// The epoch of the new writer, higher than the log's.
    pub epoch: u64,
    /// The backend that takes it.
    pub owner: BackendId,
    /// How long it is kept from now on while it is not sealed; never shorter than it was to be.
    pub open_ttl: Duration,
}

/// What the new owner of a call has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// The last offset in the log (0 where there is none): the new writer goes on behind it.
    pub tail: u64,
    /// The session it belongs to, where there is one.
    pub session: Option<String>,
    /// The JSON text of the id of the request that it answers.
    pub request_id: Option<String>,
    /// [`NewStream::rerun`], byte for byte.
    pub rerun: Bytes,
}

/// How much one read may return. At least one event is returned where there is one, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimit {
    /// The most events.
    pub events: usize,
    /// The most bytes of payload.
    pub bytes: usize,
}

/// A contiguous run of a stream, with what is known about the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The events after the position that was asked for, in order, without a hole: the first has that position + 1.
    pub events: Vec<Bytes>,
    /// The last offset in the log (0 where there is none).
    pub tail: u64,
    /// Whether the stream has its last message. Its offset is `tail`.
    pub sealed: bool,
    /// The epoch in force.
    pub epoch: u64,
    /// [`NewStream::incarnation`]; 0 for a stream that was made before there were any.
    pub incarnation: u64,
    /// The backend that writes the stream.
    pub owner: BackendId,
    /// The generation of the newest attachment; a reader with an older one was displaced.
    pub generation: u64,
}

/// The right of one connection to read a stream; a newer one displaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Counts attachments of this stream, from 1.
    pub generation: u64,
    /// The last offset that was reported with [`StreamLog::delivered`], 0 at first.
    pub delivered: u64,
    /// [`Page::incarnation`] of the stream that was attached to.
    pub incarnation: u64,
}

/// Append-only logs.
///
/// - Offsets are contiguous from 1. A read returns a run without a hole, or an error.
/// - An append at the same epoch and offset as an event that is there is a success and changes nothing.
/// - A write at a lower epoch than the log's is [`WriteError::Fenced`]; at a higher one it takes the stream over.
/// - A seal appends the last message and closes the stream in one step. Of any number of seals exactly one wins; the same
///   seal again (epoch and offset) is a success, every other write after it is [`WriteError::Sealed`].
/// - What a read returned once is durable at the store's level.
/// - A stream past its time to live, or evicted, reads as gone: never as an empty one.
pub trait StreamLog: Send + Sync + 'static {
    /// Makes a stream.
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>>;

    /// Makes a stream and seals it with its only message: [`create`](Self::create) and [`seal`](Self::seal) in one step, for a call that
    /// was over before anybody knew of its stream. Afterwards there is no telling that it was not two.
    ///
    /// Where the answer is an error, nobody may be told of the stream; what became of it is open where the store was away. It is not
    /// tried again: a stream of that id that is there is [`CreateError::Exists`], whatever is in it. The bounds of one stream do not
    /// matter to what must be kept; those of the store do.
    ///
    /// As it stands here it takes two steps. A store that can do it in one, or at least in one round trip, should.
    fn create_sealed(&self, stream: SealedStream) -> StoreFuture<'_, Result<(), CreateError>> {
        StoreFuture::later(async move {
            self.create(stream.to_new()).await?;
            let (at, keep) = (stream.place(), stream.keep);
            let error = match self.seal(at, Some(stream.last), keep).await {
                Ok(_) => return Ok(()),
                Err(WriteError::Unavailable(error)) => return Err(error.into()),
                Err(WriteError::Full { what, limit }) => CreateError::Full { what, limit },
                // Somebody took it for one of a backend that died: it is not ours.
                Err(
                    WriteError::Fenced { .. }
                    | WriteError::Sealed
                    | WriteError::OutOfOrder { .. }
                    | WriteError::Gone,
                ) => return Err(CreateError::Exists),
            };
            self.remove(at.stream).await?;
            Err(error)
        })
    }

    /// Appends one event.
    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>>;

    /// Appends the last message, if any, and closes the stream; it is kept for `keep` from then on. A stream that is sealed
    /// without a last message (its call was cancelled) keeps its tail: `at.offset` is then the tail + 1 all the same.
    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>>;

    /// Makes another backend the owner and the writer of a call that is not sealed, where what it takes to run it again was kept
    /// ([`NewStream::rerun`]); where it was not, the answer is `None` and nothing has changed.
    ///
    /// Of any number of backends that try at one epoch exactly one wins, and the others are [`WriteError::Fenced`]; the same again (epoch
    /// and owner) is a success. From then on the former owner is fenced, and [`BackendRegistry`](crate::BackendRegistry) counts the call
    /// among those of the new one.
    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>>;

    /// Reads the events after `after` (0 for all).
    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>>;

    /// Makes the caller the one reader of the stream, and wakes the one before it.
    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>>;

    /// Notes that everything up to `offset` was written to the connection of that generation. A hint: it may be lost, and
    /// it is ignored from an older generation.
    fn delivered(&self, stream: StreamId, generation: u64, offset: u64);

    /// Drops the events up to `offset`: a client that presents a cursor has read them. A hint.
    fn trim(&self, stream: StreamId, offset: u64);

    /// Frees what expired, at most `budget` things. Called every second; a store that expires by itself does nothing.
    fn housekeep(&self, budget: usize) {
        let _ = budget;
    }

    /// What the store holds, and which of its bounds were met, for metrics. Asked every few seconds; must not wait.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Prolongs the life of an open stream to `ttl` from now. A hint; sealed streams are not prolonged.
    fn keep(&self, stream: StreamId, ttl: Duration);

    /// Drops a stream at once: its session ended. Missing streams are no error.
    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), crate::Unavailable>>;
}
