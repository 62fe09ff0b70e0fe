//! The wish that a call stop.

use crate::{
    CancelReason,
    wakers::{Place, Told, Wakers},
};
use parking_lot::Mutex;
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

/// Whether a call is to stop, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Cancelling(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    reason: Option<CancelReason>,
    /// The task that runs the call.
    supervisor: Option<Waker>,
    /// Who waits in other tasks. Something is told once: whoever comes afterwards does not wait.
    others: Wakers,
}

impl Cancelling {
    pub(crate) fn reason(&self) -> Option<CancelReason> {
        self.0.lock().reason
    }

    /// The first reason stands.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let mut state = self.0.lock();
        state.reason.get_or_insert(reason);
        let (supervisor, others) = (state.supervisor.clone(), state.others.take(&mut { Told::NEVER }));
        drop(state);
        others.chain(supervisor).for_each(Waker::wake);
    }

    /// Looks for the one task that runs the call.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<CancelReason> {
        let mut state = self.0.lock();
        if let Some(reason) = state.reason {
            return Poll::Ready(reason);
        }
        match &mut state.supervisor {
            Some(supervisor) => supervisor.clone_from(cx.waker()),
            supervisor => *supervisor = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for a cancel, in any task.
    pub(crate) const fn wait(&self) -> Cancelled<'_> {
        Cancelled { of: self, place: Place::NONE }
    }
}

/// Waits until a call is to stop.
pub(crate) struct Cancelled<'a> {
    of: &'a Cancelling,
    place: Place,
}

impl Future for Cancelled<'_> {
    type Output = CancelReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CancelReason> {
        let this = &mut *self;
        let mut state = this.of.0.lock();
        if let Some(reason) = state.reason {
            return Poll::Ready(reason);
        }
        // Nearly all handlers wait in the call's own task, which is woken anyway.
        if state.supervisor.as_ref().is_some_and(|supervisor| supervisor.will_wake(cx.waker())) {
            state.others.remove(Told::NEVER, &mut this.place);
        } else {
            state.others.add(Told::NEVER, &mut this.place, cx.waker());
        }
        Poll::Pending
    }
}

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if self.place.is_taken() {
            self.of.0.lock().others.remove(Told::NEVER, &mut self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn whoever_waits_hears_the_first_reason() {
        let cancelling = Arc::new(Cancelling::default());
        let others: Vec<_> = (0..3)
            .map(|_| {
                let cancelling = cancelling.clone();
                tokio::spawn(async move { cancelling.wait().await })
            })
            .collect();
        let supervised = tokio::spawn({
            let cancelling = cancelling.clone();
            async move {
                let mut handler = cancelling.wait();
                // Begun in another task, as a handler is.
                assert!(Pin::new(&mut handler).poll(&mut Context::from_waker(Waker::noop())).is_pending());
                let both = std::future::poll_fn(|cx| match cancelling.poll(cx) {
                    Poll::Ready(reason) => Poll::Ready((reason, Pin::new(&mut handler).poll(cx))),
                    Poll::Pending => {
                        assert!(Pin::new(&mut handler).poll(cx).is_pending());
                        assert!(!handler.place.is_taken(), "its task is woken");
                        Poll::Pending
                    }
                });
                both.await
            }
        });
        tokio::task::yield_now().await;
        cancelling.cancel(CancelReason::Client);
        cancelling.cancel(CancelReason::TimedOut);
        let (reason, handler) = supervised.await.unwrap();
        assert_eq!((reason, handler), (CancelReason::Client, Poll::Ready(CancelReason::Client)));
        for other in others {
            assert_eq!(other.await.unwrap(), CancelReason::Client);
        }
        assert_eq!(cancelling.reason(), Some(CancelReason::Client));
    }
}
