//! The tables, and how an older file becomes a newer one.

use rusqlite::{Connection, Result};

/// What the header of the file says: `BOWL`.
pub(crate) const APPLICATION: i64 = 0x424F_574C;

/// The version that this release writes (`user_version`).
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// The step at index `n` makes version `n + 1` of version `n`.
///
/// A release that drains may have the file open while a newer one migrates it. So a step only adds (tables, indexes,
/// columns with a default), and the statements of the release before go on working.
const STEPS: &[&str] = &[BASE, RERUNS, WATCH, INCARNATIONS];

/// What must be there before anything is written, with the version that brought it.
const TABLES: &[(i64, &str)] = &[
    (1, "events"),
    (1, "keys"),
    (1, "leases"),
    (1, "letters"),
    (1, "mailboxes"),
    (1, "news"),
    (2, "reruns"),
    (1, "sessions"),
    (1, "state"),
    (1, "streams"),
    (3, "watch"),
];

/// What must be there in a file of that version.
pub(crate) fn tables(version: i64) -> impl Iterator<Item = &'static str> {
    TABLES.iter().filter(move |(since, _)| *since <= version).map(|(_, name)| *name)
}

/// - 64-bit numbers without sign are kept in the bits of signed ones; offsets, counts and times never get that large.
/// - `deadline` is in the store's time (see `Clock`), in milliseconds; what is past it is not there.
/// - `events` is ordered by arrival, not by stream: a commit writes the last pages of it, whatever streams it is about.
/// - `state` has one row: totals for the bounds, and the time of the last commit.
/// - `news` is a ring of what the last commits changed, for other processes.
const BASE: &str = "
CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  streams INTEGER NOT NULL, sealed INTEGER NOT NULL, events INTEGER NOT NULL, bytes INTEGER NOT NULL,
  sessions INTEGER NOT NULL, tombstones INTEGER NOT NULL,
  mailboxes INTEGER NOT NULL, letter_bytes INTEGER NOT NULL,
  last_order INTEGER NOT NULL,
  openings INTEGER NOT NULL, news INTEGER NOT NULL,
  store_time INTEGER NOT NULL, wall_time INTEGER NOT NULL
) STRICT;

CREATE TABLE streams (
  n INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  kind INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  epoch INTEGER NOT NULL, epoch_start INTEGER NOT NULL,
  dropped INTEGER NOT NULL, tail INTEGER NOT NULL, bytes INTEGER NOT NULL,
  max_events INTEGER NOT NULL, max_bytes INTEGER NOT NULL,
  generation INTEGER NOT NULL, delivered INTEGER NOT NULL,
  sealed INTEGER NOT NULL,
  seal_order INTEGER NOT NULL,
  deadline INTEGER NOT NULL,
  session TEXT, request_id TEXT
) STRICT;
CREATE INDEX streams_deadline ON streams (deadline);
CREATE INDEX streams_seal_order ON streams (seal_order) WHERE seal_order > 0;
CREATE INDEX streams_open ON streams (owner, deadline) WHERE sealed = 0 AND kind = 0;

CREATE TABLE events (
  n INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL,
  place INTEGER NOT NULL,
  payload BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_place ON events (stream, place);

CREATE TABLE sessions (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL,
  record TEXT,
  standalone BLOB NOT NULL,
  end_order INTEGER NOT NULL,
  deadline INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_deadline ON sessions (deadline);
CREATE INDEX sessions_end_order ON sessions (end_order) WHERE end_order > 0;

CREATE TABLE mailboxes (
  n INTEGER PRIMARY KEY,
  stream BLOB NOT NULL UNIQUE,
  letters INTEGER NOT NULL, bytes INTEGER NOT NULL,
  deadline INTEGER NOT NULL
) STRICT;
CREATE INDEX mailboxes_deadline ON mailboxes (deadline);
CREATE TABLE letters (
  box INTEGER NOT NULL, number INTEGER NOT NULL,
  name TEXT NOT NULL, payload BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX letters_number ON letters (box, number);
CREATE UNIQUE INDEX letters_name ON letters (box, name);

CREATE TABLE leases (
  backend INTEGER PRIMARY KEY,
  draining INTEGER NOT NULL,
  deadline INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
  place INTEGER PRIMARY KEY,
  secret BLOB NOT NULL
) STRICT;

CREATE TABLE news (
  slot INTEGER PRIMARY KEY,
  number INTEGER NOT NULL, writer INTEGER NOT NULL,
  streams BLOB
) STRICT;

INSERT INTO state VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
";

/// What it takes to run calls again, apart from `streams`: those rows are written with every event. It goes with its stream, and when that is
/// sealed; triggers see to it, so that a release that does not know the table does it too.
const RERUNS: &str = "
CREATE TABLE reruns (
  stream INTEGER PRIMARY KEY,
  request BLOB NOT NULL
) STRICT;
CREATE TRIGGER reruns_sealed AFTER UPDATE OF sealed ON streams WHEN NEW.sealed <> 0
BEGIN DELETE FROM reruns WHERE stream = NEW.n; END;
CREATE TRIGGER reruns_dropped AFTER DELETE ON streams
BEGIN DELETE FROM reruns WHERE stream = OLD.n; END;
";

/// Since when leases are renewed without a break, and when the last one was: one row, or none.
const WATCH: &str = "
CREATE TABLE watch (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  since INTEGER NOT NULL, last INTEGER NOT NULL
) STRICT;
";

/// What tells a stream from earlier ones of its id.
const INCARNATIONS: &str = "ALTER TABLE streams ADD COLUMN incarnation INTEGER NOT NULL DEFAULT 0";

pub(crate) fn version(conn: &Connection) -> Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

pub(crate) fn application(conn: &Connection) -> Result<i64> {
    conn.query_row("PRAGMA application_id", [], |row| row.get(0))
}

/// Brings a file of any version up to the newest, within the caller's transaction.
pub(crate) fn migrate(conn: &Connection) -> Result<()> {
    migrate_by(conn, STEPS)
}

fn migrate_by(conn: &Connection, steps: &[&str]) -> Result<()> {
    let from = version(conn)?;
    let done = usize::try_from(from).unwrap_or(0);
    for step in steps.iter().skip(done) {
        conn.execute_batch(step)?;
    }
    let to = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    if from < to {
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.pragma_update(None, "user_version", to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_gets_every_table() {
        let conn = Connection::open_in_memory().unwrap();
        migrate(&conn).unwrap();
        let names: Vec<String> = conn
            .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_>>()
            .unwrap();
        assert_eq!(names, tables(VERSION).collect::<Vec<_>>());
        assert_eq!(version(&conn).unwrap(), VERSION);
        assert_eq!(application(&conn).unwrap(), APPLICATION);
        migrate(&conn).unwrap();
    }

    #[test]
    fn what_it_takes_to_run_again_goes_with_its_stream_and_its_seal() {
        let conn = Connection::open_in_memory().unwrap();
        migrate_by(&conn, &STEPS[..1]).unwrap();
        let of_the_older = "INSERT INTO streams (id, kind, owner, epoch, epoch_start, dropped, tail, bytes, max_events, max_bytes, \
             generation, delivered, sealed, seal_order, deadline) VALUES (?, 0, 1, 1, 1, 0, 0, 0, 9, 9, 0, 0, 0, 0, 9)";
        conn.execute(of_the_older, [[1_u8; 16]]).unwrap();
        migrate(&conn).unwrap();
        for id in 2..=4_u8 {
            conn.execute(of_the_older, [[id; 16]]).unwrap();
            conn.execute("INSERT INTO reruns VALUES (?, x'00')", [id]).unwrap();
        }
        conn.execute("UPDATE streams SET sealed = 1 WHERE n = 2", []).unwrap();
        conn.execute("DELETE FROM streams WHERE n = 3", []).unwrap();
        conn.execute("UPDATE streams SET tail = 1 WHERE n IN (1, 4)", []).unwrap();
        let left: i64 =
            conn.query_row("SELECT group_concat(stream) = '4' FROM reruns", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 1);
    }

    #[test]
    fn an_older_file_goes_through_the_steps_that_it_lacks() {
        let steps = [BASE, "ALTER TABLE leases ADD COLUMN zone TEXT", "CREATE TABLE later (n INTEGER)"];
        let conn = Connection::open_in_memory().unwrap();
        migrate_by(&conn, &steps[..1]).unwrap();
        conn.execute("INSERT INTO leases VALUES (7, 0, 1)", []).unwrap();
        migrate_by(&conn, &steps).unwrap();
        assert_eq!(version(&conn).unwrap(), 3);
        let lease: (i64, Option<String>) = conn
            .query_row("SELECT backend, zone FROM leases", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(lease, (7, None));
        conn.execute("INSERT INTO later VALUES (1)", []).unwrap();
    }
}
