//! One running service of rmcp, and the session that it serves.

use crate::{guard::Guarded, options::Options, pipe::Pipe, words};
use bowline_proto::jsonrpc::{ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, Response};
use bowline_server::{
    Call, Peer,
    bridge::{Calls, On, Questions, Subject, cancelled},
};
use parking_lot::Mutex;
use rmcp::{
    RoleServer, Service,
    model::{
        ClientJsonRpcMessage, GetExtensions as _, InitializeRequestParams, JsonRpcMessage,
        ServerJsonRpcMessage,
    },
    service::{RunningService, serve_directly, serve_server},
};
use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
};

/// What came of a request.
enum Outcome {
    Answered(Reply),
    /// The handler panicked with this.
    Panicked(Box<dyn Any + Send>),
    /// The service has gone, or said something that is no message.
    Failed(ErrorObject),
}

#[derive(Default)]
struct Table {
    /// The service has gone: nothing may be added.
    over: bool,
    calls: Calls<oneshot::Sender<Outcome>>,
}

/// The client's side of a service: everything that is said to it and by it passes here.
pub(crate) struct Link {
    pub(crate) peer: Peer,
    pub(crate) options: Options,
    table: Mutex<Table>,
    questions: Arc<Questions>,
    messages: mpsc::Sender<ClientJsonRpcMessage>,
    ids: AtomicU64,
    end: watch::Sender<bool>,
    /// Whether the client had its handshake elsewhere.
    again: bool,
    /// Whether it is over here too.
    ready: watch::Sender<bool>,
}

impl Link {
    /// Starts a service that waits for `initialize`.
    pub(crate) fn start<S: Service<RoleServer>>(service: S, peer: Peer, options: Options) -> Arc<Self> {
        Self::shaking_hands(service, peer, options, false)
    }

    fn shaking_hands<S: Service<RoleServer>>(
        service: S,
        peer: Peer,
        options: Options,
        again: bool,
    ) -> Arc<Self> {
        let (link, pipe) = Self::new(peer, options, again);
        let guarded = Guarded::new(service, link.clone());
        tokio::spawn(link.clone().run(async move {
            match serve_server(guarded, pipe).await {
                Ok(running) => Some(running),
                // The client has been told what there is to tell.
                Err(error) => {
                    tracing::debug!(%error, "a handler refused a session");
                    None
                }
            }
        }));
        link
    }

    /// Starts a service for a client that introduced itself elsewhere, with `params`: it is told what the other service was told, and the
    /// client notices nothing. Requests wait until that is done.
    pub(crate) fn start_again<S: Service<RoleServer>>(
        service: S,
        peer: Peer,
        options: Options,
        params: Raw,
    ) -> Arc<Self> {
        let link = Self::shaking_hands(service, peer, options, true);
        let again = link.clone();
        tokio::spawn(async move {
            if let Err(error) = again.request(None, "initialize", Some(params)).await.into_result() {
                let session = again.peer.log_name();
                tracing::warn!(%session, error = %error.message, "a handler refused a session that it, or another, took before");
            }
            again.notify(&Notification::new("notifications/initialized", None));
            for (method, params) in again.settings() {
                if let Err(error) =
                    again.request(None, method, Raw::from_value(&params).ok()).await.into_result()
                {
                    let session = again.peer.log_name();
                    tracing::warn!(%session, method, error = %error.message, "a session could not be brought to where it was");
                }
            }
            again.ready.send_replace(true);
        });
        link
    }

    /// What the client set elsewhere.
    fn settings(&self) -> Vec<(&'static str, serde_json::Value)> {
        let level =
            self.peer.log_level().map(|level| ("logging/setLevel", serde_json::json!({ "level": level })));
        let uris = self.peer.subscriptions().into_iter();
        level
            .into_iter()
            .chain(uris.map(|uri| ("resources/subscribe", serde_json::json!({ "uri": uri }))))
            .collect()
    }

    /// Passes a notification of the client on once the service can take it. One that was started again says `initialized` itself.
    pub(crate) fn notified(self: &Arc<Self>, notification: Notification) {
        if self.again && &*notification.method == "notifications/initialized" {
            return;
        }
        if *self.ready.borrow() {
            return self.notify(&notification);
        }
        let link = self.clone();
        tokio::spawn(async move {
            link.ready().await;
            link.notify(&notification);
        });
    }

    /// Waits until the service can take requests.
    pub(crate) async fn ready(&self) {
        if *self.ready.borrow() {
            return;
        }
        let mut ready = self.ready.subscribe();
        tokio::select! {
            // The sender lives in `self`.
            _ = ready.wait_for(|ready| *ready) => {}
            () = self.ended() => {}
        }
    }

    /// Starts a service for a client that says nothing of itself, ready for a request.
    pub(crate) fn start_ready<S: Service<RoleServer>>(
        service: S,
        peer: Peer,
        options: Options,
        client: Option<InitializeRequestParams>,
    ) -> Arc<Self> {
        let (link, pipe) = Self::new(peer, options, false);
        let guarded = Guarded::new(service, link.clone());
        tokio::spawn(link.clone().run(async move { Some(serve_directly(guarded, pipe, client)) }));
        link
    }

    fn new(peer: Peer, options: Options, again: bool) -> (Arc<Self>, Pipe) {
        let (messages, receiver) = mpsc::channel(options.queue.max(1));
        let link = Arc::new(Self {
            peer,
            options,
            table: Mutex::default(),
            questions: Arc::default(),
            messages,
            ids: AtomicU64::new(1),
            end: watch::Sender::new(false),
            again,
            ready: watch::Sender::new(!again),
        });
        let pipe = Pipe { link: link.clone(), messages: receiver };
        (link, pipe)
    }

    /// Runs the service until the session ends or it ends by itself.
    async fn run<S: Service<RoleServer>>(
        self: Arc<Self>,
        start: impl Future<Output = Option<RunningService<RoleServer, S>>>,
    ) {
        let running = tokio::select! {
            biased;
            () = self.ended() => None,
            running = start => running,
        };
        if let Some(running) = running {
            let stop = running.cancellation_token();
            let mut waiting = std::pin::pin!(running.waiting());
            tokio::select! {
                biased;
                () = self.ended() => {
                    stop.cancel();
                    // Nobody waits for an answer any more, so nothing that comes in the meantime is lost.
                    self.over();
                    drop(waiting.await);
                }
                quit = &mut waiting => {
                    tracing::error!(session = %self.peer.log_name(), ?quit, "the service of a session ended by itself");
                }
            }
        }
        self.over();
    }

    /// Tells the service to end. Does not wait.
    pub(crate) fn end(&self) {
        self.end.send_replace(true);
    }

    /// Waits until the service is told to end.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`.
        let _ = self.end.subscribe().wait_for(|ended| *ended).await;
    }

    /// The service takes nothing any more: everybody who waits for it is told.
    fn over(&self) {
        let waiting = {
            let mut table = self.table.lock();
            table.over = true;
            table.calls.drain()
        };
        self.questions.close("the server has gone");
        for outcome in waiting {
            let error = ErrorObject::outcome_unknown("upstream_lost", "the service of this session ended");
            let _ = outcome.send(Outcome::Failed(error));
        }
    }

    // --- to the service ---

    /// Has the handler work on a request; `call` is the client's, where there is one. Dropping the future cancels it.
    pub(crate) async fn request(&self, call: Option<&Call>, method: &str, params: Option<Raw>) -> Reply {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let request = Request { id: id.into(), method: method.into(), params };
        let mut message = match words::to_rmcp(&request.to_bytes()) {
            Ok(message) => message,
            Err(error) => return error.into(),
        };
        if let (JsonRpcMessage::Request(request), Some(call)) = (&mut message, call) {
            let extensions = request.request.extensions_mut();
            extensions.insert(call.parts().clone());
            extensions.insert(call.clone());
        }
        let (outcome, coming) = oneshot::channel();
        {
            let mut table = self.table.lock();
            if table.over {
                return gone().into();
            }
            table.calls.insert(id, call, outcome);
        }
        let _waiting = Waiting { link: self, id, cancels: method != "initialize" };
        if self.messages.send(message).await.is_err() {
            return gone().into();
        }
        match coming.await {
            Ok(Outcome::Answered(reply)) => reply,
            Ok(Outcome::Failed(error)) => error.into(),
            // It goes on where any handler's panic is dealt with: in the endpoint.
            Ok(Outcome::Panicked(panic)) => std::panic::resume_unwind(panic),
            Err(_) => gone().into(),
        }
    }

    /// Passes a notification of the client on. One that finds no room is dropped: it must not hold up who sends it.
    pub(crate) fn notify(&self, notification: &Notification) {
        let method = &*notification.method;
        let error = match words::to_rmcp(&notification.to_bytes()) {
            Ok(message) => self.messages.try_send(message).err().map(|error| error.to_string()),
            Err(error) => Some(error.message.to_string()),
        };
        if let Some(error) = error {
            tracing::warn!(session = %self.peer.log_name(), method, error, "a notification was dropped");
        }
    }

    /// Sends what must not be lost. Does not wait; there are never more of these than requests and questions.
    fn post(&self, message: ClientJsonRpcMessage) {
        if let Err(TrySendError::Full(message)) = self.messages.try_send(message)
            // Futures can be dropped where no runtime is left; then nobody needs the message either.
            && let Ok(runtime) = Handle::try_current()
        {
            let messages = self.messages.clone();
            runtime.spawn(async move { messages.send(message).await });
        }
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Outcome>> {
        self.table.lock().calls.remove(id)
    }

    // --- from the service ---

    /// The handler of a request panicked.
    pub(crate) fn panicked(&self, id: i64, panic: Box<dyn Any + Send>) {
        if let Some(outcome) = u64::try_from(id).ok().and_then(|id| self.take(id)) {
            let _ = outcome.send(Outcome::Panicked(panic));
        }
    }

    /// Takes what the service says. Never waits.
    pub(crate) fn said(self: &Arc<Self>, message: &ServerJsonRpcMessage) {
        match words::from_rmcp(message) {
            Ok(Message::Response(response)) => self.response(response),
            Ok(Message::Notification(notification)) => self.notification(&notification),
            Ok(Message::Request(request)) => self.question(&request, words::origin(message)),
            Err(reason) => self.broken(message, &reason),
        }
    }

    fn response(&self, response: Response) {
        let id = match response.id {
            RequestId::Number(id) => u64::try_from(id).ok(),
            RequestId::Large(id) => Some(id),
            RequestId::String(_) => None,
        };
        if let Some(outcome) = id.and_then(|id| self.take(id)) {
            let _ = outcome.send(Outcome::Answered(response.reply));
        }
    }

    /// A message that cannot be sent: whoever waits for it is told.
    fn broken(&self, message: &ServerJsonRpcMessage, reason: &str) {
        tracing::warn!(session = %self.peer.log_name(), reason, "the handler said something that cannot be sent");
        let Some((id, asks)) = words::id_of(message) else { return };
        let text = format!("the server said something that cannot be sent: {reason}");
        if asks {
            let id = words::our_id(id).map(RequestId::from);
            if let Some(id) = id {
                self.reply(&id, &ErrorObject::internal("invalid", text).into());
            }
        } else if let Some(outcome) = words::our_id(id).and_then(|id| self.take(id)) {
            let _ = outcome.send(Outcome::Failed(ErrorObject::outcome_unknown("upstream_invalid", text)));
        }
    }

    fn notification(&self, notification: &Notification) {
        match Subject::of(&notification.method) {
            Subject::Progress => {
                let token = notification.params.as_ref().and_then(|params| params.member("progressToken"));
                // Progress of a call that has ended has nowhere to go.
                if let Some(call) = token.and_then(|token| self.table.lock().calls.with_token(&token)) {
                    call.notify(notification);
                }
            }
            Subject::Cancelled => self.questions.cancel(notification),
            Subject::Log => self.place().notify(notification),
            Subject::List | Subject::Resource | Subject::Other => self.peer.notify(notification),
        }
    }

    /// Where something goes that names no call.
    fn place(&self) -> On {
        let (running, newest) = self.table.lock().calls.running();
        On::choose(running, newest, &self.peer)
    }

    /// Passes a request of the handler on; `origin` is the request in whose handler it was made, where rmcp knows.
    fn question(self: &Arc<Self>, request: &Request, origin: Option<u64>) {
        if &*request.method == "ping" {
            return self.reply(&request.id, &Reply::Result(Raw::empty_object()));
        }
        if let Some(error) = self.questions.refusal(request, self.options.max_questions) {
            return self.reply(&request.id, &error.into());
        }
        let on = match origin.and_then(|id| self.table.lock().calls.call(id)) {
            Some(call) => On::Call(call),
            None => self.place(),
        };
        let (link, id) = (self.clone(), request.id.clone());
        let asked = self.questions.ask(request.id.clone(), on.ask(request), on, async move |reply| {
            if let Some(message) = answer(&id, &reply) {
                let _ = link.messages.send(message).await;
            }
        });
        if let Err(reply) = asked {
            self.reply(&request.id, &reply);
        }
    }

    /// Answers a request of the handler at once.
    fn reply(&self, id: &RequestId, reply: &Reply) {
        if let Some(message) = answer(id, reply) {
            self.post(message);
        }
    }
}

/// The client's answer in rmcp's types; one that does not fit becomes an error, so that nobody waits for it.
fn answer(id: &RequestId, reply: &Reply) -> Option<ClientJsonRpcMessage> {
    words::to_rmcp(&reply.to_bytes(id)).or_else(|error| words::to_rmcp(&Reply::from(error).to_bytes(id))).ok()
}

fn gone() -> ErrorObject {
    ErrorObject::internal(
        "upstream_unavailable",
        "the service of this session has ended; the request was not sent",
    )
}

/// A request in the table, which is cancelled at the service when nobody waits for it any more.
struct Waiting<'a> {
    link: &'a Link,
    id: u64,
    cancels: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let known = self.link.take(self.id).is_some();
        if known && self.cancels {
            let reason = Raw::from_value("the client does not wait for it any more").ok();
            if let Ok(message) = words::to_rmcp(&cancelled(&self.id.into(), reason).to_bytes()) {
                self.link.post(message);
            }
        }
    }
}
