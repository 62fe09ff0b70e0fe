//! Backends: one lease for each incarnation of a process, not one for each stream.

use crate::{StoreFuture, StreamKind, Unavailable};
use bowline_proto::cursor::StreamId;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// One incarnation of one process: 64 random bits, new with every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId(pub u64);

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What the registry knows of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendState {
    /// Its lease is in force.
    Alive,
    /// Its lease is in force, and it is leaving.
    Draining,
    /// It has no lease: it died, or it never was.
    Gone,
}

/// A stream of a call that has not got its last message, as the reaper needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenStream {
    /// The stream.
    pub id: StreamId,
    /// What it carries.
    pub kind: StreamKind,
    /// The epoch in force: whoever seals it does so at a higher one.
    pub epoch: u64,
    /// The last offset in the log (0 where there is none).
    pub tail: u64,
    /// The session it belongs to, where there is one.
    pub session: Option<String>,
    /// The JSON text of the id of the request that it answers.
    pub request_id: Option<String>,
}

/// Leases.
pub trait BackendRegistry: Send + Sync + 'static {
    /// Takes or prolongs the lease of `backend` for `ttl` from now.
    ///
    /// Returns for how long somebody has watched without a break: no two renewals before this one, of whichever backends, were more than
    /// half of `ttl` apart. Zero where this one is the first after a break. As long as there is none, nobody who lives has lost a lease
    /// because the store could not be reached.
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>>;

    /// Whether `backend` is alive.
    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>>;

    /// Every backend that has a lease, and every one that has none any more but still owns unsealed call streams.
    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>>;

    /// Unsealed call streams that `backend` owns (made), at most `limit` (for the reaper: it seals them at a higher epoch).
    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>>;

    /// Gives the lease up.
    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>>;
}
