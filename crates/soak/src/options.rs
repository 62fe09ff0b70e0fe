//! The command line, and what follows from it.

use crate::network::Weather;
use std::{path::PathBuf, time::Duration};

/// How to call the program.
pub const USAGE: &str = "\
usage: bowline-soak [--minutes N] [--clients N] [--seed N] [--logs FOLDER] [--bowline FILE] [--raw-only]
       bowline-soak --check FOLDER [--minutes N]
  --minutes N    how long clients work, 60 if not given; a fraction is taken
  --clients N    how many there are, 200 if not given
  --seed N       where chance comes from; drawn, and printed, if not given
  --logs FOLDER  where everybody writes; a folder under the system's for temporary files if not given. It is removed when
                 nothing was wrong, unless it was given
  --bowline FILE the program; $BOWLINE_BIN, or the one beside this program, if not given
  --check FOLDER reads the journals of a run again, and runs nothing; N as in that run
  --raw-only     no clients on the official SDKs (they need $BOWLINE_TEST_NODE_DIR, $BOWLINE_TEST_PYTHON and
                 $BOWLINE_TEST_RMCP_CLIENT, which `cargo xtask` sets)";

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How long clients work.
    pub time: Duration,
    /// How many clients there are.
    pub clients: usize,
    /// Where chance comes from.
    pub seed: u64,
    /// Where everybody writes.
    pub logs: Option<PathBuf>,
    /// The program.
    pub bowline: Option<PathBuf>,
    /// Without the real clients.
    pub raw_only: bool,
    /// Nothing is run, the journals are read.
    pub check: bool,
}

impl Options {
    /// Reads the command line; `drawn` is the seed where none is given.
    ///
    /// # Errors
    /// A word without a meaning, or a value that is none.
    pub fn parse(mut args: impl Iterator<Item = String>, drawn: u64) -> Result<Self, String> {
        let mut options = Self {
            time: Duration::from_secs(3_600),
            clients: 200,
            seed: drawn,
            logs: None,
            bowline: None,
            raw_only: false,
            check: false,
        };
        while let Some(word) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--minutes" => {
                    let minutes: f64 = number(&word, &value()?)?;
                    if !(0.05..=10_000.0).contains(&minutes) {
                        return Err(format!("--minutes {minutes}: from 0.05 to 10000"));
                    }
                    options.time = Duration::from_secs_f64(minutes * 60.0);
                }
                "--clients" => options.clients = number(&word, &value()?)?,
                "--seed" => options.seed = number(&word, &value()?)?,
                "--logs" => options.logs = Some(value()?.into()),
                "--bowline" => options.bowline = Some(value()?.into()),
                "--check" => (options.logs, options.check) = (Some(value()?.into()), true),
                "--raw-only" => options.raw_only = true,
                _ => return Err(format!("unknown word {word:?}")),
            }
        }
        if options.clients == 0 || options.clients > 5_000 {
            return Err(format!("--clients {}: from 1 to 5000", options.clients));
        }
        Ok(options)
    }

    /// The pace that goes with the time: a short run has to meet the same things sooner.
    #[must_use]
    pub fn tempo(&self) -> Tempo {
        if self.time < Duration::from_secs(300) { Tempo::QUICK } else { Tempo::LONG }
    }
}

fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{word} {value:?}: not a number that it takes"))
}

/// How fast everything goes. Times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Tempo {
    /// Options of `bowline serve`.
    pub serve: &'static str,
    /// The life of a session without use.
    pub session_ttl: u64,
    /// How long a call runs on that nobody reads.
    pub abandon_after: u64,
    /// The longest call.
    pub longest_call: u64,
    /// The longest pause between two calls of a session.
    pub longest_pause: u64,
    /// What a call may take beyond the time that it works.
    pub grace: u64,
    /// Between two kills of a process of the tool.
    pub child_kills: u64,
    /// Between two kills of a process of clients.
    pub client_kills: u64,
    /// Between two looks at the program.
    pub samples: u64,
    /// The network of clients that do what the protocol allows.
    pub rough: Weather,
    /// The network of the SDKs, which give up earlier.
    pub fair: Weather,
}

impl Tempo {
    /// For an hour.
    pub const LONG: Self = Self {
        serve: "--max-connection 5s --json-hold 300ms --session-ttl 30s --sealed-ttl 90s --abandon-after 60s --keep-alive 3s \
                --write-timeout 15s --body-timeout 10s --max-calls-per-session 4 --max-sessions 1000 --max-held-streams 150 \
                --max-sessions-per-client 400 --max-concurrent-per-client 200 --rate-limit 100/s --rate-burst 300",
        session_ttl: 30_000,
        abandon_after: 60_000,
        longest_call: 60_000,
        longest_pause: 12_000,
        grace: 60_000,
        child_kills: 15_000,
        client_kills: 180_000,
        samples: 10_000,
        rough: Weather { cut_down: 9, cut_up: 3, cut_after: 6, slow: 6, stall: 4, longest_ms: 12_000 },
        fair: Weather { cut_down: 3, cut_up: 1, cut_after: 4, slow: 4, stall: 3, longest_ms: 8_000 },
    };

    /// For half a minute.
    pub const QUICK: Self = Self {
        serve: "--max-connection 1s --retry 300ms --json-hold 150ms --session-ttl 4s --sealed-ttl 20s --abandon-after 10s \
                --keep-alive 1s --write-timeout 3s --body-timeout 3s --max-calls-per-session 4 --max-sessions 1000 \
                --max-held-streams 100 --max-sessions-per-client 400 --max-concurrent-per-client 200 --rate-limit 100/s --rate-burst 300",
        session_ttl: 4_000,
        abandon_after: 10_000,
        longest_call: 5_000,
        longest_pause: 1_500,
        grace: 20_000,
        child_kills: 1_500,
        client_kills: 12_000,
        samples: 1_000,
        rough: Weather { cut_down: 9, cut_up: 3, cut_after: 6, slow: 6, stall: 4, longest_ms: 2_500 },
        fair: Weather { cut_down: 3, cut_up: 1, cut_after: 4, slow: 4, stall: 3, longest_ms: 2_000 },
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned), 9)
    }

    #[test]
    fn every_word_means_something() {
        let options = parse("--minutes 0.5 --clients 20 --seed 7 --raw-only").unwrap();
        assert_eq!((options.time, options.clients, options.seed), (Duration::from_secs(30), 20, 7));
        assert_eq!(parse("").unwrap().seed, 9);
        for line in ["--minutes", "--minutes x", "--minutes 0", "--clients 0", "--client 5", "soak"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
