//! The verdict: computed from what was seen, and from nothing else.

use super::{
    happening::{Disconnect, Happening, Outcome, What},
    relay::Traffic,
};
use std::{collections::BTreeMap, fmt};

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// Numbers that reached the client, as they came.
    pub(super) received: Vec<u64>,
    /// Results that reached the client.
    pub(super) results: Vec<Outcome>,
    /// How often the tool began.
    pub(super) runs: u64,
    /// How often the server closed the connection before the result.
    pub(super) closed_by_server: u64,
    /// How often the wire was cut.
    pub(super) cut: u64,
    /// How often the client came back.
    pub(super) resumes: u64,
    /// When the client first lost its connection, in milliseconds since the start, and how many numbers it had then.
    pub(super) first_loss: Option<(u64, usize)>,
    /// Why the call ended without a result, where it did.
    pub(super) failures: Vec<String>,
}

impl Ledger {
    pub(super) fn note(&mut self, happening: &Happening) {
        if let What::Disconnected { .. } = happening.what {
            self.first_loss.get_or_insert((happening.at_ms, self.received.len()));
        }
        match &happening.what {
            What::Started { run } => self.runs = *run,
            What::Received(number) => self.received.push(*number),
            What::Cut => self.cut += 1,
            What::Disconnected { how: Disconnect::ByServer, .. } => self.closed_by_server += 1,
            What::Resumed { .. } => self.resumes += 1,
            What::Result(outcome) => self.results.push(outcome.clone()),
            What::Failed { error } => self.failures.push(error.clone()),
            What::SessionOpened { .. }
            | What::Called
            | What::StreamOpened { .. }
            | What::Counted(_)
            | What::Disconnected { .. }
            | What::Finished => {}
        }
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// Numbers that never came.
    Lost(Vec<u64>),
    /// Numbers that came more than once.
    Repeated(Vec<u64>),
    /// Numbers that were never counted.
    Unknown(Vec<u64>),
    /// A number that came after a larger one.
    OutOfOrder { number: u64, after: u64 },
    /// No result, or several.
    Results(usize),
    /// A result that says something else than what was asked for.
    WrongResult,
    /// The tool ran never, or more than once.
    Runs(u64),
    /// The call failed.
    Failed(String),
    /// The server never closed the connection, so that this run shows nothing.
    NeverClosed,
    /// The wire was never cut, so that this run shows nothing.
    NeverCut,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(numbers) => write!(f, "lost: {}", list(numbers)),
            Self::Repeated(numbers) => write!(f, "came more than once: {}", list(numbers)),
            Self::Unknown(numbers) => write!(f, "came but was never counted: {}", list(numbers)),
            Self::OutOfOrder { number, after } => write!(f, "out of order: {number} came after {after}"),
            Self::Results(0) => f.write_str("the result never came"),
            Self::Results(count) => write!(f, "{count} results came for one call"),
            Self::WrongResult => f.write_str("the result is not the sum of the numbers that were asked for"),
            Self::Runs(0) => f.write_str("the tool never ran"),
            Self::Runs(runs) => write!(f, "the tool ran {runs} times for one call"),
            Self::Failed(error) => write!(f, "the call failed: {error}"),
            Self::NeverClosed => f.write_str("the server never closed the connection, so nothing was shown"),
            Self::NeverCut => f.write_str("the wire was never cut, so nothing was shown"),
        }
    }
}

/// What comes of a run.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// How far the tool was asked to count.
    pub(super) asked: u64,
    pub(super) ledger: Ledger,
    pub(super) traffic: Traffic,
    pub(super) problems: Vec<Problem>,
}

impl Verdict {
    pub(super) fn new(asked: u64, ledger: Ledger, traffic: Traffic) -> Self {
        let problems = judge(asked, &ledger);
        Self { asked, ledger, traffic, problems }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// All problems in one line.
    pub(super) fn problems_as_text(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Everything that is wrong with what was seen of a call that had to count to `asked`.
pub(super) fn judge(asked: u64, seen: &Ledger) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut times: BTreeMap<u64, usize> = BTreeMap::new();
    for number in &seen.received {
        *times.entry(*number).or_default() += 1;
    }
    let mut numbers = |numbers: Vec<u64>, problem: fn(Vec<u64>) -> Problem| {
        if !numbers.is_empty() {
            problems.push(problem(numbers));
        }
    };
    numbers((1..=asked).filter(|number| !times.contains_key(number)).collect(), Problem::Lost);
    numbers(
        times.iter().filter(|(_, times)| **times > 1).map(|(number, _)| *number).collect(),
        Problem::Repeated,
    );
    numbers(times.keys().copied().filter(|number| !(1..=asked).contains(number)).collect(), Problem::Unknown);
    if let Some(pair) = seen.received.windows(2).find(|pair| pair[1] < pair[0]) {
        problems.push(Problem::OutOfOrder { number: pair[1], after: pair[0] });
    }
    if seen.results.len() != 1 {
        problems.push(Problem::Results(seen.results.len()));
    }
    let expected: Vec<u64> = (1..=asked).collect();
    let sum: u64 = expected.iter().sum();
    if seen.results.iter().any(|result| result.numbers != expected || result.sum != sum) {
        problems.push(Problem::WrongResult);
    }
    if seen.runs != 1 {
        problems.push(Problem::Runs(seen.runs));
    }
    problems.extend(seen.failures.iter().cloned().map(Problem::Failed));
    if seen.closed_by_server == 0 {
        problems.push(Problem::NeverClosed);
    }
    if seen.cut == 0 {
        problems.push(Problem::NeverCut);
    }
    problems
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run to 3 in which all is well.
    fn good() -> Ledger {
        Ledger {
            received: vec![1, 2, 3],
            results: vec![Outcome { numbers: vec![1, 2, 3], sum: 6 }],
            runs: 1,
            closed_by_server: 1,
            cut: 1,
            resumes: 2,
            first_loss: Some((4, 1)),
            failures: Vec::new(),
        }
    }

    fn problems(change: impl FnOnce(&mut Ledger)) -> Vec<Problem> {
        let mut ledger = good();
        change(&mut ledger);
        let verdict = Verdict::new(3, ledger, Traffic::default());
        assert_eq!(verdict.is_ok(), verdict.problems.is_empty());
        assert_eq!(verdict.problems_as_text().is_empty(), verdict.is_ok());
        verdict.problems
    }

    #[test]
    fn each_number_once_and_in_order_is_well() {
        assert_eq!(problems(|_| ()), []);
    }

    #[test]
    fn a_number_that_is_missing_is_lost() {
        assert_eq!(problems(|seen| seen.received = vec![1, 3]), [Problem::Lost(vec![2])]);
        assert_eq!(problems(|seen| seen.received = vec![1, 2]), [Problem::Lost(vec![3])]);
        assert_eq!(problems(|seen| seen.received.clear()), [Problem::Lost(vec![1, 2, 3])]);
    }

    #[test]
    fn a_number_that_comes_twice_is_repeated() {
        assert_eq!(problems(|seen| seen.received = vec![1, 2, 2, 3]), [Problem::Repeated(vec![2])]);
        assert_eq!(
            problems(|seen| seen.received = vec![1, 2, 3, 1]),
            [Problem::Repeated(vec![1]), Problem::OutOfOrder { number: 1, after: 3 }]
        );
    }

    #[test]
    fn a_number_that_nobody_counted_is_unknown() {
        assert_eq!(problems(|seen| seen.received.push(4)), [Problem::Unknown(vec![4])]);
        assert_eq!(problems(|seen| seen.received.insert(0, 0)), [Problem::Unknown(vec![0])]);
    }

    #[test]
    fn the_wrong_order_is_told() {
        assert_eq!(
            problems(|seen| seen.received = vec![1, 3, 2]),
            [Problem::OutOfOrder { number: 2, after: 3 }]
        );
    }

    #[test]
    fn there_is_one_result_and_it_is_right() {
        assert_eq!(problems(|seen| seen.results.clear()), [Problem::Results(0)]);
        assert_eq!(problems(|seen| seen.results.push(seen.results[0].clone())), [Problem::Results(2)]);
        assert_eq!(problems(|seen| seen.results[0].sum = 7), [Problem::WrongResult]);
        assert_eq!(problems(|seen| seen.results[0].numbers = vec![1, 2]), [Problem::WrongResult]);
    }

    #[test]
    fn the_tool_runs_once_and_its_call_does_not_fail() {
        assert_eq!(problems(|seen| seen.runs = 0), [Problem::Runs(0)]);
        assert_eq!(problems(|seen| seen.runs = 2), [Problem::Runs(2)]);
        assert_eq!(problems(|seen| seen.failures.push("no".into())), [Problem::Failed("no".into())]);
    }

    #[test]
    fn a_run_without_disconnects_shows_nothing() {
        assert_eq!(problems(|seen| seen.closed_by_server = 0), [Problem::NeverClosed]);
        assert_eq!(problems(|seen| seen.cut = 0), [Problem::NeverCut]);
    }

    #[test]
    fn the_ledger_keeps_what_was_seen() {
        let mut ledger = Ledger::default();
        let happenings = [
            What::Called,
            What::Started { run: 1 },
            What::Counted(1),
            What::Received(1),
            What::Disconnected { how: Disconnect::ByServer, back_in_ms: 1 },
            What::Resumed { last_event_id: "a".into() },
            What::Received(2),
            What::Cut,
            What::Disconnected { how: Disconnect::Broken, back_in_ms: 1 },
            What::Resumed { last_event_id: "b".into() },
            What::Received(3),
            What::Result(Outcome { numbers: vec![1, 2, 3], sum: 6 }),
        ];
        for (at_ms, what) in (0..).zip(happenings) {
            ledger.note(&Happening { at_ms, what });
        }
        assert_eq!(ledger, good());
    }
}
