//! `bowline connect`: stdio in, HTTP out, for hosts that start programs.
//!
//! What a host says goes through a [`bowline_client::Relay`], which comes back by itself; this is the pipe around it (SEMANTICS 8):
//! lines in, lines out, and the end.

mod bridge;
mod filter;
mod lines;
mod options;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use options::ConnectOptions;

use crate::{
    USAGE, client, complain,
    logging::{self, LogFormat},
    serve::signals::Signals,
};
use bowline_client::Relay;
use bowline_gateway::stderr;
use bridge::{Bridge, End};
use filter::Filter;
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long the last lines of the log have to reach stderr.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Messages for a host that reads slowly, before what comes from the server has to wait.
const QUEUE: usize = 256;

/// Carries messages until the host is gone or a signal comes; see the exit codes in the help.
pub(crate) fn main(options: &ConnectOptions) -> ExitCode {
    client::install_crypto();
    let filter = Filter::new(&options.ignore_tools);
    let far = client::far(
        &options.url,
        &options.remote,
        options.callback_port,
        client::Paste::No,
        &client::variable,
    );
    let far = match far {
        Ok(far) => far,
        Err(error) => {
            complain(&error);
            return USAGE.into();
        }
    };
    logging::start(&options.log_filter(), options.log_format.unwrap_or(LogFormat::Text));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format_args!("the runtime could not be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(options, far, filter));
    // A read of stdin that is under way ends with the process.
    runtime.shutdown_background();
    stderr::flush(LAST_LINES);
    code
}

async fn run(options: &ConnectOptions, far: client::Far, filter: Filter) -> ExitCode {
    let mut signals = match Signals::new(None) {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format_args!("signals cannot be received: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut client = far.options;
    client.outage = options.outage;
    client.idle_timeout = Some(options.idle_timeout).filter(|limit| !limit.is_zero());
    client.max_calls = options.max_calls;
    tracing::info!(target = %far.target, "carrying stdin and stdout to it");
    let (host, for_host) = mpsc::channel(QUEUE);
    let relay = Relay::patient(far.target, client, host, options.patience);
    let bridge = Bridge {
        relay,
        filter: Arc::new(filter),
        asking: far.asking,
        max_line: usize::try_from(options.max_message).unwrap_or(usize::MAX),
        max_waiting: options.max_waiting,
        drain: options.drain_timeout,
    };
    let leaving = async {
        let leave = signals.next().await;
        tracing::info!(signal = leave.name(), "leaving");
    };
    let carry = bridge.carry(tokio::io::stdin(), tokio::io::stdout(), for_host, leaving);
    let end = carry.await;
    match end {
        End::Host | End::Asked => ExitCode::SUCCESS,
        End::Broken(error) => {
            complain(&format_args!("stdin cannot be read: {error}"));
            ExitCode::FAILURE
        }
    }
}
