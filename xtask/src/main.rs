//! The project's chores. `cargo xtask test` is the whole test command: on a machine with the Rust toolchain,
//! Node.js 20 and Python 3.11 it installs what the tests need and runs everything.
//!
//! No dependencies, so that the first thing a new machine compiles takes a second.

mod apt;
mod bench;
mod browser;
mod command;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod field_cases;
mod project;
mod purity;
mod servers;
mod sim;
mod soak;
mod steps;
mod tools;

use std::process::ExitCode;

use project::Project;

const USAGE: &str = "\
usage:
  cargo xtask setup                      install what the tests need (step `tools` alone)
  cargo xtask test                       run every step; fails if any step failed
  cargo xtask test --list                name the steps
  cargo xtask test --only NAME [-- ARGS] run one step and the steps it needs; ARGS go to that step's last command
  cargo xtask test --fail-fast           stop at the first failed step
  cargo xtask bench [NAME...]            measure speed and cost (all: within 10 minutes, writes docs/benchmarks.md)
  cargo xtask bench --list               name what can be measured
  cargo xtask bench --quick              a minute once built
  cargo xtask bench --peers              the servers of other languages too
  cargo xtask bench --parts [--accept]   count instructions and allocations; fails where more than 5 % above the baseline
  cargo xtask bench --times              time the parts
  cargo xtask bench --from FILE          write the page from what an earlier run of `bench` wrote to FILE
  cargo xtask soak [--profile NAME] ARGS many clients, cuts and kills for an hour, and a checker; ARGS: see CONTRIBUTING.md
  cargo xtask sim [--seeds N] [--first S] a fleet on virtual time, a run for each seed; --seed S --trace shows one

A failed step does not stop the steps that do not need it, so that one run tells everything that is wrong.";

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Help,
    Setup,
    List,
    Bench(bench::Options),
    Soak { args: Vec<String> },
    Sim { args: Vec<String> },
    Test { only: Option<String>, fail_fast: bool, extra: Vec<String> },
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = parse(&args).and_then(|request| match request {
        Request::Help => {
            eprintln!("{USAGE}");
            Ok(())
        }
        Request::List => {
            steps::list();
            Ok(())
        }
        Request::Soak { args } => Project::find().and_then(|project| soak::run(&project, &args)),
        Request::Sim { args } => Project::find().and_then(|project| sim::run(&project, &args)),
        Request::Setup => Project::find().and_then(|project| steps::run(&project, Some("tools"), true, &[])),
        Request::Bench(options) => Project::find().and_then(|project| bench::run(&project, &options)),
        Request::Test { only, fail_fast, extra } => {
            Project::find().and_then(|project| steps::run(&project, only.as_deref(), fail_fast, &extra))
        }
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; every word must mean something.
fn parse(args: &[String]) -> Result<Request, String> {
    let (words, extra) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], args[at + 1..].to_vec()),
        None => (args, Vec::new()),
    };
    let mut words = words.iter().map(String::as_str);
    let request = match words.next() {
        None | Some("help" | "-h" | "--help") => Request::Help,
        Some("setup") => Request::Setup,
        Some("bench") => {
            let options =
                bench::Options::parse(words.by_ref()).map_err(|error| format!("{error}\n{USAGE}"))?;
            if !extra.is_empty() {
                return Err("bench takes no arguments after --".to_owned());
            }
            Request::Bench(options)
        }
        Some("soak") => Request::Soak { args: words.by_ref().map(str::to_owned).collect() },
        Some("sim") => Request::Sim { args: words.by_ref().map(str::to_owned).collect() },
        Some("test") => {
            let (mut only, mut fail_fast, mut list) = (None, false, false);
            while let Some(word) = words.next() {
                match word {
                    "--list" => list = true,
                    "--fail-fast" => fail_fast = true,
                    "--only" => {
                        let name = words.next().ok_or("--only needs the name of a step (see --list)")?;
                        only = Some(name.to_owned());
                    }
                    other => return Err(format!("unknown argument {other:?}\n{USAGE}")),
                }
            }
            if !extra.is_empty() && only.is_none() {
                return Err("arguments after -- need --only NAME: they go to that step's command".to_owned());
            }
            if list { Request::List } else { Request::Test { only, fail_fast, extra } }
        }
        Some(other) => return Err(format!("unknown command {other:?}\n{USAGE}")),
    };
    match words.next() {
        Some(word) => Err(format!("unexpected argument {word:?}\n{USAGE}")),
        None => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Request, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn whole_run_is_the_default() {
        let whole = Request::Test { only: None, fail_fast: false, extra: vec![] };
        assert_eq!(parse_line("test"), Ok(whole));
        assert_eq!(parse_line("test --list"), Ok(Request::List));
        assert_eq!(parse_line("setup"), Ok(Request::Setup));
        let args = vec!["--seed".to_owned(), "7".to_owned()];
        assert_eq!(parse_line("soak --seed 7"), Ok(Request::Soak { args }));
        let args = vec!["--seed".to_owned(), "7".to_owned()];
        assert_eq!(parse_line("sim --seed 7"), Ok(Request::Sim { args }));
        assert_eq!(parse_line(""), Ok(Request::Help));
    }

    #[test]
    fn one_step_takes_extra_arguments() {
        let one = Request::Test {
            only: Some("nextest".to_owned()),
            fail_fast: true,
            extra: vec!["-p".to_owned(), "xtask".to_owned()],
        };
        assert_eq!(parse_line("test --only nextest --fail-fast -- -p xtask"), Ok(one));
    }

    #[test]
    fn a_word_without_meaning_is_refused() {
        for line in [
            "tset",
            "test --only",
            "test --olny nextest",
            "setup now",
            "test -- -p xtask",
            "bench --fast",
            "bench -- x",
        ] {
            assert!(parse_line(line).is_err(), "{line:?} was accepted");
        }
    }
}
