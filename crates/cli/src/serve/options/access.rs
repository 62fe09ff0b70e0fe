//! Who may call, and what keeps others from listening.

use super::network::count;
use crate::{duration, rate, rate::Requests};
use std::{path::PathBuf, time::Duration};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessOptions {
    /// A file with the tokens of those who may call, NAME=TOKEN on each line (see Tokens below). Requests then need
    /// `Authorization: Bearer TOKEN`; others get 401. Read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "BOWLINE_AUTH_TOKEN_FILE")]
    pub(crate) auth_token_file: Option<PathBuf>,

    /// A certificate chain in PEM, the server's own first: HTTPS is served. Read again, with its key, when it changes, and on
    /// SIGHUP.
    #[arg(long, value_name = "FILE", env = "BOWLINE_TLS_CERT", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate in PEM, not encrypted.
    #[arg(long, value_name = "FILE", env = "BOWLINE_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// How many requests a client may send in a time, such as 100/s, 600/m or 5000/h; the next one gets 429 with Retry-After. A client is a
    /// token's name, or without tokens an address (of IPv6 its /64). Default: any number.
    #[arg(long, value_name = "RATE", env = "BOWLINE_RATE_LIMIT", value_parser = rate::parse, help_heading = "Limits")]
    pub(crate) rate_limit: Option<Requests>,

    /// How many of them may come at once after a pause. Default: as many as --rate-limit says.
    #[arg(long, value_name = "N", env = "BOWLINE_RATE_BURST", value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "rate_limit", help_heading = "Limits")]
    pub(crate) rate_burst: Option<u32>,

    /// How many requests of a client may be answered at a time, the streams that it reads included; the next one gets 429. Default: any
    /// number.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_CONCURRENT_PER_CLIENT", value_parser = count, help_heading = "Limits")]
    pub(crate) max_concurrent_per_client: Option<usize>,

    /// How many sessions a client may have; the next one gets 429. Default: a tenth of --max-sessions, and for clients
    /// without a token on this machine (a proxy, say) no bound but that.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_SESSIONS_PER_CLIENT", value_parser = count, help_heading = "Limits")]
    pub(crate) max_sessions_per_client: Option<usize>,

    /// How long a request body may take to arrive; a slower one gets 408.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_BODY_TIMEOUT", value_parser = duration::parse_positive, default_value = "30s", help_heading = "Limits")]
    pub(crate) body_timeout: Duration,

    /// How long a connection may say nothing, or take for the head of a request. Keep it above the idle time of proxies.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_HEADER_TIMEOUT", value_parser = duration::parse_positive, default_value = "90s", help_heading = "Limits")]
    pub(crate) header_timeout: Duration,

    /// How long a client may take nothing of what is written to it, before its connection is closed.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_WRITE_TIMEOUT", value_parser = duration::parse_positive, default_value = "60s", help_heading = "Limits")]
    pub(crate) write_timeout: Duration,

    /// How long a TLS handshake may take.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_HANDSHAKE_TIMEOUT", value_parser = duration::parse_positive, default_value = "10s", help_heading = "Limits")]
    pub(crate) handshake_timeout: Duration,
}
