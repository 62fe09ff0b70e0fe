//! What a load came to, for people and for programs.

use bowline_load::Outcome;
use serde_json::{Value, json};
use std::{fmt::Write as _, time::Duration};

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// In bytes.
    pub(super) memory: u64,
}

/// One load.
#[derive(Clone, Debug)]
pub(super) struct Report {
    what: &'static str,
    done: u64,
    failed: u64,
    failure: Option<String>,
    events: u64,
    seconds: f64,
    /// Requests a second; `None` where things are only held.
    per_second: Option<f64>,
    /// Share and microseconds; empty where nothing was timed.
    latency: Vec<(&'static str, f64)>,
    /// CPU time of the server for each, in microseconds.
    cpu_us: Option<f64>,
    /// Memory of the server afterwards, in bytes.
    memory: Option<u64>,
    /// What it grew by for each thing that is held, in bytes.
    memory_each: Option<f64>,
}

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

impl Report {
    /// Requests that were answered.
    pub(super) fn of_load(
        what: &'static str,
        outcome: &Outcome,
        before: Option<Usage>,
        after: Option<Usage>,
    ) -> Self {
        let latency = SHARES
            .iter()
            .filter(|_| !outcome.latency.is_empty())
            .map(|(name, share)| (*name, outcome.latency.quantile(*share).as_secs_f64() * 1e6))
            .collect();
        Self { per_second: Some(outcome.per_second()), latency, ..Self::new(what, outcome, before, after) }
    }

    /// Things that were opened and held.
    pub(super) fn of_things(
        what: &'static str,
        outcome: &Outcome,
        before: Option<Usage>,
        after: Option<Usage>,
    ) -> Self {
        let grown = before.zip(after).map(|(before, after)| after.memory as f64 - before.memory as f64);
        let memory_each = grown.filter(|_| outcome.done > 0).map(|grown| grown / outcome.done as f64);
        Self { memory_each, ..Self::new(what, outcome, before, after) }
    }

    fn new(what: &'static str, outcome: &Outcome, before: Option<Usage>, after: Option<Usage>) -> Self {
        let used = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
        Self {
            what,
            done: outcome.done,
            failed: outcome.failed,
            failure: outcome.failure.clone(),
            events: outcome.events,
            seconds: outcome.time.as_secs_f64(),
            per_second: None,
            latency: Vec::new(),
            cpu_us: used
                .filter(|_| outcome.done > 0)
                .map(|used| used.as_secs_f64() * 1e6 / outcome.done as f64),
            memory: after.map(|after| after.memory),
            memory_each: None,
        }
    }

    /// Whether everything was answered, and anything was asked.
    pub(super) const fn is_good(&self) -> bool {
        self.failed == 0 && self.done > 0
    }

    /// For people: one fact a line.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.what);
        // Writing into a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<16} {value}");
        };
        line("done", format!("{} in {:.2} s", self.done, self.seconds));
        if let Some(rate) = self.per_second {
            line("a second", format!("{rate:.0}"));
        }
        for (name, us) in &self.latency {
            line(name, time(*us));
        }
        if self.events > 0 {
            line("events", self.events.to_string());
        }
        if let Some(us) = self.cpu_us {
            line("server's CPU", format!("{} each", time(us)));
        }
        if let Some(memory) = self.memory {
            line("server's memory", format!("{:.1} MB", memory as f64 / 1e6));
        }
        if let Some(each) = self.memory_each {
            line("of which", format!("{each:.0} bytes each"));
        }
        if self.failed > 0 {
            line(
                "failed",
                format!("{}: {}", self.failed, self.failure.as_deref().unwrap_or("no reason known")),
            );
        }
        text
    }

    fn value(&self) -> Value {
        let latency = self
            .latency
            .iter()
            .map(|(name, us)| ((*name).to_owned(), json!(us)))
            .collect::<serde_json::Map<_, _>>();
        json!({
            "what": self.what,
            "done": self.done,
            "failed": self.failed,
            "failure": self.failure,
            "seconds": self.seconds,
            "per_second": self.per_second,
            "latency_us": (!latency.is_empty()).then_some(latency),
            "events": self.events,
            "server": self.memory.map(|memory| json!({
                "cpu_us_each": self.cpu_us,
                "memory_bytes": memory,
                "memory_bytes_each": self.memory_each,
            })),
        })
    }
}

/// For programs: one object.
pub(super) fn json(url: &str, reports: &[Report]) -> String {
    let runs: Vec<Value> = reports.iter().map(Report::value).collect();
    format!("{}\n", json!({ "url": url, "runs": runs }))
}

fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.1} µs"),
        us if us < 1e6 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let mut outcome = Outcome { done: 4, time: Duration::from_secs(2), ..Outcome::default() };
        for ms in 1..=4 {
            outcome.latency.add(Duration::from_millis(ms));
        }
        outcome
    }

    fn usage(ms: u64, memory: u64) -> Option<Usage> {
        Some(Usage { cpu: Duration::from_millis(ms), memory })
    }

    #[test]
    fn a_load_is_told_in_both_ways() {
        let report = Report::of_load("calls", &outcome(), usage(10, 0), usage(30, 5_000_000));
        assert!(report.is_good());
        let text = report.text();
        for part in ["4 in 2.00 s", "a second         2", "p50              2.0", "5.00 ms each", "5.0 MB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let value: Value = serde_json::from_str(&json("http://h/", &[report])).unwrap();
        let run = &value["runs"][0];
        assert_eq!(
            (&value["url"], &run["done"], &run["per_second"]),
            (&json!("http://h/"), &json!(4), &json!(2.0))
        );
        assert_eq!(run["server"]["cpu_us_each"], json!(5_000.0));
        assert!(run["latency_us"]["p99"].as_f64().unwrap() > 3_900.0);
    }

    #[test]
    fn what_is_held_is_told_by_its_size_and_a_failure_by_its_reason() {
        let report = Report::of_things("parked", &outcome(), usage(0, 1_000), usage(0, 5_000));
        assert!(report.text().contains("1000 bytes each"));
        assert_eq!(report.value()["latency_us"], Value::Null);
        let failed = Outcome { failed: 1, failure: Some("503".into()), ..outcome() };
        let report = Report::of_load("calls", &failed, None, None);
        assert!(!report.is_good() && report.text().contains("1: 503"));
        assert_eq!(report.value()["server"], Value::Null);
        assert!(!Report::of_load("calls", &Outcome::default(), None, None).is_good());
    }
}
