//! The store contract of Bowline, and the store that keeps everything in memory.
//!
//! *Sessions are data; calls have owners; the log is the truth; wake-ups and leases are hints; the store's fence decides.*
//!
//! - [`StreamLog`]: the messages that answer one request, or a session's standalone stream; sealed once
//! - [`SessionStore`]: what is known of a session, versioned, with a tombstone when it ends
//! - [`Mailbox`]: what a client says to a running call, from any backend
//! - [`BackendRegistry`]: one lease for each backend
//! - [`KeyStore`]: the keys that all backends sign with, where none was configured
//! - [`WakeBus`]: hints that a stream has something new; with all of them lost the system is slower, never wrong
//!
//! [`Store`] bundles them. Every store passes the kit in `bowline-store-kit`.

mod backend;
mod error;
mod figure;
mod future;
mod keys;
mod mailbox;
mod memory;
mod notes;
mod session;
mod spread;
mod stream;
mod wake;

pub use backend::{BackendId, BackendRegistry, BackendState, OpenStream};
pub use error::{CreateError, ReadError, Unavailable, UpdateError, WriteError};
pub use figure::{Figure, FigureKind};
pub use future::StoreFuture;
pub use keys::KeyStore;
pub use mailbox::{Letter, Mailbox};
pub use memory::{MemoryLimits, MemoryStats, MemoryStore, Swept};
pub use notes::Notes;
pub use session::{SessionLookup, SessionRecord, SessionStore, Version};
pub use spread::{Spread, SpreadHasher};
pub use stream::{
    Appended, Attachment, Event, EventClass, NewStream, Page, ReadLimit, SealedStream, StreamKind, StreamLog,
    TakeOver, TakenOver, WriteAt,
};
pub use wake::{WakeBus, Wakeups};

/// Everything that a server keeps, in one object.
pub trait Store: StreamLog + SessionStore + Mailbox + BackendRegistry + KeyStore + WakeBus {}

impl<T: StreamLog + SessionStore + Mailbox + BackendRegistry + KeyStore + WakeBus> Store for T {}
