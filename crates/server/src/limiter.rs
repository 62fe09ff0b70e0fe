//! The limits of the calls that run: one timer for all of them.

use crate::{
    call::{CallState, CancelReason},
    core::{Core, Drain},
};
use bowline_proto::{legacy::Millis, time::millis};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// [`CallState::due`] of a call that is not watched over.
pub(crate) const NOT_DUE: u64 = u64::MAX;

const DAY: u64 = 24 * 60 * 60 * 1_000;

/// When a call has to be looked at; of several at the same time, the one that began first.
type Due = (Millis, u64);

/// Calls that run, by the time at which a limit of theirs may be reached. One that waits for long costs an entry here, and no timer.
#[derive(Default)]
pub(crate) struct Limiter {
    due: Mutex<BTreeMap<Due, Arc<CallState>>>,
    /// How many calls there were.
    calls: AtomicU64,
    /// Told when something has to be looked at sooner than before.
    sooner: Notify,
}

/// A call is watched over while this exists.
pub(crate) struct Watching(Arc<CallState>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.core.limiter.forget(&self.0);
    }
}

impl Limiter {
    /// Watches over a call: it is cancelled when it runs into a limit.
    pub(crate) fn watch(&self, call: &Arc<CallState>) -> Watching {
        let at = look_at(call, call.core.now());
        call.number.store(self.calls.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let first = {
            let mut due = self.due.lock();
            call.due.store(at.0, Ordering::Relaxed);
            due.insert((at, number(call)), call.clone());
            due.first_key_value().is_some_and(|(first, _)| *first == (at, number(call)))
        };
        if first {
            self.sooner.notify_one();
        }
        // Looked at after it was put in: whoever ends the drain meanwhile finds the call, or is seen here.
        if *call.core.drain.borrow() == Drain::Over {
            call.cancel(CancelReason::Draining);
        }
        Watching(call.clone())
    }

    fn forget(&self, call: &CallState) {
        // What is taken out is dropped when the lock was given up.
        let _call = {
            let mut due = self.due.lock();
            let at = call.due.swap(NOT_DUE, Ordering::Relaxed);
            due.remove(&(Millis(at), number(call)))
        };
    }

    /// Looks at a call again at `at`, if it is still watched over.
    fn look_again(&self, call: &CallState, at: Millis) {
        let mut due = self.due.lock();
        let before = call.due.load(Ordering::Relaxed);
        if let Some(held) = due.remove(&(Millis(before), number(call))) {
            call.due.store(at.0, Ordering::Relaxed);
            due.insert((at, number(call)), held);
        }
    }

    fn next(&self) -> Option<Millis> {
        self.due.lock().first_key_value().map(|((at, _), _)| *at)
    }

    fn take_due(&self, now: Millis) -> Vec<Arc<CallState>> {
        self.due.lock().range(..=(now, u64::MAX)).map(|(_, call)| call.clone()).collect()
    }

    fn all(&self) -> Vec<Arc<CallState>> {
        self.due.lock().values().cloned().collect()
    }
}

fn number(call: &CallState) -> u64 {
    call.number.load(Ordering::Relaxed)
}

/// When a limit of the call may be reached: as late as it can become true, so that a call that is read is looked at once in
/// `abandon_after`.
fn look_at(call: &CallState, now: Millis) -> Millis {
    let (unread_since, abandon_after) = call.unread();
    let unread = unread_since.unwrap_or(now).after(millis(abandon_after));
    unread.min(call.started.after(millis(call.core.options.call_timeout)))
}

/// Looks at calls when they are due, until the endpoint is gone.
pub(crate) async fn run(core: Weak<Core>) {
    loop {
        // Nothing of the endpoint is held while this waits but the list itself, and a receiver that hears of the endpoint's end.
        let (limiter, mut drain, next) = {
            let Some(core) = core.upgrade() else { return };
            let mut drain = core.drain.subscribe();
            if *drain.borrow_and_update() == Drain::Over {
                core.limiter.all().iter().for_each(|call| call.cancel(CancelReason::Draining));
            }
            let now = core.now();
            for call in core.limiter.take_due(now) {
                look(&core, &call, now);
            }
            // A limit may be as good as none: what is too far away for a clock is looked at in a day.
            let next = core.limiter.next().map(|at| core.instant(at.min(now.after(DAY))));
            (core.limiter.clone(), drain, next)
        };
        let timer = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = limiter.sooner.notified() => {}
            _ = drain.changed() => {}
            () = timer => {}
        }
    }
}

/// Cancels a call that has reached a limit; else it is looked at again.
fn look(core: &Arc<Core>, call: &Arc<CallState>, now: Millis) {
    let limiter = &core.limiter;
    if now >= call.started.after(millis(core.options.call_timeout)) {
        core.metrics.calls_timed_out.up();
        limiter.forget(call);
        return call.cancel(CancelReason::TimedOut);
    }
    let (unread_since, abandon_after) = call.unread();
    if unread_since.is_none_or(|since| since.after(millis(abandon_after)) > now) {
        return limiter.look_again(call, look_at(call, now));
    }
    if !core.is_shared() {
        limiter.forget(call);
        return abandon(core, call);
    }
    // Its client may poll on another backend. While the store is asked, only the time limit counts.
    limiter.look_again(call, call.started.after(millis(core.options.call_timeout)));
    let (core, call) = (core.clone(), call.clone());
    crate::task::spawn(async move {
        if let Some(outlet) = call.exchange.outlet()
            && outlet.is_read_elsewhere().await
        {
            core.limiter.look_again(&call, look_at(&call, core.now()));
            core.limiter.sooner.notify_one();
        } else {
            abandon(&core, &call);
        }
    });
}

fn abandon(core: &Core, call: &CallState) {
    core.metrics.calls_abandoned.up();
    call.cancel(CancelReason::Abandoned);
}
