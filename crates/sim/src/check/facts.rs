//! What a trace says, by call and by fault.

use crate::{
    plan::{Plan, Style},
    trace::{End, Entry, FaultKind, Left, Purpose, Said, What},
};
use std::collections::BTreeMap;

/// A fault, with the time in which its consequences may be seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) backend: Option<usize>,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// How long after a fault is over its consequences may be seen: a lease, or the time in which nobody judges, and a sweep.
pub(super) const AFTERMATH: u64 = 10_000 + 6_250;

#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) backend: usize,
    pub(super) began: u64,
    pub(super) ended: Option<(u64, End)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub(super) called: u64,
    pub(super) request: u64,
    pub(super) session: usize,
    pub(super) client: usize,
    /// Whether its tool may run again.
    pub(super) repeatable: bool,
    pub(super) runs: Vec<Run>,
    /// Its answers: when, and the reason where it is an error.
    pub(super) terminals: Vec<(u64, Option<String>)>,
    pub(super) left: Option<(u64, Left)>,
    /// The longest wait that it was told, in milliseconds.
    pub(super) retry: u64,
    /// Polls and connections that the simulation broke, and answers of the proxy.
    pub(super) injuries: u64,
    /// Everything that did not get it further.
    pub(super) setbacks: u64,
    pub(super) cancelled: Option<(u64, bool)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) calls: BTreeMap<u64, Call>,
    pub(super) faults: Vec<Fault>,
    /// Sessions that their client ended, and when it was told so.
    pub(super) deleted: BTreeMap<usize, (u64, bool)>,
    pub(super) end: u64,
    /// A rolling restart explains nothing.
    seamless: bool,
}

impl Facts {
    pub(super) fn of(plan: &Plan, entries: &[Entry]) -> Self {
        let mut facts = Self { seamless: plan.style == Style::Rolling, ..Self::default() };
        for Entry { at, what } in entries {
            facts.note(*at, what);
        }
        facts
    }

    fn note(&mut self, at: u64, what: &What) {
        let purpose_call = |purpose: &Purpose| match purpose {
            Purpose::Call(call) => Some(*call),
            _ => None,
        };
        match what {
            What::Fault { kind, backend, until } => {
                self.faults.push(Fault { kind: *kind, backend: *backend, from: at, until: *until });
            }
            What::Called { call, request, session, client, repeatable } => {
                let entry = self.calls.entry(*call).or_default();
                (entry.called, entry.request, entry.session, entry.client) =
                    (at, *request, *session, *client);
                entry.repeatable = *repeatable;
            }
            What::RunBegan { call, run, backend, .. } => {
                let run = Run { number: *run, backend: *backend, began: at, ended: None };
                self.calls.entry(*call).or_default().runs.push(run);
            }
            What::RunEnded { call, run, how } => {
                let runs = &mut self.calls.entry(*call).or_default().runs;
                if let Some(run) = runs.iter_mut().find(|known| known.number == *run) {
                    run.ended = Some((at, *how));
                }
            }
            What::Event { purpose, said, retry, .. } => {
                let Some(call) = purpose_call(purpose).and_then(|call| self.calls.get_mut(&call)) else {
                    return;
                };
                call.retry = call.retry.max(retry.unwrap_or(0));
                match said {
                    Said::Result { request, .. } if *request == call.request => {
                        call.terminals.push((at, None));
                    }
                    Said::Error { request, reason } if *request == call.request => {
                        call.terminals.push((at, Some(reason.clone())));
                    }
                    _ => {}
                }
            }
            What::Failed { purpose, injured, .. } | What::Over { purpose, clean: false, injured, .. } => {
                let Some(call) = purpose_call(purpose).and_then(|call| self.calls.get_mut(&call)) else {
                    return;
                };
                call.setbacks += 1;
                call.injuries += u64::from(*injured);
            }
            What::Status { purpose, status, proxy, .. } if *status >= 400 => {
                let Some(call) = purpose_call(purpose).and_then(|call| self.calls.get_mut(&call)) else {
                    return;
                };
                call.setbacks += 1;
                call.injuries += u64::from(*proxy);
            }
            What::Left { call, why } => self.calls.entry(*call).or_default().left = Some((at, *why)),
            What::CancelSent { call, taken } => {
                self.calls.entry(*call).or_default().cancelled = Some((at, *taken));
            }
            What::DeleteSent { session, taken } => {
                self.deleted.insert(*session, (at, *taken));
            }
            What::End => self.end = at,
            _ => {}
        }
    }

    /// Whether a fault explains that something went wrong between `from` and `to`: one of `backend`, or where that is not known, any.
    pub(super) fn explains(&self, backend: Option<usize>, from: u64, to: u64) -> bool {
        self.faults.iter().any(|fault| {
            let concerns = match (fault.backend, backend) {
                (Some(broken), Some(backend)) => broken == backend,
                _ => true,
            };
            let counts = !(self.seamless && fault.kind == FaultKind::Drain);
            concerns && counts && fault.from <= to && from <= fault.until + AFTERMATH
        })
    }

    /// Whether the way to the store explains it. To who slept in the middle of a question it seems that no answer came.
    pub(super) fn store_explains(&self, from: u64, to: u64) -> bool {
        use FaultKind::{Failover, Outage, Partition, Pause};
        let of_store = |kind| matches!(kind, Outage | Failover | Partition | Pause);
        self.faults
            .iter()
            .any(|fault| (of_store(fault.kind)) && fault.from <= to && from <= fault.until + AFTERMATH)
    }

    /// Whether the store may have lost something between `from` and `to`.
    pub(super) fn lost_a_tail(&self, from: u64, to: u64) -> bool {
        let failovers = self.faults.iter().filter(|fault| fault.kind == FaultKind::Failover);
        failovers.into_iter().any(|fault| from <= fault.until && fault.from <= to)
    }
}
