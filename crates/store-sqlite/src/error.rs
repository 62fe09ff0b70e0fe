//! Why a store could not be opened.

use std::{io, path::PathBuf};
use thiserror::Error;

/// Why a file could not be opened as a store. The file was left as it was, byte for byte.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Something else is at that path: no database, or one of another program.
    #[error("{} is not a Bowline store: {what}. Choose another path, or move the file away", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A newer release of Bowline made the file, or changed it.
    #[error(
        "{} has schema version {found}, and this release knows versions up to {known}: use the release that wrote it, \
         or a newer one", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this release knows.
        known: i64,
    },
    /// It is a store, and it is damaged.
    #[error(
        "{} is damaged: {what}. Restore it from a copy, or move it and its -wal file away to start with an empty store",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another process had it locked all the time.
    #[error("{} was locked by another process for {patience_ms} ms: see which process has it open", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        patience_ms: u128,
    },
    /// The file system refused.
    #[error("{} cannot be opened: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// SQLite refused, for another reason than those above.
    #[error("{} cannot be used: {what}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it said.
        what: String,
    },
}
