//! What the store has: one seal, no writer behind the fence; and the ledger: no run twice, no answer for another call.

use super::{
    Broken, Rule,
    facts::{Call, Facts},
    say,
};
use crate::{
    plan::Plan,
    trace::{Entry, What},
};
use std::collections::BTreeMap;

#[derive(Default)]
struct Log {
    epoch: (u64, u64),
    sealed: Option<(u64, u64)>,
}

pub(super) fn check(plan: &Plan, entries: &[Entry], facts: &Facts, broken: &mut Vec<Broken>) {
    let mut logs: BTreeMap<[u8; 16], Log> = BTreeMap::new();
    for Entry { at, what } in entries {
        match what {
            What::Made { stream, standalone } => {
                // A backend that does not know yet that a session was ended makes its stream once more.
                let log = logs.entry(*stream.as_bytes()).or_default();
                if *standalone {
                    *log = Log::default();
                }
            }
            What::Written { stream, epoch, offset, seal, digest, again } => {
                let log = logs.entry(*stream.as_bytes()).or_default();
                // After a failover the log may be an older one.
                let same_log = |since: u64| !facts.lost_a_tail(since, *at);
                if !again && *epoch < log.epoch.0 && same_log(log.epoch.1) {
                    say(
                        broken,
                        Rule::OneEnd,
                        *at,
                        format!(
                            "{stream:?}: a writer of epoch {epoch} wrote {offset} after epoch {}",
                            log.epoch.0
                        ),
                    );
                }
                log.epoch = (*epoch, *at);
                if let Some((sealed, by)) = log.sealed
                    && same_log(sealed)
                    && !(*again && *seal && by == *digest)
                {
                    let what = if *seal { "a second end" } else { "something after the end" };
                    say(broken, Rule::OneEnd, *at, format!("{stream:?}: {what}, at offset {offset}"));
                }
                if *seal && log.sealed.is_none_or(|(sealed, _)| !same_log(sealed)) {
                    log.sealed = Some((*at, *digest));
                }
            }
            What::TakenOver { stream, epoch } => {
                let log = logs.entry(*stream.as_bytes()).or_default();
                // The same again, after an answer that got lost, is no other one.
                log.epoch = if *epoch < log.epoch.0 { log.epoch } else { (*epoch, *at) };
            }
            What::Answered { call, said: Some(said) } if said != call => {
                say(
                    broken,
                    Rule::Apart,
                    *at,
                    format!("the question of call {call} got the answer for call {said}"),
                );
            }
            What::Trespass { what, status, leaked } if *leaked || *status < 400 => {
                say(broken, Rule::Apart, *at, format!("{what}: answered with {status}"));
            }
            _ => {}
        }
    }
    for (number, call) in &facts.calls {
        runs(plan, *number, call, facts, broken);
    }
}

/// I4: a tool runs once; one that may run again does so no more often than it may, and only where the backend that ran it last may be dead.
fn runs(plan: &Plan, number: u64, call: &Call, facts: &Facts, broken: &mut Vec<Broken>) {
    for (before, again) in call.runs.iter().zip(call.runs.iter().skip(1)) {
        let mut tell = |what: String| say(broken, Rule::OneRun, again.began, what);
        if !call.repeatable || plan.reruns == 0 {
            tell(format!("call {number} runs again, on backend {}", again.backend));
        } else if !facts.explains(Some(before.backend), call.called, again.began) {
            tell(format!("call {number} runs again, though backend {} is well", before.backend));
        }
    }
    let most = 1 + plan.reruns as usize;
    // A store that has lost a take-over gives the same run to another backend once more.
    if let Some(beyond) = call.runs.get(most).filter(|run| !facts.lost_a_tail(call.called, run.began)) {
        say(broken, Rule::OneRun, beyond.began, format!("call {number} runs {} times", call.runs.len()));
    }
}
