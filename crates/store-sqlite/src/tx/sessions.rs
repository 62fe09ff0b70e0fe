//! Sessions: made, changed, touched, ended.

use super::{Tx, int, moved, nat};
use bowline_proto::cursor::StreamId;
use bowline_store::{CreateError, UpdateError, Version};
use rusqlite::{OptionalExtension as _, Result};
use std::time::Duration;

impl Tx<'_> {
    pub(crate) fn create_session(
        &mut self,
        id: &str,
        record: &str,
        standalone: StreamId,
        ttl: Duration,
    ) -> Result<Result<Version, CreateError>> {
        let there = self
            .conn
            .prepare_cached("SELECT n, deadline > ? FROM sessions WHERE id = ?")?
            .query_row((self.now.0, id), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?)))
            .optional()?;
        match there {
            Some((_, true)) => return Ok(Err(CreateError::Exists)),
            Some((n, false)) => self.drop_session(n)?,
            None => {}
        }
        let limit = self.limits.sessions;
        while self.state.totals.sessions >= limit {
            if self.sweep_sessions(super::SWEEP_FOR_ROOM)? == 0 {
                self.happened.refused += 1;
                return Ok(Err(CreateError::Full { what: "sessions", limit }));
            }
        }
        self.write(
            "INSERT INTO sessions (id, version, record, standalone, end_order, deadline) VALUES (?, 1, ?, ?, 0, ?)",
            (id, record, standalone.as_bytes(), self.now.plus(ttl).0),
        )?;
        self.state.totals.sessions += 1;
        Ok(Ok(Version(1)))
    }

    pub(crate) fn update_session(
        &mut self,
        id: &str,
        version: Version,
        record: &str,
        standalone: StreamId,
    ) -> Result<Result<Version, UpdateError>> {
        let Some((n, current, before)) = self.living_session(id)? else { return Ok(Err(UpdateError::Gone)) };
        if current != version.0 {
            return Ok(Err(UpdateError::Conflict));
        }
        let next = Version(current + 1);
        self.write(
            "UPDATE sessions SET version = ?, record = ?, standalone = ? WHERE n = ?",
            (int(next.0), record, standalone.as_bytes(), n),
        )?;
        self.changed.extend([before, standalone]);
        Ok(Ok(next))
    }

    pub(crate) fn touch_session(&mut self, id: &str, ttl: Duration) -> Result<()> {
        let until = self.now.plus(ttl).0;
        self.write(
            "UPDATE sessions SET deadline = ? WHERE id = ? AND record IS NOT NULL AND deadline > ? AND deadline < ?",
            (until, id, self.now.0, until),
        )?;
        Ok(())
    }

    pub(crate) fn delete_session(&mut self, id: &str, tombstone: Duration) -> Result<bool> {
        let Some((n, _, standalone)) = self.living_session(id)? else { return Ok(false) };
        let order = self.next_order();
        self.write(
            "UPDATE sessions SET record = NULL, end_order = ?, deadline = ? WHERE n = ?",
            (int(order), self.now.plus(tombstone).0, n),
        )?;
        moved(&mut self.state.totals.sessions, 0, 1);
        self.state.totals.tombstones += 1;
        self.changed.push(standalone);
        while self.state.totals.tombstones > self.limits.tombstones && self.evict_oldest_tombstone()? {}
        Ok(true)
    }

    fn living_session(&self, id: &str) -> Result<Option<(i64, u64, StreamId)>> {
        self.conn
            .prepare_cached(
                "SELECT n, version, standalone FROM sessions WHERE id = ? AND deadline > ? AND record IS NOT NULL",
            )?
            .query_row((id, self.now.0), |row| {
                Ok((row.get(0)?, nat(row.get(1)?), StreamId::from_bytes(row.get(2)?)))
            })
            .optional()
    }

    fn evict_oldest_tombstone(&mut self) -> Result<bool> {
        let oldest = self
            .conn
            .prepare_cached("SELECT n FROM sessions WHERE end_order > 0 ORDER BY end_order LIMIT 1")?
            .query_row([], |row| row.get::<_, i64>(0))
            .optional()?;
        let Some(n) = oldest else { return Ok(false) };
        self.drop_session(n)?;
        self.happened.tombstones_evicted += 1;
        Ok(true)
    }

    /// Drops a session or a tombstone, and settles the accounts.
    pub(super) fn drop_session(&mut self, n: i64) -> Result<()> {
        let lived = self
            .conn
            .prepare_cached("DELETE FROM sessions WHERE n = ? RETURNING record IS NOT NULL")?
            .query_row([n], |row| row.get::<_, bool>(0))?;
        self.dirty = true;
        let totals = &mut self.state.totals;
        let count = if lived { &mut totals.sessions } else { &mut totals.tombstones };
        moved(count, 0, 1);
        Ok(())
    }
}
