//! Leases, and the keys that all backends share.

use super::{Tx, int, nat};
use bowline_store::BackendId;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Result};
use std::time::Duration;

impl Tx<'_> {
    pub(crate) fn renew(&mut self, backend: BackendId, draining: bool, ttl: Duration) -> Result<Duration> {
        self.write(
            "INSERT OR REPLACE INTO leases (backend, draining, deadline) VALUES (?, ?, ?)",
            (int(backend.0), draining, self.now.plus(ttl).0),
        )?;
        let watch: Option<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT since, last FROM watch")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let now = self.now.0;
        let most = i64::try_from((ttl / 2).as_millis()).unwrap_or(i64::MAX);
        let since =
            watch.filter(|(_, last)| now.saturating_sub(*last) <= most).map_or(now, |(since, _)| since);
        self.write("INSERT OR REPLACE INTO watch (one, since, last) VALUES (1, ?, ?)", (since, now))?;
        Ok(Duration::from_millis(nat(now.saturating_sub(since))))
    }

    pub(crate) fn release(&mut self, backend: BackendId) -> Result<()> {
        self.write("DELETE FROM leases WHERE backend = ?", [int(backend.0)])?;
        Ok(())
    }

    pub(crate) fn swap_keys(&mut self, before: &[Bytes], after: &[Bytes]) -> Result<Vec<Bytes>> {
        let current = shared_keys(self.conn)?;
        if current != before {
            return Ok(current);
        }
        self.write("DELETE FROM keys", [])?;
        for (place, key) in (0_i64..).zip(after) {
            self.write("INSERT INTO keys (place, secret) VALUES (?, ?)", (place, &key[..]))?;
        }
        Ok(after.to_vec())
    }
}

/// The keys in force, newest first.
pub(crate) fn shared_keys(conn: &Connection) -> Result<Vec<Bytes>> {
    conn.prepare_cached("SELECT secret FROM keys ORDER BY place")?
        .query_map([], |row| row.get::<_, Vec<u8>>(0).map(Bytes::from))?
        .collect()
}
