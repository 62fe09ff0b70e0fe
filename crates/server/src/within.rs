//! Waiting with a limit.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

/// What comes of `work`, if that is within `limit`; else the work is dropped. The clock is read and a timer made only for work that is not
/// ready at once.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        return Some(done);
    }
    tokio::time::timeout(limit, work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_late_does_not_come() {
        let second = Duration::from_secs(1);
        assert_eq!(within(second, async { 1 }).await, Some(1));
        let late = |pause| async move {
            tokio::time::sleep(pause).await;
            2
        };
        assert_eq!(within(second, late(second / 2)).await, Some(2));
        assert_eq!(within(second, late(second * 2)).await, None);
        assert_eq!(within(Duration::ZERO, late(second)).await, None);
    }
}
