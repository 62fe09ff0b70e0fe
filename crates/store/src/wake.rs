//! Wake-ups: hints that a stream has something new.

use bowline_proto::cursor::StreamId;
use std::fmt;
use tokio::sync::watch;

/// Tells waiters that a stream changed: an append, a seal, an attachment, a letter; on a session's
/// standalone stream, also that the session's record was changed or ended.
///
/// A wake-up may be lost, doubled or late; correctness comes from reading. Subscribe **before** reading, else what comes in
/// between is missed until the next hint.
pub trait WakeBus: Send + Sync + 'static {
    /// Waits for changes of `stream` from now on. The stream need not exist.
    fn subscribe(&self, stream: StreamId) -> Wakeups;
}

/// The waiting end of a subscription. Dropping it ends the subscription.
pub struct Wakeups {
    receiver: watch::Receiver<u64>,
    _guard: Option<Box<dyn Send + Sync>>,
}

impl Wakeups {
    /// A subscription that is fed through `receiver`; any change of its value wakes. `guard` is dropped with the subscription.
    #[must_use]
    pub fn new(receiver: watch::Receiver<u64>, guard: Option<Box<dyn Send + Sync>>) -> Self {
        Self { receiver, _guard: guard }
    }

    /// Waits until something may have changed since the last return.
    ///
    /// Cancel safe: a wake-up that was not returned is returned by the next call. Where the sending end is gone, this waits
    /// for ever: callers have a timer beside it.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wakeups")
    }
}
