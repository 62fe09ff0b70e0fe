//! The options of `bowline connect` as they are typed: mcp-remote's, and ours.

use crate::untold::untold;
use crate::{
    client::RemoteOptions,
    duration,
    logging::{self, LogFormat, parse_level},
    size,
};
use std::time::Duration;

untold!(ConnectOptions);

/// Let a host that starts stdio servers use one that is served over HTTP.
///
/// Speaks MCP on stdin and stdout, for the host, and Streamable HTTP with the server at URL. The server may restart, be replaced
/// or be away for a while: the host does not notice more than a call that takes longer, or an error that says whether the call
/// may have run. A call with side effects is never sent twice.
#[derive(clap::Args)]
#[command(override_usage = "bowline connect [OPTIONS] URL [CALLBACK_PORT]", after_help = AFTER_HELP, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct ConnectOptions {
    /// The server's address.
    #[arg(value_name = "URL")]
    pub(crate) url: String,

    /// The port that the redirect of a login comes to, where it was registered with one. Default: a free one.
    #[arg(value_name = "CALLBACK_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) callback_port: Option<u16>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,

    /// A tool to hide from the host, and to refuse; `*` stands for any characters. Repeat it.
    #[arg(long = "ignore-tool", value_name = "PATTERN", help_heading = "Host")]
    pub(crate) ignore_tools: Vec<String>,

    /// How long the host waits for a server that is not there yet. Then the host is told that there is one that has everything,
    /// since many hosts try only once; when the server comes, the host is told to read its lists.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse, env = "BOWLINE_PATIENCE", help_heading = "Host")]
    pub(crate) patience: Duration,

    /// How long a request waits for a server that is away, before it gets an error. Keep it below the host's own time-out
    /// (often 60 s).
    #[arg(long, value_name = "DURATION", default_value = "45s", value_parser = duration::parse, env = "BOWLINE_OUTAGE", help_heading = "Host")]
    pub(crate) outage: Duration,

    /// How long a call may go without any sign of life. 0: no limit.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse, env = "BOWLINE_IDLE_TIMEOUT", help_heading = "Host")]
    pub(crate) idle_timeout: Duration,

    /// How long running calls may take when stdin ends, before they are cancelled.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, env = "BOWLINE_DRAIN_TIMEOUT", help_heading = "Host")]
    pub(crate) drain_timeout: Duration,

    /// The largest message of the host.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse, help_heading = "Limits")]
    pub(crate) max_message: u64,

    /// Calls that the server gets at the same time; further ones wait.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one, help_heading = "Limits")]
    pub(crate) max_calls: usize,

    /// Requests of the host that may be unanswered; further ones are refused.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = at_least_one, help_heading = "Limits")]
    pub(crate) max_waiting: usize,

    /// How log lines look.
    #[arg(
        long,
        value_name = "FORMAT",
        env = "BOWLINE_LOG_FORMAT",
        value_enum,
        help_heading = "Log (to stderr)"
    )]
    pub(crate) log_format: Option<LogFormat>,

    /// off, error, warn, info, debug or trace; or rules such as `warn,bowline_client=debug`.
    #[arg(long, value_name = "LEVEL", env = "BOWLINE_LOG_LEVEL", value_parser = parse_level, default_value = "info", help_heading = "Log (to stderr)")]
    pub(crate) log_level: String,

    /// Say more: -v for debug, -vv for trace.
    #[arg(long, short = 'v', env = "BOWLINE_VERBOSE", action = clap::ArgAction::Count, help_heading = "Log (to stderr)")]
    pub(crate) verbose: u8,

    /// The same as -v.
    #[arg(long, help_heading = "Log (to stderr)")]
    pub(crate) debug: bool,

    /// Log nothing, unless there is --debug. What a login has to say is said.
    #[arg(long, help_heading = "Log (to stderr)")]
    pub(crate) silent: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number, 1 or more".into()),
        Ok(number) => Ok(number),
    }
}

impl ConnectOptions {
    /// What is logged.
    pub(crate) fn log_filter(&self) -> String {
        let verbose = self.verbose.max(u8::from(self.debug));
        if self.silent && verbose == 0 { "off".into() } else { logging::filter(&self.log_level, verbose) }
    }
}

const AFTER_HELP: &str = "\
Durations: 500ms, 2s, 5m, 1h30m, 0. Sizes: 65536, 64KiB, 4MiB, 10MB.
The arguments of mcp-remote are understood.
`bowline connect --help` explains each option, signals and exit codes.";

const AFTER_LONG_HELP: &str = "\
In the configuration of a host:
  {\"mcpServers\": {\"name\": {
    \"command\": \"bowline\",
    \"args\": [\"connect\", \"https://mcp.example.com/mcp\",
             \"--header\", \"Authorization:${AUTH}\"],
    \"env\": {\"AUTH\": \"Bearer ...\"}
  }}}

mcp-remote:
  Its arguments are understood, and a program of the name mcp-remote that is a link
  to bowline behaves as `bowline connect`.

The server:
  A session that it has lost is replaced by a new one, and the request that found it
  lost is sent again: it did not run. A call whose answer was lost is read on where
  the server can do that; else it gets an error whose data has outcome \"unknown\".
  It is never sent again, unless its tool is marked read-only or idempotent.

Log in:
  A server that asks for it (401) gets one: a browser opens, and the address to open
  is on stderr. Logins are kept and renewed. --header and --token go before it.

The end:
  When stdin ends, running calls are answered, for --drain-timeout at most, then
  cancelled; the session is ended within 2 s. SIGTERM and SIGINT cancel at once.
  stdout carries JSON-RPC messages, one a line, and nothing else.

Signals:
  SIGTERM, SIGINT  cancel what runs, end the session, exit 0.
  SIGHUP           the same when stderr is a terminal, which was closed then. Else
                   it is ignored, as under nohup: a host ends this program by the
                   end of stdin, and there is nothing to read again.

Exit codes:
  0  stdin ended, stdout was closed, or a signal came
  1  failed: stdin cannot be read
  2  wrong usage";
