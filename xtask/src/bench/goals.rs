//! What we want to reach, and whether a measurement reached it.

use super::figures::{Figures, shown};

/// Whether more or less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtMost,
    AtLeast,
}

/// One goal.
struct Goal {
    what: &'static str,
    unit: &'static str,
    figure: &'static str,
    /// Whose figure it is.
    subject: &'static str,
    bound: Bound,
    goal: f64,
    /// What must not be missed, where the goal may be.
    must: f64,
}

const fn at_most(
    what: &'static str,
    unit: &'static str,
    figure: &'static str,
    subject: &'static str,
    goal: f64,
    must: f64,
) -> Goal {
    Goal { what, unit, figure, subject, bound: Bound::AtMost, goal, must }
}

const OURS: &str = "bowline";
const FLOOR: &str = "floor";
const PEER: &str = "rmcp";

const GOALS: &[Goal] = &[
    at_most("call without a session: CPU", "× floor", "call.ratio", OURS, 1.25, 1.6),
    Goal {
        what: "the same, calls a second and core",
        unit: "of the floor's",
        figure: "call.per-core",
        subject: OURS,
        bound: Bound::AtLeast,
        goal: 0.8,
        must: 0.62,
    },
    at_most("the same, instructions in user mode", "", "call.instructions", OURS, 32_000.0, 45_000.0),
    at_most("the same, allocations", "", "call.allocations", OURS, 25.0, 40.0),
    at_most("the same with 100 KB: CPU", "× floor", "large.ratio", OURS, 1.3, 2.2),
    at_most("the same on 256 connections: p99 / p50", "", "many.spread", OURS, 1.6, 2.5),
    at_most("call in a session: CPU", "× floor", "session.ratio", OURS, 1.3, 1.8),
    at_most("the same as a primed, stored stream", "× floor", "session.ratio", "bowline-stream", 1.5, 2.0),
    at_most("initialize, initialized, DELETE: CPU", "× floor", "initialize.ratio", OURS, 1.4, 1.8),
    at_most("progress notification", "µs", "notify.us", OURS, 1.5, 2.5),
    at_most("progress notifications lost", "", "notify.lost", OURS, 0.0, 0.0),
    at_most("poll with nothing new: CPU", "× floor", "poll.ratio", OURS, 1.5, 1.5),
    at_most("idle session", "bytes", "idle.bytes", OURS, 1_024.0, 2_048.0),
    at_most("open GET stream with its connection", "bytes", "get.bytes", OURS, 16_384.0, 20_480.0),
    at_most("parked call with 3 small events", "bytes", "parked.bytes", OURS, 700.0, 1_500.0),
    at_most("start to first answer", "ms", "start.ms", OURS, 8.0, 10.0),
    at_most("idle memory", "MB", "start.rss", OURS, 5.0, 6.5),
    at_most("library server, stripped", "MB", "start.size", OURS, 2.5, 4.0),
    at_most("crates in the lock file of a server", "", "start.crates", OURS, 110.0, 132.0),
    at_most("gateway: CPU added to a proxied call", "µs", "gateway.us", OURS, 40.0, 40.0),
];

/// How a goal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    /// The goal is missed, what must not be missed is not.
    Missed,
    Failed,
}

impl Verdict {
    fn of(goal: &Goal, value: f64) -> Self {
        let holds = |bound: f64| match goal.bound {
            Bound::AtMost => value <= bound,
            Bound::AtLeast => value >= bound,
        };
        if holds(goal.goal) {
            Self::Met
        } else if holds(goal.must) {
            Self::Missed
        } else {
            Self::Failed
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "goal missed",
            Self::Failed => "MUST missed",
        }
    }
}

/// One line of the table, as texts.
struct Line([String; 7]);

fn value(goal: &Goal, figures: &Figures, subject: &str) -> Option<f64> {
    let value = figures.get(goal.figure, subject)?;
    // A rate counts as a share of the floor's.
    match goal.bound {
        Bound::AtMost => Some(value),
        Bound::AtLeast => Some(value / figures.get(goal.figure, FLOOR)?),
    }
}

fn lines(figures: &Figures) -> Vec<Line> {
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), shown);
    let line = |goal: &Goal| {
        let ours = value(goal, figures, goal.subject)?;
        let sign = if goal.bound == Bound::AtMost { "≤" } else { "≥" };
        let what =
            if goal.unit.is_empty() { goal.what.to_owned() } else { format!("{}, {}", goal.what, goal.unit) };
        Some(Line([
            what,
            cell(value(goal, figures, FLOOR)),
            shown(ours),
            cell(value(goal, figures, PEER)),
            format!("{sign} {}", shown(goal.goal)),
            format!("{sign} {}", shown(goal.must)),
            Verdict::of(goal, ours).word().to_owned(),
        ]))
    };
    GOALS.iter().filter_map(line).collect()
}

const HEAD: [&str; 7] = ["", "floor", "bowline", "rmcp 3.11", "goal", "must", ""];

/// The goals that were measured, for a terminal.
pub(super) fn table(figures: &Figures) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(lines(figures).into_iter().map(|Line(cells)| cells));
    align(&rows)
}

/// The same for a page.
pub(super) fn markdown(figures: &Figures) -> String {
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for Line(cells) in lines(figures) {
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// Rows of cells in columns: the first from the left, numbers from the right.
pub(super) fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let blanks = " ".repeat(widths[at] - cell.chars().count());
            let last = at + 1 == N;
            match (at, last) {
                (0, _) => text.push_str(&format!("{cell}{blanks}")),
                (_, true) => text.push_str(&format!("  {cell}")),
                _ => text.push_str(&format!("  {blanks}{cell}")),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> Figures {
        Figures::read(&text.replace(' ', "\t")).unwrap()
    }

    #[test]
    fn a_goal_is_met_missed_or_failed() {
        for (value, word) in
            [("1.25", "met"), ("1.26", "goal missed"), ("1.6", "goal missed"), ("1.61", "MUST missed")]
        {
            let figures = figures(&format!("figure call.ratio floor 1\nfigure call.ratio bowline {value}\n"));
            let lines = lines(&figures);
            assert_eq!(lines.len(), 1, "only what was measured");
            assert_eq!(lines[0].0[6], word, "{value}");
        }
        for (value, word) in [("80", "met"), ("79", "goal missed"), ("61", "MUST missed")] {
            let figures =
                figures(&format!("figure call.per-core floor 100\nfigure call.per-core bowline {value}\n"));
            assert_eq!(lines(&figures)[0].0[6], word, "{value}");
        }
    }

    #[test]
    fn every_must_is_no_harder_than_its_goal() {
        for goal in GOALS {
            assert_ne!(Verdict::of(goal, goal.goal), Verdict::Failed, "{}", goal.what);
        }
    }

    #[test]
    fn columns_stand_below_each_other() {
        let figures = figures(
            "figure call.ratio floor 1\nfigure call.ratio bowline 1.3\nfigure idle.bytes bowline 1944\n",
        );
        let table = table(&figures);
        let goal_at: Vec<Option<usize>> =
            table.lines().skip(1).map(|line| line.find('≤').map(|at| line[..at].chars().count())).collect();
        assert_eq!(goal_at.len(), 2);
        assert!(table.contains("1,944") && table.contains("–"), "{table}");
        assert!(markdown(&figures).lines().all(|line| line.starts_with('|') && line.ends_with('|')));
    }
}
