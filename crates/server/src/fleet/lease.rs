//! The lease: one for this backend, not one for each of its streams. Without it, others end our calls for us.

use super::{alive, patiently};
use crate::{Options, core::Core};
use bowline_proto::{legacy::Millis, time::millis};
use bowline_store::Unavailable;
use std::{
    sync::{
        Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// What is known of this backend's lease, by its own clock.
pub(crate) struct Lease {
    ttl: u64,
    renew: Duration,
    /// Until when it is in force at least, counted from before it was asked for; 0 where it never was.
    until: AtomicU64,
    /// When the last renewal that succeeded was asked for.
    renewed: AtomicU64,
    /// From when on this backend may say that others are dead, if it goes on renewing.
    judges: AtomicU64,
    /// Whether it may be over: then nothing that nobody waits for is worked on.
    fenced: watch::Sender<bool>,
}

impl Lease {
    pub(super) fn new(options: &Options) -> Self {
        let ttl = options.lease_ttl.max(Duration::from_millis(100));
        Self {
            ttl: millis(ttl),
            renew: options.lease_renew.min(ttl / 3).max(Duration::from_millis(10)),
            until: AtomicU64::new(0),
            renewed: AtomicU64::new(0),
            judges: AtomicU64::new(u64::MAX),
            fenced: watch::Sender::new(false),
        }
    }

    /// Notes what came of a renewal that was begun at `asked`: for how long somebody has watched without a break, says the store.
    pub(crate) fn note(&self, core: &Core, asked: Millis, watched: Option<Duration>) {
        if let Some(fleet) = &core.fleet {
            fleet.note_store(core, watched.is_some());
        }
        if let Some(watched) = watched {
            self.until.store(asked.0 + self.ttl, Ordering::Release);
            self.renewed.store(asked.0, Ordering::Release);
            // Who has only come back to the store, or finds that nobody could reach it, lets everybody have the time to renew.
            let still = self.ttl.saturating_sub(millis(watched));
            self.judges.store(core.now().0 + still, Ordering::Release);
        }
        self.fence(core);
    }

    /// Stops what must not run on without a lease, or lets it run again.
    fn fence(&self, core: &Core) {
        // A third of the lease before its end: by then nobody else counts it as over.
        let margin = self.ttl / 3;
        let until = self.until.load(Ordering::Acquire);
        let fenced = until != 0 && core.now().0 + margin >= until;
        self.fenced.send_if_modified(|held| std::mem::replace(held, fenced) != fenced);
    }

    /// Whether the lease was taken and is in force.
    pub(crate) fn is_held(&self, core: &Core) -> bool {
        core.now().0 < self.until.load(Ordering::Acquire)
    }

    /// Takes it, whether it is held or not.
    ///
    /// # Errors
    /// The store is away.
    pub(crate) async fn take(&self, core: &Core) -> Result<(), Unavailable> {
        let asked = core.now();
        let renewal = core.store.renew(core.backend, core.is_draining(), core.options.lease_ttl);
        let leased = patiently(renewal).await;
        self.note(core, asked, leased.as_ref().ok().copied());
        leased.map(drop)
    }

    /// Whether this backend may say that others are dead: for as long as a lease lasts, somebody has renewed one without a break. So the
    /// store could be reached, and whoever lives had the time to renew its own. That this backend has just come is no matter.
    ///
    /// A store that is away costs somebody alive the lease after two thirds of it, since it is renewed three times. Who has not renewed
    /// for half of one may have been away from the store as well, and does not say anything before it has.
    pub(super) fn may_judge(&self, core: &Core) -> bool {
        let now = core.now().0;
        now >= self.judges.load(Ordering::Acquire)
            && now.saturating_sub(self.renewed.load(Ordering::Acquire)) <= self.ttl / 2
    }

    /// Waits until the lease is lost, or in force again.
    pub(crate) fn changes(&self) -> watch::Receiver<bool> {
        self.fenced.subscribe()
    }
}

/// Renews the lease until the endpoint is gone or has left.
pub(super) async fn keep(core: Weak<Core>) {
    loop {
        let (pause, leaving) = {
            let Some(core) = alive(&core) else { return };
            let Some(fleet) = &core.fleet else { return };
            let asked = core.now();
            let renewal = core.store.renew(core.backend, core.is_draining(), core.options.lease_ttl);
            let renewed = match tokio::time::timeout(fleet.lease.renew, renewal).await {
                Ok(Ok(watched)) => Some(watched),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the sign of life of this backend could not be given");
                    None
                }
                Err(_) => {
                    tracing::warn!("the store did not take the sign of life of this backend in time");
                    None
                }
            };
            fleet.lease.note(&core, asked, renewed);
            // Counted from when it was asked for, so that a slow store does not make it seldom. Where it has failed, soon again.
            let took = Duration::from_millis(core.now().0.saturating_sub(asked.0));
            let pause = if renewed.is_some() {
                fleet.lease.renew.saturating_sub(took).max(Duration::from_millis(10))
            } else {
                fleet.lease.renew.min(Duration::from_secs(1))
            };
            (pause, fleet.leaving.clone())
        };
        // The core is not held while there is nothing to do.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = leaving.notified() => {}
        }
    }
}
