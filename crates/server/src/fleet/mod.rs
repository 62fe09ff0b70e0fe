//! What an endpoint does because other backends share its store (SEMANTICS 6): a lease, a look-out for backends that died, keys.

mod keys;
mod lease;
mod reaper;
pub(crate) mod rerun;

pub(crate) use lease::Lease;
pub(crate) use reaper::{orphaned, orphaned_task, owner_is_lost};

use crate::{core::Core, within::within};
use bowline_proto::time::millis;
use bowline_store::{BackendState, StoreFuture, Unavailable};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;

/// How long any single question to the store may take before a client is told that it is away.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_millis(900);

/// How often what a wake-up should have told is looked at all the same.
pub(crate) const BACKSTOP: Duration = Duration::from_secs(5);

/// This backend among others.
pub(crate) struct Fleet {
    pub(crate) lease: Lease,
    /// Calls of others that are being taken over here.
    claims: rerun::Claims,
    /// It has left: nothing renews its lease any more.
    left: AtomicBool,
    leaving: Arc<Notify>,
    /// When the store was last found away, in [`bowline_proto::legacy::Millis`] + 1; 0 while it answers.
    away_since: AtomicU64,
}

impl Fleet {
    pub(crate) fn new(core_options: &crate::Options) -> Self {
        Self {
            lease: Lease::new(core_options),
            claims: rerun::Claims::default(),
            left: AtomicBool::new(false),
            leaving: Arc::default(),
            away_since: AtomicU64::new(0),
        }
    }

    /// Whether the store did not answer when it was last asked for a sign of life.
    pub(crate) fn store_is_away(&self) -> bool {
        self.away_since.load(Ordering::Relaxed) != 0
    }

    fn note_store(&self, core: &Core, answers: bool) {
        if answers {
            self.away_since.store(0, Ordering::Relaxed);
        } else if !self.store_is_away() {
            self.away_since.store(core.now().0 + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// The other backends are told that this one leaves.
    pub(crate) fn tell_leaving(&self) {
        self.leaving.notify_one();
    }
}

/// Waits for the store, for as long as a client may be kept waiting for it.
pub(crate) async fn patiently<T, E: From<Unavailable>>(asked: StoreFuture<'_, Result<T, E>>) -> Result<T, E> {
    match within(STORE_PATIENCE, asked).await {
        Some(answer) => answer,
        None => Err(Unavailable(format!("no answer within {STORE_PATIENCE:?}")).into()),
    }
}

/// Whether another backend serves, which is not leaving itself.
pub(crate) async fn others_serve(core: &Core) -> bool {
    core.is_shared()
        && patiently(core.store.backends()).await.is_ok_and(|backends| {
            backends.iter().any(|(backend, state)| *backend != core.backend && *state == BackendState::Alive)
        })
}

/// A duration that differs from backend to backend and from time to time, around `middle`.
fn jittered(middle: Duration) -> Duration {
    let middle = millis(middle);
    Duration::from_millis(middle * 3 / 4 + crate::random::word() % (middle / 2).max(1))
}

/// Starts what runs as long as the endpoint.
pub(crate) fn start(core: &Arc<Core>) {
    let Some(fleet) = &core.fleet else { return };
    // At once where the store answers at once, so that nothing that comes now has to wait.
    if let Some(renewed) = core.store.renew(core.backend, false, core.options.lease_ttl).now() {
        fleet.lease.note(core, core.now(), renewed.ok());
    }
    crate::task::spawn(lease::keep(Arc::downgrade(core)));
    crate::task::spawn(reaper::sweep(Arc::downgrade(core)));
    if !core.keys.are_known() || core.keys_are_shared {
        crate::task::spawn(keys::follow(Arc::downgrade(core)));
    }
}

/// Gives the lease up: this backend has left.
pub(crate) async fn leave(core: &Core) {
    let Some(fleet) = &core.fleet else { return };
    fleet.left.store(true, Ordering::Release);
    if let Err(error) = patiently(core.store.release(core.backend)).await {
        tracing::debug!(%error, "the lease of this backend ends by itself");
    }
}

/// The core, unless the endpoint is gone or has left.
fn alive(core: &Weak<Core>) -> Option<Arc<Core>> {
    let core = core.upgrade()?;
    let left = core.fleet.as_ref().is_none_or(Fleet::has_left);
    (!left).then_some(core)
}
