//! What a gateway counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a gateway has done. All but the first two only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayStats {
    /// Processes that exist now, those that are leaving included.
    pub children: u64,
    /// Sessions that are served now.
    pub sessions: u64,
    /// Processes started.
    pub started: u64,
    /// Processes that ended without being asked to.
    pub crashes: u64,
    /// Sessions refused because there were too many processes.
    pub refused: u64,
    /// Lines of stdout that were no JSON-RPC message.
    pub noise: u64,
    /// Lines of stdout that were longer than `max_line`.
    pub too_long: u64,
    /// Responses to requests that were cancelled, or never sent.
    pub late: u64,
    /// Notifications that a process could not be given, because it does not read its stdin or is being replaced.
    pub undelivered: u64,
}

/// The counters behind [`GatewayStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: Counter,
    pub(crate) crashes: Counter,
    pub(crate) refused: Counter,
    pub(crate) noise: Counter,
    pub(crate) too_long: Counter,
    pub(crate) late: Counter,
    pub(crate) undelivered: Counter,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts one more; returns how many there are now.
    pub(crate) fn up(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
