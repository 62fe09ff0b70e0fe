//! `bowline demo`: one call, three disconnects, one whole answer; everything in this process and on the loopback interface.
//!
//! The server is a [`bowline_server::Endpoint`] behind its own listener, with a tool that counts. Between it and the client
//! stands a relay that can cut a connection. What each side does is told to a timeline as it happens, and the verdict is
//! computed from that timeline alone.

mod client;
mod counter;
mod happening;
mod json;
mod kill;
mod relay;
mod terminal;
#[cfg(test)]
mod tests;
mod verdict;

pub use kill::counter_main;

use crate::{
    complain,
    logging::{self, LogFormat},
};
use bowline_server::{Endpoint, ListenerOptions, Options, ResponseMode, serve};
use client::Client;
use counter::Counter;
use happening::{Happening, Recorder, What};
use relay::Relay;
use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinSet};
use verdict::{Ledger, Verdict};

/// How far the tool counts.
const NUMBERS: u64 = 20;

/// The number after whose arrival the wire is cut: in the middle of whatever is sent next.
const CUT_AFTER: u64 = NUMBERS / 2;

/// How many happenings may wait to be shown. One run has about 60.
const QUEUE: usize = 256;

/// How long a run with `--fast` counts, in seconds.
const FAST_SECONDS: u64 = 5;

/// Show a tool call that outlives its connections.
///
/// Starts an MCP server, a client and a wire between them in this process, and shows for 20 seconds how a call is carried
/// over connections that are closed and cut. Needs no network and no other program. Ends with 1 if anything was lost or
/// came twice.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// How long the tool counts, in seconds, 2 to 600; everything else keeps pace with it.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// The same in 5 seconds.
    #[arg(long, conflicts_with = "seconds")]
    pub fast: bool,
    /// Kill more than connections: two processes share a store, one is killed (SIGKILL), the other is told to leave. Takes until a
    /// lost call has been told so, half a minute or less.
    #[arg(long)]
    pub kill: bool,
    /// Print one JSON object for each thing that happens, and one for the verdict.
    #[arg(long)]
    pub json: bool,
}

/// Why the demo did not show what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// No port on the loopback interface.
    #[error("cannot listen on 127.0.0.1: {0}; the demo needs two free ports there")]
    Listen(#[source] io::Error),
    /// The demo's own server did not open a session.
    #[error("the demo's server did not open a session: {0}")]
    Session(String),
    /// A process of the demo did not start.
    #[error("a backend of the demo did not start: {0}")]
    Backend(String),
    /// Nowhere to print to.
    #[error("cannot print the timeline: {0}")]
    Output(#[source] io::Error),
    /// Something was lost or came twice, or the run proved nothing. The verdict that was printed says what.
    #[error("the demo failed: {0}")]
    Verdict(String),
}

/// Runs the demo on a runtime of its own, for the program.
pub(crate) fn main(options: DemoOptions) -> ExitCode {
    logging::start("warn", LogFormat::Text);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format_args!("the runtime could not be started: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs the demo and prints it to stdout, in colour where that is a terminal and `NO_COLOR` is not set.
///
/// A reader that goes away early (`bowline demo | head`) ends the demo without an error.
///
/// # Errors
/// When anything was lost or came twice, and when the demo could not run. The program exits with 1 then.
pub async fn run(options: DemoOptions) -> Result<(), DemoError> {
    let (pace, mut out) = (Pace::of(&options), anstream::stdout());
    let outcome = if options.kill {
        kill::run_to(pace, options.json, &mut out).await
    } else {
        run_to(pace, options.json, &mut out).await.map(drop)
    };
    match outcome {
        Err(DemoError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// The pace of a run: everything in proportion to how long one number takes.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Between two numbers.
    tick: Duration,
    /// How long the server holds a connection. With `retry` it is chosen so that no disconnect falls together with a number.
    hold: Duration,
    /// How long the server tells the client to stay away.
    retry: Duration,
}

impl Pace {
    fn of(options: &DemoOptions) -> Self {
        let seconds = if options.fast { FAST_SECONDS } else { options.seconds };
        Self::new(Duration::from_secs(seconds) / u32::try_from(NUMBERS).expect("20 fits into 32 bits"))
    }

    fn new(tick: Duration) -> Self {
        Self { tick, hold: tick * 53 / 10, retry: tick * 25 / 10 }
    }

    /// After how long something must be wrong.
    fn limit(self) -> Duration {
        self.tick * 60 + Duration::from_secs(10)
    }
}

/// How something is shown.
trait View: Send {
    fn begin(&mut self) -> io::Result<()>;
    fn show(&mut self, happening: &Happening) -> io::Result<()>;
    fn end(&mut self, verdict: &Verdict) -> io::Result<()>;
}

async fn run_to(pace: Pace, json: bool, out: &mut (dyn Write + Send)) -> Result<Verdict, DemoError> {
    let mut view: Box<dyn View + '_> =
        if json { Box::new(json::Lines::new(out)) } else { Box::new(terminal::Timeline::new(out, pace)) };
    // Everything that runs for the demo ends with it.
    let mut tasks = JoinSet::new();
    let (recorder, mut happenings) = Recorder::new(QUEUE);
    let server = start_server(pace, &recorder, &mut tasks).await?;
    let relay = Relay::start(vec![server], recorder.clone(), &mut tasks).await.map_err(DemoError::Listen)?;

    view.begin().map_err(DemoError::Output)?;
    let mut ledger = Ledger::default();
    let client = async {
        let mut client =
            Client::open(relay.address(), pace.retry, recorder).await.map_err(DemoError::Session)?;
        client.count_to(NUMBERS).await;
        Ok(())
    };
    let mut client = Box::pin(tokio::time::timeout(pace.limit(), client));
    let mut note = |happening: Happening| {
        ledger.note(&happening);
        if happening.what == What::Received(CUT_AFTER) && ledger.cut == 0 {
            relay.cut_the_next_message();
        }
        view.show(&happening).map_err(DemoError::Output)
    };
    loop {
        tokio::select! {
            biased;
            Some(happening) = happenings.recv() => note(happening)?,
            // What is missing when the time is up is for the verdict to say.
            ended = &mut client => break ended.unwrap_or(Ok(()))?,
        }
    }
    while let Ok(happening) = happenings.try_recv() {
        note(happening)?;
    }
    let verdict = Verdict::new(NUMBERS, ledger, relay.traffic());
    view.end(&verdict).map_err(DemoError::Output)?;
    conclude(verdict)
}

fn conclude(verdict: Verdict) -> Result<Verdict, DemoError> {
    if verdict.is_ok() { Ok(verdict) } else { Err(DemoError::Verdict(verdict.problems_as_text())) }
}

/// Starts the server with its counter on a free port.
async fn start_server(
    pace: Pace,
    recorder: &Recorder,
    tasks: &mut JoinSet<()>,
) -> Result<SocketAddr, DemoError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(DemoError::Listen)?;
    let address = listener.local_addr().map_err(DemoError::Listen)?;
    let mut options = Options::default();
    options.response = ResponseMode::Sse;
    options.max_connection = Some(pace.hold);
    options.retry.explicit = Some(pace.retry);
    let endpoint =
        Endpoint::builder(Arc::new(Counter::new(pace.tick, recorder.clone()))).options(options).build();
    tasks.spawn(async move {
        let served = serve(listener, endpoint, ListenerOptions::default(), std::future::pending()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the demo's server stopped");
        }
    });
    Ok(address)
}
