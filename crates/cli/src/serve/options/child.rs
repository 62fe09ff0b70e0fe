//! The server that is put behind HTTP, and its surroundings.

use crate::duration;
use crate::untold::untold;
use clap::ValueEnum;
use std::{path::PathBuf, time::Duration};

untold!(ChildOptions);

/// How many processes serve the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildMode {
    /// One process for each session: clients cannot see each other's state.
    Session,
    /// One process for all: for servers that keep no state of a client. Its requests to clients are refused and its log
    /// messages dropped, as they could reach the wrong one.
    Shared,
}

/// Where the stderr of a child goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StderrMode {
    /// To stderr as it is, each line with the child's name in front.
    Inherit,
    /// To the log at level info, target `bowline::child`.
    #[default]
    Log,
    /// Nowhere. Its last lines still appear in the error when it dies.
    Discard,
}

#[derive(clap::Args)]
#[command(next_help_heading = "The server behind it")]
pub(crate) struct ChildOptions {
    /// The command as one string, split as a shell would (quotes and backslashes; no variables, no pipes). In place of
    /// COMMAND; for a real shell say `-- sh -c "..."`.
    #[arg(long, value_name = "CMD", env = "BOWLINE_STDIO")]
    pub(crate) stdio: Option<String>,

    /// Whether each session has a process of its own, or all share one. Default: `session`; with --session-mode stateless,
    /// where there are no sessions, a pool of processes instead.
    #[arg(long, value_name = "MODE", env = "BOWLINE_CHILD", value_enum)]
    pub(crate) child: Option<ChildMode>,

    /// Stateless: how many processes serve the requests. Each request goes to the least busy one. Default: 2.
    #[arg(long, value_name = "N", env = "BOWLINE_POOL", value_parser = super::network::count)]
    pub(crate) pool: Option<usize>,

    /// The folder it runs in. Default: the current one.
    #[arg(long, value_name = "DIR", env = "BOWLINE_CWD")]
    pub(crate) cwd: Option<PathBuf>,

    /// A variable for it; may be repeated. `BOWLINE_ENV` holds several, separated by blanks, with quotes where a value has
    /// some: `A=1 B='two words'`.
    #[arg(long = "env", short = 'e', value_name = "K=V", action = clap::ArgAction::Append)]
    pub(crate) env: Vec<String>,

    /// Which variables of this process it inherits: `all` (but those named BOWLINE_*), `none`, or names separated by
    /// commas.
    #[arg(long, value_name = "NAMES", env = "BOWLINE_PASS_ENV", default_value = "all")]
    pub(crate) pass_env: String,

    /// Where its stderr goes.
    #[arg(long, value_name = "WHERE", env = "BOWLINE_STDERR", value_enum, default_value_t)]
    pub(crate) stderr: StderrMode,

    /// How long it may take to answer `initialize`. The first start of an `npx` or `uvx` command downloads.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_INIT_TIMEOUT", value_parser = duration::parse_positive, default_value = "60s")]
    pub(crate) init_timeout: Duration,

    /// How many of its processes there may be at a time; a session that needs one more is refused.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_CHILDREN", value_parser = super::network::count, default_value = "1000")]
    pub(crate) max_children: usize,

    /// How many processes clients of 2026-07-28 may have, who have no sessions; a call that finds all in use waits. They share
    /// those of --child shared and of a pool.
    #[arg(long, value_name = "N", env = "BOWLINE_MAX_MODERN_CHILDREN", value_parser = super::network::count, default_value = "64")]
    pub(crate) max_modern_children: usize,

    /// How long such a process is kept that no client uses.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_MODERN_IDLE", value_parser = duration::parse_positive, default_value = "5m")]
    pub(crate) modern_idle: Duration,

    /// How long a tool of a client of 2026-07-28 runs on whose connection broke, so that the same request of the same principal
    /// joins it. Needs tokens. Default: it is cancelled at once.
    #[arg(long, value_name = "DURATION", env = "BOWLINE_JOIN_REISSUED", value_parser = duration::parse_positive)]
    pub(crate) join_reissued: Option<Duration>,

    /// supergateway's: what clients are offered. Only `streamableHttp` is served.
    #[arg(long = "outputTransport", hide = true, value_parser = output_transport)]
    pub(crate) output_transport: Option<()>,
}

fn output_transport(text: &str) -> Result<(), String> {
    match text {
        "streamableHttp" | "streamable-http" | "http" => Ok(()),
        _ => Err("only streamableHttp is served; SSE, WebSocket and stdio outputs are not".into()),
    }
}
