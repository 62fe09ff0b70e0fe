//! Running a call: the first poll in the connection's task, the rest in a task of its own.

use crate::{
    Call,
    call::{CallState, CancelReason},
    fleet,
    isolate::{self, Isolated, Panicked},
    log, mailbox, modern,
    outlet::Lost,
    session::AddCall,
    sessions,
};
use bowline_proto::jsonrpc::{ErrorObject, Reply};
use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How often a call that is read runs on without a lease before it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Starts a call. When it does not end at once, it goes on in a task that nothing but the call's own limits ends.
///
/// # Errors
/// Why the call is not run at all; its handler was not asked.
pub(crate) fn start(call: &Arc<CallState>) -> Result<(), AddCall> {
    let core = call.core.clone();
    let session = call.session.clone();
    // Alone with its binding there is nobody who could find it, and no other call that it could be taken for.
    let findable = !session.stateless || call.is_in_batch();
    if findable {
        session.add_call(call, core.options.max_calls_per_session)?;
    }
    let mut work = isolate::call(|| modern::traced(call, || core.handler.call(Call(call.clone()))));
    // Most handlers end here, without a task.
    if let Poll::Ready(outcome) = Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())) {
        if findable {
            session.remove_call(call);
        }
        // A cancel may have been here before the request.
        conclude(call, Some(settle(call, outcome)));
        return Ok(());
    }
    // It may run for long: nothing of its connection is kept for it.
    call.head.pack(&call.session.id);
    let mut supervised = Supervised::new(call.clone(), work);
    if !core.is_shared() && call.modern.is_none() {
        crate::task::spawn(supervised);
        return Ok(());
    }
    let mut others = Box::pin(beside(call.clone()));
    crate::task::spawn(poll_fn(move |cx| {
        if !supervised.is_unfinished() && others.as_mut().poll(cx).is_ready() {
            supervised.stop();
        }
        Pin::new(&mut supervised).poll(cx)
    }));
    Ok(())
}

/// The rest of a call.
///
/// A call may wait for long, and there may be many that do: what is held here is so little (a test counts it) that its task has the least
/// size that tasks have.
struct Supervised {
    call: Arc<CallState>,
    work: Isolated<Reply>,
}

impl Supervised {
    fn new(call: Arc<CallState>, work: Isolated<Reply>) -> Self {
        call.core.metrics.calls.up();
        call.session.enter();
        call.core.limiter.watch(&call);
        Self { call, work }
    }

    /// Whether the caller is answered without the handler's outcome. Then the work ends by itself, or when its grace is over.
    fn is_unfinished(&self) -> bool {
        self.call.unfinished.load(Ordering::Relaxed)
    }

    /// Answers the caller for the handler, which may still put things in order.
    fn stop(&mut self) {
        self.end(None);
        self.call.unfinished.store(true, Ordering::Relaxed);
        let grace = tokio::time::sleep(self.call.core.options.cancel_grace);
        self.work.limit(grace, || ErrorObject::internal("cancelled", "this is told to nobody").into());
    }

    /// The call runs no longer, with this outcome of its handler, if it has one.
    fn end(&self, outcome: Option<Result<Reply, Panicked>>) {
        let call = &self.call;
        call.core.limiter.forget(call);
        // Before it is answered: who has the answer may use the id again.
        call.session.remove_call(call);
        conclude(call, outcome.map(|outcome| settle(call, outcome)));
    }
}

impl Future for Supervised {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_unfinished() && self.call.cancelling.poll(cx).is_ready() {
            self.stop();
        }
        let Poll::Ready(outcome) = Pin::new(&mut self.work).poll(cx) else { return Poll::Pending };
        if !self.is_unfinished() {
            self.end(Some(outcome));
        }
        Poll::Ready(())
    }
}

impl Drop for Supervised {
    /// Here, so that it is so where the runtime ends before the call, too.
    fn drop(&mut self) {
        let call = &self.call;
        call.core.limiter.forget(call);
        call.session.leave(&call.core);
        call.core.metrics.calls.down();
    }
}

/// Ends a call for its caller. `outcome` is what its handler ended with, if it has.
fn conclude(call: &Arc<CallState>, outcome: Option<Reply>) {
    match (outcome, call.cancel_reason()) {
        (Some(reply), None) => finish(call, Some(reply)),
        // It ended in the same moment; its result is better than the news that it ran out of time.
        (Some(reply @ Reply::Result(_)), Some(reason)) if said_to_caller(call, reason).is_some() => {
            finish(call, Some(reply));
        }
        // A handler that ends because it is cancelled may well say so; what its caller is told is ours to say.
        (_, reason) => {
            call.core.metrics.calls_cancelled.up();
            if let Some(reason) = reason {
                log::cancelled(call, reason);
            }
            finish(call, reason.and_then(|reason| said_to_caller(call, reason)));
        }
    }
}

/// What goes on beside a call that other backends may end, or that may become a task; returns when the call has to stop for it. Most calls
/// have nothing of it.
async fn beside(call: Arc<CallState>) {
    tokio::select! {
        () = among_others(&call) => {}
        () = modern::run_task(&call) => {}
    }
}

/// What a call needs because other backends share its store; returns when it has to stop for them.
async fn among_others(call: &Arc<CallState>) {
    if !call.core.is_shared() {
        return std::future::pending().await;
    }
    tokio::select! {
        () = mailbox::serve(call) => {}
        () = watch_others(call) => {}
    }
}

/// Returns when another backend has ended the call, or when its result is not to be had by anybody: this backend has been without a lease
/// for as long as a call may go unread, and nobody reads it here. Until then it runs on. Nearly always the store is away for everybody, as
/// in a failover, and then nobody ends anything; and where this backend alone is cut off, the store fences it. A call that is read here
/// runs on in any case: its client gets the result on that connection (SEMANTICS 6, "A store that does not answer").
async fn watch_others(call: &Arc<CallState>) {
    let Some(fleet) = &call.core.fleet else { return std::future::pending().await };
    let outlet = call.wait_open().await;
    sessions::watch(&call.core, &call.session);
    let fenced = async {
        let mut lease = fleet.lease.changes();
        loop {
            // The sender lives as long as the endpoint.
            let _ = lease.wait_for(|fenced| *fenced).await;
            let in_vain = async {
                tokio::time::sleep(call.core.options.abandon_after).await;
                while call.unread_since().is_none() {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            };
            tokio::select! {
                _ = lease.wait_for(|fenced| !fenced) => {}
                () = in_vain => return,
            }
            // A call that says nothing would not notice that it was ended meanwhile.
            if outlet.was_taken_over().await {
                return;
            }
        }
    };
    let reason = tokio::select! {
        lost = outlet.lost() => match lost {
            Lost::Owner => CancelReason::OwnerLost,
            Lost::StoreAway => CancelReason::StoreAway,
        },
        () = fenced => CancelReason::OwnerLost,
    };
    if reason == CancelReason::OwnerLost {
        call.core.metrics.streams_lost.up();
    }
    call.cancel(reason);
}

/// What a caller is told of a call that was cancelled: nothing where it asked for that itself.
fn said_to_caller(call: &CallState, reason: CancelReason) -> Option<Reply> {
    let method = &call.request_method();
    let error = match reason {
        CancelReason::Client | CancelReason::SessionEnded | CancelReason::Disconnected => return None,
        CancelReason::TimedOut => ErrorObject::outcome_unknown(
            "timeout",
            format!(
                "{method} did not end within {:?}, the server's limit for a call",
                call.core.options.call_timeout
            ),
        ),
        CancelReason::Abandoned => ErrorObject::outcome_unknown(
            "abandoned",
            format!(
                "nobody asked for the result of {method} for {:?}; it was cancelled",
                call.core.options.abandon_after
            ),
        ),
        CancelReason::OwnerLost => fleet::owner_is_lost(),
        CancelReason::StoreAway => ErrorObject::outcome_unknown(
            "store_unavailable",
            format!("the store that would keep the result of {method} is away; it was cancelled"),
        ),
        CancelReason::Draining => ErrorObject::outcome_unknown(
            "draining",
            format!("the server is shutting down and {method} did not end in time"),
        ),
    };
    Some(error.into())
}

fn finish(call: &Arc<CallState>, reply: Option<Reply>) {
    if let Some(Reply::Result(_)) = &reply {
        call.session.observe(&call.core, call.request_method(), call.request_params());
    }
    match &reply {
        Some(reply @ Reply::Result(_)) => {
            call.core.metrics.calls_succeeded.up();
            log::ended(call, reply);
        }
        Some(reply @ Reply::Error(_)) => {
            call.core.metrics.calls_failed.up();
            log::ended(call, reply);
        }
        None => {}
    }
    call.conclude(reply);
}

fn settle(call: &CallState, outcome: Result<Reply, Panicked>) -> Reply {
    outcome.unwrap_or_else(|panic| panic.into_error(&call.core).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_takes_no_larger_task_than_any() {
        // Tokio lays tasks out in steps of 128 bytes, of which it needs 104 itself.
        assert_eq!(size_of::<Supervised>(), 3 * size_of::<usize>());
    }
}
