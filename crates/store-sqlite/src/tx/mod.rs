//! One transaction of the committer, and what operations do in it.

mod backends;
mod mailboxes;
mod row;
mod sessions;
mod streams;
mod sweep;

use crate::{
    Limits,
    clock::{Moment, Stamp},
    counts::Happened,
};
use bowline_proto::cursor::StreamId;
use rusqlite::{Connection, Params, Result};

pub(crate) use backends::shared_keys;
pub(crate) use row::StreamRow;
pub(crate) use streams::Write;

/// How many of the last commits tell what they changed.
pub(crate) const NEWS: i64 = 256;

/// The most streams that one commit names to other processes; beyond that it says "any".
const NAMED: usize = 512;

/// How much a write that found no room may sweep before it is refused.
const SWEEP_FOR_ROOM: usize = 256;

/// What the file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) streams: u64,
    pub(crate) sealed: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    pub(crate) sessions: u64,
    pub(crate) tombstones: u64,
    pub(crate) mailboxes: u64,
    pub(crate) letter_bytes: u64,
}

/// The row of `state`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) totals: Totals,
    /// The last number that was given to a seal or to a tombstone.
    last_order: u64,
    /// The number of the last commit that told something.
    pub(crate) news: i64,
    pub(crate) time: Moment,
}

impl State {
    pub(crate) fn load(conn: &Connection) -> Result<Self> {
        conn.prepare_cached(
            "SELECT streams, sealed, events, bytes, sessions, tombstones, mailboxes, letter_bytes, last_order, news, \
             store_time FROM state",
        )?
        .query_row([], |row| {
            let count = |index| row.get(index).map(nat);
            Ok(Self {
                totals: Totals {
                    streams: count(0)?,
                    sealed: count(1)?,
                    events: count(2)?,
                    bytes: count(3)?,
                    sessions: count(4)?,
                    tombstones: count(5)?,
                    mailboxes: count(6)?,
                    letter_bytes: count(7)?,
                },
                last_order: count(8)?,
                news: row.get(9)?,
                time: Moment(row.get(10)?),
            })
        })
    }
}

/// A transaction that has the write lock.
pub(crate) struct Tx<'a> {
    conn: &'a Connection,
    pub(crate) now: Moment,
    limits: &'a Limits,
    pub(crate) state: State,
    pub(crate) happened: Happened,
    /// Streams that changed.
    pub(crate) changed: Vec<StreamId>,
    /// Whether anything was written.
    pub(crate) dirty: bool,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(conn: &'a Connection, limits: &'a Limits, state: State, now: Moment) -> Self {
        Self { conn, now, limits, state, happened: Happened::default(), changed: Vec::new(), dirty: false }
    }

    /// Writes the totals, the time, and what changed. The last thing before the commit.
    pub(crate) fn finish(&mut self, stamp: Stamp, writer: i64) -> Result<()> {
        self.changed.sort_unstable();
        self.changed.dedup();
        if !self.changed.is_empty() {
            self.state.news += 1;
            let named = (self.changed.len() <= NAMED)
                .then(|| self.changed.iter().flat_map(StreamId::as_bytes).copied().collect::<Vec<u8>>());
            self.write(
                "INSERT OR REPLACE INTO news (slot, number, writer, streams) VALUES (?, ?, ?, ?)",
                (self.state.news % NEWS, self.state.news, writer, named),
            )?;
        }
        let State { totals, last_order, news, .. } = self.state;
        let counts = [
            totals.streams,
            totals.sealed,
            totals.events,
            totals.bytes,
            totals.sessions,
            totals.tombstones,
            totals.mailboxes,
            totals.letter_bytes,
            last_order,
        ];
        let row = counts.into_iter().map(int).chain([news, stamp.store.0, stamp.wall]);
        self.write(
            "UPDATE state SET streams = ?, sealed = ?, events = ?, bytes = ?, sessions = ?, tombstones = ?, \
             mailboxes = ?, letter_bytes = ?, last_order = ?, news = ?, store_time = ?, wall_time = ?",
            rusqlite::params_from_iter(row),
        )?;
        Ok(())
    }

    /// Executes a statement that changes something.
    fn write(&mut self, sql: &'static str, params: impl Params) -> Result<usize> {
        let count = self.conn.prepare_cached(sql)?.execute(params)?;
        self.dirty |= count > 0;
        Ok(count)
    }

    fn next_order(&mut self) -> u64 {
        self.state.last_order += 1;
        self.state.last_order
    }

    /// Makes some room, by what nobody needs any more. Returns whether there was any such thing.
    fn make_room(&mut self) -> Result<bool> {
        Ok(self.evict_oldest_seal()? || self.sweep(SWEEP_FOR_ROOM)?.freed > 0)
    }
}

/// A number without sign, as it is kept.
pub(crate) const fn int(number: u64) -> i64 {
    number.cast_signed()
}

/// And back.
pub(crate) const fn nat(number: i64) -> u64 {
    number.cast_unsigned()
}

/// Adds what came and takes off what went.
pub(crate) const fn moved(count: &mut u64, came: u64, went: u64) {
    *count = count.saturating_add(came).saturating_sub(went);
}
