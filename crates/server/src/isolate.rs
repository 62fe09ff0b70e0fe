//! Handlers that panic take nobody else down.

use crate::{core::Core, handler::BoxFuture};
use bowline_proto::jsonrpc::ErrorObject;
use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

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
pub(crate) fn call<T>(work: impl FnOnce() -> BoxFuture<'static, T>) -> Isolated<T> {
    Isolated(catch_unwind(AssertUnwindSafe(work)).map_err(Some))
}

/// A handler's future that cannot take its caller down.
pub(crate) struct Isolated<T>(Result<BoxFuture<'static, T>, Option<Box<dyn Any + Send>>>);

impl<T> Future for Isolated<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(future) => match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
                Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(Panicked(panic))),
            },
            Err(panic) => match panic.take() {
                Some(panic) => Poll::Ready(Err(Panicked(panic))),
                None => Poll::Pending,
            },
        }
    }
}
