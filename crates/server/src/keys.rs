//! The keys of an endpoint: given, made for this process, or shared through the store.

use bowline_proto::{cursor::Keyring, http::Refusal};
use parking_lot::RwLock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// How long a request waits for keys that are on their way.
const PATIENCE: Duration = Duration::from_secs(1);

/// The keys in force. They may change while the endpoint runs.
pub(crate) struct Keys {
    /// Counts the changes, so that what was derived knows whether it is of today.
    number: AtomicU64,
    ring: RwLock<(u64, Arc<Keyring>)>,
    ready: watch::Sender<bool>,
}

impl Keys {
    /// Keys that are known.
    pub(crate) fn known(ring: Keyring) -> Self {
        Self::new(ring, true)
    }

    /// Keys that will come from the store; `until_then` is never used to sign anything that leaves this process.
    pub(crate) fn coming(until_then: Keyring) -> Self {
        Self::new(until_then, false)
    }

    fn new(ring: Keyring, ready: bool) -> Self {
        Self {
            number: AtomicU64::new(0),
            ring: RwLock::new((0, Arc::new(ring))),
            ready: watch::Sender::new(ready),
        }
    }

    /// The number of the keys in force.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The keys in force, with their number.
    pub(crate) fn ring(&self) -> (u64, Arc<Keyring>) {
        let held = self.ring.read();
        (held.0, held.1.clone())
    }

    /// Other keys are in force from now on.
    pub(crate) fn replace(&self, ring: Keyring) {
        {
            let mut held = self.ring.write();
            *held = (held.0 + 1, Arc::new(ring));
            self.number.store(held.0, Ordering::Release);
        }
        self.ready.send_replace(true);
    }

    /// Whether there are keys.
    pub(crate) fn are_known(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits for keys, for a second at most: without them nothing that a client would have to come back with can be told.
    ///
    /// # Errors
    /// 503: the store that keeps them was not reached yet.
    pub(crate) async fn wait(&self) -> Result<(), Refusal> {
        if self.are_known() {
            return Ok(());
        }
        let mut ready = self.ready.subscribe();
        let known = tokio::time::timeout(PATIENCE, ready.wait_for(|ready| *ready)).await;
        match known {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Refusal::unavailable("store_unavailable", 2, None)),
        }
    }
}
