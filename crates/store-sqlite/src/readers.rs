//! The threads that read, and what they read.

use crate::{
    clock::Moment,
    lane::Turn,
    store::Shared,
    tx::{StreamRow, int, nat},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{
    BackendId, BackendState, Letter, OpenStream, Page, ReadError, ReadLimit, SessionLookup, SessionRecord,
    StreamKind, Unavailable, Version,
};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Result};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, mpsc},
};

/// A read, boxed with who waits for it.
pub(crate) type Read = Box<dyn FnOnce(&View<'_>) + Send>;

/// A connection at a moment.
pub(crate) struct View<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Moment,
}

/// A connection that reads. As long as it is open, [`Readers`] waits for it.
pub(crate) struct Reader {
    // Closed first, and then told: fields are dropped in this order.
    conn: Connection,
    _open: mpsc::SyncSender<Infallible>,
}

impl Reader {
    pub(crate) const fn conn(&self) -> &Connection {
        &self.conn
    }
}

/// The connections that read, for the one who closes the file after them.
pub(crate) struct Readers(mpsc::Receiver<Infallible>);

impl Readers {
    pub(crate) fn of(connections: Vec<Connection>) -> (Vec<Reader>, Self) {
        let (open, closed) = mpsc::sync_channel(0);
        let readers = connections.into_iter().map(|conn| Reader { conn, _open: open.clone() }).collect();
        (readers, Self(closed))
    }

    /// Returns when each of them was dropped, by whatever way its thread ended.
    pub(crate) fn wait_for_all_to_close(&self) {
        let Err(mpsc::RecvError) = self.0.recv();
    }
}

/// Reads until the store is closed.
pub(crate) fn run(conn: &Connection, shared: &Arc<Shared>) {
    while let Turn::Work(queued) = shared.reads.take_one(None) {
        shared.counts.reads.add(1);
        (queued.job)(&View { conn, now: shared.time.now() });
    }
}

/// What is read, or why it cannot be true.
pub(crate) type Checked<T> = Result<std::result::Result<T, Unavailable>>;

impl View<'_> {
    pub(crate) fn page(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> Checked<std::result::Result<Page, ReadError>> {
        // Most polls find nothing new: the row alone says so.
        match row_after(self.conn, stream, after, self.now)? {
            Ok(row) if after < row.tail => {}
            Ok(row) => return Ok(Ok(Ok(page_of(&row, Vec::new())))),
            Err(error) => return Ok(Ok(Err(error))),
        }
        // Row and events have to be of one moment.
        let whole = self.conn.unchecked_transaction()?;
        let row = match row_after(&whole, stream, after, self.now)? {
            Ok(row) => row,
            Err(error) => return Ok(Ok(Err(error))),
        };
        let events = events(&whole, &row, after, limit)?;
        Ok(if events.is_empty() {
            let missing = after + 1;
            Err(Unavailable(format!(
                "the store file is damaged: event {missing} of stream {stream:?} is missing"
            )))
        } else {
            Ok(Ok(page_of(&row, events)))
        })
    }

    pub(crate) fn session(&self, id: &str) -> Checked<SessionLookup> {
        let found: Option<(i64, Option<String>)> = self
            .conn
            .prepare_cached("SELECT version, record FROM sessions WHERE id = ? AND deadline > ?")?
            .query_row((id, self.now.0), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(match found {
            None => Ok(SessionLookup::Unknown),
            Some((_, None)) => Ok(SessionLookup::Ended),
            Some((version, Some(text))) => serde_json::from_str::<SessionRecord>(&text)
                .map(|record| SessionLookup::Live(Version(nat(version)), Arc::new(record)))
                .map_err(|error| Unavailable(format!("the record of a session cannot be read: {error}"))),
        })
    }

    pub(crate) fn letters(&self, stream: StreamId, after: u64) -> Result<Vec<Letter>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.conn
            .prepare_cached(
                "SELECT number, name, payload FROM mailboxes JOIN letters ON box = n \
                 WHERE stream = ? AND deadline > ? AND number > ? ORDER BY number",
            )?
            .query_map((stream.as_bytes(), self.now.0, after), |row| {
                Ok(Letter {
                    number: nat(row.get(0)?),
                    key: row.get(1)?,
                    payload: Bytes::from(row.get::<_, Vec<u8>>(2)?),
                })
            })?
            .collect()
    }

    /// Whether there is anything of that id, past its time or not.
    pub(crate) fn has_mailbox(&self, stream: StreamId) -> Result<bool> {
        self.conn.prepare_cached("SELECT 1 FROM mailboxes WHERE stream = ?")?.exists([stream.as_bytes()])
    }

    /// Whether there is anything of that id, past its time or not.
    pub(crate) fn has_stream(&self, stream: StreamId) -> Result<bool> {
        self.conn.prepare_cached("SELECT 1 FROM streams WHERE id = ?")?.exists([stream.as_bytes()])
    }

    pub(crate) fn backend(&self, backend: BackendId) -> Result<BackendState> {
        let draining = self
            .conn
            .prepare_cached("SELECT draining FROM leases WHERE backend = ? AND deadline > ?")?
            .query_row((int(backend.0), self.now.0), |row| row.get(0))
            .optional()?;
        Ok(draining.map_or(BackendState::Gone, state))
    }

    pub(crate) fn backends(&self) -> Result<Vec<(BackendId, BackendState)>> {
        let whole = self.conn.unchecked_transaction()?;
        let mut found = BTreeMap::new();
        // From owner to owner by the index: it does not matter how many streams each has.
        let mut owner = i64::MIN;
        let mut next = whole.prepare_cached(
            "SELECT owner FROM streams WHERE sealed = 0 AND kind = 0 AND owner >= ? ORDER BY owner LIMIT 1",
        )?;
        let mut last = whole.prepare_cached(
            "SELECT deadline FROM streams WHERE sealed = 0 AND kind = 0 AND owner = ? ORDER BY deadline DESC LIMIT 1",
        )?;
        while let Some(this) = next.query_row([owner], |row| row.get::<_, i64>(0)).optional()? {
            if last.query_row([this], |row| row.get::<_, i64>(0))? > self.now.0 {
                found.insert(BackendId(nat(this)), BackendState::Gone);
            }
            let Some(after) = this.checked_add(1) else { break };
            owner = after;
        }
        let mut leases = whole.prepare_cached("SELECT backend, draining FROM leases WHERE deadline > ?")?;
        let mut rows = leases.query([self.now.0])?;
        while let Some(row) = rows.next()? {
            found.insert(BackendId(nat(row.get(0)?)), state(row.get(1)?));
        }
        Ok(found.into_iter().collect())
    }

    pub(crate) fn open_streams(&self, backend: BackendId, limit: usize) -> Result<Vec<OpenStream>> {
        self.conn
            .prepare_cached(
                "SELECT id, epoch, tail, session, request_id FROM streams \
                 WHERE sealed = 0 AND kind = 0 AND owner = ? AND deadline > ? ORDER BY deadline LIMIT ?",
            )?
            .query_map((int(backend.0), self.now.0, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
                Ok(OpenStream {
                    id: StreamId::from_bytes(row.get(0)?),
                    kind: StreamKind::Call,
                    epoch: nat(row.get(1)?),
                    tail: nat(row.get(2)?),
                    session: row.get(3)?,
                    request_id: row.get(4)?,
                })
            })?
            .collect()
    }
}

const fn state(draining: bool) -> BackendState {
    if draining { BackendState::Draining } else { BackendState::Alive }
}

/// The row of a living stream that can be read from a position.
fn row_after(
    conn: &Connection,
    stream: StreamId,
    after: u64,
    now: Moment,
) -> Result<std::result::Result<StreamRow, ReadError>> {
    Ok(match StreamRow::find(conn, stream, now.0)? {
        None => Err(ReadError::Gone),
        Some(row) if after > row.tail => Err(ReadError::Lost { tail: row.tail }),
        Some(row) if after < row.dropped => Err(ReadError::Evicted { oldest: row.dropped + 1 }),
        Some(row) => Ok(row),
    })
}

fn page_of(row: &StreamRow, events: Vec<Bytes>) -> Page {
    let StreamRow { tail, epoch, incarnation, owner, generation, .. } = *row;
    Page { events, tail, sealed: row.is_sealed(), epoch, incarnation, owner, generation }
}

/// The run of events after a position, up to a limit or to the first that is missing.
fn events(conn: &Connection, row: &StreamRow, after: u64, limit: ReadLimit) -> Result<Vec<Bytes>> {
    let most = limit.events.max(1);
    let mut statement = conn.prepare_cached(
        "SELECT place, payload FROM events WHERE stream = ? AND place > ? ORDER BY place LIMIT ?",
    )?;
    let mut rows = statement.query((row.n, int(after), i64::try_from(most).unwrap_or(i64::MAX)))?;
    let mut events = Vec::new();
    let (mut place, mut bytes) = (after, 0_usize);
    while let Some(event) = rows.next()? {
        let payload = event.get_ref(1)?.as_blob()?;
        bytes = bytes.saturating_add(payload.len());
        place += 1;
        if event.get::<_, i64>(0)? != int(place) || (!events.is_empty() && bytes > limit.bytes) {
            break;
        }
        events.push(Bytes::copy_from_slice(payload));
    }
    Ok(events)
}
