//! The command line: that of the other clients.

use std::time::Duration;

pub const USAGE: &str = "\
usage: bowline-rmcp-client URL SCENARIO [options]
scenarios: everything, facade, slow, cut, cancel, many, jobs (see tests/README.md)
options:
  --seconds N      slow, cut, cancel: how long the call takes (default 3); jobs: how long the shortest one takes
  --longest N      jobs: how long the longest one takes (default 10)
  --until FILE     jobs: no more are begun once this file is there
  --file FILE      jobs: the ledger, for the tool to write to
  --name NAME      jobs: what the keys of this client's jobs start with (default job)
  --expect-once    slow, cut: fail unless exactly one response was received (also watches for 1 s after it)
  --no-repeats     slow, cut: fail if progress came twice
  --min-resumes N  cut: at least so many GETs with Last-Event-ID (default 1)
  --calls N        many: how many calls (default 100)
  --parallel P     many: how many at a time (default 10)
  --revision R     the revision that must be negotiated (default 2025-11-25)
  --mode M         legacy (default), discover, or auto (discover, else legacy)
  --gone-status N  everything: what a request gets after the session was deleted (default 404)
  --deadline S     give up after S seconds in all (default 90, and what --seconds says)";

/// How the client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Legacy,
    Discover,
    Auto,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub url: String,
    pub scenario: String,
    pub seconds: f64,
    pub expect_once: bool,
    pub no_repeats: bool,
    pub min_resumes: u64,
    pub calls: usize,
    pub parallel: usize,
    pub revision: String,
    pub mode: Mode,
    pub gone_status: u16,
    pub deadline: Duration,
    pub longest: f64,
    pub until: String,
    pub file: String,
    pub name: String,
}

impl Options {
    /// Reads the command line; every word must mean something.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            url: String::new(),
            scenario: String::new(),
            seconds: 3.0,
            expect_once: false,
            no_repeats: false,
            min_resumes: 1,
            calls: 100,
            parallel: 10,
            revision: "2025-11-25".into(),
            mode: Mode::Legacy,
            gone_status: 404,
            deadline: Duration::ZERO,
            longest: 10.0,
            until: String::new(),
            file: String::new(),
            name: "job".into(),
        };
        let (mut words, mut deadline) = (Vec::new(), None);
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--seconds" => options.seconds = number(&arg, &value()?)?,
                "--expect-once" => options.expect_once = true,
                "--no-repeats" => options.no_repeats = true,
                "--min-resumes" => options.min_resumes = number(&arg, &value()?)?,
                "--calls" => options.calls = number(&arg, &value()?)?,
                "--parallel" => options.parallel = number(&arg, &value()?)?,
                "--revision" => options.revision = value()?,
                "--mode" => {
                    options.mode = match value()?.as_str() {
                        "legacy" => Mode::Legacy,
                        "discover" => Mode::Discover,
                        "auto" => Mode::Auto,
                        other => return Err(format!("--mode is legacy, discover or auto, not {other}")),
                    }
                }
                "--gone-status" => options.gone_status = number(&arg, &value()?)?,
                "--longest" => options.longest = number(&arg, &value()?)?,
                "--until" => options.until = value()?,
                "--file" => options.file = value()?,
                "--name" => options.name = value()?,
                "--deadline" => deadline = Some(number::<f64>(&arg, &value()?)?),
                _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
                _ => words.push(arg),
            }
        }
        let [url, scenario] =
            <[String; 2]>::try_from(words).map_err(|_| "needs a URL and a scenario".to_owned())?;
        if !["everything", "facade", "slow", "cut", "cancel", "many", "jobs"].contains(&scenario.as_str()) {
            return Err(format!("unknown scenario {scenario}"));
        }
        let deadline = deadline.unwrap_or(90.0 + options.seconds);
        options.deadline =
            Duration::try_from_secs_f64(deadline).map_err(|error| format!("--deadline: {error}"))?;
        Ok(Self { url, scenario, ..options })
    }
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} needs a number, not {text}"))
}
