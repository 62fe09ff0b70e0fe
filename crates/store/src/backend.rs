//! Backends: one lease for each incarnation of a process, not one for each stream.

use crate::{StoreFuture, Unavailable};
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

/// Leases.
pub trait BackendRegistry: Send + Sync + 'static {
    /// Takes or prolongs the lease of `backend` for `ttl` from now.
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<(), Unavailable>>;

    /// Whether `backend` is alive.
    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>>;

    /// Gives the lease up.
    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>>;
}
