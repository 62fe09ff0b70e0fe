//! What an endpoint can be told.

use crate::Rate;
use bowline_proto::{legacy::RetryPolicy, modern::cache::CachePolicy};
use std::time::Duration;

/// How a call that takes its time is answered (SEMANTICS 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseMode {
    /// Plain JSON for what is quick and silent, a stream for the rest.
    #[default]
    Auto,
    /// A stream from the first byte.
    Sse,
    /// Never a stream: notifications are dropped, requests to the client fail at once.
    Json,
}

/// What becomes of a call whose backend died, where several share the store (SEMANTICS 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Takeover {
    /// It is ended with an error that says that it may have run.
    #[default]
    Error,
    /// It is run again by another backend where its handler said that this does no harm
    /// ([`RawHandler::is_repeatable`](crate::RawHandler::is_repeatable)); every other one is ended as with [`Takeover::Error`].
    Rerun,
}

/// The bounds and habits of an endpoint. Every duration and count is a default that can be changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How calls are answered.
    pub response: ResponseMode,
    /// How long a silent call is waited for before its answer becomes a stream. Default 1 s.
    pub json_hold: Duration,
    /// The same for a call that came with a progress token. Default 250 ms; never more than `json_hold`.
    pub json_hold_progress: Duration,
    /// How long a connection to a primed stream is held before it is parked; `None`: never parked. Default 25 s, below the
    /// usual idle limits of proxies.
    pub max_connection: Option<Duration>,
    /// What clients are told to wait before they poll.
    pub retry: RetryPolicy,
    /// How often a silent stream carries a comment. Default 15 s.
    pub keep_alive: Duration,
    /// How long a session lives without use. Default 30 min.
    pub session_ttl: Duration,
    /// How long the id of a deleted session is remembered. Default 30 min.
    pub tombstone_ttl: Duration,
    /// How long a call may run. Default 1 h.
    pub call_timeout: Duration,
    /// How long a call runs on when nobody reads its stream. Default 5 min.
    pub abandon_after: Duration,
    /// How long a cancelled handler may still run before it is dropped. Default 2 s.
    pub cancel_grace: Duration,
    /// How long the answer to a request of ours is waited for, counted from its delivery. Default 10 min.
    pub ask_timeout: Duration,
    /// How long a request of ours waits for `notifications/initialized`. Default 5 s.
    pub initialized_wait: Duration,
    /// How long a modern client has to come back with the answers to its questions, and how long what it was given for that is good.
    /// Default 10 min.
    pub input_ttl: Duration,
    /// How many calls of modern clients may stay open while their client is asked, for handlers that cannot run again. Default 1,000; the
    /// next question fails. One principal may have `max_calls_per_session` of them.
    pub max_held_calls: usize,
    /// How long a task is kept at least, from its making (`ttlMs`). Default 2 h. One that is not over by then goes on, as far as
    /// `call_timeout` lets it, and is kept for `sealed_ttl` from its end.
    pub task_ttl: Duration,
    /// How many tasks of modern clients may run. Default 1,000; further calls are answered on their connections. One principal may have
    /// `max_calls_per_session` of them.
    pub max_tasks: usize,
    /// How long modern clients may keep lists, resources and what the server says of itself.
    pub cache: CachePolicy,
    /// How long a result is kept for a client that has not read it. Default 120 s.
    pub sealed_ttl: Duration,
    /// How many sessions there may be. Default 10,000; the next `initialize` gets 503.
    pub max_sessions: usize,
    /// How long this backend counts as alive after its last sign of life, where several backends share the store. Default 10 s. A call
    /// of a backend that died is ended with an error within twice that.
    pub lease_ttl: Duration,
    /// How often the sign of life is renewed. Default 3 s; at most a third of `lease_ttl` is used.
    pub lease_renew: Duration,
    /// What becomes of a call whose backend died. Default [`Takeover::Error`]. All backends should be told the same: whoever notices
    /// decides.
    pub takeover: Takeover,
    /// How often one call is run again at most. Default 1: a call that kills its backend kills one more, and is then ended with an error.
    /// 0 is as [`Takeover::Error`].
    pub max_reruns: u32,
    /// How large a request may be, with its parameters, that is kept in the store to be run again, in bytes. Default 64 KiB; a call with
    /// a larger one is not run again.
    pub max_rerun_bytes: usize,
    /// How often the key that the backends share is replaced, where none was given and the store keeps one. Default `None`: never.
    /// What an older key signed stays valid until the next replacement.
    pub rotate_key_every: Option<Duration>,
    /// How large the parameters of `initialize` may be, which are kept with the session. Default 64 KiB.
    pub max_initialize_bytes: usize,
    /// How many bytes of results of one session may wait for their client. Default 64 MiB; above it its oldest results go first, and a
    /// poll for one of those is told so.
    pub max_session_bytes: u64,
    /// How many sessions one client may have: a principal, or where nobody authenticates, an address. Default `None`: a tenth of
    /// `max_sessions`, and for clients of this machine, among which may be a proxy, no bound of their own. The next `initialize` gets 429.
    pub max_sessions_per_client: Option<usize>,
    /// How many requests a client may send in a time. Default `None`: any number; else the next one gets 429.
    pub rate: Option<Rate>,
    /// How many requests of a client may be answered at a time, streams that it reads included. Default `None`: any number; else the
    /// next one gets 429.
    pub max_concurrent_per_client: Option<usize>,
    /// How many calls of one session may run. Default 64; the next one gets 429.
    pub max_calls_per_session: usize,
    /// How many connections may be held to read streams. Default 8,000. Above it a primed stream is parked as soon as its connection
    /// has shown what is new, and clients are told to wait longer, in proportion; connections that cannot be parked are held.
    pub max_held_streams: u64,
    /// How many events a stream may hold. Default 1,000.
    pub max_stream_events: u64,
    /// How many bytes a stream may hold. Default 32 MiB.
    pub max_stream_bytes: u64,
    /// How large one message may be. Default 16 MiB.
    pub max_event_bytes: usize,
    /// How large a request body may be, in bytes. Default 4 MiB; a larger one gets 413.
    pub body_limit: u64,
    /// How long a request body may take to arrive. Default 30 s; a slower one gets 408.
    pub body_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            response: ResponseMode::Auto,
            json_hold: Duration::from_secs(1),
            json_hold_progress: Duration::from_millis(250),
            max_connection: Some(Duration::from_secs(25)),
            retry: RetryPolicy::default(),
            keep_alive: Duration::from_secs(15),
            session_ttl: Duration::from_secs(30 * 60),
            tombstone_ttl: Duration::from_secs(30 * 60),
            call_timeout: Duration::from_secs(60 * 60),
            abandon_after: Duration::from_secs(5 * 60),
            cancel_grace: Duration::from_secs(2),
            ask_timeout: Duration::from_secs(10 * 60),
            initialized_wait: Duration::from_secs(5),
            input_ttl: Duration::from_secs(10 * 60),
            max_held_calls: 1_000,
            task_ttl: Duration::from_secs(2 * 60 * 60),
            max_tasks: 1_000,
            cache: CachePolicy::default(),
            sealed_ttl: Duration::from_secs(120),
            max_sessions: 10_000,
            lease_ttl: Duration::from_secs(10),
            lease_renew: Duration::from_secs(3),
            takeover: Takeover::Error,
            max_reruns: 1,
            max_rerun_bytes: 64 * 1024,
            rotate_key_every: None,
            max_initialize_bytes: 64 * 1024,
            max_session_bytes: 64 * 1024 * 1024,
            max_sessions_per_client: None,
            rate: None,
            max_concurrent_per_client: None,
            max_calls_per_session: 64,
            max_held_streams: 8_000,
            max_stream_events: 1_000,
            max_stream_bytes: 32 * 1024 * 1024,
            max_event_bytes: 16 * 1024 * 1024,
            body_limit: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// How long a stream is kept while its call runs: the call's own limit and 10 minutes (SEMANTICS 5.7).
    #[must_use]
    pub fn open_ttl(&self) -> Duration {
        self.call_timeout + Duration::from_secs(600)
    }

    /// The same for the log of a task, whose client was told how long it is kept.
    #[must_use]
    pub fn open_task_ttl(&self) -> Duration {
        self.open_ttl().max(self.task_ttl)
    }
}
