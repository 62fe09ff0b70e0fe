//! One stream as it stands in the file: its writer's epoch, its seal, its reader. Knows neither time nor the bounds of the whole.

use super::{int, nat};
use crate::Limits;
use bowline_proto::cursor::StreamId;
use bowline_store::{BackendId, StreamKind, WriteAt, WriteError};
use rusqlite::{Connection, OptionalExtension as _, Result, Row};

/// A row of `streams`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRow {
    pub(crate) n: i64,
    pub(crate) kind: StreamKind,
    pub(crate) owner: BackendId,
    pub(crate) epoch: u64,
    /// The first offset that `epoch` may have written: only what is not before it can be a retry.
    pub(crate) epoch_start: u64,
    /// The offset before the first event that is kept.
    pub(crate) dropped: u64,
    pub(crate) tail: u64,
    /// Bytes of payload.
    pub(crate) bytes: u64,
    pub(crate) max_events: u64,
    pub(crate) max_bytes: u64,
    pub(crate) generation: u64,
    pub(crate) delivered: u64,
    pub(crate) seal: Seal,
    pub(crate) incarnation: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    Open,
    /// Its last message is its last event.
    Answered,
    /// It was sealed without a last message.
    Cancelled,
}

/// Where a write belongs that nothing speaks against.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Next,
    Again,
}

/// The number that stands for a kind.
pub(super) const fn kind_number(kind: StreamKind) -> i64 {
    match kind {
        StreamKind::Call => 0,
        StreamKind::Standalone => 1,
    }
}

impl Seal {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Answered => 1,
            Self::Cancelled => 2,
        }
    }
}

impl StreamRow {
    /// The living stream of that id.
    pub(crate) fn find(conn: &Connection, id: StreamId, now: i64) -> Result<Option<Self>> {
        conn.prepare_cached(
            "SELECT n, kind, owner, epoch, epoch_start, dropped, tail, bytes, max_events, max_bytes, generation, delivered, \
             sealed, incarnation FROM streams WHERE id = ? AND deadline > ?",
        )?
        .query_row((id.as_bytes(), now), Self::read)
        .optional()
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let count = |index| row.get(index).map(nat);
        Ok(Self {
            n: row.get(0)?,
            kind: if row.get::<_, i64>(1)? == 0 { StreamKind::Call } else { StreamKind::Standalone },
            owner: BackendId(count(2)?),
            epoch: count(3)?,
            epoch_start: count(4)?,
            dropped: count(5)?,
            tail: count(6)?,
            bytes: count(7)?,
            max_events: count(8)?,
            max_bytes: count(9)?,
            generation: count(10)?,
            delivered: count(11)?,
            seal: match row.get::<_, i64>(12)? {
                0 => Seal::Open,
                1 => Seal::Answered,
                _ => Seal::Cancelled,
            },
            incarnation: count(13)?,
        })
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.seal != Seal::Open
    }

    /// How many events it holds.
    pub(crate) const fn events(&self) -> u64 {
        self.tail.saturating_sub(self.dropped)
    }

    /// Where an append belongs.
    pub(crate) fn place_append(&self, at: WriteAt) -> Result<Place, WriteError> {
        self.fence(at)?;
        if self.seal != Seal::Open {
            return Err(WriteError::Sealed);
        }
        if at.offset == self.tail + 1 {
            Ok(Place::Next)
        } else if at.epoch == self.epoch && (self.epoch_start..=self.tail).contains(&at.offset) {
            Ok(Place::Again)
        } else {
            Err(WriteError::OutOfOrder { tail: self.tail })
        }
    }

    /// Where a seal belongs.
    pub(crate) fn place_seal(&self, at: WriteAt) -> Result<Place, WriteError> {
        self.fence(at)?;
        if self.seal != Seal::Open {
            let sealed_at = self.tail + u64::from(self.seal == Seal::Cancelled);
            let same = at.epoch == self.epoch && at.offset == sealed_at;
            return if same { Ok(Place::Again) } else { Err(WriteError::Sealed) };
        }
        if at.offset == self.tail + 1 {
            Ok(Place::Next)
        } else {
            Err(WriteError::OutOfOrder { tail: self.tail })
        }
    }

    const fn fence(&self, at: WriteAt) -> Result<(), WriteError> {
        if at.epoch < self.epoch { Err(WriteError::Fenced { epoch: self.epoch }) } else { Ok(()) }
    }

    /// The bound of its own that an event of `len` bytes would break, after so many events and bytes were dropped.
    pub(crate) const fn refusal(&self, len: u64, events: u64, bytes: u64) -> Option<WriteError> {
        if self.events().saturating_sub(events) >= self.max_events {
            Some(WriteError::Full { what: "events of one stream", limit: self.max_events })
        } else if self.bytes.saturating_sub(bytes).saturating_add(len) > self.max_bytes {
            Some(WriteError::Full { what: "bytes of one stream", limit: self.max_bytes })
        } else {
            None
        }
    }

    /// Gives it to a writer.
    pub(crate) const fn take_over(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.epoch_start = self.tail + 1;
        }
    }
}

/// What events cost, in bytes as [`Limits::bytes`] counts them.
pub(crate) const fn cost(events: u64, payload: u64) -> u64 {
    payload.saturating_add(events.saturating_mul(Limits::EVENT_OVERHEAD))
}

impl super::Tx<'_> {
    /// Writes the parts of a row that a write, a trim or a reader changes.
    pub(super) fn save(&mut self, row: &StreamRow) -> Result<()> {
        self.write(
            "UPDATE streams SET epoch = ?, epoch_start = ?, dropped = ?, tail = ?, bytes = ?, generation = ?, \
             delivered = ? WHERE n = ?",
            (
                int(row.epoch),
                int(row.epoch_start),
                int(row.dropped),
                int(row.tail),
                int(row.bytes),
                int(row.generation),
                int(row.delivered),
                row.n,
            ),
        )?;
        Ok(())
    }
}
