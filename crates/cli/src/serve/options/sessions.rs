//! Sessions and what they may hold.

use super::network::count;
use crate::duration;
use clap::ValueEnum;
use std::time::Duration;

/// Whether there are sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// There are, as most servers expect.
    #[default]
    Stateful,
    /// There are none: every request stands alone.
    Stateless,
}

/// What a stateless endpoint says to a session id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stale {
    /// 404, so that the client learns that its session is gone.
    #[default]
    NotFound,
    /// Nothing: the request is served as if there were none, for platforms that inject ids.
    Ignore,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct SessionOptions {
    /// Whether there are sessions.
    #[arg(long, value_name = "MODE", env = "BOWLINE_SESSION_MODE", value_enum, default_value_t)]
    pub(crate) session_mode: Mode,

    /// Stateless: slow calls can be polled for all the same. Without a --store that several processes share, a poll has to reach
    /// the process that has the call.
    #[arg(long, env = "BOWLINE_RESUMABLE", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) resumable: bool,

    /// Stateless: what is said to a session id from before.
    #[arg(long, value_name = "HOW", env = "BOWLINE_STALE_SESSION", value_enum, default_value_t)]
    pub(crate) stale_session: Stale,

    /// How long a session lives without use.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_SESSION_TTL", value_parser = duration::parse_positive, default_value = "30m")]
    pub(crate) session_ttl: Duration,

    /// How many sessions there may be; the next one is refused with 503.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_SESSIONS", value_parser = count, default_value = "10000", help_heading = "Limits")]
    pub(crate) max_sessions: usize,

    /// How many calls of one session may run; the next one is refused with 429.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_CALLS_PER_SESSION", value_parser = count, default_value = "64", help_heading = "Limits")]
    pub(crate) max_calls_per_session: usize,

    /// supergateway's: sessions, which are the default here.
    #[arg(long, hide = true)]
    pub(crate) stateful: bool,

    /// mcp-proxy's: no sessions.
    #[arg(long, hide = true)]
    pub(crate) stateless: bool,

    /// supergateway's: the life of a session in milliseconds.
    #[arg(long = "sessionTimeout", hide = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) session_timeout_ms: Option<u32>,
}
