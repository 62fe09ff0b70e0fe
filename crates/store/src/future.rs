//! What a store call returns.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// The answer of a store: there at once (memory, without an allocation), or a boxed future (anything with IO).
///
/// Dropping it before it is ready leaves the outcome of a write unknown: retry it, writes are idempotent.
#[must_use = "a store call that nobody waits for may never happen"]
pub struct StoreFuture<'a, T>(State<'a, T>);

enum State<'a, T> {
    Ready(Option<T>),
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T> StoreFuture<'a, T> {
    /// An answer that is there.
    pub const fn ready(value: T) -> Self {
        Self(State::Ready(Some(value)))
    }

    /// An answer that takes IO.
    pub fn later(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self(State::Later(Box::pin(future)))
    }

    /// The answer, if it is there already. `None` means that nothing was begun: the call has to be made again and awaited.
    pub fn now(self) -> Option<T> {
        match self.0 {
            State::Ready(value) => value,
            State::Later(_) => None,
        }
    }

    /// The answer, if it is there already; else the future, to be awaited.
    ///
    /// # Errors
    /// The future: the answer takes IO.
    pub fn try_now(self) -> Result<T, Self> {
        match self.0 {
            State::Ready(Some(value)) => Ok(value),
            other => Err(Self(other)),
        }
    }

    /// The answer, changed by `change`.
    pub fn map<U>(self, change: impl FnOnce(T) -> U + Send + 'a) -> StoreFuture<'a, U>
    where
        T: Send + 'a,
    {
        match self.0 {
            State::Ready(value) => StoreFuture(State::Ready(value.map(change))),
            State::Later(future) => StoreFuture::later(async move { change(future.await) }),
        }
    }
}

// The value of the ready state is moved out whole and never pinned.
impl<T> Unpin for StoreFuture<'_, T> {}

impl<T> Future for StoreFuture<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Ready(value) => match value.take() {
                Some(value) => Poll::Ready(value),
                // As with any future, polling again after the answer is a mistake of the caller; waiting for ever is
                // the answer that harms nobody else.
                None => Poll::Pending,
            },
            State::Later(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "StoreFuture(ready)",
            State::Later(_) => "StoreFuture(later)",
        })
    }
}
