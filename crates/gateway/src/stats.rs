//! What a gateway counts.

use std::sync::atomic::{AtomicU64, Ordering};

use bowline_server::Figure;

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
    /// Processes started in the place of one that ended.
    pub restarted: u64,
    /// Processes started for sessions that another backend served, or this program before it was started again.
    pub taken_up: u64,
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

impl GatewayStats {
    /// The same with names and explanations.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::gauge("children", "Server processes, those that are leaving included.", self.children),
            Figure::gauge("gateway_sessions", "Sessions that the gateway serves.", self.sessions),
            Figure::counter("children_started", "Server processes that were started.", self.started),
            Figure::counter(
                "children_restarted",
                "Server processes that came up in the place of one that ended.",
                self.restarted,
            ),
            Figure::counter(
                "children_taken_up",
                "Server processes that came up for a session that another backend served before.",
                self.taken_up,
            ),
            Figure::counter(
                "children_died",
                "Server processes that ended without being asked to.",
                self.crashes,
            ),
            Figure::counter(
                "children_refused",
                "Sessions that were refused because there are as many server processes as there may be.",
                self.refused,
            ),
            Figure::counter(
                "child_noise",
                "Lines of server processes that were no JSON-RPC messages.",
                self.noise,
            ),
            Figure::counter(
                "child_lines_too_long",
                "Messages of server processes that were dropped because of their size.",
                self.too_long,
            ),
            Figure::counter(
                "child_responses_late",
                "Responses of server processes that nobody waited for any more.",
                self.late,
            ),
            Figure::counter(
                "child_notifications_undelivered",
                "Notifications that a server process could not be given.",
                self.undelivered,
            ),
        ]
    }
}

/// The counters behind [`GatewayStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: Counter,
    pub(crate) crashes: Counter,
    pub(crate) restarted: Counter,
    pub(crate) taken_up: Counter,
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
