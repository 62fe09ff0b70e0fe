//! The handler that an endpoint gives its messages to.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_proto::modern::tasks::TaskSupport;
use bowline_server::{BoxFuture, Call, Figure, Hello, NoSession, Peer, RawHandler};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::bridge::{Bounds, Bridge};
use crate::child::Guard;
use crate::common::Common;
use crate::era::hello_for_legacy;
use crate::options::{GatewayOptions, Sharing};
use crate::pool::Pool;
use crate::reissue::Reissues;
use crate::restart::is_modern;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::GatewayStats;

/// When a client that found no room is told to try again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What the last processes may take beyond their grace: SIGKILL, and a kernel that hangs.
const LAST: Duration = Duration::from_secs(6);

/// A stdio MCP server behind an endpoint (SEMANTICS 6, "In front of a stdio server").
///
/// - Methods, parameters, results, errors and members that nobody knows pass as they are; only ids are exchanged. A
///   cancelled call is cancelled at the process, and nothing is answered any more.
/// - Strict servers get their handshake in order: `initialize`, its answer, `notifications/initialized` exactly once (the
///   gateway says it for a client that sends requests before), the rest.
/// - A process that ends costs its callers an error at once (`data.reason` is `upstream_lost`, `data.outcome` is `unknown`)
///   and the client nothing else: a new process is initialised with the recorded parameters, gets the log level and the
///   subscriptions, and `list_changed` is sent for what the client has read and now differs. No request is sent twice. One
///   that keeps ending costs calls an error at once (`upstream_unavailable`).
/// - A message longer than [`ChildSpec::max_line`](crate::child::ChildSpec) is dropped. When one request alone is running it
///   gets an error (`too_large`); among several nobody knows whose answer it was, and it waits for the call's own limit.
/// - A server that lives and says nothing cannot be told from one that works: see [`GatewayOptions::hang_timeout`].
///
/// Sessions hold on to the gateway and the endpoint: end with [`Gateway::shutdown`].
#[derive(Debug)]
pub struct Gateway {
    common: Arc<Common>,
    mode: Mode,
    /// Calls that go on when their clients have left, where the operator wants that.
    reissues: Option<Arc<Reissues>>,
}

enum Mode {
    PerSession { sessions: Mutex<HashMap<String, Arc<Session>>>, bridge: Arc<Bridge> },
    Shared(Arc<Shared>),
    Pool(Arc<Pool>),
}

impl Gateway {
    /// A gateway in front of the server of `options`. Its processes end with this process, also when that is killed, where
    /// `guard` is one. Nothing is started before a client comes.
    #[must_use]
    pub fn new(options: GatewayOptions, guard: Guard) -> Arc<Self> {
        let sharing = options.sharing;
        let common = Common::new(options, guard);
        let mode = match sharing {
            Sharing::PerSession => {
                let bounds = Bounds {
                    children: common.options.max_modern_children.max(1),
                    idle: common.options.modern_idle,
                };
                Mode::PerSession { sessions: Mutex::default(), bridge: Bridge::new(&common, bounds) }
            }
            Sharing::Shared => Mode::Shared(Shared::new(&common)),
            Sharing::Pool(size) => Mode::Pool(Pool::new(&common, size)),
        };
        let reissues = common.options.join_reissued.map(Reissues::new);
        Arc::new(Self { common, mode, reissues })
    }

    /// Ends all processes at once and waits until they are gone, for their grace periods and a few seconds at most. New
    /// sessions are refused from now on.
    pub async fn shutdown(&self) {
        self.common.closing.store(true, Ordering::Release);
        self.end_all();
        let child = &self.common.options.child;
        let patience = self.common.options.end_grace + child.kill_grace + LAST;
        if timeout(patience, self.common.all_gone()).await.is_err() {
            tracing::error!(
                target: "bowline::gateway",
                child = %self.common.name,
                left = self.common.children(),
                "processes are left over"
            );
        }
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> GatewayStats {
        let counters = &self.common.counters;
        let sessions = match &self.mode {
            Mode::PerSession { sessions, .. } => sessions.lock().len(),
            Mode::Shared(shared) => shared.sessions(),
            Mode::Pool(_) => 0,
        };
        GatewayStats {
            children: self.common.children() as u64,
            sessions: sessions as u64,
            started: counters.started.get(),
            crashes: counters.crashes.get(),
            restarted: counters.restarted.get(),
            taken_up: counters.taken_up.get(),
            refused: counters.refused.get(),
            noise: counters.noise.get(),
            too_long: counters.too_long.get(),
            late: counters.late.get(),
            undelivered: counters.undelivered.get(),
        }
    }

    fn end_all(&self) {
        match &self.mode {
            Mode::PerSession { sessions, bridge } => {
                bridge.end();
                let all: Vec<_> = sessions.lock().drain().map(|(_, session)| session).collect();
                for session in all {
                    session.end();
                }
            }
            Mode::Shared(shared) => shared.end(),
            Mode::Pool(pool) => pool.end(),
        }
    }

    fn session(&self, peer: &Peer) -> Option<Arc<Session>> {
        match &self.mode {
            Mode::PerSession { sessions, .. } => sessions.lock().get(peer.session_id()).cloned(),
            Mode::Shared(_) | Mode::Pool(_) => None,
        }
    }

    /// Starts a process for a new session.
    fn start(
        &self,
        sessions: &Mutex<HashMap<String, Arc<Session>>>,
        hello: Hello,
    ) -> Result<Arc<Session>, NoSession> {
        let Hello { peer, params, revision } = hello;
        if peer.session_id().is_empty() {
            return Err(ErrorObject::internal(
                "stateless",
                "without sessions a process cannot be kept for a client: let a pool of processes serve them, or use the session mode \"stateful\"",
            )
            .into());
        }
        let room = self.common.room().map_err(|error| NoSession::Busy(error, TRY_AGAIN))?;
        let key = peer.session_id().to_owned();
        let session = Session::start(&self.common, peer, &params, revision, room);
        sessions.lock().insert(key, session.clone());
        // A shutdown that began meanwhile may not have seen it.
        if self.common.closing.load(Ordering::Acquire) {
            session.end();
        }
        Ok(session)
    }

    /// The process of a session, which is started where there is none: another backend began the session, or this program before it was
    /// started again, or there was no room so far.
    fn session_or_take_up(
        &self,
        sessions: &Mutex<HashMap<String, Arc<Session>>>,
        peer: &Peer,
    ) -> Result<Arc<Session>, ErrorObject> {
        // Held to the end, so that one session gets one process.
        let mut held = sessions.lock();
        if let Some(session) = held.get(peer.session_id()) {
            return Ok(session.clone());
        }
        if self.common.closing.load(Ordering::Acquire) {
            return Err(self.common.unavailable("is being stopped"));
        }
        let room = self.common.room()?;
        let session = Session::take_up(&self.common, peer.clone(), room);
        held.insert(peer.session_id().to_owned(), session.clone());
        drop(held);
        if self.common.closing.load(Ordering::Acquire) {
            session.end();
        }
        Ok(session)
    }
}

impl Gateway {
    /// A call of a modern client that may be the one that the client had before.
    fn joined(&self, reissues: &Arc<Reissues>, call: &Call) -> BoxFuture<'static, Reply> {
        match &self.mode {
            Mode::PerSession { bridge, .. } => {
                let (work, told) = (bridge.clone(), bridge.clone());
                reissues.run(
                    call,
                    move |call| Box::pin(async move { work.answer(&call).await }),
                    move |from, to| told.hand_over(from, to),
                )
            }
            Mode::Shared(shared) => {
                let (work, told) = (shared.clone(), shared.clone());
                reissues.run(
                    call,
                    move |call| Box::pin(async move { work.answer(&call).await }),
                    move |from, to| told.hand_over(from, to),
                )
            }
            Mode::Pool(pool) => {
                let (work, told) = (pool.clone(), pool.clone());
                reissues.run(
                    call,
                    move |call| Box::pin(async move { work.answer(&call).await }),
                    move |from, to| told.hand_over(from, to),
                )
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl RawHandler for Gateway {
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        if self.common.closing.load(Ordering::Acquire) {
            let error = ErrorObject::internal("draining", "the gateway is shutting down");
            return Box::pin(std::future::ready(Err(NoSession::Busy(error, TRY_AGAIN))));
        }
        match &self.mode {
            // Should the client leave or the start fail, the endpoint says so with `ended`.
            Mode::PerSession { sessions, .. } => match self.start(sessions, hello) {
                Ok(session) => Box::pin(async move { Ok(hello_for_legacy(session.hello().await?)) }),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            },
            Mode::Shared(shared) => {
                let shared = shared.clone();
                Box::pin(async move { Ok(hello_for_legacy(shared.hello(&hello.peer).await?)) })
            }
            Mode::Pool(pool) => {
                let pool = pool.clone();
                Box::pin(async move { Ok(hello_for_legacy(pool.hello().await?)) })
            }
        }
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        if is_modern(&call)
            && let Err(error) = self.common.headers.check(&call)
        {
            return Box::pin(std::future::ready(error.into()));
        }
        if let Some(reissues) = self.reissues.as_ref().filter(|_| is_modern(&call)) {
            return self.joined(reissues, &call);
        }
        match &self.mode {
            Mode::PerSession { bridge, .. } if is_modern(&call) => {
                let bridge = bridge.clone();
                Box::pin(async move { bridge.call(&call).await })
            }
            Mode::PerSession { sessions, .. } => match self.session_or_take_up(sessions, &call.peer()) {
                Ok(session) => Box::pin(async move { session.call(&call).await }),
                Err(error) => Box::pin(std::future::ready(error.into())),
            },
            Mode::Shared(shared) => {
                let shared = shared.clone();
                Box::pin(async move { shared.call(&call).await })
            }
            Mode::Pool(pool) => {
                let pool = pool.clone();
                Box::pin(async move { pool.call(&call).await })
            }
        }
    }

    fn notified(&self, peer: &Peer, notification: Notification) {
        // To a shared process no client is anybody: nothing that one of them says of itself is true of all.
        if let Some(session) = self.session(peer) {
            session.notified(notification);
        }
    }

    fn adopt(&self, peer: &Peer) {
        match &self.mode {
            Mode::PerSession { sessions, .. } => {
                // Where there is no room, the calls say so, and the next one tries again.
                if let Err(error) = self.session_or_take_up(sessions, peer) {
                    let session = peer.log_name();
                    tracing::warn!(target: "bowline::gateway", %session, "a session cannot be taken up now: {}", error.message);
                }
            }
            Mode::Shared(shared) => shared.take_up(peer),
            Mode::Pool(_) => {}
        }
    }

    fn ended(&self, peer: &Peer) {
        match &self.mode {
            Mode::PerSession { sessions, bridge } => {
                if peer.revision().is_modern() {
                    return bridge.ended(peer);
                }
                let session = sessions.lock().remove(peer.session_id());
                if let Some(session) = session {
                    session.end();
                }
            }
            Mode::Shared(shared) => shared.ended(peer),
            Mode::Pool(pool) => pool.ended(peer),
        }
    }

    fn serves_modern(&self) -> bool {
        true
    }

    fn serves_tasks(&self) -> bool {
        true
    }

    /// Any call may: the server behind sees a call like any other, and nothing of it depends on the connection of the client.
    fn task_support(&self, _: &Call) -> TaskSupport {
        TaskSupport::Optional
    }

    /// Those of tools that the server marks as read-only or idempotent, as far as its list was read.
    fn is_repeatable(&self, call: &Call) -> bool {
        self.common.repeatable.is(call)
    }

    fn discover(&self, peer: Peer) -> BoxFuture<'static, Result<Raw, ErrorObject>> {
        if self.common.closing.load(Ordering::Acquire) {
            let error = ErrorObject::internal("draining", "the gateway is shutting down");
            return Box::pin(std::future::ready(Err(error)));
        }
        match &self.mode {
            Mode::PerSession { bridge, .. } => {
                let bridge = bridge.clone();
                Box::pin(async move { bridge.hello(&peer).await })
            }
            Mode::Shared(shared) => {
                let shared = shared.clone();
                Box::pin(async move { shared.hello(&peer).await })
            }
            Mode::Pool(pool) => {
                let pool = pool.clone();
                Box::pin(async move { pool.hello().await })
            }
        }
    }

    fn server_info(&self) -> Option<Raw> {
        self.common.server_info.lock().clone()
    }

    fn listening(&self, peer: &Peer) {
        match &self.mode {
            Mode::PerSession { bridge, .. } => bridge.listening(peer),
            Mode::Shared(shared) => shared.listening(peer),
            Mode::Pool(pool) => pool.listening(peer),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        self.stats().figures()
    }

    fn ready(&self) -> Result<(), String> {
        let looping = match &self.mode {
            // One client that crashes its own process again and again says nothing about the others.
            Mode::PerSession { sessions, .. } => {
                let sessions = sessions.lock();
                !sessions.is_empty() && sessions.values().all(|session| session.is_looping())
            }
            Mode::Shared(shared) => shared.is_looping(),
            Mode::Pool(pool) => pool.is_looping(),
        };
        if looping || self.common.gate.is_looping(Instant::now().into_std()) {
            return Err(format!("the server {} keeps ending soon after its start", self.common.name));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PerSession { sessions, bridge } => {
                let (sessions, processes) = (sessions.lock().len(), bridge.children());
                write!(f, "PerSession({sessions} sessions, {processes} processes for modern clients)")
            }
            Self::Shared(shared) => write!(f, "Shared({} sessions)", shared.sessions()),
            Self::Pool(_) => f.write_str("Pool"),
        }
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common")
            .field("name", &self.name)
            .field("children", &self.children())
            .finish_non_exhaustive()
    }
}
