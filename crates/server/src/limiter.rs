//! The limits of the calls that run: one timer for all of them.
#![expect(clippy::mutable_key_type, reason = "a call's place is changed only while it is in no list")]

use crate::{
    call::{CallState, CancelReason},
    core::{Core, Drain},
};
use bowline_proto::{legacy::Millis, time::millis};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::sync::Notify;

/// [`CallState::due`] of a call that is not watched over.
pub(crate) const NOT_DUE: u64 = u64::MAX;

const DAY: u64 = 24 * 60 * 60 * 1_000;

/// A call by when it has to be looked at; of several at the same time, the one that began first. What that is said by lies in the call,
/// and is changed only while the call is in no list: so an entry takes a pointer.
struct ByDue(Arc<CallState>);

impl ByDue {
    fn key(&self) -> (u64, u32, *const CallState) {
        (self.0.due.load(Ordering::Relaxed), self.0.number.load(Ordering::Relaxed), Arc::as_ptr(&self.0))
    }
}

impl PartialEq for ByDue {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for ByDue {}
impl PartialOrd for ByDue {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ByDue {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Calls that run, by the time at which a limit of theirs may be reached. One that waits for long costs an entry here, and no timer.
#[derive(Default)]
pub(crate) struct Limiter {
    due: Mutex<BTreeSet<ByDue>>,
    /// How many calls there were; it begins again after four billion.
    calls: AtomicU32,
    /// Told when something has to be looked at sooner than before.
    sooner: Notify,
}

impl Limiter {
    /// Watches over a call until it is [forgotten](Self::forget): it is cancelled when it runs into a limit.
    pub(crate) fn watch(&self, call: &Arc<CallState>) {
        let at = look_at(call, call.core.now());
        call.number.store(self.calls.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let first = {
            let mut due = self.due.lock();
            call.due.store(at.0, Ordering::Relaxed);
            due.insert(ByDue(call.clone()));
            due.first().is_some_and(|first| Arc::ptr_eq(&first.0, call))
        };
        if first {
            self.sooner.notify_one();
        }
        // Looked at after it was put in: whoever ends the drain meanwhile finds the call, or is seen here.
        if *call.core.drain.borrow() == Drain::Over {
            call.cancel(CancelReason::Draining);
        }
    }

    /// Watches over a call no longer; returns whether that was so.
    pub(crate) fn forget(&self, call: &Arc<CallState>) -> bool {
        // What is taken out is dropped when the lock was given up.
        let held = Self::take(&mut self.due.lock(), call);
        held.is_some()
    }

    /// Looks at a call again at `at`, if it is still watched over.
    fn look_again(&self, call: &Arc<CallState>, at: Millis) {
        let mut due = self.due.lock();
        if let Some(held) = Self::take(&mut due, call) {
            call.due.store(at.0, Ordering::Relaxed);
            due.insert(held);
        }
    }

    /// Takes a call out of the list, if it is there.
    fn take(due: &mut BTreeSet<ByDue>, call: &Arc<CallState>) -> Option<ByDue> {
        if call.due.load(Ordering::Relaxed) == NOT_DUE {
            return None;
        }
        let held = due.take(&ByDue(call.clone()));
        call.due.store(NOT_DUE, Ordering::Relaxed);
        held
    }

    fn next(&self) -> Option<Millis> {
        self.due.lock().first().map(|first| Millis(first.key().0))
    }

    fn take_due(&self, now: Millis) -> Vec<Arc<CallState>> {
        let due = self.due.lock();
        due.iter().take_while(|call| call.key().0 <= now.0).map(|call| call.0.clone()).collect()
    }

    fn all(&self) -> Vec<Arc<CallState>> {
        self.due.lock().iter().map(|call| call.0.clone()).collect()
    }
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
        if limiter.forget(call) {
            core.metrics.calls_timed_out.up();
            call.cancel(CancelReason::TimedOut);
        }
        return;
    }
    if !is_abandoned(call, now) {
        return limiter.look_again(call, look_at(call, now));
    }
    if !core.is_shared() {
        return abandon(core, call);
    }
    // Its client may poll on another backend. While the store is asked, only the time limit counts.
    limiter.look_again(call, call.started.after(millis(core.options.call_timeout)));
    let (core, call) = (core.clone(), call.clone());
    crate::task::spawn(async move {
        let elsewhere = match call.outlet() {
            Some(outlet) => outlet.is_read_elsewhere().await,
            None => false,
        };
        // Who has come here while the store was asked counts too.
        let now = core.now();
        if elsewhere || !is_abandoned(&call, now) {
            core.limiter.look_again(&call, look_at(&call, now));
            core.limiter.sooner.notify_one();
        } else {
            abandon(&core, &call);
        }
    });
}

/// Whether nobody here has waited for the call for so long that it is not to run on.
fn is_abandoned(call: &CallState, now: Millis) -> bool {
    let (unread_since, abandon_after) = call.unread();
    unread_since.is_some_and(|since| since.after(millis(abandon_after)) <= now)
}

/// Gives a call up, if it has not ended meanwhile.
fn abandon(core: &Core, call: &Arc<CallState>) {
    if core.limiter.forget(call) {
        core.metrics.calls_abandoned.up();
        call.cancel(CancelReason::Abandoned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Endpoint, Hello, NoSession, Options, Peer, RawHandler, exchange::Exchange, session::Session,
    };
    use bowline_proto::{
        jsonrpc::{Notification, Raw, Reply, Request, RequestId},
        revision::Revision,
    };
    use bowline_store::MemoryStore;
    use futures_util::{FutureExt as _, future::BoxFuture};
    use std::{pin::pin, time::Duration};
    use tokio::time::sleep;

    /// Is asked nothing: the calls here are made by the tests.
    struct Nobody;

    impl RawHandler for Nobody {
        fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
            Box::pin(std::future::pending())
        }

        fn call(&self, _: crate::Call) -> BoxFuture<'static, Reply> {
            Box::pin(std::future::pending())
        }

        fn notified(&self, _: &Peer, _: Notification) {}

        fn ended(&self, _: &Peer) {}
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// An endpoint whose limits are looked after: ten seconds without a reader, a minute in all.
    fn endpoint(change: impl FnOnce(&mut Options)) -> Endpoint {
        let mut options =
            Options { abandon_after: SECOND * 10, call_timeout: SECOND * 60, ..Options::default() };
        change(&mut options);
        Endpoint::builder(Arc::new(Nobody)).options(options).build()
    }

    /// A call whose client waits for the answer for as long as the test has it do so.
    fn call(core: &Arc<Core>) -> Arc<CallState> {
        let session = Arc::new(Session::binding(core, Revision::NEWEST_LEGACY, None));
        let id = RequestId::from(1_u64);
        let exchange = Exchange::new(core, &session, Some(id.clone()), 1);
        let request = Request { id, method: "tools/call".into(), params: None };
        let parts = Arc::new(http::Request::new(()).into_parts().0);
        CallState::new(core, &session, &exchange, &parts, request, None)
    }

    /// Its client goes away.
    fn leave(call: &CallState) {
        let exchange = call.exchange().unwrap();
        assert!(exchange.wait().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_client_is_gone_runs_on_for_a_while() {
        let Endpoint { core } = endpoint(|_| {});
        let call = call(&core);
        core.limiter.watch(&call);
        sleep(SECOND * 7).await;
        leave(&call);
        // It is looked at after ten seconds; its client has been gone for three of them.
        sleep(SECOND * 9).await;
        assert_eq!(call.cancel_reason(), None);
        sleep(SECOND * 2).await;
        assert_eq!(call.cancel_reason(), Some(CancelReason::Abandoned));
        assert_eq!((core.metrics.calls_abandoned.get(), core.metrics.calls_timed_out.get()), (1, 0));
        assert_eq!(core.limiter.next(), None, "it is not looked at any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_waited_for_is_seldom_looked_at_and_has_a_limit_too() {
        let Endpoint { core } = endpoint(|_| {});
        let call = call(&core);
        let exchange = call.exchange().unwrap();
        let mut client = pin!(exchange.wait());
        assert!(client.as_mut().now_or_never().is_none());
        core.limiter.watch(&call);
        for passed in 0..6 {
            let next = call.started.after(10_000 * (passed + 1));
            assert_eq!(core.limiter.next(), Some(next), "once in `abandon_after`");
            assert_eq!(call.cancel_reason(), None);
            sleep(SECOND * 10 + Duration::from_millis(u64::from(passed == 0))).await;
        }
        assert_eq!(call.cancel_reason(), Some(CancelReason::TimedOut));
        assert_eq!((core.metrics.calls_abandoned.get(), core.metrics.calls_timed_out.get()), (0, 1));
        assert_eq!(core.limiter.next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_is_forgotten() {
        let Endpoint { core } = endpoint(|_| {});
        let (ended, runs) = (call(&core), call(&core));
        leave(&ended);
        leave(&runs);
        core.limiter.watch(&ended);
        core.limiter.watch(&runs);
        core.limiter.forget(&ended);
        assert_eq!(core.limiter.all().len(), 1);
        // Who looked at it just before brings nothing back.
        core.limiter.look_again(&ended, Millis(0));
        assert_eq!(core.limiter.all().len(), 1);
        // Nor does it count as one that ran into a limit.
        for passed in [10_000, 60_000] {
            look(&core, &ended, ended.started.after(passed));
        }
        assert_eq!((core.metrics.calls_abandoned.get(), core.metrics.calls_timed_out.get()), (0, 0));
        sleep(SECOND * 61).await;
        assert_eq!((ended.cancel_reason(), runs.cancel_reason()), (None, Some(CancelReason::Abandoned)));
        assert_eq!(Arc::strong_count(&ended), 1, "nobody holds it");
    }

    #[tokio::test(start_paused = true)]
    async fn those_of_one_moment_are_told_apart_and_looked_at_in_their_order() {
        let Endpoint { core } = endpoint(|_| {});
        let calls = [call(&core), call(&core), call(&core)];
        calls.iter().for_each(|call| core.limiter.watch(call));
        let due = core.limiter.next().unwrap();
        assert!(core.limiter.take_due(Millis(due.0 - 1)).is_empty());
        let taken = core.limiter.take_due(due);
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().zip(&calls).all(|(taken, call)| Arc::ptr_eq(taken, call)));
        core.limiter.look_again(&calls[0], due.after(1));
        assert_eq!((core.limiter.take_due(due).len(), core.limiter.all().len()), (2, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_due_sooner_is_not_kept_waiting_by_the_others() {
        let Endpoint { core } = endpoint(|_| {});
        let (late, soon) = (call(&core), call(&core));
        core.limiter.watch(&late);
        core.limiter.look_again(&late, late.started.after(50_000));
        sleep(SECOND).await;
        leave(&soon);
        core.limiter.watch(&soon);
        sleep(SECOND * 11).await;
        assert_eq!((late.cancel_reason(), soon.cancel_reason()), (None, Some(CancelReason::Abandoned)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_drain_ends_what_runs_and_what_comes_in_that_moment() {
        let Endpoint { core } = endpoint(|_| {});
        let (before, after) = (call(&core), call(&core));
        core.limiter.watch(&before);
        core.drain.send_replace(Drain::Leaving);
        sleep(SECOND).await;
        assert_eq!(before.cancel_reason(), None);
        core.drain.send_replace(Drain::Over);
        core.limiter.watch(&after);
        assert_eq!(after.cancel_reason(), Some(CancelReason::Draining));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(before.cancel_reason(), Some(CancelReason::Draining));
        assert_eq!(core.metrics.calls_abandoned.get() + core.metrics.calls_timed_out.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_that_are_as_good_as_none_end_nothing() {
        let Endpoint { core } = endpoint(|options| {
            (options.abandon_after, options.call_timeout) = (Duration::MAX, Duration::MAX);
        });
        let call = call(&core);
        leave(&call);
        core.limiter.watch(&call);
        for _ in 0..3 {
            // In one step: what else the endpoint does every second is not the matter here.
            tokio::time::advance(Duration::from_millis(DAY)).await;
            sleep(SECOND).await;
        }
        assert_eq!((call.cancel_reason(), core.limiter.all().len()), (None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_the_store_is_asked_for_other_readers_keeps_the_call() {
        let options = Options { abandon_after: SECOND * 10, ..Options::default() };
        let endpoint = Endpoint::builder(Arc::new(Nobody))
            .shared_store(Arc::new(MemoryStore::default()))
            .options(options)
            .build();
        let core = &endpoint.core;
        let (kept, left) = (call(core), call(core));
        let outlet = kept.outlet_or_open().unwrap();
        left.outlet_or_open().unwrap();
        for call in [&kept, &left] {
            core.limiter.watch(call);
            // The store is asked by another task, which has not begun when the reader comes.
            look(core, call, call.started.after(10_000));
        }
        let _reading = outlet.read();
        sleep(SECOND * 11).await;
        assert_eq!((kept.cancel_reason(), left.cancel_reason()), (None, Some(CancelReason::Abandoned)));
    }

    #[tokio::test(start_paused = true)]
    async fn with_others_on_the_store_a_call_without_a_stream_is_abandoned_as_well() {
        let options = Options { abandon_after: SECOND * 10, ..Options::default() };
        let endpoint = Endpoint::builder(Arc::new(Nobody))
            .shared_store(Arc::new(MemoryStore::default()))
            .options(options)
            .build();
        let call = call(&endpoint.core);
        leave(&call);
        endpoint.core.limiter.watch(&call);
        sleep(SECOND * 9).await;
        assert_eq!(call.cancel_reason(), None);
        sleep(SECOND * 2).await;
        assert_eq!(call.cancel_reason(), Some(CancelReason::Abandoned));
    }
}
