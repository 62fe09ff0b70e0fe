//! Streams: made, written, sealed, trimmed, dropped.

use super::{
    Tx, int, moved, nat,
    row::{Place, Seal, StreamRow, cost, kind_number},
};
use crate::hints::Hint;
use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, CreateError, EventClass, NewStream, ReadError, SealedStream, StreamKind, TakeOver,
    TakenOver, Unavailable, WriteAt, WriteError,
};
use rusqlite::{OptionalExtension as _, Result};
use std::time::Duration;

/// An append, or a seal.
pub(crate) struct Write<'a> {
    pub(crate) at: WriteAt,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) class: EventClass,
    /// How long the stream is kept once it is closed; only a seal has it.
    pub(crate) keep: Option<Duration>,
}

/// Whether there is room for an event.
enum Room {
    /// So many events and bytes of the stream's oldest have to go first.
    After(u64, u64),
    Refused(WriteError),
}

impl Tx<'_> {
    pub(crate) fn create(&mut self, stream: &NewStream) -> Result<Result<(), CreateError>> {
        let there = self
            .conn
            .prepare_cached("SELECT n, deadline > ? FROM streams WHERE id = ?")?
            .query_row((self.now.0, stream.id.as_bytes()), |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
            })
            .optional()?;
        match there {
            Some((_, true)) => return Ok(Err(CreateError::Exists)),
            // Past its time, and not yet swept.
            Some((n, false)) => self.drop_stream(n)?,
            None => {}
        }
        let limit = self.limits.streams;
        while self.state.totals.streams >= limit {
            if !self.make_room()? {
                self.happened.refused += 1;
                return Ok(Err(CreateError::Full { what: "streams", limit }));
            }
        }
        self.write(
            "INSERT INTO streams (id, kind, owner, epoch, epoch_start, dropped, tail, bytes, max_events, max_bytes, \
             generation, delivered, sealed, seal_order, deadline, session, request_id, incarnation) \
             VALUES (?, ?, ?, ?, 1, 0, 0, 0, ?, ?, 0, 0, 0, 0, ?, ?, ?, ?)",
            (
                stream.id.as_bytes(),
                kind_number(stream.kind),
                int(stream.owner.0),
                int(stream.epoch),
                int(stream.max_events),
                int(stream.max_bytes),
                self.now.plus(stream.open_ttl).0,
                &stream.session,
                &stream.request_id,
                int(stream.incarnation),
            ),
        )?;
        if let Some(rerun) = &stream.rerun {
            let n = self.conn.last_insert_rowid();
            self.write("INSERT INTO reruns (stream, request) VALUES (?, ?)", (n, &rerun[..]))?;
        }
        self.state.totals.streams += 1;
        Ok(Ok(()))
    }

    /// Makes a stream with its only message, which seals it.
    pub(crate) fn create_sealed(&mut self, stream: &SealedStream) -> Result<Result<(), CreateError>> {
        if let Err(error) = self.create(&stream.to_new())? {
            return Ok(Err(error));
        }
        let seal = Write {
            at: stream.place(),
            payload: Some(&stream.last),
            class: EventClass::Kept,
            keep: Some(stream.keep),
        };
        let error = match self.append(&seal)? {
            Ok(_) => return Ok(Ok(())),
            Err(WriteError::Full { what, limit }) => CreateError::Full { what, limit },
            Err(error) => CreateError::Unavailable(Unavailable(error.to_string())),
        };
        self.remove(stream.id)?;
        Ok(Err(error))
    }

    /// Gives an open call to another backend, where it can be run again.
    pub(crate) fn take_over(&mut self, by: TakeOver) -> Result<Result<Option<TakenOver>, WriteError>> {
        let Some(mut row) = StreamRow::find(self.conn, by.stream, self.now.0)? else {
            return Ok(Err(WriteError::Gone));
        };
        if by.epoch < row.epoch || (by.epoch == row.epoch && by.owner != row.owner) {
            return Ok(Err(WriteError::Fenced { epoch: row.epoch }));
        }
        if row.is_sealed() {
            return Ok(Err(WriteError::Sealed));
        }
        let kept = self
            .conn
            .prepare_cached(
                "SELECT session, request_id, request FROM streams JOIN reruns ON stream = n WHERE n = ?",
            )?
            .query_row([row.n], |kept| Ok((kept.get(0)?, kept.get(1)?, kept.get::<_, Vec<u8>>(2)?)))
            .optional()?;
        let Some((session, request_id, rerun)) = kept else { return Ok(Ok(None)) };
        row.take_over(by.epoch);
        self.save(&row)?;
        self.write(
            "UPDATE streams SET owner = ?, deadline = max(deadline, ?) WHERE n = ?",
            (int(by.owner.0), self.now.plus(by.open_ttl).0, row.n),
        )?;
        self.changed.push(by.stream);
        Ok(Ok(Some(TakenOver { tail: row.tail, session, request_id, rerun: rerun.into() })))
    }

    /// Appends, or seals.
    pub(crate) fn append(&mut self, write: &Write<'_>) -> Result<Result<Appended, WriteError>> {
        let answer = self.try_append(write)?;
        if let Err(WriteError::Full { .. }) = answer {
            match write.class {
                EventClass::Droppable => self.happened.events_dropped += 1,
                EventClass::Kept => self.happened.refused += 1,
            }
        }
        Ok(answer)
    }

    fn try_append(&mut self, write: &Write<'_>) -> Result<Result<Appended, WriteError>> {
        let at = write.at;
        let Some(mut row) = StreamRow::find(self.conn, at.stream, self.now.0)? else {
            return Ok(Err(WriteError::Gone));
        };
        let place = if write.keep.is_some() { row.place_seal(at) } else { row.place_append(at) };
        match place {
            Ok(Place::Next) => {}
            Ok(Place::Again) => return Ok(Ok(Appended::Again)),
            Err(error) => return Ok(Err(error)),
        }
        let room = match write.payload {
            Some(payload) => self.room_for(&row, payload.len() as u64, write.class)?,
            None => Room::After(0, 0),
        };
        match room {
            Room::Refused(error) => return Ok(Err(error)),
            Room::After(0, _) => {}
            Room::After(events, bytes) => {
                self.drop_oldest(&mut row, events, bytes)?;
                self.happened.events_evicted += events;
            }
        }
        row.take_over(at.epoch);
        if let Some(payload) = write.payload {
            row.tail += 1;
            row.bytes += payload.len() as u64;
            self.write(
                "INSERT INTO events (stream, place, payload) VALUES (?, ?, ?)",
                (row.n, int(row.tail), payload),
            )?;
            self.state.totals.events += 1;
            self.state.totals.bytes += cost(1, payload.len() as u64);
        }
        self.save(&row)?;
        if let Some(keep) = write.keep {
            let seal = if write.payload.is_some() { Seal::Answered } else { Seal::Cancelled };
            let order = self.next_order();
            self.write(
                "UPDATE streams SET sealed = ?, seal_order = ?, deadline = ? WHERE n = ?",
                (seal.number(), int(order), self.now.plus(keep).0, row.n),
            )?;
            self.state.totals.sealed += 1;
        }
        self.changed.push(at.stream);
        Ok(Ok(Appended::New))
    }

    /// Looks for room for an event of `len` bytes in the bounds of its stream and of the store.
    fn room_for(&mut self, row: &StreamRow, len: u64, class: EventClass) -> Result<Room> {
        if len > self.limits.event_bytes {
            let limit = self.limits.event_bytes;
            return Ok(Room::Refused(WriteError::Full { what: "bytes of one event", limit }));
        }
        let (mut events, mut bytes) = (0, 0);
        if row.kind == StreamKind::Standalone && row.refusal(len, 0, 0).is_some() {
            let mut statement = self
                .conn
                .prepare_cached("SELECT length(payload) FROM events WHERE stream = ? ORDER BY place")?;
            let mut sizes = statement.query([row.n])?;
            while row.refusal(len, events, bytes).is_some()
                && let Some(size) = sizes.next()?
            {
                events += 1;
                bytes += nat(size.get(0)?);
            }
        }
        if class == EventClass::Droppable
            && let Some(refusal) = row.refusal(len, events, bytes)
        {
            return Ok(Room::Refused(refusal));
        }
        // What must be kept has as much room again before it is refused too.
        let factor = if class == EventClass::Kept { 2 } else { 1 };
        let mut may_free = true;
        for (what, limit, held, more) in [
            (
                "bytes of all streams",
                self.limits.bytes,
                bytes_held as Held,
                cost(1, len).saturating_sub(cost(events, bytes)),
            ),
            ("events of all streams", self.limits.events, events_held, 1_u64.saturating_sub(events)),
        ] {
            while may_free && held(self) + more > limit {
                may_free = self.make_room()?;
            }
            let limit = limit.saturating_mul(factor);
            if held(self) + more > limit {
                return Ok(Room::Refused(WriteError::Full { what, limit }));
            }
        }
        Ok(Room::After(events, bytes))
    }

    /// Drops the oldest events of a stream: so many, with so many bytes. The row is changed and not saved.
    fn drop_oldest(&mut self, row: &mut StreamRow, events: u64, bytes: u64) -> Result<()> {
        row.dropped += events;
        row.bytes = row.bytes.saturating_sub(bytes);
        self.write("DELETE FROM events WHERE stream = ? AND place <= ?", (row.n, int(row.dropped)))?;
        moved(&mut self.state.totals.events, 0, events);
        moved(&mut self.state.totals.bytes, 0, cost(events, bytes));
        Ok(())
    }

    pub(crate) fn attach(
        &mut self,
        stream: StreamId,
        hint: Option<&Hint>,
    ) -> Result<Result<Attachment, ReadError>> {
        if let Some(hint) = hint {
            self.apply_hint(stream, hint)?;
        }
        let Some(mut row) = StreamRow::find(self.conn, stream, self.now.0)? else {
            return Ok(Err(ReadError::Gone));
        };
        row.generation += 1;
        self.save(&row)?;
        self.changed.push(stream);
        Ok(Ok(Attachment {
            generation: row.generation,
            delivered: row.delivered,
            incarnation: row.incarnation,
        }))
    }

    /// Does what was hinted of a stream, where there still is one.
    pub(crate) fn apply_hint(&mut self, stream: StreamId, hint: &Hint) -> Result<()> {
        let Some(mut row) = StreamRow::find(self.conn, stream, self.now.0)? else { return Ok(()) };
        if let Some(until) = hint.keep
            && row.seal == Seal::Open
        {
            self.write(
                "UPDATE streams SET deadline = ? WHERE n = ? AND deadline < ?",
                (until.0, row.n, until.0),
            )?;
        }
        let mut changed = false;
        if let Some((generation, offset)) = hint.delivered
            && generation == row.generation
            && offset.min(row.tail) > row.delivered
        {
            row.delivered = offset.min(row.tail);
            changed = true;
        }
        let trimmed = hint.trim.map_or(0, |offset| offset.min(row.tail).saturating_sub(row.dropped));
        if trimmed > 0 {
            let upto = row.dropped + trimmed;
            let bytes: i64 = self
                .conn
                .prepare_cached(
                    "SELECT coalesce(sum(length(payload)), 0) FROM events WHERE stream = ? AND place <= ?",
                )?
                .query_row((row.n, int(upto)), |sum| sum.get(0))?;
            self.drop_oldest(&mut row, trimmed, nat(bytes))?;
            changed = true;
        }
        if changed { self.save(&row) } else { Ok(()) }
    }

    pub(crate) fn remove(&mut self, stream: StreamId) -> Result<()> {
        let there = self
            .conn
            .prepare_cached("SELECT n FROM streams WHERE id = ?")?
            .query_row([stream.as_bytes()], |row| row.get::<_, i64>(0))
            .optional()?;
        if let Some(n) = there {
            self.drop_stream(n)?;
            self.changed.push(stream);
        }
        Ok(())
    }

    /// Drops the stream that was sealed first. Returns whether there was one.
    pub(super) fn evict_oldest_seal(&mut self) -> Result<bool> {
        let oldest = self
            .conn
            .prepare_cached("SELECT n, id FROM streams WHERE seal_order > 0 ORDER BY seal_order LIMIT 1")?
            .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?)))
            .optional()?;
        let Some((n, id)) = oldest else { return Ok(false) };
        self.drop_stream(n)?;
        self.changed.push(StreamId::from_bytes(id));
        self.happened.streams_evicted += 1;
        Ok(true)
    }

    /// Drops a stream with its events, and settles the accounts.
    pub(super) fn drop_stream(&mut self, n: i64) -> Result<()> {
        let (events, bytes, sealed) = self
            .conn
            .prepare_cached("DELETE FROM streams WHERE n = ? RETURNING tail - dropped, bytes, sealed <> 0")?
            .query_row([n], |row| Ok((nat(row.get(0)?), nat(row.get(1)?), row.get::<_, bool>(2)?)))?;
        self.dirty = true;
        if events > 0 {
            self.write("DELETE FROM events WHERE stream = ?", [n])?;
        }
        let totals = &mut self.state.totals;
        moved(&mut totals.streams, 0, 1);
        moved(&mut totals.sealed, 0, u64::from(sealed));
        moved(&mut totals.events, 0, events);
        moved(&mut totals.bytes, 0, cost(events, bytes));
        Ok(())
    }
}

/// Something that the store holds, as it is counted.
type Held = fn(&Tx<'_>) -> u64;

fn bytes_held(tx: &Tx<'_>) -> u64 {
    tx.state.totals.bytes
}

fn events_held(tx: &Tx<'_>) -> u64 {
    tx.state.totals.events
}
