//! The verdict of `demo --kill`: computed from what was seen, and from nothing else.

use super::{
    super::{
        Pace,
        happening::{Happening, What},
        verdict::{Ledger, Problem, judge},
    },
    LAST_NUMBERS, NUMBERS,
};
use serde_json::Value;
use std::time::Duration;

/// Within this a caller of a lost call is told (SEMANTICS 6), and this is what it may add on a busy machine.
const TOLD_WITHIN: Duration = Duration::from_secs(20);
const SLACK: Duration = Duration::from_secs(3);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    calls: [Ledger; 3],
    sessions: u64,
    /// When the backend of the first call was killed.
    pub(super) killed_at: Option<u64>,
    /// When the first call ended.
    told_at: Option<u64>,
    /// With which code the backend ended that was told to leave.
    pub(super) left: Option<Option<i32>>,
    /// How often the tool ran for each call, by its own ledger.
    pub(super) runs: [u64; 3],
}

impl Story {
    /// Notes what call `call` saw; 0 is the wire.
    pub(super) fn note(&mut self, call: u64, happening: &Happening) {
        match (&happening.what, call) {
            (What::SessionOpened { .. }, _) => self.sessions += 1,
            (What::Failed { .. } | What::Result(_), 1) => self.told_at = Some(happening.at_ms),
            _ => {}
        }
        // The wire is cut for whichever of them is sent something next; it counts for the one that goes on.
        let ledger = match call {
            1 => &mut self.calls[0],
            3 => &mut self.calls[2],
            _ => &mut self.calls[1],
        };
        ledger.note(happening);
    }

    pub(super) const fn first(&self) -> &Ledger {
        &self.calls[0]
    }

    pub(super) const fn second(&self) -> &Ledger {
        &self.calls[1]
    }

    pub(super) const fn last(&self) -> &Ledger {
        &self.calls[2]
    }

    /// How long after the kill the first call ended, in milliseconds.
    pub(super) fn told_after(&self) -> Option<u64> {
        Some(self.told_at?.saturating_sub(self.killed_at?))
    }

    /// Everything that is wrong.
    pub(super) fn problems(&self, pace: Pace) -> Vec<String> {
        let mut problems = Vec::new();
        self.judge_first(pace, &mut problems);
        for (name, asked, index) in [("second", NUMBERS, 1), ("last", LAST_NUMBERS, 2)] {
            let mut ledger = self.calls[index].clone();
            ledger.runs = self.runs[index];
            let found = judge(asked, &ledger).into_iter();
            // The last call is quick: nothing has to happen to it.
            let found = found
                .filter(|problem| index == 1 || !matches!(problem, Problem::NeverClosed | Problem::NeverCut));
            problems.extend(found.map(|problem| format!("the {name} call: {problem}")));
        }
        if self.sessions != 1 {
            problems.push(format!("{} sessions were opened", self.sessions));
        }
        match self.left {
            None => problems.push("the second backend did not leave, so nothing was shown".into()),
            Some(Some(0)) => {}
            Some(code) => problems.push(format!("the second backend left with {code:?}")),
        }
        problems
    }

    fn judge_first(&self, pace: Pace, problems: &mut Vec<String>) {
        let seen = self.first();
        if self.killed_at.is_none() {
            problems.push("nothing was killed, so nothing was shown".into());
        }
        match seen.failures.as_slice() {
            [error] if is_unknown(error) => {}
            [] => problems.push("the killed call: its client was never told".into()),
            other => problems.push(format!("the killed call ended with: {}", other.join(", "))),
        }
        if !seen.results.is_empty() {
            problems.push("the killed call has a result".into());
        }
        let prefix: Vec<u64> = (1..=seen.received.len() as u64).collect();
        if seen.received != prefix {
            problems.push(format!("the killed call: numbers lost or repeated: {:?}", seen.received));
        }
        if self.runs[0] != 1 {
            problems.push(format!("the killed call: the tool ran {} times", self.runs[0]));
        }
        let limit = TOLD_WITHIN + SLACK + pace.retry * 2;
        if self.told_after().is_some_and(|after| u128::from(after) > limit.as_millis()) {
            problems
                .push(format!("the killed call: its client was told only after {:?} ms", self.told_after()));
        }
    }
}

/// Whether an error says that nobody knows whether the call has run.
fn is_unknown(error: &str) -> bool {
    serde_json::from_str::<Value>(error).is_ok_and(|error| error["data"]["outcome"] == "unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::happening::{Disconnect, Outcome};

    type Change = fn(&mut Story);

    const PACE: Duration = Duration::from_millis(100);

    fn told(story: &mut Story, call: u64, at_ms: u64, what: What) {
        story.note(call, &Happening { at_ms, what });
    }

    fn lost() -> What {
        What::Failed { error: r#"{"code":-32603,"data":{"reason":"owner_lost","outcome":"unknown"}}"#.into() }
    }

    fn counted(story: &mut Story, call: u64, to: u64) {
        for number in 1..=to {
            told(story, call, 10, What::Received(number));
        }
    }

    /// A run in which all is well.
    fn good() -> Story {
        let mut story = Story { runs: [1; 3], killed_at: Some(100), left: Some(Some(0)), ..Story::default() };
        told(&mut story, 1, 1, What::SessionOpened { revision: "x".into() });
        counted(&mut story, 1, 8);
        told(&mut story, 1, 12_000, lost());
        told(&mut story, 0, 50, What::Cut);
        told(&mut story, 2, 60, What::Disconnected { how: Disconnect::ByServer, back_in_ms: 1 });
        for (call, to) in [(2, NUMBERS), (3, LAST_NUMBERS)] {
            counted(&mut story, call, to);
            let numbers: Vec<u64> = (1..=to).collect();
            let sum = numbers.iter().sum();
            told(&mut story, call, 70, What::Result(Outcome { numbers, sum }));
        }
        story
    }

    fn problems(change: impl FnOnce(&mut Story)) -> String {
        let mut story = good();
        change(&mut story);
        story.problems(Pace::new(PACE)).join("; ")
    }

    #[test]
    fn one_error_that_says_so_and_everything_else_whole_is_well() {
        assert_eq!(problems(|_| ()), "");
        assert_eq!(good().told_after(), Some(11_900));
    }

    #[test]
    fn whatever_is_not_so_is_told() {
        let cases: [(Change, &str); 11] = [
            (|story| story.runs[0] = 2, "the tool ran 2 times"),
            (|story| story.runs[1] = 2, "the second call: the tool ran 2 times"),
            (|story| story.calls[0].failures.clear(), "never told"),
            (|story| story.calls[0].failures = vec!["{}".into()], "ended with: {}"),
            (|story| story.calls[0].received = vec![1, 3], "lost or repeated: [1, 3]"),
            (|story| story.told_at = Some(60_000), "told only after"),
            (|story| story.killed_at = None, "nothing was killed"),
            (|story| story.left = None, "did not leave"),
            (|story| story.left = Some(None), "left with None"),
            (|story| story.sessions = 2, "2 sessions"),
            (|story| story.calls[2].results.clear(), "the last call: the result never came"),
        ];
        for (change, expected) in cases {
            let found = problems(change);
            assert!(found.contains(expected), "{expected}: {found:?}");
        }
        assert!(problems(|story| story.calls[1].cut = 0).contains("never cut"));
        assert!(problems(|story| story.calls[1].received.truncate(19)).contains("the second call: lost: 20"));
    }
}
