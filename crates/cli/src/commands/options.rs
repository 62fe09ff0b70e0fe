//! The options of the commands as they are typed.

use super::output::Output;
use crate::untold::untold;
use crate::{client::RemoteOptions, duration, logging::parse_level};
use std::{ffi::OsString, path::PathBuf, time::Duration};

untold!(ListCommand, CallCommand, ReadCommand, PromptCommand, CompleteCommand, WatchCommand);

/// What all commands have.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// How results are printed to stdout.
    #[arg(long, short = 'o', value_name = "FORMAT", value_enum, default_value_t, env = "BOWLINE_OUTPUT")]
    pub(crate) output: Output,

    /// Ask the server for its log, from this level on: debug, info, notice, warning, error, critical, alert or emergency. It is
    /// shown on stderr.
    #[arg(long, value_name = "LEVEL", value_parser = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"])]
    pub(crate) level: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteOptions,

    /// How long connecting may take; a login does not count.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive, help_heading = "Time")]
    pub(crate) connect_timeout: Duration,

    /// How long a request may take in all. 0: no limit.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::parse, help_heading = "Time")]
    pub(crate) timeout: Duration,

    /// How long a request may go without any sign of life. 0: no limit.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse, help_heading = "Time")]
    pub(crate) idle_timeout: Duration,

    /// How long a server that is away is waited for. 0: not at all.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, env = "BOWLINE_OUTAGE", help_heading = "Time")]
    pub(crate) outage: Duration,

    /// What this program logs about itself, to stderr: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", env = "BOWLINE_LOG_LEVEL", value_parser = parse_level, default_value = "warn", help_heading = "Log (to stderr)")]
    pub(crate) log_level: String,

    /// Say more: -v for debug, -vv for trace.
    #[arg(long, short = 'v', env = "BOWLINE_VERBOSE", action = clap::ArgAction::Count, help_heading = "Log (to stderr)")]
    pub(crate) verbose: u8,

    /// A stdio server and its arguments, in the place of URL.
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the tool says that it failed (isError)
  2  wrong usage
  3  the server answered with an error, or with what cannot be read
  4  the server was not reached, or did not answer in time; nothing ran that may
     not run twice
  5  not authorized
  6  the outcome is unknown: the tool may have run, and was not called again
  7  failed on this machine: a file cannot be written, ...
  129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM; what ran was cancelled";

const AFTER_HELP: &str = "`--help` explains each option and the exit codes.";

/// List what a server has.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline list [OPTIONS] URL [KIND]...\n       bowline list [OPTIONS] [KIND]... -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = EXIT_CODES
)]
pub(crate) struct ListCommand {
    /// The server's address, then what to list: tools, resources, templates, prompts. Default: all that it has.
    #[arg(value_name = "URL|KIND")]
    pub(crate) words: Vec<String>,

    #[command(flatten)]
    pub(crate) common: Common,
}

const AFTER_CALL: &str = "\
Examples:
  bowline call https://mcp.example.com/mcp forecast city=Turku days:=3
  bowline call http://127.0.0.1:8000/mcp draw --json '{\"shape\":\"circle\"}' --save .
  jq '{text: .title}' note.json | bowline call http://127.0.0.1:8000/mcp echo -
  bowline call echo message=hello -- npx -y @modelcontextprotocol/server-everything

Arguments:
  key=value   a text
  key:=json   any JSON: 3, true, [1,2], {\"a\":1}, \"text\"
  -           a JSON object on stdin
  Texts and JSON given one by one go over those of --json and stdin.

Shown on stderr: progress (a bar on a terminal, lines elsewhere), the server's log, and
its questions, which are asked on a terminal and declined where there is none.

Exit codes:
  0  done
  1  the tool says that it failed (isError)
  2  wrong usage
  3  the server answered with an error, or with what cannot be read
  4  the server was not reached, or did not answer in time; nothing ran
  5  not authorized
  6  the outcome is unknown: the tool may have run, and was not called again
  7  failed on this machine: a file cannot be written, ...
  129, 130, 143  ended by SIGHUP, SIGINT, SIGTERM; the call was cancelled";

/// Call a tool.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline call [OPTIONS] URL TOOL [ARGUMENT]...\n       bowline call [OPTIONS] TOOL [ARGUMENT]... -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = AFTER_CALL
)]
pub(crate) struct CallCommand {
    /// The server's address, the tool, and its arguments: key=value, key:=json, or - for a JSON object on stdin.
    #[arg(value_name = "URL|TOOL|ARGUMENT")]
    pub(crate) words: Vec<String>,

    /// All arguments as a JSON object; - reads it from stdin.
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,

    /// Write images, audio and other binary content to files in this folder. Files that are there stay.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,

    /// The tool may run twice: call it again when the answer is lost.
    #[arg(long)]
    pub(crate) idempotent: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Read a resource.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline read [OPTIONS] URL RESOURCE\n       bowline read [OPTIONS] RESOURCE -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = EXIT_CODES
)]
pub(crate) struct ReadCommand {
    /// The server's address, and the URI of the resource. Binary content goes to stdout as it is, unless that is a terminal.
    #[arg(value_name = "URL|RESOURCE")]
    pub(crate) words: Vec<String>,

    /// Write the contents to files in this folder. Files that are there stay.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Show a prompt, filled in.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline prompt [OPTIONS] URL NAME [KEY=VALUE]...\n       bowline prompt [OPTIONS] NAME [KEY=VALUE]... -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = EXIT_CODES
)]
pub(crate) struct PromptCommand {
    /// The server's address, the prompt, and its arguments: key=value, or - for a JSON object on stdin.
    #[arg(value_name = "URL|NAME|ARGUMENT")]
    pub(crate) words: Vec<String>,

    /// All arguments as a JSON object; - reads it from stdin.
    #[arg(long, value_name = "JSON")]
    pub(crate) json: Option<String>,

    /// Write images, audio and other binary content to files in this folder. Files that are there stay.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Ask for values of an argument.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline complete [OPTIONS] URL PROMPT|TEMPLATE NAME=BEGINNING [KNOWN=VALUE]...\n       bowline complete [OPTIONS] PROMPT|TEMPLATE NAME=BEGINNING [KNOWN=VALUE]... -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = EXIT_CODES
)]
pub(crate) struct CompleteCommand {
    /// The server's address; the prompt (its name, or prompt:NAME) or the template of a resource (`file:///{path}`, or
    /// resource:TEMPLATE); the argument with the beginning of its value; and arguments that are known already.
    #[arg(value_name = "URL|PROMPT|ARGUMENT")]
    pub(crate) words: Vec<String>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Print what a server tells of its own accord: lists and resources that change, its log.
#[derive(clap::Args)]
#[command(
    override_usage = "bowline watch [OPTIONS] URL [RESOURCE]...\n       bowline watch [OPTIONS] [RESOURCE]... -- COMMAND [ARG]...",
    after_help = AFTER_HELP,
    after_long_help = EXIT_CODES
)]
pub(crate) struct WatchCommand {
    /// The server's address, and URIs of resources to subscribe to. Goes on until Ctrl-C, which ends it with 0.
    #[arg(value_name = "URL|RESOURCE")]
    pub(crate) words: Vec<String>,

    /// End after this time, with 0.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse_positive)]
    pub(crate) within: Option<Duration>,

    /// End after so many messages, with 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    #[command(flatten)]
    pub(crate) common: Common,
}
