//! `bowline serve`: a stdio MCP server behind Streamable HTTP.

mod address;
mod announce;
mod bind;
mod blame;
mod command;
mod keys;
pub(crate) mod options;
mod reload;
mod run;
mod settings;
pub(crate) mod signals;
mod store;
mod tls;
mod tokens;

use crate::{USAGE, complain, logging};
use bowline_gateway::stderr;
use clap::ArgMatches;
use options::ServeOptions;
use settings::Settings;
use std::{process::ExitCode, time::Duration};

/// How long the last lines of the log have to reach stderr.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Serves until a signal; see the exit codes in the help.
pub(crate) fn main(options: ServeOptions, matches: &ArgMatches) -> ExitCode {
    let format = options.log.log_format;
    let filter = logging::filter(&options.log.log_level, options.log.verbose);
    let settings = match Settings::new(options, matches, &|name| std::env::var_os(name)) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error);
            return USAGE.into();
        }
    };
    logging::start(&filter, format);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format_args!("the runtime could not be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run::run(settings, format)).unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    });
    // Whatever still waits ends with the process; the guard ends children that are left.
    runtime.shutdown_background();
    stderr::flush(LAST_LINES);
    code
}
