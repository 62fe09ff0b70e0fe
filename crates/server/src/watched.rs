//! A value that others wait for.

use crate::wakers::{Place, Told, Wakers};
use parking_lot::Mutex;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// A value that is looked at, changed, and waited for. As a `watch` channel, but it lies where it is put, in few bytes: most of these are
/// never waited for, and there are several for each call.
#[derive(Debug, Default)]
pub(crate) struct Watched<T>(Mutex<Held<T>>);

#[derive(Debug, Default)]
struct Held<T> {
    waiting: Wakers,
    told: Told,
    value: T,
}

impl<T: Copy> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Held { value, told: Told::default(), waiting: Wakers::default() }))
    }

    pub(crate) fn get(&self) -> T {
        self.0.lock().value
    }

    pub(crate) fn set(&self, value: T) {
        self.modify(|held| {
            *held = value;
            true
        });
    }

    /// Changes the value; whoever waits looks at it again where `change` says that something is new.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut held = self.0.lock();
        let Held { value, told, waiting } = &mut *held;
        let woken = change(value).then(|| waiting.take(told));
        drop(held);
        woken.into_iter().flatten().for_each(std::task::Waker::wake);
    }

    /// Lets whoever waits look again: something beside the value has changed.
    pub(crate) fn touch(&self) {
        self.modify(|_| true);
    }

    /// Told of every change from now on, polled or not.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + use<'_, T> {
        let since = self.0.lock().told;
        self.wait(move |_, told| (told != since).then_some(()))
    }

    /// Waits until the value is as `wanted`.
    pub(crate) fn wait_for<W: Fn(T) -> bool>(&self, wanted: W) -> impl Future<Output = T> + use<'_, T, W> {
        self.wait(move |value, _| wanted(value).then_some(value))
    }

    const fn wait<R, U: Fn(T, Told) -> Option<R>>(&self, until: U) -> Wait<'_, T, U> {
        Wait { watched: self, place: Place::NONE, until }
    }
}

/// Waits until a value, and how often something was told of it, is what it waits for.
struct Wait<'a, T, U> {
    watched: &'a Watched<T>,
    place: Place,
    until: U,
}

/// Nothing in it is pinned.
impl<T, U> Unpin for Wait<'_, T, U> {}

impl<T: Copy, R, U: Fn(T, Told) -> Option<R>> Future for Wait<'_, T, U> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = &mut *self;
        let mut held = this.watched.0.lock();
        let told = held.told;
        match (this.until)(held.value, told) {
            Some(seen) => Poll::Ready(seen),
            None => {
                held.waiting.add(told, &mut this.place, cx.waker());
                Poll::Pending
            }
        }
    }
}

impl<T, U> Drop for Wait<'_, T, U> {
    fn drop(&mut self) {
        if self.place.is_taken() {
            let mut held = self.watched.0.lock();
            let told = held.told;
            held.waiting.remove(told, &mut self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, task::Waker};

    #[tokio::test]
    async fn everybody_who_waits_sees_the_change() {
        let watched = Arc::new(Watched::new(0));
        let waiting: Vec<_> = (1..=3)
            .map(|wanted| {
                let watched = watched.clone();
                tokio::spawn(async move { watched.wait_for(|value| value >= wanted).await })
            })
            .collect();
        tokio::task::yield_now().await;
        watched.modify(|value| {
            *value = 1;
            true
        });
        tokio::task::yield_now().await;
        assert_eq!(watched.get(), 1);
        watched.set(3);
        let mut seen = Vec::new();
        for one in waiting {
            seen.push(one.await.unwrap());
        }
        assert_eq!(seen, [1, 3, 3]);
        assert_eq!(watched.wait_for(|value| value == 3).await, 3);
    }

    #[tokio::test]
    async fn a_change_is_told_to_who_asked_before_it_even_unpolled() {
        let watched = Watched::new(0);
        let (unpolled, mut polled) = (watched.changed(), Box::pin(watched.changed()));
        let mut cx = Context::from_waker(Waker::noop());
        watched.modify(|_| false);
        assert!(polled.as_mut().poll(&mut cx).is_pending(), "nothing was new");
        watched.touch();
        unpolled.await;
        polled.await;
        assert!(Box::pin(watched.changed()).as_mut().poll(&mut cx).is_pending());
    }
}
