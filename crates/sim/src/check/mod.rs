//! The checker: one for the six invariants of a fleet, and for what SEMANTICS 5 and 6 say of answers.
//!
//! It sees the trace alone, so that a doctored one shows that it can fail.

mod calls;
mod connections;
mod facts;
mod store;

use crate::{plan::Plan, trace::Entry};
use facts::Facts;

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// I1: contiguous, in order, without repeats.
    Order,
    /// I2: exactly one terminal.
    OneEnd,
    /// I3: terminal in time.
    InTime,
    /// I4: no tool runs more often than it may.
    OneRun,
    /// I5: nothing across sessions or principals.
    Apart,
    /// I6: no id before what it stands for is durable.
    Durable,
    /// An error, a status or a silence that no fault explains.
    Unexplained,
    /// A connection that ended as some client does not survive (see [`crate::Model`]).
    Shape,
    /// A cancel or the end of a session that had no effect.
    Ending,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// When it was seen, in virtual milliseconds.
    pub at: u64,
    /// What was seen.
    pub what: String,
}

/// Everything that is wrong with a run, the first first.
#[must_use]
pub fn check(plan: &Plan, entries: &[Entry]) -> Vec<Broken> {
    let facts = Facts::of(plan, entries);
    let mut broken = Vec::new();
    store::check(plan, entries, &facts, &mut broken);
    connections::check(plan, entries, &facts, &mut broken);
    calls::check(plan, &facts, &mut broken);
    broken.sort_by_key(|broken| broken.at);
    broken
}

fn say(broken: &mut Vec<Broken>, rule: Rule, at: u64, what: impl Into<String>) {
    broken.push(Broken { rule, at, what: what.into() });
}

#[cfg(test)]
mod tests;
