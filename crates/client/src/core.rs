//! What all parts of one client share.

use crate::{
    CallError, ClientOptions, List, Peer, Target,
    ctx::Ctx,
    http::Http,
    noise::Noise,
    pipe::{Live, PipeLink},
};
use bowline_proto::{
    client::{DeliveryPolicy, HeaderPlan, ListCache},
    jsonrpc::{ErrorObject, Message, Notification, ParseError, Raw, Reply, Request, RequestId, code},
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

type Renewed = Option<Result<(), CallError>>;

struct Renewal {
    generation: u64,
    result: watch::Receiver<Renewed>,
    ended: Arc<Mutex<Option<Instant>>>,
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

    /// Tells the handler that the lists may be others now.
    pub(crate) async fn lists_may_have_changed(self: &Arc<Self>, peer: &Peer) {
        for list in List::ALL {
            if peer.has(list.capability()) {
                self.hear_notification(Notification::new(list.notification(), None), None).await;
            }
        }
    }

    pub(crate) fn set_standing(&self, task: AbortHandle) {
        let before = if self.is_closed() { Some(task) } else { self.standing.lock().replace(task) };
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Shakes hands again, once for everybody who asks while it lasts. `stale` is the generation that failed the caller.
    pub(crate) async fn renew(self: &Arc<Self>, stale: u64) -> Result<(), CallError> {
        // A renewal that failed is everybody's answer for a while.
        let shared_for = self.options.reconnect.backoff_base / 2;
        let mut result = {
            let mut slot = self.renewal.lock();
            if self.peer().is_some_and(|peer| peer.generation != stale) {
                return Ok(());
            }
            let shared = slot.as_ref().filter(|renewal| {
                let fresh = renewal.ended.lock().is_none_or(|ended| Instant::now() - ended < shared_for);
                renewal.generation == stale && fresh
            });
            match shared {
                Some(renewal) => renewal.result.clone(),
                None => {
                    let (sender, result) = watch::channel(None);
                    let ended = Arc::new(Mutex::new(None));
                    *slot = Some(Renewal {
                        generation: stale,
                        result: result.clone(),
                        ended: Arc::clone(&ended),
                    });
                    let core = Arc::clone(self);
                    // A task of its own: the caller that started it may go away while others wait.
                    tokio::spawn(async move {
                        let outcome = tokio::select! {
                            outcome = core.shake_hands_again() => outcome,
                            () = core.closing() => Err(CallError::Closed),
                        };
                        *ended.lock() = Some(Instant::now());
                        sender.send_replace(Some(outcome));
                    });
                    result
                }
            }
        };
        let outcome = result.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        outcome.ok().flatten().unwrap_or(Err(CallError::Closed))
    }

    async fn shake_hands_again(self: &Arc<Self>) -> Result<(), CallError> {
        let Link::Http(http) = &self.link else { return Err(CallError::transport("the pipe ended")) };
        let limit = self.options.connect_timeout;
        let shaken = tokio::time::timeout(limit, http.shake_hands(self, false)).await;
        let peer = shaken
            .map_err(|_| CallError::transport(format!("no answer to `initialize` within {limit:?}")))??;
        self.install(peer);
        let core = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = core.after_renewal() => {}
                () = core.closing() => {}
            }
        });
        Ok(())
    }

    async fn after_renewal(self: &Arc<Self>) {
        let Some(peer) = self.peer() else { return };
        if let Link::Http(http) = &self.link {
            http.start_standing(self, &peer, false);
        }
        self.tell_wishes(&peer).await;
        self.lists_may_have_changed(&peer).await;
    }

    /// Repeats log level and subscriptions to a new session.
    pub(crate) async fn tell_wishes(self: &Arc<Self>, peer: &Peer) {
        if peer.modern {
            return;
        }
        let (level, uris) = {
            let wishes = self.wishes.lock();
            (wishes.level.clone(), wishes.subscriptions.clone())
        };
        let level = level.map(|level| ("logging/setLevel", serde_json::json!({ "level": level })));
        let uris = uris.into_iter().map(|uri| ("resources/subscribe", serde_json::json!({ "uri": uri })));
        for (method, params) in level.into_iter().chain(uris) {
            let params = Raw::from_trusted(params.to_string().into());
            let ctx = self.quiet_ctx(method);
            if let Err(error) = self.exchange(&ctx, Some(&params)).await {
                tracing::warn!(method, %error, "the new session could not be told");
            }
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

    pub(crate) fn watch_progress(&self, token: &Raw, ctx: &Arc<Ctx>) {
        self.progress.lock().insert(token.as_str().to_owned(), Arc::downgrade(ctx));
    }

    pub(crate) fn unwatch_progress(&self, token: &Raw) {
        self.progress.lock().remove(token.as_str());
    }

    /// A message of the server that is not the response somebody waits for.
    pub(crate) async fn hear(
        self: &Arc<Self>,
        message: Message,
        from: Option<&Ctx>,
        live: Option<&Arc<Live>>,
    ) {
        match message {
            Message::Notification(note) => self.hear_notification(note, from).await,
            Message::Request(request) => self.hear_request(request, live).await,
            Message::Response(response) => {
                tracing::debug!(id = %response.id, "a response that nobody waits for");
            }
        }
    }

    async fn hear_notification(self: &Arc<Self>, note: Notification, from: Option<&Ctx>) {
        let params = note.params.as_ref();
        match &*note.method {
            "notifications/progress" => {
                let token = params.and_then(|params| params.member("progressToken"));
                let ctx =
                    token.and_then(|token| self.progress.lock().get(token.as_str()).and_then(Weak::upgrade));
                if let Some(ctx) = ctx {
                    ctx.alive();
                    ctx.progressed(params);
                } else if let Some(ctx) = from {
                    ctx.progressed(params);
                }
            }
            "notifications/cancelled" => {
                let id = params.and_then(|params| params.member("requestId"));
                let id = id.and_then(|id| RequestId::from_json(id.as_str()).ok());
                if let Some(task) = id.and_then(|id| self.asked.lock().remove(&id)) {
                    task.abort();
                }
            }
            // The beginning of what this client itself asked for. A handler never did, and a host of another era would not know it.
            "notifications/subscriptions/acknowledged" => return,
            method => self.cache.lock().on_notification(method, params),
        }
        self.options.handler.ready().await;
        self.options.handler.notification(&note);
    }

    async fn hear_request(self: &Arc<Self>, request: Request, live: Option<&Arc<Live>>) {
        if self.peer().is_some_and(|peer| peer.modern) {
            if self.noise.lock().heard(Instant::now()).is_some() {
                tracing::warn!(method = %request.method, "the server sent a request, which its revision does not know");
            }
            return;
        }
        let core = Arc::clone(self);
        let live = live.cloned();
        if &*request.method == "ping" {
            self.respond_at_once(request.id, Ok(Raw::empty_object()), live);
            return;
        }
        let Ok(permit) = Arc::clone(&self.questions).try_acquire_owned() else {
            let error = ErrorObject::internal("busy", "too many requests are being answered already");
            self.respond_at_once(request.id, Err(error), live);
            return;
        };
        self.options.handler.ready().await;
        let id = request.id.clone();
        let mut asked = self.asked.lock();
        let task = tokio::spawn(async move {
            let answer = core.options.handler.request(&request.method, request.params).await;
            core.asked.lock().remove(&request.id);
            core.respond(&request.id, answer, live).await;
            drop(permit);
        });
        asked.insert(id, task.abort_handle());
    }

    /// Sends an answer that needs nobody. A server that asks on and takes no answers gets no more of them.
    fn respond_at_once(
        self: &Arc<Self>,
        id: RequestId,
        answer: Result<Raw, ErrorObject>,
        live: Option<Arc<Live>>,
    ) {
        let Ok(permit) = Arc::clone(&self.courtesies).try_acquire_owned() else {
            tracing::debug!(%id, "the server asks faster than it takes answers: this one is left out");
            return;
        };
        let core = Arc::clone(self);
        tokio::spawn(async move {
            core.respond(&id, answer, live).await;
            drop(permit);
        });
    }

    async fn respond(
        self: &Arc<Self>,
        id: &RequestId,
        answer: Result<Raw, ErrorObject>,
        live: Option<Arc<Live>>,
    ) {
        let body = Reply::from(answer).to_bytes(id);
        let sent = match (&self.link, live) {
            (Link::Http(http), _) => http.tell(self, body, "a response").await,
            (Link::Pipe(_), Some(live)) => {
                live.send(body).await.map_err(|error| CallError::transport(error.message))
            }
            (Link::Pipe(_), None) => Ok(()),
        };
        if let Err(error) = sent {
            tracing::warn!(%id, %error, "a response could not be delivered");
        }
    }

    /// Answers one question of a modern round.
    pub(crate) async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Raw, ErrorObject> {
        match method {
            "sampling/createMessage" | "elicitation/create" | "roots/list" => {
                self.options.handler.request(method, params).await
            }
            _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, format!("no such question: {method}"))),
        }
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
