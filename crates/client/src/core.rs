//! What all parts of one client share.

mod hearing;
mod renewal;

use self::renewal::Renewal;
use crate::{
    CallError, ClientOptions, Peer, Target, ctx::Ctx, http::Http, listening::Route, noise::Noise,
    pipe::PipeLink,
};
use bowline_proto::{
    client::{DeliveryPolicy, HeaderPlan, ListCache},
    jsonrpc::{Notification, ParseError, Raw, RequestId},
    modern::meta::SUBSCRIPTION_ID,
    projection::capabilities_for_modern,
    time::{Millis, millis},
};
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    task::AbortHandle,
    time::Instant,
};

/// Answers under way that no handler makes.
const MAX_COURTESIES: usize = 64;

pub(crate) enum Link {
    Http(Box<Http>),
    Pipe(PipeLink),
}

/// What the client knows of a tool from the list.
#[derive(Clone, Debug)]
pub(crate) struct ToolFacts {
    pub(crate) plan: HeaderPlan,
    /// Marked idempotent or read-only.
    pub(crate) repeatable: bool,
}

/// What a new session has to be told again.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) level: Option<String>,
    pub(crate) subscriptions: BTreeSet<String>,
}

pub(crate) struct Core {
    pub(crate) options: ClientOptions,
    pub(crate) target: Target,
    pub(crate) link: Link,
    pub(crate) slots: Semaphore,
    pub(crate) cache: Mutex<ListCache>,
    pub(crate) tools: Mutex<BTreeMap<String, ToolFacts>>,
    pub(crate) wishes: Mutex<Wishes>,
    noise: Mutex<Noise>,
    /// The wishes changed: a listen stream is to be opened anew.
    pub(crate) wished: Notify,
    origin: Instant,
    ids: AtomicU64,
    questions: Arc<Semaphore>,
    /// Answers under way that no handler makes: to pings, and that there are too many questions.
    courtesies: Arc<Semaphore>,
    progress: Mutex<HashMap<String, Weak<Ctx>>>,
    asked: Mutex<HashMap<RequestId, AbortHandle>>,
    /// Where notifications of listen requests go that share a pipe with everything else, by the ids of the requests.
    pub(crate) routes: Mutex<HashMap<RequestId, Arc<Route>>>,
    peer: RwLock<Option<Arc<Peer>>>,
    renewal: Mutex<Option<Renewal>>,
    closed: watch::Sender<bool>,
    /// How many calls that were given up the server is being told of.
    telling: watch::Sender<usize>,
    /// The task of the standalone or listen stream.
    standing: Mutex<Option<AbortHandle>>,
}

/// See [`Core::telling`].
pub(crate) struct Telling(Arc<Core>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.telling.send_modify(|telling| *telling -= 1);
    }
}

impl Core {
    pub(crate) fn new(target: Target, options: ClientOptions, link: Link) -> Self {
        Self {
            slots: Semaphore::new(options.max_calls.clamp(1, Semaphore::MAX_PERMITS)),
            questions: Arc::new(Semaphore::new(options.max_questions.min(Semaphore::MAX_PERMITS))),
            courtesies: Arc::new(Semaphore::new(MAX_COURTESIES)),
            cache: Mutex::new(ListCache::new(options.max_cached)),
            options,
            target,
            link,
            tools: Mutex::default(),
            wishes: Mutex::default(),
            noise: Mutex::default(),
            wished: Notify::new(),
            origin: Instant::now(),
            ids: AtomicU64::new(1),
            progress: Mutex::default(),
            asked: Mutex::default(),
            routes: Mutex::default(),
            peer: RwLock::new(None),
            renewal: Mutex::new(None),
            closed: watch::Sender::new(false),
            telling: watch::Sender::new(0),
            standing: Mutex::new(None),
        }
    }

    /// Logs that the server sent what is no message, once in a while: a server may send nothing else.
    pub(crate) fn tell_noise(&self, error: &ParseError) {
        match self.noise.lock().heard(Instant::now()) {
            Some(0) => tracing::warn!(%error, "the server sent what is no message"),
            Some(unsaid) => {
                tracing::warn!(%error, unsaid, "the server sent what is no message, not for the first time");
            }
            None => tracing::debug!(%error, "the server sent what is no message"),
        }
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(millis(Instant::now() - self.origin))
    }

    pub(crate) async fn sleep_until(&self, at: Millis) {
        tokio::time::sleep_until(self.origin + Duration::from_millis(at.0)).await;
    }

    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::from(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn policy(&self, repeatable: bool, outage: Duration) -> DeliveryPolicy {
        DeliveryPolicy { reconnect: self.options.reconnect, outage, repeatable }
    }

    pub(crate) fn peer(&self) -> Option<Arc<Peer>> {
        self.peer.read().clone()
    }

    pub(crate) fn client_info(&self) -> Raw {
        self.options.client_info.clone().unwrap_or_else(|| {
            let info = serde_json::json!({ "name": self.options.name, "version": self.options.version });
            Raw::from_trusted(info.to_string().into())
        })
    }

    /// What the client declares; in the modern era also that it follows tasks to their end.
    pub(crate) fn capabilities(&self, modern: bool) -> Raw {
        let declared = self.options.capabilities.clone();
        let declared = declared.unwrap_or_else(|| self.options.handler.capabilities());
        if !modern {
            return declared;
        }
        let declared = capabilities_for_modern(declared);
        let extensions = declared.member("extensions").unwrap_or_else(Raw::empty_object);
        let extensions = extensions.with_member("io.modelcontextprotocol/tasks", &Raw::empty_object());
        extensions.and_then(|extensions| declared.with_member("extensions", &extensions)).unwrap_or(declared)
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    pub(crate) async fn closing(&self) {
        let mut closed = self.closed.subscribe();
        // The sender lives in `self`, so this only ends with the wish to close.
        drop(closed.wait_for(|closed| *closed).await);
    }

    /// The server is being told that a call was given up, as long as this exists.
    pub(crate) fn telling(self: &Arc<Self>) -> Telling {
        self.telling.send_modify(|telling| *telling += 1);
        Telling(Arc::clone(self))
    }

    /// Waits until the server was told of every call that was given up.
    pub(crate) async fn told(&self) {
        let mut telling = self.telling.subscribe();
        drop(telling.wait_for(|telling| *telling == 0).await);
    }

    /// Ends everything that runs on its own. Whether this call did it.
    pub(crate) fn shut(&self) -> bool {
        let first = !self.closed.send_replace(true);
        if let Some(task) = self.standing.lock().take() {
            task.abort();
        }
        for (_, question) in self.asked.lock().drain() {
            question.abort();
        }
        first
    }

    /// Puts a new peer in place of the old one.
    pub(crate) fn install(self: &Arc<Self>, mut peer: Peer) -> Arc<Peer> {
        let mut place = self.peer.write();
        let before = place.take();
        peer.generation = before.as_ref().map_or(1, |before| before.generation + 1);
        let peer = Arc::new(peer);
        *place = Some(Arc::clone(&peer));
        drop(place);
        if before.is_some() {
            tracing::info!(target = %self.target, revision = %peer.revision, "connected anew");
            self.cache.lock().clear();
            self.tools.lock().clear();
        }
        peer
    }

    pub(crate) fn set_standing(&self, task: AbortHandle) {
        let before = if self.is_closed() { Some(task) } else { self.standing.lock().replace(task) };
        if let Some(before) = before {
            before.abort();
        }
    }

    /// The context of a request that the client makes for itself.
    pub(crate) fn quiet_ctx(&self, method: &str) -> Arc<Ctx> {
        Arc::new(Ctx::new(method, self.target.to_string(), true, crate::CallOptions::default()))
    }

    /// Sends one request over whatever the link is, and waits for its response.
    ///
    /// Boxed: a renewal inside of it sends requests of its own.
    pub(crate) fn exchange<'a>(
        self: &'a Arc<Self>,
        ctx: &'a Arc<Ctx>,
        params: Option<&'a Raw>,
    ) -> BoxFuture<'a, Result<Raw, CallError>> {
        Box::pin(async move {
            if self.is_closed() {
                return Err(CallError::Closed);
            }
            match &self.link {
                Link::Http(http) => http.exchange(self, ctx, params).await,
                Link::Pipe(pipe) => pipe.exchange(self, ctx, params).await,
            }
        })
    }

    /// Keeps a listen stream open over whatever the link is. Returns why there will be none any more; `None`: it was stopped.
    pub(crate) async fn keep_open(
        self: &Arc<Self>,
        route: &Arc<Route>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<CallError> {
        match &self.link {
            Link::Http(http) => http.keep_subscription(self, route, stopped).await,
            Link::Pipe(pipe) => pipe.keep_subscription(self, route, stopped).await,
        }
    }

    /// The typed listen stream that a notification belongs to.
    fn route_of(&self, note: &Notification) -> Option<Arc<Route>> {
        let routes = self.routes.lock();
        if routes.is_empty() {
            return None;
        }
        let id = note.params.as_ref()?.member("_meta")?.member(SUBSCRIPTION_ID)?;
        routes.get(&RequestId::from_json(id.as_str()).ok()?).cloned()
    }

    pub(crate) fn watch_progress(&self, token: &Raw, ctx: &Arc<Ctx>) {
        self.progress.lock().insert(token.as_str().to_owned(), Arc::downgrade(ctx));
    }

    pub(crate) fn unwatch_progress(&self, token: &Raw) {
        self.progress.lock().remove(token.as_str());
    }

    /// Sends a notification.
    pub(crate) async fn notify(self: &Arc<Self>, note: &Notification) -> Result<(), CallError> {
        if self.is_closed() {
            return Err(CallError::Closed);
        }
        match &self.link {
            Link::Http(http) => http.tell(self, note.to_bytes(), &note.method).await,
            Link::Pipe(pipe) => pipe.tell(self, note.to_bytes()).await,
        }
    }
}

/// Randomness for jitter.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}
