//! The options of `bowline serve` as they are typed. What they mean together is [`super::settings`].

mod access;
mod child;
mod log;
mod network;
mod sessions;
mod state;
mod streams;

use crate::untold::untold;
pub(crate) use access::AccessOptions;
pub(crate) use child::{ChildMode, ChildOptions, StderrMode};
pub(crate) use log::LogOptions;
pub(crate) use network::NetworkOptions;
pub(crate) use sessions::{Mode, SessionOptions, Stale};
pub(crate) use state::{StateOptions, TakeoverOption};
pub(crate) use streams::{Response, StreamOptions};

use std::ffi::OsString;

untold!(ServeOptions);

/// Put a stdio MCP server behind resilient Streamable HTTP.
///
/// Starts COMMAND, an MCP server that speaks on stdin and stdout, and serves it at an HTTP endpoint. Slow calls go on when
/// their connection ends, and clients fetch the result later.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline serve [OPTIONS] -- COMMAND [ARG]...\n       bowline serve [OPTIONS] --stdio \"COMMAND ARG...\"",
    after_help = AFTER_HELP,
    after_long_help = AFTER_LONG_HELP
)]
pub(crate) struct ServeOptions {
    /// The stdio MCP server and its arguments, passed on as they are (no shell). Write `--` before it, so that its own
    /// options stay its own.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) child: ChildOptions,

    #[command(flatten)]
    pub(crate) network: NetworkOptions,

    #[command(flatten)]
    pub(crate) access: AccessOptions,

    #[command(flatten)]
    pub(crate) sessions: SessionOptions,

    #[command(flatten)]
    pub(crate) streams: StreamOptions,

    #[command(flatten)]
    pub(crate) state: StateOptions,

    #[command(flatten)]
    pub(crate) log: LogOptions,
}

const AFTER_HELP: &str = "\
Durations: 500ms, 2s, 5m, 1h30m, 0. Sizes: 65536, 64KiB, 4MiB, 10MB.
Every option has a variable BOWLINE_<NAME>.
`bowline serve --help` explains each option, signals and exit codes.";

const AFTER_LONG_HELP: &str = "\
Examples:
  bowline serve -- npx -y @modelcontextprotocol/server-everything
  bowline serve --listen 127.0.0.1:9000 --cwd ~/notes -- uvx mcp-server-git
  bowline serve --stdio \"python3 server.py --verbose\" --env API_URL=http://localhost:9

Values:
  Durations are whole numbers with a unit: 500ms, 2s, 5m, 1h, 1h30m, 7d; 0 needs none.
  Sizes are bytes, or carry a unit: 65536, 64KiB, 4MiB (1024), 500kB, 10MB (1000).
  Every option can also be set as a variable BOWLINE_<NAME>, such as
  BOWLINE_MAX_CONNECTION=25s; the command line wins, and an empty variable counts
  as absent. The child does not inherit BOWLINE_ variables.

Keys:
  BOWLINE_KEY (or --key-file) holds the keys that sign event ids: 32 bytes or more
  each, in hex or base64, separated by commas, newest first. Without it each start
  makes its own, which is right for one process; with a --store that several share,
  that store keeps one for all of them. `openssl rand -hex 32` makes one.
  Keys are never printed.

Tokens:
  BOWLINE_AUTH_TOKENS (or --auth-token-file) holds who may call, NAME=TOKEN each, on
  lines of their own or separated by commas; lines that start with # are skipped.
  Sessions belong to the name, which may have several tokens while one is replaced
  by another. Tokens have 16 characters or more (`openssl rand -hex 32` makes one)
  and are never printed.

Probes and metrics:
  GET /healthz answers 200 while the process lives; GET /readyz answers 503 while
  it drains or its child cannot start. GET /metrics answers in the OpenMetrics
  format: at --admin, or without it to callers on this machine where the address is
  a loopback one and there is no --trust-proxy.

Signals:
  SIGTERM, SIGINT  drain: new sessions are refused, running calls finish and
                   clients fetch their results, for --drain-timeout at most;
                   then exit 0. At once when nothing runs.
  a second one     exits at once, with 143 (SIGTERM), 130 (SIGINT) or 129
                   (SIGHUP); the children are ended all the same.
  SIGHUP           reads the files of tokens and TLS again. When stderr is a
                   terminal it was closed: drains, as SIGTERM does.

Exit codes:
  0  drained and stopped
  1  failed: port in use, command not found, ...
  2  wrong usage";
