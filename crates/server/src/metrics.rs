//! Counters and gauges, plain atomics that a collector reads.

use bowline_store::FigureKind;
use http::{Method, StatusCode};
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

/// A number with what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// The field of [`Metrics`].
    pub name: &'static str,
    /// The first sentences of its documentation.
    pub help: &'static str,
    /// How it moves.
    pub kind: FigureKind,
    /// The option whose bound it counts the hits of, where it does.
    pub bound: Option<&'static str>,
    /// The number.
    pub value: u64,
}

macro_rules! metrics {
    (@kind gauge) => { FigureKind::Gauge };
    (@kind $other:ident) => { FigureKind::Counter };
    (@bound) => { None };
    (@bound $bound:literal) => { Some($bound) };
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ident $(($bound:literal))?,)*) => {
        /// What an endpoint counts.
        #[derive(Debug, Default)]
        #[non_exhaustive]
        pub struct Metrics {
            /// HTTP requests by method and status.
            pub requests: Requests,
            $($(#[doc = $doc])* pub $name: Metric,)*
        }

        impl Metrics {
            /// Every number but [`Metrics::requests`], in a fixed order.
            pub fn each(&self) -> impl Iterator<Item = Described> + '_ {
                [$(Described {
                    name: stringify!($name),
                    help: concat!($($doc),*).trim_ascii(),
                    kind: metrics!(@kind $kind),
                    bound: metrics!(@bound $($bound)?),
                    value: self.$name.get(),
                },)*].into_iter()
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
    /// Sessions that were opened.
    sessions_opened: counter,
    /// Sessions that ended for lack of use.
    sessions_expired: counter,
    /// Sessions of other backends that were taken up.
    sessions_taken_up: counter,
    /// Sessions that were refused because there are too many.
    sessions_refused: bound("max-sessions"),
    /// Sessions that were refused because their client has too many.
    client_sessions_refused: bound("max-sessions-per-client"),
    /// Requests that were refused because their client sends too many.
    rate_limited: bound("rate-limit"),
    /// Requests that were refused because their client has too many at a time.
    client_requests_refused: bound("max-concurrent-per-client"),
    /// Requests of clients that share one allowance because there are more clients than are told apart.
    clients_merged: bound("clients"),
    /// Request bodies that were larger than they may be.
    bodies_too_large: bound("body-limit"),
    /// Request bodies that took longer than they may.
    bodies_too_slow: bound("body-timeout"),
    /// Calls that were refused because their session runs too many.
    calls_refused: bound("max-calls-per-session"),
    /// Calls that ran into their time limit.
    calls_timed_out: bound("call-timeout"),
    /// Calls that were cancelled because nobody read them.
    calls_abandoned: bound("abandon-after"),
    /// Messages that were too large for a stream.
    events_too_large: bound("event-size"),
    /// Calls that may run twice and are too large to be kept for that.
    reruns_too_large: bound("max-rerun-bytes"),
    /// Connections that had to wait because there are as many as there may be.
    connections_waited: bound("max-connections"),
    /// Connections that did not send the head of a request in time.
    heads_too_slow: bound("header-timeout"),
    /// Connections that took nothing of what was written to them for too long.
    writes_too_slow: bound("write-timeout"),
    /// Requests being served without a session.
    bindings: gauge,
    /// Calls that run.
    calls: gauge,
    /// Calls that ended with a result.
    calls_succeeded: counter,
    /// Calls that ended with an error, whoever made it.
    calls_failed: counter,
    /// Calls that were cancelled, whoever wished it.
    calls_cancelled: counter,
    /// Handlers that panicked.
    panics: counter,
    /// Streams of calls that have got their last message.
    streams_sealed: counter,
    /// Results whose client was gone before it could know how to ask for them, or never came to fetch them.
    results_unclaimed: counter,
    /// Results that were dropped because their session had too many.
    results_evicted: counter,
    /// Connections that read a stream.
    streams_open: gauge,
    /// Connections that found more of them held than may be, and were parked at once where that is possible.
    streams_over_budget: bound("max-held-streams"),
    /// Connections that were closed while their call runs on.
    parked: counter,
    /// GETs with a cursor.
    polls: counter,
    /// GETs with a cursor that got their stream.
    resumes: counter,
    /// Messages that were written again, or late, for a client that came back.
    events_replayed: counter,
    /// Connections that were displaced by a newer one.
    taken_over: counter,
    /// Notifications that were dropped at a bound.
    events_dropped: counter,
    /// Progress that was replaced by newer progress before anybody read it.
    events_coalesced: counter,
    /// Streams that could not be stored and ran on their connection alone.
    streams_unstored: counter,
    /// Calls that were refused because the store is away.
    streams_refused: counter,
    /// Calls of backends that died, which this one ended with an error.
    streams_reaped: counter,
    /// Calls of backends that died, which this one ran again.
    calls_rerun: counter,
    /// Calls of this backend that another one ended, because this one seemed dead.
    streams_lost: counter,
    /// Answers, cancels and progress of clients that were passed on to another backend.
    letters_sent: counter,
    /// Requests of ours to clients.
    asks: counter,
    /// Requests of ours that were not answered in time.
    asks_timed_out: counter,
    /// Calls that became tasks.
    tasks_created: counter,
    /// Calls that could not become tasks: there were too many, or the store did not take them in.
    tasks_refused: counter,
    /// Responses to nothing that we wait for.
    responses_unknown: counter,
    /// Connections that are open.
    connections: gauge,
    /// Connections that were accepted.
    connections_accepted: counter,
    /// Idle connections that were closed to make room for new ones.
    connections_displaced: counter,
    /// Connections that ended before they were secured: failed and slow TLS handshakes.
    handshakes_failed: counter,
}

/// The methods that are told apart.
const METHODS: [&str; 5] = ["GET", "POST", "DELETE", "OPTIONS", "other"];

/// The statuses that are told apart: all that an endpoint answers with.
const STATUSES: [u16; 18] =
    [200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 413, 415, 422, 429, 431, 500, 503, 0];

/// HTTP requests by method and status.
#[derive(Debug, Default)]
pub struct Requests([[Metric; STATUSES.len()]; METHODS.len()]);

impl Requests {
    pub(crate) fn count(&self, method: &Method, status: StatusCode) {
        let method = match *method {
            Method::POST => 1,
            Method::GET => 0,
            Method::DELETE => 2,
            Method::OPTIONS => 3,
            _ => 4,
        };
        let status = status.as_u16();
        let column = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        self.0[method][column].up();
    }

    /// How often each method (`other` for what is none of ours) was answered with each status (0 for a rare one); what never
    /// was is left out.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u16, u64)> + '_ {
        let rows = METHODS.into_iter().zip(&self.0);
        rows.flat_map(|(method, row)| {
            let cells = STATUSES.into_iter().zip(row);
            cells.map(move |(status, count)| (method, status, count.get()))
        })
        .filter(|(.., count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_within_bounds() {
        let requests = Requests::default();
        requests.count(&Method::POST, StatusCode::OK);
        requests.count(&Method::POST, StatusCode::OK);
        requests.count(&Method::PATCH, StatusCode::IM_A_TEAPOT);
        requests.count(&Method::GET, StatusCode::UNAUTHORIZED);
        let counted: Vec<_> = requests.each().collect();
        assert_eq!(counted, [("GET", 401, 1), ("POST", 200, 2), ("other", 0, 1)]);
    }

    #[test]
    fn every_number_is_explained_and_named_once() {
        let metrics = Metrics::default();
        metrics.rate_limited.up();
        let mut names: Vec<_> = metrics.each().map(|metric| metric.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in metrics.each() {
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{metric:?}");
            assert_eq!(metric.value, u64::from(metric.name == "rate_limited"));
            assert_eq!(
                metric.name == "sessions",
                metric.kind == FigureKind::Gauge && metric.name.starts_with("sess")
            );
        }
    }
}
