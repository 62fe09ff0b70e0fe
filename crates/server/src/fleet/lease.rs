//! The lease: one for this backend, not one for each of its streams. Without it, others end our calls for us.

use super::alive;
use crate::{Options, core::Core};
use bowline_proto::{legacy::Millis, time::millis};
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
    /// Since when it has been in force without a break.
    since: AtomicU64,
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
            since: AtomicU64::new(0),
            fenced: watch::Sender::new(false),
        }
    }

    /// Notes what came of a renewal that was begun at `asked`.
    pub(crate) fn note(&self, core: &Core, asked: Millis, renewed: bool) {
        if let Some(fleet) = &core.fleet {
            fleet.note_store(core, renewed);
        }
        if renewed {
            let before = self.until.swap(asked.0 + self.ttl, Ordering::AcqRel);
            // By then it may have been over for a while.
            if before <= core.now().0 || before == 0 {
                self.since.store(asked.0.max(1), Ordering::Release);
            }
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

    /// Whether it has been in force for so long that every other backend which lives had the time to renew its own: who has only come
    /// back to the store says nothing about others.
    pub(super) fn may_judge(&self, core: &Core) -> bool {
        self.is_held(core) && core.now().0.saturating_sub(self.since.load(Ordering::Acquire)) >= self.ttl
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
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the sign of life of this backend could not be given");
                    false
                }
                Err(_) => {
                    tracing::warn!("the store did not take the sign of life of this backend in time");
                    false
                }
            };
            fleet.lease.note(&core, asked, renewed);
            // Where it has failed, soon again.
            let pause =
                if renewed { fleet.lease.renew } else { fleet.lease.renew.min(Duration::from_secs(1)) };
            (pause, fleet.leaving.clone())
        };
        // The core is not held while there is nothing to do.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = leaving.notified() => {}
        }
    }
}
