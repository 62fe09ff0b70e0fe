//! Where the endpoint is, and who may call it.

use crate::{duration, size};
use std::{path::PathBuf, time::Duration};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Endpoint")]
pub(crate) struct NetworkOptions {
    /// Address and port to listen on; port 0 takes a free one and prints it. Default: 127.0.0.1:8000.
    #[arg(long, value_name = "ADDR:PORT", env = "BOWLINE_LISTEN")]
    pub(crate) listen: Option<String>,

    /// The address alone. Without tokens, an address other than 127.0.0.1 is open to whoever reaches it.
    #[arg(long, value_name = "ADDR", env = "BOWLINE_HOST")]
    pub(crate) host: Option<String>,

    /// The port alone.
    #[arg(long, value_name = "PORT", env = "BOWLINE_PORT")]
    pub(crate) port: Option<u16>,

    /// The path of the endpoint; it is served with and without a slash at its end.
    #[arg(
        long,
        value_name = "PATH",
        env = "BOWLINE_PATH",
        alias = "streamableHttpPath",
        default_value = "/mcp"
    )]
    pub(crate) path: String,

    /// A listener of its own for /healthz, /readyz and /metrics, which are then not served beside the endpoint. It asks for no
    /// token: let nobody reach it but probes and collectors.
    #[arg(long, value_name = "ADDR:PORT", env = "BOWLINE_ADMIN")]
    pub(crate) admin: Option<String>,

    /// A web origin that may call, such as `https://app.example.com`, or `*` for any; repeat it or separate with commas.
    /// Pages of this machine may call a loopback address in any case. Programs that are no browser send none.
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "BOWLINE_ALLOW_ORIGIN",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    pub(crate) allow_origin: Vec<String>,

    /// A value of the Host header that is taken, such as mcp.example.com (any port) or mcp.example.com:8443, or `*` for
    /// any; repeat it or separate with commas. Checked on a loopback address, and wherever one is given.
    #[arg(
        long,
        value_name = "HOST",
        env = "BOWLINE_ALLOW_HOST",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    pub(crate) allow_host: Vec<String>,

    /// Whoever connects is a proxy of yours: the Host check looks at X-Forwarded-Host where it is there, limits and logs go
    /// by X-Forwarded-For, else Forwarded (always at the last entry, which the nearest proxy wrote). Only where nobody else can
    /// connect.
    #[arg(long, env = "BOWLINE_TRUST_PROXY", value_parser = clap::builder::BoolishValueParser::new(), help_heading = "Access")]
    pub(crate) trust_proxy: bool,

    /// A file with the keys that event ids are signed with, in the form of `BOWLINE_KEY` (see Keys below); a key on each
    /// line is taken too.
    #[arg(long, value_name = "FILE", env = "BOWLINE_KEY_FILE", help_heading = "Access")]
    pub(crate) key_file: Option<PathBuf>,

    /// The largest request body; a larger one is refused with 413.
    #[arg(long, value_name = "SIZE", env = "BOWLINE_BODY_LIMIT", value_parser = size::parse, default_value = "4MiB", help_heading = "Limits")]
    pub(crate) body_limit: u64,

    /// How many connections there may be; a further one takes the place of one that is idle, or waits. (How long one is held
    /// is --max-connection.)
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_CONNECTIONS", value_parser = count, default_value = "10000", help_heading = "Limits")]
    pub(crate) max_connections: usize,

    /// How long running calls have to finish after SIGTERM. Those that do not are ended with an error, which their clients
    /// have 5s more to fetch: give whatever kills this process (Kubernetes, systemd, Docker) 15s more than this.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_DRAIN_TIMEOUT", value_parser = duration::parse, default_value = "30s", help_heading = "Limits")]
    pub(crate) drain_timeout: Duration,
}

/// A bound: at least 1, and no more than what any machine has.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(number @ 1..=100_000_000) => Ok(number),
        _ => Err("expected a whole number from 1 to 100000000".into()),
    }
}
