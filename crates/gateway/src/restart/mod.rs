//! Keeps a process running for somebody: the first start, the pauses, and how a new process is brought to where the old one was.

mod handshake;
mod restore;
mod rounds;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Raw, Reply};
use bowline_proto::projection::request_for_legacy;
use bowline_server::Call;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::child::{Backoff, Exit};
use crate::common::Common;
use crate::gate::jitter;
use crate::lists::Seen;
use crate::tokens::with_token;
use crate::upstream::{Audience, Outcome, Upstream};

/// Where the process is.
#[derive(Clone)]
enum Phase {
    /// It is being started, or started again.
    Starting,
    /// It serves.
    Up(Arc<Upstream>),
    /// The last start failed, or it keeps crashing.
    Failing { error: ErrorObject, looping: bool },
    /// Nobody needs it any more. Where it had not come up, those who still wait are told why.
    Ended { error: Option<ErrorObject> },
}

/// Where a process stands that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It is the first one of its clients: it answers their `initialize`.
    First,
    /// Its client was served by another backend, or before this program was started again.
    TakenUp,
    /// It replaces one that ended.
    Again,
}

/// What becomes of the progress token of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// An id of ours takes its place: two calls with the same token each hear their own. All calls are one client's, so parameters in
    /// which that cannot be done pass as they are.
    OfOneClient,
    /// An id of ours takes its place, or the call is refused.
    Replaced,
    /// So it does, and what the process logs meanwhile is this call's.
    ReplacedWithLogs,
}

/// Whether a call is that of a modern client.
pub(crate) fn is_modern(call: &Call) -> bool {
    call.round().is_some()
}

/// What `initialize` was answered by the first process.
pub(crate) struct Hello {
    /// The result.
    pub(crate) result: Raw,
    /// The process.
    pub(crate) upstream: Arc<Upstream>,
}

/// Keeps a process running until it is told to stop.
pub(crate) struct Keeper {
    common: Arc<Common>,
    audience: Weak<dyn Audience>,
    /// The place of a process that is one client's own; given back when the last of its processes is gone.
    place: Mutex<Option<Arc<OwnedSemaphorePermit>>>,
    phase: watch::Sender<Phase>,
    /// The result of the first `initialize`: what the clients were told.
    told: Mutex<Option<Raw>>,
    seen: Mutex<Seen>,
    /// What the process is subscribed to for clients that listen.
    subscribed: AsyncMutex<(Weak<Upstream>, BTreeSet<String>)>,
    looping: AtomicBool,
    /// Where the first process stands.
    begins: Start,
}

impl Keeper {
    pub(crate) fn new(
        common: &Arc<Common>,
        audience: Weak<dyn Audience>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        Self::begin(common, audience, place, Start::First)
    }

    /// For a client that another backend served before, or this program before it was started again.
    pub(crate) fn taking_up(
        common: &Arc<Common>,
        audience: Weak<dyn Audience>,
        place: Option<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        Self::begin(common, audience, place, Start::TakenUp)
    }

    fn begin(
        common: &Arc<Common>,
        audience: Weak<dyn Audience>,
        place: Option<OwnedSemaphorePermit>,
        begins: Start,
    ) -> Arc<Self> {
        Arc::new(Self {
            common: common.clone(),
            audience,
            place: Mutex::new(place.map(Arc::new)),
            phase: watch::Sender::new(Phase::Starting),
            told: Mutex::new(None),
            seen: Mutex::default(),
            subscribed: AsyncMutex::default(),
            looping: AtomicBool::new(false),
            begins,
        })
    }

    /// Starts the first process, and goes on from there.
    pub(crate) fn run(self: &Arc<Self>) {
        tokio::spawn(self.clone().keep());
    }

    /// Stops, in the background.
    pub(crate) fn end(&self) {
        let mut serves = None;
        self.phase.send_modify(|phase| {
            let error = match phase {
                Phase::Failing { error, .. } | Phase::Ended { error: Some(error) } => Some(error.clone()),
                _ => None,
            };
            if let Phase::Up(upstream) = std::mem::replace(phase, Phase::Ended { error }) {
                serves = Some(upstream);
            }
        });
        if let Some(upstream) = serves {
            upstream.close(self.common.options.end_grace);
        }
        self.place.lock().take();
    }

    /// Whether the process keeps crashing.
    pub(crate) fn is_looping(&self) -> bool {
        self.looping.load(Ordering::Relaxed)
    }

    /// Waits for the first process, or for one that replaces another. A start that fails is an error at once.
    pub(crate) async fn hello(&self) -> Result<Hello, ErrorObject> {
        let upstream = self.wait(|phase| match phase {
            Phase::Failing { error, .. } => Some(Err(error.clone())),
            _ => None,
        });
        let upstream = upstream.await?;
        let Some(result) = self.told.lock().clone() else {
            return Err(self.common.unavailable("is not initialized"));
        };
        Ok(Hello { result, upstream })
    }

    /// The process to send a request to. Waits while it is being replaced; one that keeps crashing is an error at once.
    pub(crate) async fn upstream(&self) -> Result<Arc<Upstream>, ErrorObject> {
        self.wait(|phase| match phase {
            Phase::Failing { error, looping: true } => Some(Err(error.clone())),
            _ => None,
        })
        .await
    }

    /// The process, if it serves now.
    pub(crate) fn upstream_now(&self) -> Option<Arc<Upstream>> {
        match &*self.phase.borrow() {
            Phase::Up(upstream) => Some(upstream.clone()),
            _ => None,
        }
    }

    /// Has `upstream`, which is or was this keeper's process, work on a call. `None` when nothing was sent: then it is known that
    /// it does not serve any more, and another one can be asked.
    pub(crate) async fn ask(&self, upstream: &Arc<Upstream>, call: &Call, tokens: Tokens) -> Option<Reply> {
        if upstream.is_modern() {
            return self.ask_in_rounds(upstream, call, tokens).await;
        }
        let params = call.params().cloned();
        let params = if is_modern(call) { params.map(request_for_legacy) } else { params };
        self.send(upstream, call, params, tokens).await
    }

    /// The same for a process that several clients share: the call's progress token is replaced by an id of our own.
    pub(crate) async fn ask_shared(&self, upstream: &Arc<Upstream>, call: &Call) -> Option<Reply> {
        upstream.initialized(None);
        self.ask(upstream, call, Tokens::Replaced).await
    }

    /// Sends a call with these parameters.
    async fn send(
        &self,
        upstream: &Arc<Upstream>,
        call: &Call,
        params: Option<Raw>,
        tokens: Tokens,
    ) -> Option<Reply> {
        let id = upstream.next_id();
        let params = match with_token(params.as_ref(), id) {
            Ok(params) => params,
            Err(_) if tokens == Tokens::OfOneClient => params,
            Err(error) => return Some(error.into()),
        };
        match upstream.request(id, Some(call), call.method(), params).await {
            Outcome::Answered(reply) => {
                if call.method() == "tools/list"
                    && let Reply::Result(result) = &reply
                {
                    self.common.headers.note(&self.common.name, result);
                    self.common.repeatable.note(result);
                }
                Some(reply)
            }
            Outcome::Lost(how) => Some(self.common.lost(call.method(), &how).into()),
            Outcome::Failed(error) => Some(error.into()),
            Outcome::NotSent => {
                self.past(upstream).await;
                None
            }
        }
    }

    /// Waits until it is known that `upstream` does not serve any more.
    pub(crate) async fn past(&self, upstream: &Arc<Upstream>) {
        let gone = |phase: &Phase| !matches!(phase, Phase::Up(up) if Arc::ptr_eq(up, upstream));
        let patience = self.common.options.init_timeout;
        let _ = timeout(patience, self.phase.subscribe().wait_for(gone)).await;
    }

    async fn wait(
        &self,
        fails: impl Fn(&Phase) -> Option<Result<Arc<Upstream>, ErrorObject>> + Send + Sync,
    ) -> Result<Arc<Upstream>, ErrorObject> {
        let ready = |phase: &Phase| match phase {
            Phase::Up(upstream) => Some(Ok(upstream.clone())),
            Phase::Ended { error: Some(error) } => Some(Err(error.clone())),
            Phase::Ended { error: None } => {
                Some(Err(self.common.unavailable("was stopped: the session ended")))
            }
            phase => fails(phase),
        };
        if let Some(outcome) = ready(&self.phase.borrow()) {
            return outcome;
        }
        let mut phases = self.phase.subscribe();
        // A start has this long; it may begin after a pause, which is why the wait is somewhat longer.
        let patience = self.common.options.init_timeout + Duration::from_secs(1);
        match timeout(patience, phases.wait_for(|phase| ready(phase).is_some())).await {
            Ok(Ok(phase)) => ready(&phase).unwrap_or_else(|| Err(self.common.unavailable("is not running"))),
            _ => Err(self.common.unavailable("is being started and is not ready yet")),
        }
    }

    /// Takes note of an answer that goes to a client.
    pub(crate) fn note(&self, method: &str, params: Option<&Raw>, reply: &Reply) {
        if !method.ends_with("/list") {
            return;
        }
        let noted = self.seen.lock().note(method, params, reply);
        if let (Some((kind, digest)), Some(audience)) = (noted, self.audience.upgrade()) {
            audience.note_seen(kind.method, digest);
        }
    }

    /// Sets the phase unless it is over; `false` where it is.
    fn publish(&self, phase: Phase) -> bool {
        self.phase.send_if_modified(|held| {
            let goes_on = !matches!(held, Phase::Ended { .. });
            if goes_on {
                *held = phase;
            }
            goes_on
        })
    }

    async fn keep(self: Arc<Self>) {
        let mut phases = self.phase.subscribe();
        let over = phases.wait_for(|phase| matches!(phase, Phase::Ended { .. }));
        tokio::select! {
            biased;
            _ = over => {}
            () = Box::pin(self.keep_on()) => {}
        }
    }

    async fn keep_on(&self) {
        let mut backoff = Backoff::new(self.common.options.restart);
        let mut start = self.begins;
        loop {
            let starting = self.bring_up(&mut backoff, start).await;
            let upstream = starting.upstream.clone();
            if !self.publish(Phase::Up(upstream.clone())) {
                return;
            }
            starting.keep();
            match start {
                Start::First => {}
                Start::TakenUp => drop(self.common.counters.taken_up.up()),
                Start::Again => drop(self.common.counters.restarted.up()),
            }
            let watch = async {
                match start {
                    Start::First => {}
                    Start::TakenUp => self.compare_noted(&upstream).await,
                    Start::Again => self.compare(&upstream).await,
                }
                // The one client of a process that is new reads the list itself.
                if start != Start::First || self.place.lock().is_none() {
                    self.learn_tools(&upstream).await;
                }
                // A process that lives has come up; until then a crash loop stays one.
                sleep(self.common.options.restart.stable).await;
                self.looping.store(false, Ordering::Relaxed);
                std::future::pending::<Infallible>().await
            };
            let exit = tokio::select! {
                exit = upstream.ended() => exit,
                never = watch => match never {},
            };
            start = Start::Again;
            self.crashed(&exit, &mut backoff).await;
        }
    }

    /// The process ended by itself: the pause before the next start.
    async fn crashed(&self, exit: &Exit, backoff: &mut Backoff) {
        self.common.counters.crashes.up();
        tracing::warn!(
            target: "bowline::gateway",
            child = %self.common.name,
            stderr = %exit.stderr_tail,
            "the server {exit}; it is started again"
        );
        let now = Instant::now().into_std();
        let pause = backoff.ended(now, jitter());
        let looping = backoff.crash_looping(now);
        self.looping.store(looping, Ordering::Relaxed);
        self.publish(if looping {
            let what =
                format!("keeps ending soon after its start (the last time it {})", exit.reason.for_clients());
            Phase::Failing { error: self.common.unavailable(&what), looping }
        } else {
            Phase::Starting
        });
        sleep(pause).await;
    }

    /// Starts processes until one comes up. For one client alone, the first is started once.
    async fn bring_up(&self, backoff: &mut Backoff, start: Start) -> Starting {
        let alone = start == Start::First && self.place.lock().is_some();
        loop {
            let gate = &self.common.gate;
            let now = Instant::now().into_std();
            if alone && !gate.closed_for(now).is_zero() {
                // A client that asks again and again must not take the turns of those who wait.
                let error = self.common.unavailable("does not come up");
                self.publish(Phase::Failing { error, looping: gate.is_looping(now) });
                return std::future::pending().await;
            }
            let turn = gate.turn(now);
            if !turn.is_zero() {
                if gate.is_looping(now) {
                    let error = self.common.unavailable("does not come up");
                    self.publish(Phase::Failing { error, looping: true });
                }
                tokio::select! {
                    () = sleep(turn) => {}
                    () = gate.opened() => {}
                }
            }
            backoff.started(Instant::now().into_std());
            if !self.is_looping() {
                // Whoever asks now waits for this try, and is not told of the last one.
                self.publish(Phase::Starting);
            }
            let error = match self.start(start).await {
                Ok(starting) => {
                    self.common.gate.came_up();
                    return starting;
                }
                Err(Failure { error, counts }) => {
                    if counts {
                        self.common.gate.failed(Instant::now().into_std());
                    }
                    error
                }
            };
            let now = Instant::now().into_std();
            let pause = backoff.ended(now, jitter());
            let looping = backoff.crash_looping(now) || self.common.gate.is_looping(now);
            self.looping.store(looping, Ordering::Relaxed);
            self.publish(Phase::Failing { error, looping });
            if alone {
                // The client is told, and may come again; its session ends.
                return std::future::pending().await;
            }
            sleep(pause).await;
        }
    }

    /// Starts a process and shakes hands with it. One that is not the first is also brought to where the last one was.
    async fn start(&self, start: Start) -> Result<Starting, Failure> {
        let common = &self.common;
        let Some(audience) = self.audience.upgrade() else {
            return Err(Failure { error: common.unavailable("is not needed any more"), counts: false });
        };
        let place = self.place.lock().clone();
        let upstream = Upstream::start(common, self.audience.clone(), place).map_err(|error| {
            tracing::error!(target: "bowline::gateway", child = %common.name, "{error}");
            Failure { error: common.unavailable("could not be started"), counts: true }
        })?;
        let starting = Starting { upstream: upstream.clone(), grace: common.options.end_grace, armed: true };
        let (result, modern) = self.shake_hands(&upstream, audience.hello()).await?;
        upstream.speaks(&result, modern);
        if let Some(info) = result.member("serverInfo") {
            *common.server_info.lock() = Some(info.detached());
        }
        if start != Start::Again {
            // The line it came on may be large; this is kept as long as the session.
            *self.told.lock() = Raw::parse(result.as_str().to_owned()).ok();
        }
        if modern {
            let uris = audience.subscriptions().into_iter().collect();
            // Whoever waits for the process does not wait for this.
            let upstream = upstream.clone();
            tokio::spawn(async move { upstream.listen(&uris).await });
        } else if start != Start::First {
            upstream.initialized(None);
            self.restore(&upstream, &*audience, &result).await;
        }
        Ok(starting)
    }
}

/// Why a start failed.
struct Failure {
    error: ErrorObject,
    /// Whether the next start, whoever asks for it, should be careful.
    counts: bool,
}

/// A process that is being started: it is stopped again unless it is kept.
struct Starting {
    upstream: Arc<Upstream>,
    grace: Duration,
    armed: bool,
}

impl Starting {
    fn keep(mut self) {
        self.armed = false;
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.armed {
            self.upstream.close(self.grace);
        }
    }
}
