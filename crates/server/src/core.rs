//! What every part of an endpoint shares.

use crate::{
    Authenticator, RawHandler,
    clients::{ClientLimits, Clients},
    config::Options,
    fleet::{self, Fleet},
    keys::Keys,
    limiter::Limiter,
    metrics::Metrics,
    modern::{HeldCalls, Tasks},
    probes::OnEndpoint,
    random,
    running::Running,
    seldom::Seldom,
    sessions::Sessions,
    welcome::Welcomes,
};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::{Keyring, StreamId},
    http::{Policy, SessionMode},
    legacy::Millis,
};
use bowline_store::{BackendId, MemoryStore, Store};
use std::{sync::Arc, time::SystemTime};
use tokio::{sync::watch, time::Instant};

/// How far an endpoint is with leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    /// It serves.
    No,
    /// It takes no new sessions, and connections that can come back elsewhere are closed.
    Leaving,
    /// Its time is over: what still runs is ended.
    Over,
}

/// What an endpoint is made of.
pub(crate) struct Config {
    pub(crate) handler: Arc<dyn RawHandler>,
    pub(crate) store: Arc<dyn Store>,
    /// Whether other backends use the store too.
    pub(crate) shared: bool,
    pub(crate) policy: Policy,
    pub(crate) trust_proxy: bool,
    pub(crate) options: Options,
    /// Where none is given, a shared store keeps keys, and a backend alone makes one.
    pub(crate) keyring: Option<Keyring>,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) probes: OnEndpoint,
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
    pub(crate) keys: Keys,
    /// Whether the keys are those that the store keeps.
    pub(crate) keys_are_shared: bool,
    /// There where other backends use the store too.
    pub(crate) fleet: Option<Fleet>,
    /// Who may call; anybody where there is none.
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) probes: OnEndpoint,
    pub(crate) clients: Clients,
    pub(crate) backend: BackendId,
    pub(crate) sessions: Sessions,
    pub(crate) running: Running,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) welcomes: Welcomes,
    /// Calls of modern clients that stay open between two rounds.
    pub(crate) held: HeldCalls,
    pub(crate) tasks: Tasks,
    pub(crate) drain: watch::Sender<Drain>,
    /// Whether listeners accept connections.
    pub(crate) accepting: watch::Sender<bool>,
    origin: Instant,
    /// Unix time of the origin, in milliseconds.
    unix_origin: u64,
}

impl Core {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        let Config { handler, store, shared, policy, trust_proxy, options, keyring, authenticator, probes } =
            config;
        let keys_are_shared = shared && keyring.is_none();
        let own = || Keyring::from_bytes(&[random::key()]).expect("32 bytes are a key");
        let keys = match keyring {
            Some(keyring) => Keys::known(keyring),
            None if shared => Keys::coming(own()),
            None => Keys::known(own()),
        };
        let fleet = shared.then(|| Fleet::new(&options));
        let limits = ClientLimits { rate: options.rate, concurrent: options.max_concurrent_per_client };
        let welcomes = Welcomes::new(matches!(policy.mode, SessionMode::Stateless { .. }));
        let core = Arc::new(Self {
            handler,
            store,
            ephemeral: Arc::new(MemoryStore::default()),
            policy,
            trust_proxy,
            options,
            metrics: Arc::default(),
            forbidden: Seldom::default(),
            keys,
            keys_are_shared,
            fleet,
            authenticator,
            probes,
            clients: Clients::new(limits),
            backend: BackendId(random::word()),
            sessions: Sessions::default(),
            running: Running::default(),
            limiter: Arc::default(),
            welcomes,
            held: HeldCalls::default(),
            tasks: Tasks::default(),
            drain: watch::Sender::new(Drain::No),
            accepting: watch::Sender::new(true),
            origin: Instant::now(),
            unix_origin: wall_clock(),
        });
        fleet::start(&core);
        core
    }

    /// Milliseconds since this endpoint was made.
    pub(crate) fn now(&self) -> Millis {
        Millis(millis(Instant::now().duration_since(self.origin)))
    }

    /// Unix time in milliseconds, as it was when this endpoint was made and has gone on since: it never jumps.
    pub(crate) fn unix(&self) -> u64 {
        self.unix_origin.saturating_add(self.now().0)
    }

    /// Unix time in seconds, likewise.
    pub(crate) fn wall_seconds(&self) -> u64 {
        self.unix() / 1_000
    }

    /// Whether other backends use the store too.
    pub(crate) const fn is_shared(&self) -> bool {
        self.fleet.is_some()
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

    /// Drops a stream: now where the store answers at once, else soon.
    pub(crate) fn remove_stream(self: &Arc<Self>, stream: StreamId) {
        if self.store.remove(stream).now().is_some() {
            return;
        }
        let core = self.clone();
        crate::task::spawn(async move {
            if let Err(error) = core.store.remove(stream).await {
                tracing::warn!(?stream, %error, "a stream could not be dropped");
            }
        });
    }

    /// How many more connections are held than may be, in percent: 100 where there are no more.
    pub(crate) fn load_percent(&self) -> u32 {
        let (held, budget) = (self.metrics.streams_open.get(), self.options.max_held_streams.max(1));
        if held <= budget {
            return 100;
        }
        u32::try_from(held.saturating_mul(100) / budget).unwrap_or(u32::MAX)
    }

    /// Whether no call runs and no result waits for its client.
    pub(crate) fn is_idle(&self) -> bool {
        self.metrics.calls.get() == 0
            && self.metrics.handshakes.get() == 0
            && self.running.is_idle(self.now(), self.is_shared())
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.drain.borrow() != Drain::No
    }
}

/// Unix time in milliseconds; 0 where the clock is before 1970.
fn wall_clock() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(host) = crate::simulation::current() {
        return host.unix_ms();
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis)
}
