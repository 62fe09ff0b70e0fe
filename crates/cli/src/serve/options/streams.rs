//! How calls are answered, how long connections are held, and how long results are kept.

use crate::duration;
use clap::ValueEnum;
use std::time::Duration;

/// How a call that takes its time is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Response {
    /// Plain JSON for what is quick and silent, a stream for the rest.
    #[default]
    Auto,
    /// A stream from the first byte.
    Sse,
    /// Never a stream: notifications are dropped, and a slow call needs a connection that lasts.
    Json,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Streams")]
pub(crate) struct StreamOptions {
    /// How calls are answered.
    #[arg(long, value_name = "HOW", env = "BOWLINE_RESPONSE", value_enum, default_value_t)]
    pub(crate) response: Response,

    /// How long a silent call is waited for before its answer becomes a stream (at most 250ms of it for a call that wants
    /// progress).
    #[arg(long, value_name = "DURATION", env = "BOWLINE_JSON_HOLD", value_parser = duration::parse, default_value = "1s")]
    pub(crate) json_hold: Duration,

    /// How long a stream's connection is held before the client is sent away to poll; 0 = never. Keep it below the
    /// shortest idle limit of every proxy on the way.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_MAX_CONNECTION", value_parser = duration::parse, default_value = "25s")]
    pub(crate) max_connection: Duration,

    /// How many connections may be held to read streams. Above it streams are parked at once, where the client can poll, and
    /// clients are told to wait longer.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_HELD_STREAMS", value_parser = clap::value_parser!(u64).range(1..), default_value = "8000")]
    pub(crate) max_held_streams: u64,

    /// How long clients are told to wait before they poll. Default: 2s, growing with the age of the call to 30s, jittered,
    /// and never below half of --expected-outage. Given here, it is told as it is.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_RETRY", value_parser = duration::parse)]
    pub(crate) retry: Option<Duration>,

    /// The longest outage that a restart may cause. Many clients give up after two failed polls, so they are told to wait
    /// at least half of it.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_EXPECTED_OUTAGE", value_parser = duration::parse, default_value = "4s")]
    pub(crate) expected_outage: Duration,

    /// How often a silent stream carries a comment, so that nothing on the way takes it for dead.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_KEEP_ALIVE", value_parser = duration::parse_positive, default_value = "15s")]
    pub(crate) keep_alive: Duration,

    /// How long a result is kept for a client that has not fetched it.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_SEALED_TTL", value_parser = duration::parse_positive, default_value = "120s")]
    pub(crate) sealed_ttl: Duration,

    /// How long a call may run.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_CALL_TIMEOUT", value_parser = duration::parse_positive, default_value = "1h")]
    pub(crate) call_timeout: Duration,

    /// How long a call runs on when nobody reads its stream.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_ABANDON_AFTER", value_parser = duration::parse_positive, default_value = "5m")]
    pub(crate) abandon_after: Duration,
}
