//! An MCP endpoint: a [`tower_service::Service`] over [`http`] types, and its life.

use crate::{
    Admin, Authenticator, Metrics, RawHandler, Remote, allocator,
    body::Body,
    config::Options,
    core::{Config, Core, Drain},
    fleet, limiter,
    probes::OnEndpoint,
    service, sessions,
};
use bowline_proto::{
    cursor::Keyring,
    http::{AllowedHosts, AllowedOrigins, Policy, SessionMode},
};
use bowline_store::{MemoryStore, Store, StreamLog as _};
use http::{Request, Response};
use std::{
    convert::Infallible,
    fmt,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// How long the last messages of calls have to get into a shared store: a cancelled handler has 2 s, and its client need not wait for that.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// How often housekeeping looks for what expired.
const TICK: Duration = Duration::from_secs(1);

/// How many expired things one round of housekeeping frees.
const SWEEP: usize = 10_000;

/// Builds an [`Endpoint`].
pub struct EndpointBuilder {
    handler: Arc<dyn RawHandler>,
    store: Option<Arc<dyn Store>>,
    shared: bool,
    keyring: Option<Keyring>,
    options: Options,
    path: String,
    mode: SessionMode,
    origins: AllowedOrigins,
    hosts: AllowedHosts,
    loopback: bool,
    trust_proxy: bool,
    authenticator: Option<Arc<dyn Authenticator>>,
    probes: OnEndpoint,
    modern: bool,
}

impl EndpointBuilder {
    /// Where everything is kept, for this endpoint alone. Default: this process's memory.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self.shared = false;
        self
    }

    /// Where everything is kept, together with other endpoints, at once or one after another: each serves any request of any session
    /// (SEMANTICS 6). Sessions outlive this endpoint. All of them serve the same thing and have the same options.
    #[must_use]
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self.shared = true;
        self
    }

    /// The keys that event ids are signed with. Default: a key of this process, made now; with a [shared store](Self::shared_store), a
    /// key that the store keeps for its backends.
    #[must_use]
    pub fn keyring(mut self, keyring: Keyring) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Bounds and habits.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The path. Default `/mcp`; it is served with and without a slash at its end.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Whether there are sessions. Default: yes.
    #[must_use]
    pub fn session_mode(mut self, mode: SessionMode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether clients of the modern revision are served beside legacy ones, where the handler can
    /// ([`RawHandler::serves_modern`]). Default: yes.
    #[must_use]
    pub const fn modern(mut self, served: bool) -> Self {
        self.modern = served;
        self
    }

    /// Web origins that may call, beside the loopback ones of a loopback bind. Default: none.
    #[must_use]
    pub fn allowed_origins(mut self, origins: AllowedOrigins) -> Self {
        self.origins = origins;
        self
    }

    /// Values of `Host` that are taken. Default: the loopback ones on a loopback bind, any elsewhere.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: AllowedHosts) -> Self {
        self.hosts = hosts;
        self
    }

    /// Whether the endpoint is bound to a loopback address: `Host` is checked then, and loopback origins are allowed. Default
    /// `true`, the safe side.
    #[must_use]
    pub const fn loopback(mut self, loopback: bool) -> Self {
        self.loopback = loopback;
        self
    }

    /// Whether whoever connects is a proxy of ours. Then the last entry of `X-Forwarded-Host`, where there is one, stands for
    /// `Host`: the nearest proxy wrote it, while those before it may be the client's. In the same way the last entry of `X-Forwarded-For`, else
    /// of `Forwarded`, is the address that limits and logs go by. Default `false`.
    #[must_use]
    pub const fn trust_proxy(mut self, trust_proxy: bool) -> Self {
        self.trust_proxy = trust_proxy;
        self
    }

    /// Who may call. Default: anybody. Without it, a layer in front may say who calls ([`crate::Principal`]).
    #[must_use]
    pub fn authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.authenticator = Some(authenticator);
        self
    }

    /// Whether `/healthz` and `/readyz` are answered here too. Default `true`.
    #[must_use]
    pub const fn health(mut self, served: bool) -> Self {
        self.probes.health = served;
        self
    }

    /// Whether `/metrics` is answered here too: to who is allowed to call, from this machine and not through a proxy. Default `false`;
    /// [`Endpoint::admin`] answers anybody.
    #[must_use]
    pub const fn metrics_page(mut self, served: bool) -> Self {
        self.probes.metrics = served;
        self
    }

    /// The endpoint. Must be called inside a tokio runtime: housekeeping runs there until the last clone is dropped.
    #[must_use]
    pub fn build(self) -> Endpoint {
        let policy = Policy {
            path: self.path,
            origins: self.origins,
            hosts: self.hosts,
            loopback: self.loopback,
            mode: self.mode,
            body_limit: self.options.body_limit,
            modern: self.modern && self.handler.serves_modern(),
        };
        allocator::keep_freed();
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::default()));
        let core = Core::new(Config {
            handler: self.handler,
            store,
            shared: self.shared,
            policy,
            trust_proxy: self.trust_proxy,
            options: self.options,
            keyring: self.keyring,
            authenticator: self.authenticator,
            probes: self.probes,
        });
        crate::task::spawn(housekeeping(Arc::downgrade(&core)));
        crate::task::spawn(limiter::run(Arc::downgrade(&core)));
        Endpoint { core }
    }
}

impl fmt::Debug for EndpointBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointBuilder")
            .field("path", &self.path)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// By then, whoever looks at `/readyz` has noticed that an endpoint leaves.
const NOTICED: Duration = Duration::from_secs(10);

/// How long the errors that a drain ended calls with have to reach those who wait: a cancelled handler may take 2 s to end,
/// and a client that polls comes about 2 s later.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long a connection that was just accepted has to show its request.
const LAST_REQUESTS: Duration = Duration::from_millis(200);

/// An MCP endpoint. Cheap to clone; every clone is the same endpoint.
///
/// It is a `tower` service over any body type, so it mounts in an axum `Router` or behind any middleware.
/// [`crate::serve`] is its own listener.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) core: Arc<Core>,
}

impl Endpoint {
    /// An endpoint in front of `handler`.
    #[must_use]
    pub fn builder(handler: Arc<dyn RawHandler>) -> EndpointBuilder {
        EndpointBuilder {
            handler,
            store: None,
            shared: false,
            keyring: None,
            options: Options::default(),
            path: "/mcp".into(),
            mode: SessionMode::Stateful,
            origins: AllowedOrigins::default(),
            hosts: AllowedHosts::default(),
            loopback: true,
            trust_proxy: false,
            authenticator: None,
            probes: OnEndpoint { health: true, metrics: false },
            modern: true,
        }
    }

    /// Answers one request.
    ///
    /// Dropping the future means that the client went away. A call goes on where its result can still be fetched.
    pub async fn handle<B: http_body::Body>(&self, request: Request<B>) -> Response<Body> {
        let connected = request.extensions().get().map(|remote: &Remote| remote.0.ip().to_canonical());
        service::answer(&self.core, request, connected).await
    }

    /// As [`Endpoint::handle`], for a listener that knows who connected: nothing has to be put into the request for that.
    pub(crate) async fn handle_from<B: http_body::Body>(
        &self,
        request: Request<B>,
        connected: IpAddr,
    ) -> Response<Body> {
        service::answer(&self.core, request, Some(connected.to_canonical())).await
    }

    /// What this endpoint counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }

    /// Health and metrics for a listener of their own.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.core.clone())
    }

    /// Starts to leave: `/readyz` says so, new sessions are refused, connections that can come back are told when and closed.
    /// Polls, responses and running calls go on.
    pub fn start_drain(&self) {
        self.core.drain.send_if_modified(|drain| {
            let first = *drain == Drain::No;
            if first {
                *drain = Drain::Leaving;
            }
            first
        });
        if let Some(fleet) = &self.core.fleet {
            fleet.tell_leaving();
        }
    }

    /// Whether its listeners accept no more connections. `hand_over`: they stop as soon as it starts to leave.
    pub(crate) fn is_leaving(&self, hand_over: bool) -> bool {
        !*self.core.accepting.borrow() || (hand_over && self.core.is_draining())
    }

    /// Waits until that is so.
    pub(crate) async fn leaving(&self, hand_over: bool) {
        let (mut accepting, mut drain) = (self.core.accepting.subscribe(), self.core.drain.subscribe());
        // The senders live in the core.
        tokio::select! {
            _ = accepting.wait_for(|accepting| !accepting) => {}
            _ = drain.wait_for(|drain| hand_over && *drain != Drain::No) => {}
        }
    }

    /// Leaves: [`Endpoint::start_drain`], then waits until every call ended and its result was fetched, for `timeout` at most. Results
    /// in a shared store are not waited for: other endpoints give them out.
    /// What runs then, or is begun later, is ended with an error that says so; those who wait for it have 5 s more to fetch that.
    ///
    /// Where other endpoints serve the same store, listeners ([`crate::serve`]) accept no more connections from 10 s on (a third of
    /// `timeout`, where that is less): a balancer that does not look at `/readyz` would send new calls for ever. They stop in any case
    /// once nothing runs, before the wait ends: a call that comes in the last moment is served here, or goes elsewhere.
    pub async fn drain(&self, timeout: Duration) {
        self.start_drain();
        let idle = || async {
            self.idle().await;
            self.core.accepting.send_replace(false);
            if self.core.is_shared() {
                tokio::time::sleep(LAST_REQUESTS).await;
                self.idle().await;
            }
        };
        let left_to_others = async {
            tokio::time::sleep(NOTICED.min(timeout / 3)).await;
            while !fleet::others_serve(&self.core).await {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            self.core.accepting.send_replace(false);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = tokio::time::timeout(timeout, idle()) => if ended.is_err() {
                let calls = self.core.metrics.calls.get();
                self.core.drain.send_replace(Drain::Over);
                if calls > 0 {
                    tracing::warn!(calls, "the drain timeout is over; the calls that still ran are ended with an error");
                    let _ = tokio::time::timeout(LAST_WORDS, idle()).await;
                }
            },
            () = left_to_others => {}
        }
    }

    /// Waits until no call runs and everything that was said is where it can be fetched.
    async fn idle(&self) {
        while !self.core.is_idle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends every session, and with it what its handler holds. In a shared store the sessions live on, for other endpoints; this one
    /// only gives up what it holds of them, and its lease. Calls that still run are ended with an error that says so; that takes 3 s at most.
    /// For the very end.
    pub async fn close(&self) {
        for session in self.core.sessions.all() {
            sessions::leave(&self.core, &session).await;
        }
        if self.core.is_shared() {
            // What calls were ended with is on its way into the store.
            let _ = tokio::time::timeout(LAST_WRITES, self.idle()).await;
        }
        fleet::leave(&self.core).await;
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("path", &self.core.policy.path)
            .field("sessions", &self.core.sessions.len())
            .finish_non_exhaustive()
    }
}

impl<B> tower_service::Service<Request<B>> for Endpoint
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        Box::pin(async move { Ok(endpoint.handle(request).await) })
    }
}

/// Frees what expired, once a second, until the endpoint is gone.
async fn housekeeping(core: Weak<Core>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for round in 0_usize.. {
        tick.tick().await;
        let Some(core) = core.upgrade() else { return };
        sessions::expire(&core).await;
        core.metrics.results_unclaimed.add(core.running.expire(core.now()));
        core.held.expire(core.now());
        core.store.housekeep(SWEEP);
        core.ephemeral.housekeep(SWEEP);
        core.clients.sweep(round);
    }
}
