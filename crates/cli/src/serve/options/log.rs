//! What is logged, and how.

use crate::logging::{LogFormat, parse_level};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log (to stderr; stdout stays empty)")]
pub(crate) struct LogOptions {
    /// How log lines look.
    #[arg(long, value_name = "FORMAT", env = "BOWLINE_LOG_FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,

    /// off, error, warn, info, debug or trace; or rules such as `warn,bowline::child=info`. Messages of clients and of the
    /// server behind are never logged.
    #[arg(long, value_name = "LEVEL", env = "BOWLINE_LOG_LEVEL", alias = "logLevel", value_parser = parse_level, default_value = "info")]
    pub(crate) log_level: String,

    /// Say more: -v for debug, -vv for trace.
    #[arg(long, short = 'v', env = "BOWLINE_VERBOSE", action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}
