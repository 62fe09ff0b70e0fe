//! The client that the official conformance suite is run against: `MCP_CONFORMANCE_SCENARIO` says what to do, the last
//! argument where. A plain program with a deadline of its own, since the suite waits for whoever holds its pipes.

mod login;
mod scenarios;

use std::{process::ExitCode, time::Duration};

/// Below the 30 s after which the suite stops the program.
const DEADLINE: Duration = Duration::from_secs(25);

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter("info").init();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    let outcome = runtime.block_on(async { tokio::time::timeout(DEADLINE, scenarios::run()).await });
    // Whatever still runs ends with the program.
    runtime.shutdown_background();
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error.to_string()),
        Err(_) => fail(&format!("not done within {DEADLINE:?}")),
    }
}

fn fail(message: &str) -> ExitCode {
    tracing::error!("{message}");
    ExitCode::FAILURE
}
