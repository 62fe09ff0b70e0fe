//! Leases, and the keys that all backends share.

use super::{Tx, int};
use bowline_store::BackendId;
use bytes::Bytes;
use rusqlite::{Connection, Result};
use std::time::Duration;

impl Tx<'_> {
    pub(crate) fn renew(&mut self, backend: BackendId, draining: bool, ttl: Duration) -> Result<()> {
        self.write(
            "INSERT OR REPLACE INTO leases (backend, draining, deadline) VALUES (?, ?, ?)",
            (int(backend.0), draining, self.now.plus(ttl).0),
        )?;
        Ok(())
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
