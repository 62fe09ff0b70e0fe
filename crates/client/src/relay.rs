//! A bridge: a host that speaks a revision with a handshake on one side, a [`Client`] on the other.

use crate::{
    CallError, CallOptions, Canceller, Client, ClientOptions, Handler, List, Peer, Target, call::text,
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
        atomic::{AtomicU64, Ordering},
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
    Failed(ErrorObject),
}

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
}

impl Relay {
    /// A bridge to `target`; `host` gets the messages for the host. A full channel holds back what is read from the server.
    ///
    /// The handler, capabilities, name and revision in `options` are replaced by the host's.
    #[must_use]
    pub fn new(target: Target, options: ClientOptions, host: mpsc::Sender<Message>) -> Self {
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

    /// Ends the connection; calls that are under way are cancelled.
    pub async fn close(&self) {
        let calls: Vec<_> = self.inner.calls.lock().drain().collect();
        for (_, call) in calls {
            call.cancel("the host is gone");
        }
        let client = self.client();
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
                    let answer = inner.connect(request.params.unwrap_or_else(Raw::empty_object)).await;
                    inner.answer(request.id, answer).await;
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
        let client = self.ready().await.map_err(CallError::Protocol)?;
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
            _ => client.request_with(method, params, options).await,
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
        self.state.send_if_modified(|state| {
            let idle = matches!(state, State::New | State::Failed(_));
            if idle {
                *state = State::Connecting;
            }
            idle
        })
    }

    async fn connect(self: &Arc<Self>, params: Raw) -> Result<Raw, ErrorObject> {
        let revision =
            params.member("protocolVersion").and_then(|revision| revision.string()).unwrap_or_default();
        let mut options = self.options.clone();
        options.capabilities = Some(params.member("capabilities").unwrap_or_else(Raw::empty_object));
        options.client_info = params.member("clientInfo").or(options.client_info);
        options.revision = Revision::negotiate(&revision).as_str().into();
        options.handler = Arc::new(ToHost(Arc::downgrade(self)));
        match Client::connect(self.target.clone(), options).await {
            Ok(client) => {
                let result = host_result(&client.peer(), &revision);
                self.state.send_replace(State::Ready(client));
                Ok(result)
            }
            Err(error) => {
                let error = ErrorObject::internal("upstream_unreachable", error.to_string());
                self.state.send_replace(State::Failed(error.clone()));
                Err(error)
            }
        }
    }

    /// The client, when the host's `initialize` has come to an end.
    async fn ready(&self) -> Result<Client, ErrorObject> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| !matches!(state, State::Connecting)).await.as_deref() {
            Ok(State::Ready(client)) => Ok(client.clone()),
            Ok(State::Failed(error)) => Err(error.clone()),
            _ => Err(ErrorObject::new(code::INVALID_REQUEST, "`initialize` comes first")),
        }
    }

    async fn answer(&self, id: RequestId, answer: Result<Raw, ErrorObject>) {
        // A host that is gone needs no answer.
        drop(self.host.send(Message::Response(Response { id, reply: answer.into() })).await);
    }
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
