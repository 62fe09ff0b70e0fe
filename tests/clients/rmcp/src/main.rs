//! The Rust SDK (crate `rmcp`) as a real client for the end-to-end tests. Stock settings.
//!
//! How it differs from the TypeScript and Python clients:
//! - It resumes any stream of which it has seen an id, with or without a session, however the connection ended, without end: a
//!   poll that fails is repeated with pauses that double from 1 s. An answer of 401, 403 or 405 to a poll ends the call.
//! - `retry` counts for the graceful close after it; after a reset the first poll comes at once.
//! - A result that comes twice is dropped without a word; it is counted here below the SDK.
//! - One SSE event of more than 16 MiB, or one JSON body of more, ends the call (its defaults).

#![allow(deprecated, reason = "the legacy parts are what we test")]

mod everything;
mod facade;
mod options;
mod report;
mod scenarios;
mod session;
mod soak;
mod wire;

use options::Options;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    if let [_, word, config] = std::env::args().collect::<Vec<_>>().as_slice()
        && word == "soak"
    {
        return match runtime.block_on(soak::run(config)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let report = Report::new(options.deadline);
    runtime.block_on(scenarios::run(&options, &report));
    let code = report.finish();
    // What a client leaves running must not hang the test.
    runtime.shutdown_background();
    code
}
