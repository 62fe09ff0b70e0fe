//! How calls end: once, in time, with their result or an error that a fault explains.

use super::{
    Broken, Rule,
    facts::{AFTERMATH, Call, Facts},
    say,
};
use crate::{
    plan::{Model, Plan},
    trace::{End, Left},
};

/// What is added to every bound: wake-ups that were lost (5 s), time on the way, connections that the proxy finds dead (10 s).
const MARGIN: u64 = 20_000;

/// No replica is further behind.
const LAG: u64 = 500;

/// A cancel is met by the next look at the mailbox (5 s), and the handler has a grace.
const CANCELLED_WITHIN: u64 = 9_000;

pub(super) fn check(plan: &Plan, facts: &Facts, broken: &mut Vec<Broken>) {
    for (number, call) in &facts.calls {
        one_end(*number, call, broken);
        in_time(plan, *number, call, facts, broken);
        explained(plan, *number, call, facts, broken);
        cancelled(*number, call, facts, broken);
    }
}

fn one_end(number: u64, call: &Call, broken: &mut Vec<Broken>) {
    if let Some((at, _)) = call.terminals.get(1) {
        say(broken, Rule::OneEnd, *at, format!("call {number} was answered {} times", call.terminals.len()));
    }
    for run in &call.runs {
        // One that nobody reads runs on for five minutes, and a question to nobody waits for somebody. So does one of several runs where
        // another one has answered: its backend gave the client on its connection what the store could not take.
        let answered = call.terminals.first().map(|(at, _)| *at);
        let by_another = call.runs.iter().any(|other| {
            let ended = other.ended.filter(|(_, how)| *how == End::Result).map(|(at, _)| at);
            other.number != run.number && ended.is_some() && ended <= answered
        });
        if run.ended.is_none() && call.left.is_none() && !by_another {
            say(broken, Rule::InTime, run.began, format!("the tool of call {number} never ended"));
        }
    }
}

/// I3: T = lease + sweep + 2 R + margin, from when faults are over and the tool is done.
fn in_time(plan: &Plan, number: u64, call: &Call, facts: &Facts, broken: &mut Vec<Broken>) {
    let ended = call.terminals.first().map(|(at, _)| *at).or_else(|| call.left.map(|(at, _)| at));
    let Some(ended) = ended else {
        say(broken, Rule::InTime, facts.end, format!("call {number} has no end"));
        return;
    };
    let model = plan.clients.get(call.client).map(|client| client.model);
    // A client that waits longer than it was told waits for itself.
    let wait = call.retry.max(2_400) + if model == Some(Model::Rmcp) { 8_000 } else { 0 };
    let idle = plan.idle_limit.map_or(0, |limit| limit.as_millis() as u64);
    let setbacks = call.setbacks * (wait + 2_000 + idle);
    let allowed = AFTERMATH + 2 * wait + MARGIN + setbacks;
    let done = call.runs.iter().filter_map(|run| run.ended).map(|(at, _)| at).max();
    let mut base = done.unwrap_or(call.called).max(call.called);
    // Each fault that began before that may push it out.
    for fault in &facts.faults {
        if fault.from <= base + allowed {
            base = base.max(fault.until);
        }
    }
    if ended > base + allowed {
        let late = ended - base;
        say(
            broken,
            Rule::InTime,
            ended,
            format!("call {number} ended {late} ms after it could; {allowed} are allowed"),
        );
    }
}

fn explained(plan: &Plan, number: u64, call: &Call, facts: &Facts, broken: &mut Vec<Broken>) {
    // Where it ran again, its end is that of the last run.
    let owner = call.runs.last().map(|run| run.backend);
    let deleted = facts.deleted.contains_key(&call.session);
    if let Some((at, Some(reason))) = call.terminals.first() {
        let by_client = deleted || call.cancelled.is_some();
        if !by_client && !facts.explains(owner, call.called, *at) {
            let what = format!("call {number} on backend {owner:?} ended with the error {reason:?}");
            say(broken, Rule::Unexplained, *at, what);
        }
    }
    let Some((at, left)) = call.left else { return };
    let fine = match left {
        Left::Cancelled => call.cancelled.is_some(),
        Left::Deleted => deleted,
        // That no poll should be told.
        Left::Budget | Left::Nothing => deleted,
        Left::PollRefused(_) => deleted || facts.lost_a_tail(0, at),
        Left::NoId | Left::Cursor | Left::Polls => {
            deleted || call.injuries > 0 || facts.explains(None, call.called, at)
        }
        Left::Refused(_) => {
            deleted || call.injuries > 0 || facts.explains(None, call.called.saturating_sub(1_000), at)
        }
    };
    if !fine || (plan.is_seamless() && !deleted && left != Left::Cancelled) {
        say(broken, Rule::Unexplained, at, format!("call {number} was left: {left:?}"));
    }
}

fn cancelled(number: u64, call: &Call, facts: &Facts, broken: &mut Vec<Broken>) {
    let Some((at, true)) = call.cancelled else { return };
    for run in &call.runs {
        let deadline = at.max(run.began) + CANCELLED_WITHIN;
        if facts.explains(None, run.began, deadline) || deadline > facts.end {
            continue;
        }
        let stopped = run.ended.is_some_and(|(ended, how)| ended <= deadline || how == End::Killed);
        if !stopped {
            let what = format!("the tool of call {number} runs on, though it was cancelled");
            say(broken, Rule::Ending, deadline, what);
        }
    }
    // The cancel of a call whose backend is gone waits for whoever would run it again. A store may lose it.
    for run in call.runs.iter().skip(1).filter(|run| run.began > at + CANCELLED_WITHIN) {
        if !facts.lost_a_tail(at.saturating_sub(LAG), run.began) {
            say(
                broken,
                Rule::Ending,
                run.began,
                format!("call {number} runs again, though it was cancelled"),
            );
        }
    }
}
