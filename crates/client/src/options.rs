//! What a client is allowed to do, and how long.

use crate::{Authorizer, Handler, Handlers, Progress};
use bowline_proto::{
    client::{ReconnectPolicy, ResumeToken},
    jsonrpc::Raw,
    sse,
};
use http::HeaderMap;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Which era a client starts with (SEMANTICS 7.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Era {
    /// Modern first, `initialize` where the server does not know it; remembered for each origin.
    #[default]
    Detect,
    /// `initialize` only.
    Legacy,
    /// `2026-07-28` only.
    Modern,
}

/// Everything about a client that can be chosen. The defaults suit a program that talks to a server somewhere on the net.
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The client's name, `clientInfo.name`.
    pub name: String,
    /// The client's version, `clientInfo.version`.
    pub version: String,
    /// The whole `clientInfo`, where name and version are not all; it replaces them.
    pub client_info: Option<Raw>,
    /// The capabilities, where they are not what [`handler`](Self::handler) says.
    pub capabilities: Option<Raw>,
    /// The newest legacy revision that is asked for. Default: `2025-11-25`.
    pub revision: String,
    /// Which era to start with.
    pub era: Era,
    /// Whether HTTP+SSE (2024-11-05) is tried where `initialize` is answered with 400, 404 or 405. Default: true.
    pub sse_fallback: bool,
    /// What answers the server. Default: nothing does, and no capability is declared.
    pub handler: Arc<dyn Handler>,
    /// What puts credentials on requests. Default: nothing.
    pub authorizer: Option<Arc<dyn Authorizer>>,
    /// Headers for every request. Those that the client writes itself (`Host`, `Accept`, `Content-Type`, `Mcp-*`, ...) are not
    /// replaced: one that is given here is left out, with a warning in the log.
    pub headers: HeaderMap,
    /// TLS, where it is not the process's default provider with the system's roots.
    pub tls: Option<Arc<rustls::ClientConfig>>,

    /// To connect and shake hands, all fallbacks included. Default: 30 s.
    pub connect_timeout: Duration,
    /// For one TCP and TLS connection. Default: 10 s.
    pub socket_timeout: Duration,
    /// For an answer to what has no result: a notification, a response, the head of the standalone stream. Default: 30 s.
    pub post_timeout: Duration,
    /// How long a stream that can be resumed may bring nothing at all, not even a comment, before it is resumed. Default: 90 s.
    pub silence: Duration,
    /// How long `server/discover` on a pipe may go unanswered before `initialize` is tried. Default: 5 s.
    pub probe_timeout: Duration,
    /// For cancellations that are on their way when the client is closed, for the `DELETE` after them, or for the end of a child after
    /// its input ended; for each of these. Default: 2 s.
    pub close_timeout: Duration,
    /// How long a connection is kept for the next request. Default: 4 s, since many servers drop them after 5.
    pub keep_alive: Duration,
    /// The limit of a whole call, where the call has none. Default: none.
    pub timeout: Option<Duration>,
    /// The limit between two signs of life of a call, where the call has none. Default: 5 min.
    pub idle_timeout: Option<Duration>,
    /// How long requests that certainly did not run, or may run twice, are tried again while the server is away. Zero: not at
    /// all. Default: 90 s.
    pub outage: Duration,
    /// The same for the first connection, which a person may be waiting for. Default: zero.
    pub connect_outage: Duration,
    /// Waits and attempts of streams.
    pub reconnect: ReconnectPolicy,
    /// Whether the session's standalone stream (GET) is kept, or in the modern era a listen stream for the lists that change.
    /// Default: true.
    pub standalone: bool,
    /// How long [`connect`](crate::Client::connect) waits for the head of that stream, so that nothing said on it is missed.
    /// Default: 300 ms.
    pub standalone_wait: Duration,

    /// Calls at the same time; further ones wait. Default: 64.
    pub max_calls: usize,
    /// Requests of the server that are being answered at the same time; further ones are refused. Default: 64.
    pub max_questions: usize,
    /// Rounds of questions of one modern call or task. Default: 16.
    pub max_rounds: u32,
    /// Pages of one list. Default: 1,000.
    pub max_pages: usize,
    /// Entries of the cache of lists and resources. Default: 256.
    pub max_cached: usize,
    /// The largest response body that is no stream, in bytes. Default: 64 MiB.
    pub max_body_bytes: usize,
    /// The largest line and event of a stream, or line of a pipe. Default: 32 MiB.
    pub sse: sse::Limits,
}

impl ClientOptions {
    /// The defaults, under this name.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            client_info: None,
            capabilities: None,
            revision: bowline_proto::revision::Revision::NEWEST_LEGACY.as_str().into(),
            era: Era::default(),
            sse_fallback: true,
            handler: Arc::new(Handlers::default()),
            authorizer: None,
            headers: HeaderMap::new(),
            tls: None,
            connect_timeout: Duration::from_secs(30),
            socket_timeout: Duration::from_secs(10),
            post_timeout: Duration::from_secs(30),
            silence: Duration::from_secs(90),
            probe_timeout: Duration::from_secs(5),
            close_timeout: Duration::from_secs(2),
            keep_alive: Duration::from_secs(4),
            timeout: None,
            idle_timeout: Some(Duration::from_secs(300)),
            outage: Duration::from_secs(90),
            connect_outage: Duration::ZERO,
            reconnect: ReconnectPolicy::default(),
            standalone: true,
            standalone_wait: Duration::from_millis(300),
            max_calls: 64,
            max_questions: 64,
            max_rounds: 16,
            max_pages: 1_000,
            max_cached: 256,
            max_body_bytes: 64 * 1024 * 1024,
            sse: sse::Limits::default(),
        }
    }

    /// The same with what answers the server.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// The same with what puts credentials on requests.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// The same, starting with that era.
    #[must_use]
    pub const fn era(mut self, era: Era) -> Self {
        self.era = era;
        self
    }
}

impl fmt::Debug for ClientOptions {
    /// Without headers: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("revision", &self.revision)
            .field("era", &self.era)
            .field("outage", &self.outage)
            .finish_non_exhaustive()
    }
}

pub(crate) type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;
pub(crate) type OnToken = Arc<dyn Fn(&ResumeToken) + Send + Sync>;

/// What one call may do. The defaults are those of the client.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) timeout: Option<Option<Duration>>,
    pub(crate) idle_timeout: Option<Option<Duration>>,
    pub(crate) progress_extends: bool,
    pub(crate) idempotent: bool,
    pub(crate) log_level: Option<String>,
    pub(crate) on_progress: Option<OnProgress>,
    pub(crate) on_token: Option<OnToken>,
    pub(crate) cancel: Option<watch::Receiver<Option<String>>>,
}

impl CallOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The limit of the whole call; `None`: no limit.
    #[must_use]
    pub const fn timeout(mut self, limit: Option<Duration>) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The limit between two signs of life: a message of this call, or a new place in its stream. `None`: no limit.
    #[must_use]
    pub const fn idle_timeout(mut self, limit: Option<Duration>) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// Progress starts the limit of the whole call again.
    #[must_use]
    pub const fn progress_extends(mut self) -> Self {
        self.progress_extends = true;
        self
    }

    /// The request may run twice: it is sent again where nobody knows whether it ran (SEMANTICS 7.5). Known already for
    /// everything but `tools/call`, and for tools whose listed annotations say so.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// The level of log messages that this call wants to hear (modern; legacy servers have `logging/setLevel`).
    #[must_use]
    pub fn log_level(mut self, level: impl Into<String>) -> Self {
        self.log_level = Some(level.into());
        self
    }

    /// Asks for progress, and shows it. Called on the call's own task: it has to be quick.
    #[must_use]
    pub fn on_progress(mut self, show: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(show));
        self
    }

    /// Shows the token with which another process can take the call over, whenever it changes. Write the newest one down.
    #[must_use]
    pub fn on_token(mut self, keep: impl Fn(&ResumeToken) + Send + Sync + 'static) -> Self {
        self.on_token = Some(Arc::new(keep));
        self
    }

    /// The same, and a handle that cancels the call. (Dropping the call's future cancels it too.)
    #[must_use]
    pub fn cancellable(mut self) -> (Self, Canceller) {
        let (sender, receiver) = watch::channel(None);
        self.cancel = Some(receiver);
        (self, Canceller { sender })
    }
}

impl fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallOptions")
            .field("timeout", &self.timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("idempotent", &self.idempotent)
            .finish_non_exhaustive()
    }
}

/// Cancels a call: [`CallOptions::cancellable`].
#[derive(Debug)]
pub struct Canceller {
    sender: watch::Sender<Option<String>>,
}

impl Canceller {
    /// Tells the server to stop and ends the call with [`CallError::Cancelled`](crate::CallError::Cancelled). A call that is
    /// over stays as it is.
    pub fn cancel(&self, reason: impl Into<String>) {
        self.sender.send_replace(Some(reason.into()));
    }
}
