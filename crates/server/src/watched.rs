//! A value that others wait for.

use parking_lot::Mutex;
use std::pin::pin;
use tokio::sync::{Notify, futures::Notified};

/// A value that is looked at, changed, and waited for. As a `watch` channel, but it lies where it is put: most of these are never waited
/// for, and there are several for each call.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock()
    }

    pub(crate) fn set(&self, value: T) {
        *self.value.lock() = value;
        self.changed.notify_waiters();
    }

    /// Changes the value; whoever waits looks at it again where `change` says that something is new.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T) -> bool) {
        let new = change(&mut self.value.lock());
        if new {
            self.changed.notify_waiters();
        }
    }

    /// Lets whoever waits look again: something beside the value has changed.
    pub(crate) fn touch(&self) {
        self.changed.notify_waiters();
    }

    /// Told of every change from now on, polled or not.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits until the value is as `wanted`.
    pub(crate) async fn wait_for(&self, wanted: impl Fn(T) -> bool) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Registered before the value is looked at, so that no change falls in between.
            changed.as_mut().enable();
            let value = self.get();
            if wanted(value) {
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
}
