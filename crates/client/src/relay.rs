//! A bridge: a host that speaks a revision with a handshake on one side, a [`Client`] on the other.

use crate::{
    CallError, CallOptions, Canceller, Client, ClientOptions, ConnectError, Handler, List, Peer, Target,
    call::text,
};
use bowline_proto::{
    jsonrpc::{ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, Response, code},
    revision::Revision,
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Carries a host's messages to a server and the server's to the host: what `bowline connect` is made of.
///
/// The host's `initialize` opens the connection, with the host's own name, capabilities and revision; its requests, notifications
/// and responses go through [`forward`](Self::forward), and everything for it comes out of the channel given to
/// [`new`](Self::new), in order, each response once. When the server is replaced the host notices nothing but
/// `list_changed`. Errors for lost requests never say that repeating is safe where nobody knows.
///
/// A server that speaks `2026-07-28` only is served to the host as one of the host's own revision; a host that asks for
/// `server/discover` first is told to use `initialize`.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Clone)]
enum State {
    New,
    Connecting,
    Ready(Client),
    /// The last attempt failed, and nothing is tried any more, or nothing that helps soon.
    Failed(ErrorObject),
    Closed,
}

/// Calls that are under way get this long to take themselves back before the session is ended.
const TAKING_BACK: Duration = Duration::from_millis(500);

struct Inner {
    target: Target,
    options: ClientOptions,
    host: mpsc::Sender<Message>,
    state: watch::Sender<State>,
    /// Calls of the host under way, by the host's ids.
    calls: Mutex<HashMap<RequestId, Canceller>>,
    running: watch::Sender<usize>,
    /// Requests of the server that the host is to answer, by the ids that the host sees.
    questions: Mutex<HashMap<RequestId, oneshot::Sender<Reply>>>,
    ids: AtomicU64,
    /// How long the host waits for the server at the beginning, where somebody stands in for it afterwards.
    patience: Option<Duration>,
    /// Whether the host was introduced to a stand-in.
    stood_in: AtomicBool,
    /// What the last attempt to connect met.
    trouble: Mutex<Option<ErrorObject>>,
}

impl Relay {
    /// A bridge to `target`; `host` gets the messages for the host. A full channel holds back what is read from the server.
    ///
    /// The handler, capabilities, name and revision in `options` are replaced by the host's.
    #[must_use]
    pub fn new(target: Target, options: ClientOptions, host: mpsc::Sender<Message>) -> Self {
        Self::build(target, options, host, None)
    }

    /// The same for a host that gives a server up which does not answer `initialize`: when `patience` is over and the server is not
    /// there, the host is introduced to a stand-in that has every list. Connecting goes on, for ever; requests wait for it for
    /// [`outage`](ClientOptions::outage), and then get an error that says that they did not run. When the server is there, the
    /// host hears that every list changed.
    ///
    /// A server that refuses (an error for `initialize`, no authorization) is not away: the host gets its answer.
    #[must_use]
    pub fn patient(
        target: Target,
        options: ClientOptions,
        host: mpsc::Sender<Message>,
        patience: Duration,
    ) -> Self {
        Self::build(target, options, host, Some(patience))
    }

    fn build(
        target: Target,
        options: ClientOptions,
        host: mpsc::Sender<Message>,
        patience: Option<Duration>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                target,
                options,
                host,
                state: watch::Sender::new(State::New),
                calls: Mutex::default(),
                running: watch::Sender::new(0),
                questions: Mutex::default(),
                ids: AtomicU64::new(1),
                patience,
                stood_in: AtomicBool::new(false),
                trouble: Mutex::default(),
            }),
        }
    }

    /// Takes one message of the host. Returns when it is on its way; a response comes out of the channel later.
    pub async fn forward(&self, message: Message) {
        let inner = &self.inner;
        match message {
            Message::Request(request) => inner.on_request(request).await,
            Message::Notification(note) => inner.on_notification(note),
            Message::Response(response) => {
                let asked = inner.questions.lock().remove(&response.id);
                match asked {
                    Some(asked) => drop(asked.send(response.reply)),
                    None => tracing::debug!(id = %response.id, "the host answered what nobody asked"),
                }
            }
        }
    }

    /// The client, once the host has initialized.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        match &*self.inner.state.borrow() {
            State::Ready(client) => Some(client.clone()),
            _ => None,
        }
    }

    /// Waits until every request of the host is answered, at most `within`. Whether it was so.
    pub async fn drain(&self, within: Duration) -> bool {
        let mut running = self.inner.running.subscribe();
        tokio::time::timeout(within, running.wait_for(|count| *count == 0)).await.is_ok()
    }

    /// Requests of the host that have no answer yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        *self.inner.running.borrow()
    }

    /// Ends the connection; calls that are under way are cancelled.
    pub async fn close(&self) {
        let client = self.client();
        let calls: Vec<_> = self.inner.calls.lock().drain().collect();
        let any = !calls.is_empty();
        for (_, call) in calls {
            call.cancel("the host is gone");
        }
        if any {
            // A server that knows no end of sessions hears at least of the end of each call.
            self.drain(TAKING_BACK).await;
        }
        self.inner.state.send_replace(State::Closed);
        if let Some(client) = client {
            client.close().await;
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("target", &self.inner.target).finish_non_exhaustive()
    }
}

/// Counts a request of the host while it is under way.
struct Running(Arc<Inner>);

impl Running {
    fn begin(inner: &Arc<Inner>) -> Self {
        inner.running.send_modify(|count| *count += 1);
        Self(Arc::clone(inner))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
}

impl Inner {
    async fn on_request(self: &Arc<Self>, request: Request) {
        let inner = Arc::clone(self);
        let running = Running::begin(self);
        match &*request.method {
            "initialize" => {
                if !self.begin_connecting() {
                    let error = ErrorObject::new(code::INVALID_REQUEST, "already initialized");
                    return self.answer(request.id, Err(error)).await;
                }
                tokio::spawn(async move {
                    let params = request.params.unwrap_or_else(Raw::empty_object);
                    match inner.patience {
                        Some(patience) => inner.introduce(request.id, params, patience).await,
                        None => {
                            let answer = inner.connect(params).await;
                            inner.answer(request.id, answer).await;
                        }
                    }
                    drop(running);
                });
            }
            // The host asks whether this program is there. What the far side does is its own matter.
            "ping" => self.answer(request.id, Ok(Raw::empty_object())).await,
            "server/discover" => {
                let error = ErrorObject::method_not_found("server/discover");
                self.answer(request.id, Err(error)).await;
            }
            _ => {
                let (options, canceller) = CallOptions::new().cancellable();
                self.calls.lock().insert(request.id.clone(), canceller);
                tokio::spawn(async move {
                    let answer = inner.call(&request.method, request.params, options).await;
                    inner.calls.lock().remove(&request.id);
                    match answer {
                        // The host took it back, and expects no answer.
                        Err(CallError::Cancelled) => {}
                        answer => {
                            inner.answer(request.id, answer.map_err(|error| error.to_error_object())).await;
                        }
                    }
                    drop(running);
                });
            }
        }
    }

    async fn call(&self, method: &str, params: Option<Raw>, options: CallOptions) -> Result<Raw, CallError> {
        let client = self.ready_within(self.options.outage, &options).await?;
        let member = |name: &str| {
            params.as_ref().and_then(|params| params.member(name)).and_then(|value| value.string())
        };
        // What a new session has to be told again is remembered by the client.
        match (method, member("level"), member("uri")) {
            ("logging/setLevel", Some(level), _) => {
                client.set_level(&level).await.map(|()| Raw::empty_object())
            }
            ("resources/subscribe", _, Some(uri)) => {
                client.subscribe(&uri).await.map(|()| Raw::empty_object())
            }
            ("resources/unsubscribe", _, Some(uri)) => {
                client.unsubscribe(&uri).await.map(|()| Raw::empty_object())
            }
            _ => match client.request_with(method, params, options).await {
                // The stand-in has every list; a server that has no such list has an empty one.
                Err(CallError::Protocol(error))
                    if error.code == code::METHOD_NOT_FOUND && self.stood_in.load(Ordering::Relaxed) =>
                {
                    empty_list(method).ok_or(CallError::Protocol(error))
                }
                answer => answer,
            },
        }
    }

    fn on_notification(self: &Arc<Self>, note: Notification) {
        match &*note.method {
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                let params = note.params.unwrap_or_else(Raw::empty_object);
                let id = params.member("requestId").and_then(|id| RequestId::from_json(id.as_str()).ok());
                let call = id.and_then(|id| self.calls.lock().remove(&id));
                if let Some(call) = call {
                    let reason = params.member("reason").and_then(|reason| reason.string());
                    call.cancel(reason.unwrap_or_else(|| "the host cancelled".into()));
                }
            }
            _ => {
                let inner = Arc::clone(self);
                tokio::spawn(async move {
                    let Ok(client) = inner.ready().await else { return };
                    // A modern server takes no notifications from clients.
                    if client.peer().modern {
                        return;
                    }
                    if let Err(error) = client.notify(&note.method, note.params).await {
                        tracing::warn!(method = %note.method, %error, "a notification of the host was lost");
                    }
                });
            }
        }
    }

    fn begin_connecting(&self) -> bool {
        if self.stood_in.load(Ordering::Relaxed) {
            return false;
        }
        self.state.send_if_modified(|state| {
            let idle = matches!(state, State::New | State::Failed(_));
            if idle {
                *state = State::Connecting;
            }
            idle
        })
    }

    async fn connect(self: &Arc<Self>, params: Raw) -> Result<Raw, ErrorObject> {
        match self.try_connecting(&params).await {
            Ok(result) => Ok(result),
            Err(error) => {
                let error = refusal(&error);
                self.state.send_replace(State::Failed(error.clone()));
                Err(error)
            }
        }
    }

    async fn try_connecting(self: &Arc<Self>, params: &Raw) -> Result<Raw, ConnectError> {
        let revision =
            params.member("protocolVersion").and_then(|revision| revision.string()).unwrap_or_default();
        let mut options = self.options.clone();
        options.capabilities = Some(params.member("capabilities").unwrap_or_else(Raw::empty_object));
        options.client_info = params.member("clientInfo").or(options.client_info);
        options.revision = Revision::negotiate(&revision).as_str().into();
        options.handler = Arc::new(ToHost(Arc::downgrade(self)));
        let client = Client::connect(self.target.clone(), options).await?;
        let result = host_result(&client.peer(), &revision);
        let closed = !self.state.send_if_modified(|state| {
            let closed = matches!(state, State::Closed);
            if !closed {
                *state = State::Ready(client.clone());
            }
            !closed
        });
        if closed {
            client.close().await;
        }
        Ok(result)
    }

    /// Answers `initialize` with what the server says, or after a while in its place.
    async fn introduce(self: &Arc<Self>, id: RequestId, params: Raw, patience: Duration) {
        let revision =
            params.member("protocolVersion").and_then(|revision| revision.string()).unwrap_or_default();
        let (introduced, mut first) = oneshot::channel();
        tokio::spawn(keep_connecting(Arc::downgrade(self), params, introduced));
        let closed = || Err(ErrorObject::internal("closed", "the bridge is closed"));
        let mut answer = match tokio::time::timeout(patience, &mut first).await {
            Ok(heard) => Some(heard.unwrap_or_else(|_| closed())),
            Err(_) => None,
        };
        if answer.is_none() {
            // From here on nobody hears the answer; one that was sent just before counts.
            first.close();
            answer = first.try_recv().ok();
        }
        let answer = answer.unwrap_or_else(|| {
            tracing::warn!(target = %self.target, after = ?patience, "the server is not there yet: standing in for it");
            self.stood_in.store(true, Ordering::Relaxed);
            Ok(stand_in(&revision))
        });
        self.answer(id, answer).await;
    }

    /// The client, when the host's `initialize` has come to an end.
    async fn ready(&self) -> Result<Client, ErrorObject> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| !matches!(state, State::Connecting)).await.as_deref() {
            Ok(State::Ready(client)) => Ok(client.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            Ok(State::Closed) => Err(ErrorObject::internal("closed", "the bridge is closed")),
            _ => Err(ErrorObject::new(code::INVALID_REQUEST, "`initialize` comes first")),
        }
    }

    /// The same for a request, which waits no longer than `within` for a server that is not there.
    async fn ready_within(&self, within: Duration, options: &CallOptions) -> Result<Client, CallError> {
        if let State::Ready(client) = &*self.state.borrow() {
            return Ok(client.clone());
        }
        let mut cancel = options.cancel.clone();
        let cancelled = async {
            if let Some(cancel) = &mut cancel
                && cancel.wait_for(Option::is_some).await.is_ok()
            {
                return;
            }
            // A handle that is gone cancels nothing.
            std::future::pending::<()>().await;
        };
        // Without a stand-in the end of `initialize` is the limit.
        let late = async {
            match self.patience {
                Some(_) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = self.ready() => ready.map_err(CallError::Protocol),
            () = cancelled => Err(CallError::Cancelled),
            () = late => {
                let trouble = self.trouble.lock().as_ref().map(|trouble| trouble.message.clone());
                let trouble = trouble.unwrap_or_else(|| format!("no answer of {}", self.target));
                Err(CallError::transport(format!("the server is away: {trouble}")))
            }
        }
    }

    async fn answer(&self, id: RequestId, answer: Result<Raw, ErrorObject>) {
        // A host that is gone needs no answer.
        drop(self.host.send(Message::Response(Response { id, reply: answer.into() })).await);
    }
}

/// Connects until it worked; the first to be told is the host's `initialize`, if it still waits.
async fn keep_connecting(
    inner: Weak<Inner>,
    params: Raw,
    introduced: oneshot::Sender<Result<Raw, ErrorObject>>,
) {
    let mut introduced = Some(introduced);
    let mut failures = 0;
    loop {
        // Held while it works only: a relay that is gone connects no more.
        let Some(relay) = inner.upgrade() else { return };
        let mut state = relay.state.subscribe();
        let attempt = tokio::select! {
            attempt = relay.try_connecting(&params) => attempt,
            _ = state.wait_for(|state| matches!(state, State::Closed)) => return,
        };
        let error = match attempt {
            Ok(result) => {
                let unheard = introduced.take().is_none_or(|introduced| introduced.send(Ok(result)).is_err());
                if unheard {
                    for list in List::ALL {
                        let note = Notification::new(list.notification(), None);
                        drop(relay.host.send(Message::Notification(note)).await);
                    }
                }
                return;
            }
            Err(error) => error,
        };
        let object = refusal(&error);
        let refuses = matches!(
            error,
            ConnectError::BadUrl { .. } | ConnectError::Auth { .. } | ConnectError::Refused { .. }
        );
        tracing::warn!(target = %relay.target, %error, "not connected");
        *relay.trouble.lock() = Some(object.clone());
        // Requests need not wait where somebody has to do something first; those that follow see what the next attempt says.
        relay.state.send_if_modified(|state| {
            let changes = !matches!(state, State::Closed);
            if changes {
                *state = if refuses { State::Failed(object.clone()) } else { State::Connecting };
            }
            changes
        });
        if refuses && introduced.take().is_some_and(|introduced| introduced.send(Err(object)).is_ok()) {
            return;
        }
        let wait = relay.options.reconnect.backoff(failures, crate::core::random());
        failures = failures.saturating_add(1);
        drop(relay);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            closed = state.wait_for(|state| matches!(state, State::Closed)) => {
                drop(closed);
                return;
            }
        }
    }
}

/// Why there is no connection, for the host: nothing of it ran.
fn refusal(error: &ConnectError) -> ErrorObject {
    let reason = match error {
        ConnectError::Refused { error, .. } => return error.clone(),
        ConnectError::Auth { .. } => "unauthorized",
        ConnectError::BadUrl { .. } => "invalid",
        ConnectError::Failed { .. } | ConnectError::Timeout { .. } => "upstream_unreachable",
    };
    ErrorObject::internal(reason, error.to_string())
}

/// What a server says of itself that nobody has seen yet: it may have everything.
fn stand_in(asked: &str) -> Raw {
    let everything = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;
    Raw::from_members([
        ("protocolVersion", text(Revision::negotiate(asked).as_str())),
        ("capabilities", Raw::from_trusted(everything.into())),
        ("serverInfo", Raw::from_trusted(r#"{"name":"bowline (the server is away)","version":"0"}"#.into())),
    ])
}

/// The empty list that `method` asks for.
fn empty_list(method: &str) -> Option<Raw> {
    let empty = match method {
        "tools/list" => r#"{"tools":[]}"#,
        "prompts/list" => r#"{"prompts":[]}"#,
        "resources/list" => r#"{"resources":[]}"#,
        "resources/templates/list" => r#"{"resourceTemplates":[]}"#,
        _ => return None,
    };
    Some(Raw::from_trusted(empty.into()))
}

/// What the host is told of the server. It may be replaced by another one at any time, so that every list may change.
fn host_result(peer: &Peer, asked: &str) -> Raw {
    let mut capabilities = peer.capabilities.clone();
    for list in List::ALL {
        let changing = capabilities.member(list.capability());
        let changing =
            changing.and_then(|list| list.with_member("listChanged", &Raw::from_trusted("true".into())));
        if let Some(changed) = changing.and_then(|value| capabilities.with_member(list.capability(), &value))
        {
            capabilities = changed;
        }
    }
    let revision = if peer.modern { Revision::negotiate(asked).as_str() } else { &peer.revision };
    let unnamed = || Raw::from_trusted(r#"{"name":"unnamed","version":"0"}"#.into());
    let mut members = vec![
        ("protocolVersion", text(revision)),
        ("capabilities", capabilities),
        ("serverInfo", peer.server_info.clone().unwrap_or_else(unnamed)),
    ];
    if let Some(instructions) = &peer.instructions {
        members.push(("instructions", text(instructions)));
    }
    Raw::from_members(members)
}

/// What the server says, for the host.
struct ToHost(Weak<Inner>);

impl Handler for ToHost {
    fn request<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Raw, ErrorObject>> {
        Box::pin(async move {
            let gone = || ErrorObject::internal("closed", "the host is gone");
            let inner = self.0.upgrade().ok_or_else(gone)?;
            let number = inner.ids.fetch_add(1, Ordering::Relaxed);
            let id = RequestId::from(&*format!("bowline-{number}"));
            let (sender, reply) = oneshot::channel();
            inner.questions.lock().insert(id.clone(), sender);
            let asked = Asked { inner: &inner, id: id.clone(), over: false };
            let request = Request { id, method: method.into(), params };
            inner.host.send(Message::Request(request)).await.map_err(|_| gone())?;
            let reply = reply.await.map_err(|_| gone())?;
            asked.over();
            reply.into_result()
        })
    }

    fn notification(&self, note: &Notification) {
        let Some(inner) = self.0.upgrade() else { return };
        // There is room: `ready` waited for it, but others may have taken it.
        if let Err(mpsc::error::TrySendError::Full(_)) =
            inner.host.try_send(Message::Notification(note.clone()))
        {
            tracing::warn!(method = %note.method, "the host reads too slowly: a notification is lost");
        }
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        let host = self.0.upgrade().map(|inner| inner.host.clone());
        Box::pin(async move {
            if let Some(host) = host {
                drop(host.reserve().await);
            }
        })
    }
}

/// A question that the host has; dropped before its answer, it is taken back.
struct Asked<'a> {
    inner: &'a Arc<Inner>,
    id: RequestId,
    over: bool,
}

impl Asked<'_> {
    fn over(mut self) {
        self.over = true;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.inner.questions.lock().remove(&self.id);
        if !self.over {
            let params = Raw::from_members([("requestId", Raw::from_trusted(self.id.to_json().into()))]);
            let note = Notification::new("notifications/cancelled", Some(params));
            // Courtesy: a host that has no room for it just answers in vain.
            drop(self.inner.host.try_send(Message::Notification(note)));
        }
    }
}
