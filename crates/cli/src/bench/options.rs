//! What `bowline bench` is told.

use crate::duration;
use crate::untold::untold;
use bowline_load::Template;
use std::time::Duration;

untold!(BenchOptions);

/// The longest load.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// Calls, one after another on each connection.
    Calls,
    /// Sessions: opened and ended at once.
    Sessions,
    /// Streams: sessions' own ones, held open.
    Streams,
    /// Parked calls: started, and left when their stream ends or falls silent.
    Parked,
    /// Polls for such calls.
    Polls,
}

/// How it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Put load on an MCP endpoint and say how fast it is.
///
/// Works with any server that speaks Streamable HTTP (http://, revisions with a handshake). Load is bounded by --duration, --requests,
/// --connections and --count; it runs on one thread. Sessions that it opens are ended. Only measure servers that you may: it is real load.
///
/// Exit codes: 0 every request was answered with a result; 1 some were not, or nothing could be measured; 2 wrong usage.
#[derive(Clone, clap::Args)]
pub(crate) struct BenchOptions {
    /// The endpoint, such as <http://127.0.0.1:8000/mcp>.
    pub(crate) url: String,
    /// What to measure, one after another [default: calls].
    #[arg(value_enum)]
    pub(crate) what: Vec<What>,
    /// The tool to call. Without it calls are `ping`; parked calls and polls need one that takes its time.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Its arguments, a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    pub(crate) arguments: String,
    /// How many connections work at a time, each with one request in flight.
    #[arg(short, long, value_name = "N", default_value = "32", value_parser = count)]
    pub(crate) connections: usize,
    /// How long.
    #[arg(short, long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// End after so many requests.
    #[arg(short = 'n', long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    pub(crate) requests: u64,
    /// How many sessions share the calls [default: one for each connection; for parked calls one for 16].
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) sessions: Option<usize>,
    /// How many streams or parked calls.
    #[arg(long, value_name = "N", default_value = "100", value_parser = count)]
    pub(crate) count: usize,
    /// How long the end of a stream is waited for after an event id came.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) hold: Duration,
    /// A header for every request, such as 'Authorization: Bearer ...'; repeat it.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The server's process on this machine: its CPU time and memory are told too (Linux).
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

impl BenchOptions {
    /// What goes together with what.
    pub(crate) fn check(&self) -> Result<(), String> {
        let needs_tool = self.wanted().iter().any(|what| matches!(what, What::Parked | What::Polls));
        if needs_tool && self.tool.is_none() {
            return Err("parked calls and polls need --tool: one that takes its time, such as --tool count --arguments '{\"to\":60}'".into());
        }
        Ok(())
    }

    /// What is measured, in this order.
    pub(crate) fn wanted(&self) -> &[What] {
        if self.what.is_empty() { &[What::Calls] } else { &self.what }
    }

    /// The request that is sent again and again.
    pub(crate) fn template(&self) -> Template {
        match &self.tool {
            Some(tool) => Template::tool_with_progress(tool, &self.arguments),
            None => Template::new("ping", "{}"),
        }
    }
}

fn object(text: &str) -> Result<String, String> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("not a JSON object: {error}")),
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=100_000).contains(n)).ok_or_else(|| "expected 1 to 100000".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration = duration::parse_positive(text).map_err(|error| error.to_string())?;
    if duration > LONGEST { Err("at most 1h".to_owned()) } else { Ok(duration) }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
