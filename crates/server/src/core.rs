//! What every part of an endpoint shares.

use crate::{
    Authenticator, RawHandler, config::Options, metrics::Metrics, random, running::Running, seldom::Seldom,
    sessions::Sessions,
};
use bowline_proto::{
    cursor::Keyring,
    http::{Policy, SessionMode},
    legacy::Millis,
};
use bowline_store::{BackendId, MemoryStore, Store};
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};

/// How far an endpoint is with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// It serves.
    No,
    /// It takes nothing new, and connections that can come back elsewhere are closed.
    Leaving,
}

/// What an endpoint is made of.
pub(crate) struct Config {
    pub(crate) handler: Arc<dyn RawHandler>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) policy: Policy,
    pub(crate) trust_proxy: bool,
    pub(crate) options: Options,
    pub(crate) keyring: Keyring,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
}

pub(crate) struct Core {
    pub(crate) handler: Arc<dyn RawHandler>,
    pub(crate) store: Arc<dyn Store>,
    /// Streams that live with their connection: batches, and what the store would not have.
    pub(crate) ephemeral: Arc<MemoryStore>,
    pub(crate) policy: Policy,
    /// Whether `X-Forwarded-Host` stands for `Host`.
    pub(crate) trust_proxy: bool,
    pub(crate) options: Options,
    pub(crate) metrics: Arc<Metrics>,
    /// Refusals for an origin or a host are logged so often.
    pub(crate) forbidden: Seldom,
    pub(crate) keyring: Keyring,
    /// Who may call; anybody where there is none.
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) backend: BackendId,
    pub(crate) sessions: Sessions,
    pub(crate) running: Running,
    pub(crate) drain: watch::Sender<Drain>,
    origin: Instant,
}

impl Core {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let Config { handler, store, policy, trust_proxy, options, keyring, authenticator } = config;
        Arc::new(Self {
            handler,
            store,
            ephemeral: Arc::new(MemoryStore::default()),
            policy,
            trust_proxy,
            options,
            metrics: Arc::default(),
            forbidden: Seldom::default(),
            keyring,
            authenticator,
            backend: BackendId(random::word()),
            sessions: Sessions::default(),
            running: Running::default(),
            drain: watch::Sender::new(Drain::No),
            origin: Instant::now(),
        })
    }

    /// Milliseconds since this endpoint was made.
    pub(crate) fn now(&self) -> Millis {
        Millis(u64::try_from(Instant::now().duration_since(self.origin).as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment of `at` on tokio's clock.
    pub(crate) fn instant(&self, at: Millis) -> Instant {
        self.origin + std::time::Duration::from_millis(at.0)
    }

    pub(crate) fn is_stateless(&self) -> bool {
        matches!(self.policy.mode, SessionMode::Stateless { .. })
    }

    pub(crate) fn resumes_without_sessions(&self) -> bool {
        matches!(self.policy.mode, SessionMode::Stateless { resumable: true, .. })
    }

    /// Whether no call runs and no result waits for its client.
    pub(crate) fn is_idle(&self) -> bool {
        self.metrics.calls.get() == 0 && self.running.is_idle(self.now())
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow() != Drain::No
    }
}
