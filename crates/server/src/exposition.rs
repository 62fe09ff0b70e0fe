//! `/metrics`: what an endpoint, its handler and its store count, as OpenMetrics 1.0 text.

use crate::core::Core;
use bowline_store::{Figure, FigureKind};
use std::{collections::BTreeSet, fmt::Write as _};

/// The `Content-Type` of the text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The prefix of every name.
const PREFIX: &str = "bowline_";

/// Everything there is to say of an endpoint.
pub(crate) fn of(core: &Core) -> String {
    let mut text = Text::default();
    text.info("build", "What is running.", &[("version", env!("CARGO_PKG_VERSION"))]);
    text.family(
        FigureKind::Counter,
        "http_requests",
        "HTTP requests by method and status; code 0 is any rare one.",
    );
    for (method, status, count) in core.metrics.requests.each() {
        text.sample(&[("method", method), ("code", &status.to_string())], count);
    }
    text.family(
        FigureKind::Counter,
        "bound_hits",
        "How often a bound was hit; bound is the option that sets it, without its dashes, or a fixed one.",
    );
    for metric in core.metrics.each() {
        if let Some(bound) = metric.bound {
            text.sample(&[("bound", bound)], metric.value);
        }
    }
    for metric in core.metrics.each().filter(|metric| metric.bound.is_none()) {
        text.figure(&Figure { name: metric.name, help: metric.help, kind: metric.kind, value: metric.value });
    }
    let tally = core.running.tally(core.now());
    let draining = u64::from(core.is_draining());
    for figure in [
        Figure::gauge("calls_parked", "Calls whose stream nobody reads at the moment.", tally.parked),
        Figure::gauge("calls_streaming", "Calls whose stream somebody reads.", tally.streaming),
        Figure::gauge("results_waiting", "Results that wait for their client.", tally.waiting),
        Figure::gauge("clients", "Clients that limits are kept for.", core.clients.len() as u64),
        Figure::gauge("draining", "1 while the server is leaving.", draining),
    ] {
        text.figure(&figure);
    }
    for figure in core.handler.figures().iter().chain(&core.store.figures()) {
        text.figure(figure);
    }
    text.end()
}

/// OpenMetrics text, one family after another.
#[derive(Default)]
struct Text {
    out: String,
    /// The families that were written: none may come twice.
    names: BTreeSet<String>,
    /// What samples of the family at hand are called.
    sample: String,
}

impl Text {
    /// Starts a family. Returns `false`, and writes nothing, for a name that is taken or not a name.
    fn start(&mut self, kind: &str, name: &str, suffix: &str, help: &str) -> bool {
        let plain = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if name.is_empty() || !plain || !self.names.insert(name.to_owned()) {
            debug_assert!(false, "a metric's name is taken or malformed: {name}");
            return false;
        }
        let _ = writeln!(self.out, "# HELP {PREFIX}{name} {}", Escaped(help));
        let _ = writeln!(self.out, "# TYPE {PREFIX}{name} {kind}");
        self.sample = format!("{PREFIX}{name}{suffix}");
        true
    }

    fn family(&mut self, kind: FigureKind, name: &str, help: &str) -> bool {
        match kind {
            FigureKind::Counter => self.start("counter", name, "_total", help),
            FigureKind::Gauge => self.start("gauge", name, "", help),
        }
    }

    fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) {
        if self.start("info", name, "_info", help) {
            self.sample(labels, 1);
        }
    }

    fn figure(&mut self, figure: &Figure) {
        if self.family(figure.kind, figure.name, figure.help) {
            self.sample(&[], figure.value);
        }
    }

    /// One sample of the family at hand.
    fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.out.push_str(&self.sample);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{before}{name}=\"{}\"", Escaped(value));
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    fn end(mut self) -> String {
        self.out.push_str("# EOF\n");
        self.out
    }
}

/// Text in which line ends, quotes and backslashes are escaped.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => f.write_str("\\n"),
            '"' => f.write_str("\\\""),
            '\\' => f.write_str("\\\\"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_openmetrics() {
        let mut text = Text::default();
        text.info("build", "a", &[("version", "1\"\\\n2")]);
        text.figure(&Figure::counter("things", "Things \"so\"\\far.\n", 3));
        text.figure(&Figure::gauge("now", "Now.", u64::MAX));
        text.family(FigureKind::Counter, "many", "Many.");
        text.sample(&[("a", "1"), ("b", "2")], 4);
        text.sample(&[("a", "1"), ("b", "3")], 5);
        assert_eq!(
            text.end(),
            "# HELP bowline_build a\n# TYPE bowline_build info\nbowline_build_info{version=\"1\\\"\\\\\\n2\"} 1\n\
             # HELP bowline_things Things \\\"so\\\"\\\\far.\\n\n# TYPE bowline_things counter\nbowline_things_total 3\n\
             # HELP bowline_now Now.\n# TYPE bowline_now gauge\nbowline_now 18446744073709551615\n\
             # HELP bowline_many Many.\n# TYPE bowline_many counter\n\
             bowline_many_total{a=\"1\",b=\"2\"} 4\nbowline_many_total{a=\"1\",b=\"3\"} 5\n# EOF\n"
        );
    }
}
