//! Opening the file: what it is, before anything is written to it; and the settings of a connection.

use crate::{
    Durability, OpenError, Options,
    clock::{Moment, Stamp, StoreTime},
    schema,
};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

/// Files that are up to this size with their logs are read through before they are trusted; larger ones would take longer than a start may.
const CHECKED_BYTES: u64 = 4 << 20;

/// How many pages the write-ahead log has before it is copied into the file.
const CHECKPOINT_PAGES: u32 = 1_000;

const PAGE_BYTES: u64 = 4_096;

/// No database is smaller. SQLite takes a file of a few bytes for an empty one.
const HEADER_BYTES: u64 = 512;

/// A file that was opened.
pub(crate) struct Opened {
    /// The one connection that writes.
    pub(crate) writer: Connection,
    pub(crate) time: StoreTime,
    /// The number of this opening: what this process writes is told from what others write by it.
    pub(crate) opening: i64,
}

/// What is at the path.
enum Found {
    /// Nothing, or nothing yet.
    Empty,
    Ours,
}

/// Opens the file, or makes it. Blocks: see [`SqliteStore::open`](crate::SqliteStore::open).
pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let report = |error: rusqlite::Error| refusal(path, &error, options.patience);
    let mut found = inspect(path, options.patience)?;
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options.patience).map_err(report)?;
    // Until the file is known to be ours and sound, closing it must not touch it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(report)?;
    // The header on the disk may be older than the log.
    if let Found::Empty = found {
        found = examine(&conn).map_err(report)?.map_err(|refused| refused.at(path))?;
    }
    if let Found::Ours = found {
        check(&conn, path).map_err(report)?.map_err(|refused| refused.at(path))?;
    } else {
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(report)?;
    }
    retry(&conn, options.patience, use_log).map_err(report)?.map_err(|refused| refused.at(path))?;
    let full = options.durability == Durability::Full;
    let pages = (options.file_bytes / PAGE_BYTES).clamp(64, u64::from(u32::MAX) - 1);
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = {full}; PRAGMA wal_autocheckpoint = 0; \
         PRAGMA cache_size = -8192; PRAGMA max_page_count = {pages}; PRAGMA journal_size_limit = 16777216"
    ))
    .map_err(report)?;
    // This commit also puts on the disk what a process wrote that was killed before it could sync: from here on all
    // that can be read is durable.
    let (time, opening) = first_commit(&conn, options).map_err(report)?;
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {}; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
        if full { "FULL" } else { "NORMAL" }
    ))
    .map_err(report)?;
    if let Found::Empty = found {
        // So that the header says what the file is.
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(report)?;
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(report)?;
    Ok(Opened { writer: conn, time, opening })
}

/// A connection that reads.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<Connection, OpenError> {
    let report = |error: rusqlite::Error| refusal(path, &error, options.patience);
    // Readers too take part in the log's shared memory, so they may write; they are told not to.
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE, options.patience).map_err(report)?;
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -4096").map_err(report)?;
    // Copying the log is left to the connection that knows how durable it has to be.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(report)?;
    Ok(conn)
}

fn connect(path: &Path, access: OpenFlags, patience: Duration) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(patience)?;
    conn.set_prepared_statement_cache_capacity(96);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(conn)
}

/// Why a file is not used.
enum Refused {
    NotOurs(String),
    Newer(i64),
    Damaged(String),
    Unusable(String),
    Io(io::Error),
}

impl Refused {
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::NotOurs(what) => OpenError::NotOurs { path, what },
            Self::Newer(found) => OpenError::Newer { path, found, known: schema::VERSION },
            Self::Damaged(what) => OpenError::Damaged { path, what },
            Self::Unusable(what) => OpenError::Sqlite { path, what },
            Self::Io(error) => OpenError::Io { path, error },
        }
    }
}

/// Looks at the first bytes of the file. Makes an empty one where there is none, for its owner only: it
/// holds what clients said.
fn inspect(path: &Path, patience: Duration) -> Result<Found, OpenError> {
    let report = |error: rusqlite::Error| refusal(path, &error, patience);
    let io = |error: io::Error| Refused::Io(error).at(path);
    // What SQLite means by that is no file, and a file would be made for nothing.
    if path.as_os_str() == ":memory:" {
        return Err(Refused::Unusable("a store is a file; name one".to_owned()).at(path));
    }
    let mut make = OpenOptions::new();
    make.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut make, 0o600);
    match make.open(path) {
        Ok(_) => return Ok(Found::Empty),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(io(error)),
    }
    let found = fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        return Err(Refused::NotOurs("it is no file".to_owned()).at(path));
    }
    if found.len() == 0 {
        return Ok(Found::Empty);
    }
    if found.len() < HEADER_BYTES {
        return Err(Refused::NotOurs("it is no SQLite database".to_owned()).at(path));
    }
    let has_log = fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0);
    let refused = match header(path) {
        Ok((schema::APPLICATION, version)) if version > schema::VERSION => Refused::Newer(version),
        Ok((schema::APPLICATION, _)) => return Ok(Found::Ours),
        // A file that was just made has everything in its log; one whose process was killed while it copied the log has
        // some pages without others.
        Ok((0, 0)) | Err(Refused::Damaged(_)) if has_log => {
            let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY, patience).map_err(report)?;
            return examine(&conn).map_err(report)?.map_err(|refused| refused.at(path));
        }
        Ok((0, 0)) if found.len() <= PAGE_BYTES => return Ok(Found::Empty),
        Ok((application, version)) => Refused::NotOurs(format!(
            "it is an SQLite database of another program (application id {application:#x}, version {version})"
        )),
        Err(refused) => refused,
    };
    Err(refused.at(path))
}

/// Application id and schema version in the first bytes of the file, whatever is in its log. Touches nothing.
///
/// SQLite reads them, as a file that never changes: to open and close the file by other means would take the locks away
/// that another store in this process has on it.
fn header(path: &Path) -> Result<(i64, i64), Refused> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = Connection::open_with_flags(uri, flags)
        .and_then(|conn| Ok((schema::application(&conn)?, schema::version(&conn)?)));
    read.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Refused::NotOurs("it is no SQLite database".to_owned()),
        Some(ErrorCode::DatabaseCorrupt) => Refused::Damaged(error.to_string()),
        _ => Refused::Unusable(error.to_string()),
    })
}

/// Asks SQLite what the file is, with what is in its log.
fn examine(conn: &Connection) -> rusqlite::Result<Result<Found, Refused>> {
    // One look: somebody else may be making the file right now.
    let conn = &conn.unchecked_transaction()?;
    let (application, version) = (schema::application(conn)?, schema::version(conn)?);
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    Ok(match (application, version, tables) {
        (0, 0, 0) => Ok(Found::Empty),
        (schema::APPLICATION, version, _) if version > schema::VERSION => Err(Refused::Newer(version)),
        (schema::APPLICATION, ..) => Ok(Found::Ours),
        _ => Err(Refused::NotOurs("it is an SQLite database of another program".to_owned())),
    })
}

/// Checks a file of ours before anything is written to it.
fn check(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), Refused>> {
    let version = schema::version(conn)?;
    if version > schema::VERSION {
        return Ok(Err(Refused::Newer(version)));
    }
    if schema::application(conn)? != schema::APPLICATION {
        return Ok(Err(Refused::Damaged("its log belongs to another database".to_owned())));
    }
    if version < 1 {
        return Ok(Err(Refused::Damaged("it has no schema version".to_owned())));
    }
    let mut statement = conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if let Some(missing) = schema::tables(version).find(|table| !names.iter().any(|name| name == table)) {
        return Ok(Err(Refused::Damaged(format!("the table {missing} is missing"))));
    }
    let rows: i64 = conn.query_row("SELECT count(*) FROM state", [], |row| row.get(0))?;
    if rows != 1 {
        return Ok(Err(Refused::Damaged("its state is missing".to_owned())));
    }
    let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if size(path) + size(&log_of(path)) <= CHECKED_BYTES {
        let report: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if report != "ok" {
            return Ok(Err(Refused::Damaged(report.replace('\n', " "))));
        }
    }
    Ok(Ok(()))
}

/// Switches to the write-ahead log.
fn use_log(conn: &Connection) -> rusqlite::Result<Result<(), Refused>> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    Ok(if mode == "wal" {
        Ok(())
    } else {
        Err(Refused::Unusable(format!(
            "its file system has no shared memory for SQLite's write-ahead log (the journal is {mode}): put it on a local disk"
        )))
    })
}

/// Migrates, and notes that the file was opened.
fn first_commit(conn: &Connection, options: &Options) -> rusqlite::Result<(StoreTime, i64)> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = note_opening(conn, options);
    match done {
        Ok(opened) => conn.execute_batch("COMMIT").map(|()| opened),
        Err(error) => {
            // The first failure is the one to report; a transaction that is left open ends with the connection.
            let _ = conn.execute_batch("ROLLBACK");
            Err(error)
        }
    }
}

fn note_opening(conn: &Connection, options: &Options) -> rusqlite::Result<(StoreTime, i64)> {
    schema::migrate(conn)?;
    let (openings, last) =
        conn.query_row("SELECT openings, store_time, wall_time FROM state", [], |row| {
            Ok((row.get::<_, i64>(0)?, Stamp { store: Moment(row.get(1)?), wall: row.get(2)? }))
        })?;
    let time = StoreTime::start(Arc::clone(&options.clock), (openings > 0).then_some(last));
    let stamp = time.stamp();
    let opening = openings + 1;
    conn.execute(
        "UPDATE state SET openings = ?, store_time = ?, wall_time = ?",
        (opening, stamp.store.0, stamp.wall),
    )?;
    Ok((time, opening))
}

/// Tries again while the file is locked: where two processes make a file at the same moment, SQLite itself does not wait.
fn retry<T>(
    conn: &Connection,
    patience: Duration,
    mut action: impl FnMut(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let pause = Duration::from_millis(5);
    let mut left = patience;
    loop {
        match action(conn) {
            Err(error) if is_busy(&error) && !left.is_zero() => {
                thread::sleep(pause);
                left = left.saturating_sub(pause);
            }
            answer => return answer,
        }
    }
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn refusal(path: &Path, error: &rusqlite::Error, patience: Duration) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenError::Busy { path, patience_ms: patience.as_millis() }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged { path, what: error.to_string() }
        }
        _ => OpenError::Sqlite { path, what: error.to_string() },
    }
}

/// The write-ahead log of a file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}
