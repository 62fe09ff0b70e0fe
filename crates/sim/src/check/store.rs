//! What the store has: one seal, no writer behind the fence; and the ledger: no run twice, no answer for another call.

use super::{Broken, Rule, facts::Facts, say};
use crate::trace::{Entry, What};
use std::collections::BTreeMap;

#[derive(Default)]
struct Log {
    epoch: (u64, u64),
    sealed: Option<(u64, u64)>,
}

pub(super) fn check(entries: &[Entry], facts: &Facts, broken: &mut Vec<Broken>) {
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
            What::RunBegan { call, backend, .. } => {
                let runs = facts.calls.get(call).map_or(&[][..], |call| &call.runs);
                if runs.first().is_some_and(|first| first.began < *at || first.backend != *backend) {
                    say(broken, Rule::OneRun, *at, format!("call {call} runs again, on backend {backend}"));
                }
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
    for (call, facts) in &facts.calls {
        if facts.runs.len() > 1 && !broken.iter().any(|broken| broken.rule == Rule::OneRun) {
            say(
                broken,
                Rule::OneRun,
                facts.runs[1].began,
                format!("call {call} ran {} times", facts.runs.len()),
            );
        }
    }
}
