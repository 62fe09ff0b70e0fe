//! Freeing what is past its time, and giving free space back.

use super::{Tx, nat};
use bowline_proto::cursor::StreamId;
use rusqlite::Result;

/// The most events that go in one step, beside those of its last stream.
const EVENTS: u64 = 4_096;

/// Free pages that are left alone: they will be used again soon.
const SPARE_PAGES: i64 = 1_024;

/// How many pages are given back in one step.
const PAGES: i64 = 256;

/// What one step did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Things that were freed.
    pub(crate) freed: usize,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl Tx<'_> {
    /// Frees at most `budget` things.
    pub(crate) fn sweep(&mut self, budget: usize) -> Result<Step> {
        let (streams, full) = self.sweep_streams(budget)?;
        let mut freed = streams;
        freed += self.sweep_sessions(budget - freed)?;
        freed += self.sweep_mailboxes(budget - freed)?;
        freed += self.write(
            "DELETE FROM leases WHERE backend IN (SELECT backend FROM leases WHERE deadline <= ? LIMIT ?)",
            (self.now.0, limit(budget - freed)),
        )?;
        Ok(Step { freed, more: full || freed >= budget })
    }

    /// Frees streams; says how many, and whether it stopped for their size.
    fn sweep_streams(&mut self, budget: usize) -> Result<(usize, bool)> {
        let ended: Vec<(i64, StreamId, u64)> = self
            .conn
            .prepare_cached(
                "SELECT n, id, tail - dropped FROM streams WHERE deadline <= ? ORDER BY deadline LIMIT ?",
            )?
            .query_map((self.now.0, limit(budget)), |row| {
                Ok((row.get(0)?, StreamId::from_bytes(row.get(1)?), nat(row.get(2)?)))
            })?
            .collect::<Result<_>>()?;
        let mut events = 0;
        for (freed, (n, id, held)) in ended.iter().enumerate() {
            if events >= EVENTS {
                return Ok((freed, true));
            }
            self.drop_stream(*n)?;
            self.changed.push(*id);
            events += held;
        }
        Ok((ended.len(), false))
    }

    pub(super) fn sweep_sessions(&mut self, budget: usize) -> Result<usize> {
        let ended =
            self.ended("SELECT n FROM sessions WHERE deadline <= ? ORDER BY deadline LIMIT ?", budget)?;
        ended.iter().try_for_each(|n| self.drop_session(*n))?;
        Ok(ended.len())
    }

    fn sweep_mailboxes(&mut self, budget: usize) -> Result<usize> {
        let ended =
            self.ended("SELECT n FROM mailboxes WHERE deadline <= ? ORDER BY deadline LIMIT ?", budget)?;
        ended.iter().try_for_each(|n| self.drop_box(*n))?;
        Ok(ended.len())
    }

    fn ended(&self, sql: &'static str, budget: usize) -> Result<Vec<i64>> {
        self.conn.prepare_cached(sql)?.query_map((self.now.0, limit(budget)), |row| row.get(0))?.collect()
    }

    /// Gives some free pages back to the file system, where there are many. Says whether there may be more.
    pub(crate) fn shrink(&mut self) -> Result<bool> {
        let pages: i64 = self.conn.prepare_cached("PRAGMA page_count")?.query_row([], |row| row.get(0))?;
        let free: i64 = self.conn.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))?;
        if free <= SPARE_PAGES.max(pages / 4) {
            return Ok(false);
        }
        let mut statement = self.conn.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
        let mut steps = statement.query([])?;
        while steps.next()?.is_some() {}
        self.dirty = true;
        Ok(true)
    }
}

fn limit(budget: usize) -> i64 {
    i64::try_from(budget).unwrap_or(i64::MAX)
}
