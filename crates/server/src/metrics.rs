//! Counters and gauges, plain atomics that a collector reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// One number.
#[derive(Debug, Default)]
pub struct Metric(AtomicU64);

impl Metric {
    /// One more.
    pub fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less (gauges).
    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// `n` more.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident: $kind:ident,)*) => {
        /// What an endpoint counts.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct Metrics {
            $($(#[$doc])* pub $name: Metric,)*
        }

        impl Metrics {
            /// Every number with its name and kind (`counter` or `gauge`), in a fixed order.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
                [$((stringify!($name), stringify!($kind), self.$name.get()),)*].into_iter()
            }
        }
    };
}

metrics! {
    /// Answers as plain JSON.
    answers_json: counter,
    /// Answers as a stream.
    answers_stream: counter,
    /// Requests that were refused with a 4xx or 5xx status.
    refused: counter,
    /// Requests without credentials that count here.
    unauthorized: counter,
    /// Clients that are being introduced (`initialize`).
    handshakes: gauge,
    /// Sessions that live.
    sessions: gauge,
    /// Sessions that were refused because there are too many.
    sessions_refused: counter,
    /// Sessions that ended for lack of use.
    sessions_expired: counter,
    /// Requests being served without a session.
    bindings: gauge,
    /// Calls that run.
    calls: gauge,
    /// Calls that were refused because their session runs too many.
    calls_refused: counter,
    /// Calls that were cancelled, whoever wished it.
    calls_cancelled: counter,
    /// Calls that were cancelled because nobody read them.
    calls_abandoned: counter,
    /// Calls that ran into their time limit.
    calls_timed_out: counter,
    /// Handlers that panicked.
    panics: counter,
    /// Results whose client was gone before it could know how to ask for them.
    results_unclaimed: counter,
    /// Results that were dropped because their session had too many.
    results_evicted: counter,
    /// Connections that read a stream.
    streams_open: gauge,
    /// Connections that found more of them held than may be, and were parked at once where that is possible.
    streams_over_budget: counter,
    /// Connections that were closed while their call runs on.
    parked: counter,
    /// GETs with a cursor.
    resumes: counter,
    /// Connections that were displaced by a newer one.
    taken_over: counter,
    /// Notifications that were dropped at a bound.
    events_dropped: counter,
    /// Messages that were too large for a stream.
    events_too_large: counter,
    /// Streams that could not be stored and ran on their connection alone.
    streams_unstored: counter,
    /// Requests of ours to clients.
    asks: counter,
    /// Requests of ours that were not answered in time.
    asks_timed_out: counter,
    /// Responses to nothing that we wait for.
    responses_unknown: counter,
    /// Connections accepted.
    connections: gauge,
    /// Connections refused because there are too many.
    connections_refused: counter,
}
