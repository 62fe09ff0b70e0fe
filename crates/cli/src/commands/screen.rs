//! stderr while something runs: a bar for progress and lines above it on a terminal, plain lines elsewhere.

use super::text::{clean, short};
use bowline_client::{LogMessage, Progress};
use bowline_gateway::stderr;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

/// The longest message beside a bar.
const MESSAGE: usize = 60;

/// Steps of a bar: progress is any number.
const STEPS: f64 = 1000.0;

/// What is shown on stderr.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    /// A line of its own.
    pub(super) fn line(&self, text: &str) {
        match &*self.bar.lock() {
            Some(bar) => bar.println(text),
            // A stderr that is gone is no reason to fail.
            None => drop(writeln!(stderr::writer(), "{text}")),
        }
    }

    /// A line of the server's log.
    pub(super) fn log(&self, message: &LogMessage) {
        self.line(&log_line(message));
    }

    /// How far a call is.
    pub(super) fn progress(&self, progress: &Progress) {
        if !self.terminal {
            return self.line(&progress_line(progress));
        }
        let mut place = self.bar.lock();
        let bar = place.get_or_insert_with(new_bar);
        bar.set_message(progress.message.as_deref().map(|text| short(text, MESSAGE)).unwrap_or_default());
        match progress.total.filter(|total| total.is_finite() && *total > 0.0) {
            Some(total) => {
                let part = (progress.progress / total).clamp(0.0, 1.0);
                bar.set_style(style("{bar:30} {prefix} {msg}"));
                bar.set_prefix(format!("{}/{}", number(progress.progress), number(total)));
                // Between 0 and 1000 by the clamp.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
                bar.set_position((part * STEPS) as u64);
            }
            None => {
                bar.set_style(style("{spinner} {prefix} {msg}"));
                bar.set_prefix(number(progress.progress));
                bar.tick();
            }
        }
    }

    /// Takes the bar away: it is over, or somebody is asked.
    pub(super) fn clear(&self) {
        if let Some(bar) = self.bar.lock().take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    // At most ten times a second, whatever the server sends.
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(10));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 { format!("{number:.0}") } else { format!("{number}") }
}

fn progress_line(progress: &Progress) -> String {
    let mut line = format!("progress {}", number(progress.progress));
    if let Some(total) = progress.total {
        line.push('/');
        line.push_str(&number(total));
    }
    if let Some(message) = &progress.message {
        line.push_str(": ");
        line.push_str(&short(message, 200));
    }
    line
}

/// A line of the server's log as text.
pub(super) fn log_line(message: &LogMessage) -> String {
    let data = match &message.data {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let logger =
        message.logger.as_deref().map(|logger| format!(" {}", short(logger, 40))).unwrap_or_default();
    format!("[{}{logger}] {}", short(&message.level, 20), clean(&data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_client::Raw;

    #[test]
    fn plain_lines() {
        for (json, line) in [
            (r#"{"progress":3,"total":8,"message":"a\nb"}"#, "progress 3/8: a b"),
            (r#"{"progress":0.5}"#, "progress 0.5"),
            (r#"{"progress":1e300,"total":0}"#, &format!("progress {}/0", 1e300)),
        ] {
            assert_eq!(progress_line(&Raw::parse(json).unwrap().to().unwrap()), line, "{json}");
        }
        let log = |json: &'static str| log_line(&Raw::parse(json).unwrap().to().unwrap());
        assert_eq!(log(r#"{"level":"info","logger":"db","data":"a\u001b[1mb"}"#), "[info db] a[1mb");
        assert_eq!(log(r#"{"level":"error","data":{"n":1}}"#), r#"[error] {"n":1}"#);
    }

    #[test]
    fn a_bar_takes_any_numbers() {
        let screen = Screen { terminal: true, bar: Mutex::new(None) };
        for json in [
            r#"{"progress":-1,"total":3}"#,
            r#"{"progress":9,"total":3}"#,
            r#"{"progress":2}"#,
            r#"{"progress":1,"total":-1}"#,
        ] {
            screen.progress(&Raw::parse(json).unwrap().to().unwrap());
        }
        assert!(screen.bar.lock().is_some());
        screen.clear();
        assert!(screen.bar.lock().is_none());
    }
}
