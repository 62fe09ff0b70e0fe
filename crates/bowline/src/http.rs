//! Serving over Streamable HTTP.

use bowline_proto::http::{AllowedHosts, AllowedOrigins, SessionMode, StaleSession};
use bowline_server::{Authenticator, Endpoint, EndpointBuilder, ListenerOptions, Options};
use bowline_store::Store;
use std::{io, sync::Arc, time::Duration};
use tokio::net::{TcpListener, ToSocketAddrs};

/// How a server is served over HTTP: with its own listener, or mounted into something else.
#[derive(Debug)]
#[must_use = "nothing is served without `serve`, `serve_on` or `into_endpoint`"]
pub struct Http {
    builder: EndpointBuilder,
    listener: ListenerOptions,
    drain: Duration,
}

impl Http {
    /// Serves what is not a [`Server`](crate::Server): any handler, by the endpoint that `builder` makes.
    pub fn new(builder: EndpointBuilder) -> Self {
        Self { builder, listener: ListenerOptions::default(), drain: Duration::from_secs(30) }
    }

    /// The path. Default `/mcp`.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.builder = self.builder.path(path);
        self
    }

    /// Whether there are sessions. Default: [`SessionMode::Stateful`].
    pub fn session_mode(mut self, mode: SessionMode) -> Self {
        self.builder = self.builder.session_mode(mode);
        self
    }

    /// Without sessions: every request stands alone, any number of processes may share the work, and nothing can be asked of a client.
    pub fn stateless(self) -> Self {
        self.session_mode(SessionMode::Stateless { resumable: false, stale_session: StaleSession::default() })
    }

    /// Where sessions and streams are kept. Default: this process's memory.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.builder = self.builder.store(store);
        self
    }

    /// Where everything is kept, together with other processes that serve the same: each of them serves any request of any session,
    /// and sessions outlive this one.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.builder = self.builder.shared_store(store);
        self
    }

    /// Bounds and habits.
    pub fn options(mut self, options: Options) -> Self {
        self.builder = self.builder.options(options);
        self
    }

    /// Web origins that may call, beside the loopback ones of a loopback address. Default: none.
    pub fn allowed_origins(mut self, origins: AllowedOrigins) -> Self {
        self.builder = self.builder.allowed_origins(origins);
        self
    }

    /// Values of `Host` that are taken. Default: the loopback ones on a loopback address, any elsewhere.
    pub fn allowed_hosts(mut self, hosts: AllowedHosts) -> Self {
        self.builder = self.builder.allowed_hosts(hosts);
        self
    }

    /// Whether the endpoint is reached by a loopback address only. [`Http::serve`] sees that itself; for [`Http::into_endpoint`] the
    /// default is `true`, the safe side.
    pub fn loopback(mut self, loopback: bool) -> Self {
        self.builder = self.builder.loopback(loopback);
        self
    }

    /// Whether whoever connects is a proxy of ours: see [`EndpointBuilder::trust_proxy`]. Default `false`.
    pub fn trust_proxy(mut self, trust_proxy: bool) -> Self {
        self.builder = self.builder.trust_proxy(trust_proxy);
        self
    }

    /// Who may call: see [`EndpointBuilder::authenticator`]. Default: anybody.
    pub fn authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.builder = self.builder.authenticator(authenticator);
        self
    }

    /// The bounds of the listener.
    pub const fn listener_options(mut self, options: ListenerOptions) -> Self {
        self.listener = options;
        self
    }

    /// How long running calls have when the process is told to end. Default 30 s.
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain = timeout;
        self
    }

    /// The endpoint: a `tower` service, to be mounted under its path in an axum `Router` (`route_service`, which keeps the path) behind
    /// any layers. Must be called inside a tokio runtime.
    pub fn into_endpoint(self) -> Endpoint {
        self.builder.build()
    }

    /// Listens on `address` and serves until the process is told to end (Ctrl-C, SIGTERM). Then running calls have the time of
    /// [`Http::drain_timeout`].
    ///
    /// # Errors
    /// When the address cannot be listened on, or no connection can be accepted any more.
    pub async fn serve(self, address: impl ToSocketAddrs) -> io::Result<()> {
        self.serve_on(TcpListener::bind(address).await?, told_to_end()).await
    }

    /// Serves on `listener` until `stop` is ready, and then until running calls ended, for the time of [`Http::drain_timeout`] at most.
    ///
    /// # Errors
    /// When no connection can be accepted any more.
    pub async fn serve_on(self, listener: TcpListener, stop: impl Future<Output = ()>) -> io::Result<()> {
        let address = listener.local_addr()?;
        let endpoint = self.builder.loopback(address.ip().is_loopback()).build();
        tracing::info!(%address, "serving MCP over HTTP");
        let stop = async {
            stop.await;
            tracing::info!("leaving: no new sessions, running calls may end");
            endpoint.drain(self.drain).await;
        };
        let served = bowline_server::serve(listener, endpoint.clone(), self.listener, stop).await;
        endpoint.close().await;
        served
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_end() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = interrupted => {}
        () = terminated => {}
    }
}
