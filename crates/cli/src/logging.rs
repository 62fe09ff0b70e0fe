//! The program's own log: to stderr, as text for people or JSON lines for collectors.

use bowline_gateway::stderr;
use clap::ValueEnum;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, registry, util::SubscriberInitExt as _};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people, in colour on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why a log level was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected off, error, warn, info, debug or trace, or rules such as `info,bowline_server=debug`")]
pub(crate) struct LevelError;

/// Checks what is given as a log level and returns it as a filter: one level, or comma-separated `target=level` rules.
pub(crate) fn parse_level(text: &str) -> Result<String, LevelError> {
    let text = text.trim();
    let mut rules = Vec::new();
    for rule in text.split(',') {
        let (target, level) = match rule.trim().split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, rule.trim()),
        };
        // `none` is how supergateway says it.
        let level = match level.to_ascii_lowercase().as_str() {
            "none" => "off".to_owned(),
            "warning" => "warn".to_owned(),
            level @ ("off" | "error" | "warn" | "info" | "debug" | "trace") => level.to_owned(),
            _ => return Err(LevelError),
        };
        rules.push(target.map_or_else(|| level.clone(), |target| format!("{target}={level}")));
    }
    let rules = rules.join(",");
    EnvFilter::try_new(&rules).map_err(|_| LevelError)?;
    Ok(rules)
}

/// The filter for a level and a number of `-v`: the first raises everything of ours to debug, the second to trace.
pub(crate) fn filter(level: &str, verbose: u8) -> String {
    match verbose {
        0 => level.to_owned(),
        1 => format!(
            "{level},bowline=debug,bowline_cli=debug,bowline_server=debug,bowline_gateway=debug,bowline_client=debug,bowline_oauth=debug"
        ),
        _ => "trace".to_owned(),
    }
}

/// Starts the log. Does nothing when there is one already.
pub(crate) fn start(filter: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // A stderr that went away must not end the program, and one that is not read must not stop it.
    let lines = fmt::layer().with_writer(stderr::writer).log_internal_errors(false);
    let started = match format {
        LogFormat::Text => {
            let colours =
                io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            registry().with(filter).with(lines.with_ansi(colours)).try_init()
        }
        LogFormat::Json => registry().with(filter).with(lines.json().flatten_event(true)).try_init(),
    };
    // Only a second start fails, and the first log serves then.
    let _ = started;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_rules() {
        for (text, read) in [
            ("info", "info"),
            ("WARN", "warn"),
            ("none", "off"),
            ("warning", "warn"),
            ("info,bowline_server=debug", "info,bowline_server=debug"),
            (" error , bowline::child=info", "error,bowline::child=info"),
        ] {
            assert_eq!(parse_level(text).as_deref(), Ok(read), "{text}");
        }
        for text in ["", "loud", "3", "info,", "bowline=", "=loud", "a=b=c"] {
            assert_eq!(parse_level(text), Err(LevelError), "{text}");
        }
    }

    #[test]
    fn verbosity_makes_filters_that_parse() {
        for verbose in 0..4 {
            assert!(EnvFilter::try_new(filter("info,bowline::child=off", verbose)).is_ok());
        }
        assert!(filter("info", 1).contains("bowline_server=debug"));
        assert_eq!(filter("off", 2), "trace");
    }
}
