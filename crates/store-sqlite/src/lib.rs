//! The embedded durable store of Bowline: one SQLite file on the disk of one machine.
//!
//! - **One committer.** Everything that changes the file is done by one thread, in transactions that hold whatever was queued while the
//!   last one was written (group commit). An answer goes out, and readers are woken, after the commit: with [`Durability::Full`]
//!   that means after `fsync`.
//! - **Readers beside it.** A few threads with connections of their own. They see only what was committed, and a commit can be seen
//!   only after it was synced, so what a read returned once is still there after a crash.
//! - **Two processes may share the file** while one of them drains. They take turns at the write lock, tell each other which
//!   streams changed, and agree about the time ([`Clock`]). The file must be on a local disk: SQLite's write-ahead log needs shared
//!   memory.
//! - **Nothing pretends.** A transaction that fails (the disk is full, an IO error) changed nothing: each of its operations
//!   answers `Unavailable`, nobody is woken, and no read shows any of it.
//! - **Not on a file that nobody finds.** A file that was deleted, moved or replaced while it was open is noticed within about a second;
//!   from then on the store answers `Unavailable`, until the file is back or the process starts anew.
//! - **Bounded.** [`Options`] bounds the queue, the file, and what it may hold; what is past its time is freed in small steps by
//!   `housekeep`, and free space goes back to the file system.
//!
//! ```no_run
//! use bowline_store_sqlite::{Options, SqliteStore};
//!
//! let store = SqliteStore::open("/var/lib/bowline/store.sqlite".as_ref(), Options::default())?;
//! # Ok::<(), bowline_store_sqlite::OpenError>(())
//! ```
//!
//! A store answers within [`Options::patience`], which it measures with `tokio::time`. Use it in a runtime whose time is real: in one
//! that is paused, time may run out while a thread works.

mod clock;
mod committer;
mod counts;
mod error;
mod hints;
mod job;
mod lane;
mod news;
mod open;
mod options;
mod place;
mod readers;
mod schema;
mod store;
mod tx;
mod waiters;

pub use clock::{Clock, SystemClock};
pub use error::OpenError;
pub use options::{Durability, Limits, Options};
pub use store::SqliteStore;
