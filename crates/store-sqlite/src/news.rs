//! What other processes changed: read from the file, and told to those who wait here.

use crate::{
    store::Shared,
    tx::{NEWS, State},
};
use bowline_proto::cursor::StreamId;
use rusqlite::{Connection, Result};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Wakes those who wait for what others changed, up to the number `newest`. Says whether there was anything by others.
pub(crate) fn catch_up(conn: &Connection, shared: &Shared, writer: i64, newest: i64) -> Result<bool> {
    let seen = shared.news.load(Relaxed);
    if newest <= seen {
        return Ok(false);
    }
    if newest - seen > NEWS {
        // The ring went round: it can have been anything.
        shared.waiters.wake_all();
        shared.counts.foreign_wakes.add(1);
        shared.news.fetch_max(newest, Relaxed);
        return Ok(true);
    }
    let mut statement =
        conn.prepare_cached("SELECT streams FROM news WHERE number > ? AND number <= ? AND writer <> ?")?;
    let mut rows = statement.query((seen, newest, writer))?;
    let mut foreign = false;
    while let Some(row) = rows.next()? {
        foreign = true;
        shared.counts.foreign_wakes.add(1);
        match row.get_ref(0)?.as_blob_or_null()? {
            Some(streams) => {
                let ids: Vec<_> =
                    streams.as_chunks::<16>().0.iter().map(|id| StreamId::from_bytes(*id)).collect();
                shared.waiters.wake(&ids);
            }
            None => shared.waiters.wake_all(),
        }
    }
    // Only now: what failed is looked at again. Two threads may tell the same, which harms nobody.
    shared.news.fetch_max(newest, Relaxed);
    Ok(foreign)
}

/// Looks for changes by others while somebody waits for changes, until the store is closed.
pub(crate) fn watch(conn: &Connection, writer: i64, shared: &Arc<Shared>) {
    let mut version = 0_i64;
    let mut failing = false;
    while shared.pause_watching() {
        let looked = (|| {
            // Cheaper than a read: it only looks at the shared memory.
            let now: i64 = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
            if now != version {
                let state = State::load(conn)?;
                catch_up(conn, shared, writer, state.news)?;
                // Only now: what failed is looked at again.
                version = now;
            }
            Ok::<(), rusqlite::Error>(())
        })();
        match looked {
            Ok(()) => failing = false,
            Err(error) if !std::mem::replace(&mut failing, true) => {
                tracing::warn!(%error, "changes by other processes cannot be read from the store");
            }
            Err(_) => {}
        }
    }
}
