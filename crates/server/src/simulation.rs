//! For simulations alone (feature `simulation`): several endpoints in one thread, each as if it were a process that can be stopped, slept
//! or killed with all of its tasks. Without a [`Host`] nothing here does anything.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// What a simulated process is like at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It runs.
    Runs,
    /// It sleeps (SIGSTOP): none of its tasks is polled. The host wakes them when it runs again.
    Sleeps,
    /// It was killed: its tasks are dropped where they are.
    Dead,
}

/// A simulated process.
pub trait Host: Send + Sync + 'static {
    /// Whether its task with the number `task` may be polled; if not now, `waker` is to be woken when that changes.
    fn admit(&self, task: u64, waker: &Waker) -> Admission;

    /// The number of a task that begins.
    fn begin(&self) -> u64;

    /// A task is over.
    fn end(&self, task: u64);

    /// What its wall clock shows, in milliseconds since 1970.
    fn unix_ms(&self) -> u64;
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Host>>> = const { RefCell::new(None) };
}

/// The host whose task is polled now.
pub fn current() -> Option<Arc<dyn Host>> {
    CURRENT.with_borrow(Clone::clone)
}

/// `work` as a task of `host`, and with it everything that it starts.
pub fn hosted<F: Future>(host: Arc<dyn Host>, work: F) -> Hosted<F> {
    Hosted::new(Some(host), work)
}

/// `work` as a task of the host that starts it, if there is one.
pub(crate) fn inherited<F: Future>(work: F) -> Hosted<F> {
    Hosted::new(current(), work)
}

/// A task of a host. Of one that was killed it never ends.
pub struct Hosted<F> {
    host: Option<(Arc<dyn Host>, u64)>,
    work: Option<Pin<Box<F>>>,
}

impl<F> Hosted<F> {
    fn new(host: Option<Arc<dyn Host>>, work: F) -> Self {
        let host = host.map(|host| {
            let task = host.begin();
            (host, task)
        });
        Self { host, work: Some(Box::pin(work)) }
    }
}

/// The host of this moment, until the guard is dropped.
struct Entered(Option<Arc<dyn Host>>);

impl Entered {
    fn new(host: &Arc<dyn Host>) -> Self {
        Self(CURRENT.replace(Some(host.clone())))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl<F: Future> Future for Hosted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Pending };
        let Some((host, task)) = &this.host else { return work.as_mut().poll(cx) };
        match host.admit(*task, cx.waker()) {
            Admission::Runs => {
                let _entered = Entered::new(host);
                work.as_mut().poll(cx)
            }
            Admission::Sleeps => Poll::Pending,
            Admission::Dead => {
                let _entered = Entered::new(host);
                this.work = None;
                Poll::Pending
            }
        }
    }
}

impl<F> Drop for Hosted<F> {
    fn drop(&mut self) {
        if let Some((host, task)) = &self.host {
            let _entered = Entered::new(host);
            self.work = None;
            host.end(*task);
        }
    }
}
