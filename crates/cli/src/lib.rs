//! The program bowline: a gateway that never drops work, and tools around it

mod bench;
mod cli;
mod client;
mod commands;
mod connect;
pub mod demo;
mod duration;
mod logging;
mod manual;
mod rate;
mod serve;
mod size;
mod untold;

use std::{ffi::OsString, io::Write as _, process::ExitCode};

/// Wrong usage: nothing was started.
const USAGE: u8 = 2;

/// Runs the program with these arguments, its name first. Reports on stderr. Returns 0 when all went well, 1 for a failure, 2 for
/// wrong usage, and 128 and its number for a second signal; the commands that do one thing with a server have codes of their own.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = match cli::parse(args) {
        Ok(parsed) => parsed,
        Err(refused) => return refused.report(),
    };
    match parsed {
        cli::Parsed::Bench(options) => bench::main(&options),
        cli::Parsed::Demo(options) => demo::main(options),
        cli::Parsed::Serve(options, matches) => serve::main(*options, &matches),
        cli::Parsed::Connect(options) => connect::main(&options),
        cli::Parsed::Job(job) => commands::main(&job),
        cli::Parsed::Completions(command) => manual::completions(&command, cli::command()),
        cli::Parsed::Man(command) => manual::man(&command, cli::command()),
    }
}

/// Says on stderr what went wrong. A stderr that is gone is no reason to fail again.
fn complain(error: &dyn std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "bowline: {error}");
}
