//! Handlers that panic take nobody else down.

use crate::{core::Core, handler::BoxFuture};
use bowline_proto::jsonrpc::ErrorObject;
use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::time::Sleep;

/// A panic of a handler.
pub(crate) struct Panicked(Box<dyn Any + Send>);

impl Panicked {
    /// What the caller is told: nothing of the panic's text, which may hold anything and stays in the server's log.
    pub(crate) fn into_error(self, core: &Core) -> ErrorObject {
        self.note(core);
        ErrorObject::outcome_unknown("panic", "the server failed while it worked on this request")
    }

    fn note(&self, core: &Core) {
        core.metrics.panics.up();
        let text = self.0.downcast_ref::<&str>().copied();
        let text = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        tracing::error!(panic = %text, "a handler panicked");
    }
}

/// Runs something of a handler's that returns nothing.
pub(crate) fn run(core: &Core, work: impl FnOnce()) {
    // What the work can leave half done is the handler's own; of ours it holds nothing that it could break.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        Panicked(panic).note(core);
    }
}

/// Calls a handler; a panic in the call itself comes out of the future.
pub(crate) fn call<T: 'static>(work: impl FnOnce() -> BoxFuture<'static, T>) -> Isolated<T> {
    // Raised again where it is caught: so a handler's future is all that there is to hold.
    let raised = |panic| -> BoxFuture<'static, T> { Box::pin(async move { resume_unwind(panic) }) };
    Isolated(catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(raised))
}

/// A handler's future that cannot take its caller down.
pub(crate) struct Isolated<T>(BoxFuture<'static, T>);

impl<T: Send + 'static> Isolated<T> {
    /// Ends the work with `late` when `limit` is over, if it has not ended before.
    pub(crate) fn limit(&mut self, limit: Sleep, late: impl FnOnce() -> T + Send + 'static) {
        let work = std::mem::replace(&mut self.0, Box::pin(std::future::pending()));
        self.0 = Box::pin(async move {
            tokio::select! {
                biased;
                done = work => done,
                () = limit => late(),
            }
        });
    }
}

impl<T> Future for Isolated<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(Panicked(panic))),
        }
    }
}
