//! `bowline-sim`: runs seeds and says which of them break a promise.

use bowline_sim::{Mutation, Plan, check::check, run, trace};
use std::{
    collections::VecDeque,
    env,
    io::Write as _,
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

const USAGE: &str = "\
usage:
  bowline-sim [--seeds N] [--first S] [--jobs J]   run N seeds (default 1000) from S on (default 0), J at a time
  bowline-sim --seed S [--trace]                   run one, and print everything that happened
  --mutate NAME                                    with a fault put in on purpose; a run that finds it fails

A seed is a process: what it does follows from the seed alone.";

/// A run that takes longer hangs: most take less than a tenth of a second.
const HANGS: Duration = Duration::from_secs(60);

struct Words {
    seed: Option<u64>,
    seeds: u64,
    first: u64,
    jobs: usize,
    trace: bool,
    mutation: Mutation,
}

fn words(mut args: impl Iterator<Item = String>) -> Result<Words, String> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut words =
        Words { seed: None, seeds: 1_000, first: 0, jobs, trace: false, mutation: Mutation::None };
    while let Some(word) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        let number =
            |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is no number\n{USAGE}"));
        match word.as_str() {
            "--seed" => words.seed = Some(number(value()?)?),
            "--seeds" => words.seeds = number(value()?)?,
            "--first" => words.first = number(value()?)?,
            "--jobs" => words.jobs = (number(value()?)? as usize).max(1),
            "--trace" => words.trace = true,
            "--mutate" => {
                let name = value()?;
                words.mutation = Mutation::named(&name)
                    .ok_or_else(|| format!("no mutation {name:?}; there are {:?}", Mutation::ALL))?;
            }
            _ => return Err(format!("unknown argument {word:?}\n{USAGE}")),
        }
    }
    Ok(words)
}

fn main() -> ExitCode {
    let words = match words(env::args().skip(1)) {
        Ok(words) => words,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match words.seed {
        Some(seed) => one(seed, &words),
        None => many(&words),
    }
}

/// Runs one seed: a line that says what came of it, and a line for each promise that was broken.
fn one(seed: u64, words: &Words) -> ExitCode {
    let outcome = run(Plan::of(seed, words.mutation));
    let broken = check(&outcome.plan, &outcome.entries);
    let mut out = std::io::stdout().lock();
    let mut print = |line: String| {
        // Who has closed the pipe has seen enough.
        let _ = writeln!(out, "{line}");
    };
    if words.trace {
        print(format!("{:#?}", outcome.plan));
        print(trace::text(&outcome.entries));
    }
    let verdict = if broken.is_empty() { "clean" } else { "BROKEN" };
    print(format!(
        "seed {seed} {verdict} {} {:?}, {} backends, {} entries, {} s",
        outcome.hash(),
        outcome.plan.style,
        outcome.plan.backends,
        outcome.entries.len(),
        outcome.took / 1_000,
    ));
    for broken in &broken {
        print(format!("  {:?} at {} ms: {}", broken.rule, broken.at, broken.what));
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs many seeds, each in a process of its own.
fn many(words: &Words) -> ExitCode {
    let mut waiting = VecDeque::new();
    let (mut clean, mut bad) = (0_u64, Vec::new());
    let mut next = words.first;
    let last = words.first.saturating_add(words.seeds);
    loop {
        while waiting.len() < words.jobs && next < last {
            match start(next, words) {
                Ok(child) => waiting.push_back((next, child)),
                Err(message) => {
                    eprintln!("{message}");
                    return ExitCode::from(2);
                }
            }
            next += 1;
        }
        let Some((seed, child)) = waiting.pop_front() else { break };
        match finish(child) {
            Ok((true, _)) => clean += 1,
            Ok((false, text)) => {
                eprint!("{text}");
                bad.push(seed);
            }
            Err(message) => {
                eprintln!("seed {seed} BROKEN: {message}");
                bad.push(seed);
            }
        }
    }
    eprintln!("{clean} of {} seeds are clean", words.seeds);
    if bad.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("broken: {bad:?}; look at one with --seed S --trace");
    ExitCode::FAILURE
}

fn start(seed: u64, words: &Words) -> Result<Child, String> {
    let program =
        env::current_exe().map_err(|error| format!("this program does not find itself: {error}"))?;
    let mut command = Command::new(program);
    command.args(["--seed", &seed.to_string()]);
    if words.mutation != Mutation::None {
        command.args(["--mutate", &format!("{:?}", words.mutation)]);
    }
    command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("seed {seed} could not be started: {error}"))
}

/// Whether it was clean, and what it printed.
fn finish(mut child: Child) -> Result<(bool, String), String> {
    // One that hangs holds its output open.
    let pid = child.id();
    let (done, is_done) = std::sync::mpsc::sync_channel(1);
    let mut stdout = child.stdout.take().ok_or("its output is not there")?;
    let reading = thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut stdout, &mut text);
        let _ = done.send(());
        read.map(|_| text)
    });
    if is_done.recv_timeout(HANGS).is_err() {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("it takes more than {HANGS:?} (process {pid})"));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text =
        reading.join().map_err(|_| "its output could not be read")?.map_err(|error| error.to_string())?;
    match status.code() {
        Some(0) => Ok((true, text)),
        Some(1) => Ok((false, text)),
        _ => Err(format!("it ended with {status}\n{text}")),
    }
}
