//! Requests over a pipe, and the pipe opened anew when it ended.

use super::{Connector, Pipe, PipeReceiver, PipeSender, TransportError};
use crate::{
    CallError, Era, Peer,
    core::{Core, random},
    ctx::Ctx,
    http::{filter, initialize_params, listen_request, server_error},
};
use bowline_proto::{
    client::{
        AfterDiscover, ClientError, ClientErrorKind, Delivery, MODERN, Step, after_discover, request_meta,
    },
    jsonrpc::{Body, ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, parse},
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{Mutex as AsyncMutex, oneshot, watch};

pub(crate) struct PipeLink {
    connector: Arc<dyn Connector>,
    /// The open pipe, if one is. Held while one is opened: everybody else waits for that one.
    live: AsyncMutex<Option<Arc<Live>>>,
}

/// A pipe that is open, or was.
pub(crate) struct Live {
    sender: Arc<AsyncMutex<Box<dyn PipeSender>>>,
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<Reply>>>,
    ended: watch::Sender<bool>,
    peer: Mutex<Option<Arc<Peer>>>,
}

impl Live {
    /// Cancel safe: the message goes out whole or not at all.
    pub(crate) async fn send(&self, message: Bytes) -> Result<(), TransportError> {
        let mut sender = Arc::clone(&self.sender).lock_owned().await;
        if self.has_ended() {
            return Err(TransportError::before("the pipe has ended"));
        }
        let mut ended = self.ended.subscribe();
        // A task of its own: half a message of a call that was given up would spoil the next one. There is one at a time.
        let sending = tokio::spawn(async move {
            tokio::select! {
                biased;
                sent = sender.send(message) => sent,
                _ = ended.wait_for(|ended| *ended) => Err(TransportError::after("the pipe has ended")),
            }
        });
        sending.await.unwrap_or_else(|_| Err(TransportError::after("sending was broken off")))
    }

    /// Sends a request; the receiver gets its reply, or an error when the pipe ends first.
    pub(super) async fn begin(&self, request: &Request) -> Result<Waiting<'_>, TransportError> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(request.id.clone(), sender);
        let waiting = Waiting { live: self, id: request.id.clone(), receiver };
        // After the insertion: a pipe that ends now finds it.
        self.send(request.to_bytes()).await?;
        Ok(waiting)
    }

    fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    async fn ending(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives in `self`.
        drop(ended.wait_for(|ended| *ended).await);
    }

    fn end(&self) {
        self.ended.send_replace(true);
        // Dropping the senders tells the waiters.
        self.waiting.lock().clear();
    }
}

/// A request that waits for its reply.
pub(super) struct Waiting<'a> {
    live: &'a Live,
    id: RequestId,
    receiver: oneshot::Receiver<Reply>,
}

impl Waiting<'_> {
    pub(super) async fn reply(mut self) -> Option<Reply> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.live.waiting.lock().remove(&self.id);
    }
}

impl PipeLink {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self { connector, live: AsyncMutex::new(None) }
    }

    /// The open pipe, opened and greeted if it is not.
    pub(crate) async fn live(&self, core: &Arc<Core>) -> Result<(Arc<Live>, Arc<Peer>), CallError> {
        let mut place = self.live.lock().await;
        if let Some(live) = place.as_ref().filter(|live| !live.has_ended())
            && let Some(peer) = live.peer.lock().clone()
        {
            return Ok((Arc::clone(live), peer));
        }
        let again = place.take().is_some();
        let limit = core.options.connect_timeout;
        let opened = tokio::time::timeout(limit, self.open(core)).await;
        let late =
            || CallError::transport(format!("{} did not answer within {limit:?}", self.connector.describe()));
        let (live, peer) = opened.map_err(|_| late())??;
        *place = Some(Arc::clone(&live));
        drop(place);
        if peer.modern && core.options.standalone {
            tokio::spawn(listen(Arc::clone(core), Arc::clone(&live), Arc::clone(&peer)));
        }
        if again {
            let (core, peer) = (Arc::clone(core), Arc::clone(&peer));
            tokio::spawn(async move {
                core.tell_wishes(&peer).await;
                core.lists_may_have_changed(&peer).await;
            });
        }
        Ok((live, peer))
    }

    async fn open(&self, core: &Arc<Core>) -> Result<(Arc<Live>, Arc<Peer>), CallError> {
        let opened = self.connector.connect().await;
        let Pipe { sender, receiver } = opened.map_err(|error| CallError::transport(error.message))?;
        let live = Arc::new(Live {
            sender: Arc::new(AsyncMutex::new(sender)),
            waiting: Mutex::default(),
            ended: watch::Sender::new(false),
            peer: Mutex::new(None),
        });
        tokio::spawn(read(Arc::clone(core), Arc::clone(&live), receiver));
        match self.greet(core, &live).await {
            Ok(peer) => {
                let peer = core.install(peer);
                *live.peer.lock() = Some(Arc::clone(&peer));
                Ok((live, peer))
            }
            Err(error) => {
                live.end();
                live.sender.lock().await.close(core.options.close_timeout).await;
                Err(error)
            }
        }
    }

    /// The handshake: the modern question first, where that is wanted.
    async fn greet(&self, core: &Arc<Core>, live: &Live) -> Result<Peer, CallError> {
        let era = if self.connector.is_legacy() { Era::Legacy } else { core.options.era };
        if era != Era::Legacy {
            let params = request_meta(None, MODERN, &core.client_info(), &core.capabilities(true), None);
            // A server that says nothing to a method that it does not know is a legacy one.
            let asked = ask(core, live, "server/discover", params);
            let answer = tokio::time::timeout(core.options.probe_timeout, asked).await;
            let answer = answer.ok().transpose()?;
            match after_discover(200, answer.as_ref().map(Result::as_ref)) {
                AfterDiscover::Modern => {
                    if let Some(Ok(result)) = answer {
                        return Ok(Peer::modern(result));
                    }
                }
                AfterDiscover::Initialize if era == Era::Detect => {}
                AfterDiscover::Initialize => {
                    return Err(CallError::transport(format!("the server does not speak {MODERN}")));
                }
                _ => {
                    return Err(answer.and_then(Result::err).map_or_else(
                        || CallError::transport("the server speaks no revision that this client knows"),
                        CallError::Protocol,
                    ));
                }
            }
        }
        let result =
            ask(core, live, "initialize", initialize_params(core)).await?.map_err(CallError::Protocol)?;
        let peer = Peer::legacy(result, None)
            .ok_or_else(|| CallError::invalid("the answer to `initialize` has no protocolVersion"))?;
        let ready = Notification::new("notifications/initialized", None).to_bytes();
        live.send(ready).await.map_err(|error| CallError::transport(error.message))?;
        Ok(peer)
    }

    pub(crate) async fn exchange(
        &self,
        core: &Arc<Core>,
        ctx: &Arc<Ctx>,
        params: Option<&Raw>,
    ) -> Result<Raw, CallError> {
        let mut delivery = Delivery::new(core.policy(ctx.repeatable, core.options.outage));
        loop {
            if core.is_closed() {
                return Err(CallError::Closed);
            }
            let (step, detail) = match self.live(core).await {
                Err(error @ (CallError::Closed | CallError::Auth(_) | CallError::Protocol(_))) => {
                    return Err(error);
                }
                Err(error) => (delivery.on_unreachable(core.now(), random()), error.to_string()),
                Ok((live, peer)) => {
                    let id = core.next_id();
                    let mut request =
                        Request { id: id.clone(), method: (*ctx.method).into(), params: params.cloned() };
                    if peer.modern {
                        let level =
                            ctx.options.log_level.clone().or_else(|| core.wishes.lock().level.clone());
                        let info = core.client_info();
                        let capabilities = core.capabilities(true);
                        request.params = Some(request_meta(
                            params,
                            &peer.revision,
                            &info,
                            &capabilities,
                            level.as_deref(),
                        ));
                    }
                    let sent_before = ctx.was_sent();
                    ctx.sending(&id);
                    match live.begin(&request).await {
                        Err(error) => {
                            live.end();
                            if error.may_have_left {
                                (delivery.on_lost(core.now(), random()), error.message)
                            } else {
                                ctx.unsent(sent_before);
                                (delivery.on_unreachable(core.now(), random()), error.message)
                            }
                        }
                        Ok(waiting) => match waiting.reply().await {
                            Some(reply) => {
                                ctx.answered();
                                return reply.into_result().map_err(server_error);
                            }
                            None => {
                                let error = ClientError { kind: ClientErrorKind::Lost, may_have_run: true };
                                let detail = format!("{} ended", self.connector.describe());
                                (delivery.on_stream_failed(core.now(), error, random()), detail)
                            }
                        },
                    }
                }
            };
            match step {
                Step::Send { at } => core.sleep_until(at).await,
                Step::Fail(error) => {
                    let message = format!("{}: {detail}", error.kind);
                    return Err(if error.may_have_run {
                        CallError::OutcomeUnknown { message }
                    } else {
                        CallError::transport(message)
                    });
                }
                Step::Read | Step::Renew | Step::Answered(_) => return Err(CallError::transport(detail)),
            }
        }
    }

    /// Sends a notification, where a pipe is open.
    pub(crate) async fn tell(&self, core: &Arc<Core>, message: Bytes) -> Result<(), CallError> {
        let (live, _) = self.live(core).await?;
        live.send(message).await.map_err(|error| CallError::transport(error.message))
    }

    pub(crate) async fn close(&self, core: &Core) {
        let live = self.live.lock().await.take();
        if let Some(live) = live {
            live.end();
            let within = core.options.close_timeout;
            // A write that hangs was told to end.
            let Ok(mut sender) = tokio::time::timeout(within, live.sender.lock()).await else { return };
            sender.close(within).await;
        }
    }
}

/// One request outside of calls. The inner error is the server's.
async fn ask(
    core: &Core,
    live: &Live,
    method: &str,
    params: Raw,
) -> Result<Result<Raw, ErrorObject>, CallError> {
    let request = Request { id: core.next_id(), method: method.into(), params: Some(params) };
    let waiting = live.begin(&request).await.map_err(|error| CallError::transport(error.message))?;
    let reply = waiting.reply().await;
    reply
        .map(Reply::into_result)
        .ok_or_else(|| CallError::transport(format!("the server ended before it answered `{method}`")))
}

/// Keeps a `subscriptions/listen` open for as long as the pipe is, anew whenever what is listened for changes. What it brings
/// comes with everything else.
async fn listen(core: Arc<Core>, live: Arc<Live>, peer: Arc<Peer>) {
    loop {
        let wished = core.wished.notified();
        let Some(filter) = filter(&core, &peer) else {
            tokio::select! {
                () = wished => continue,
                () = live.ending() => return,
                () = core.closing() => return,
            }
        };
        let id = core.next_id();
        let request = listen_request(&core, &peer, &id, &filter);
        let Ok(waiting) = live.begin(&request).await else { return };
        tokio::select! {
            reply = waiting.reply() => match reply {
                // A polite goodbye: what happens until the next one begins is made up for by a refresh.
                Some(reply) if !reply.is_error() => {
                    tokio::time::sleep(core.options.reconnect.backoff_base).await;
                    core.lists_may_have_changed(&peer).await;
                }
                _ => return,
            },
            () = wished => {
                let params = Raw::from_members([("requestId", Raw::from_trusted(id.to_json().into()))]);
                let note = Notification::new("notifications/cancelled", Some(params));
                if live.send(note.to_bytes()).await.is_err() {
                    return;
                }
            }
            () = core.closing() => return,
        }
    }
}

/// Reads the pipe until it ends or the client is closed.
async fn read(core: Arc<Core>, live: Arc<Live>, mut receiver: Box<dyn PipeReceiver>) {
    loop {
        let text = tokio::select! {
            text = receiver.receive() => text,
            () = core.closing() => break,
            () = live.ending() => break,
        };
        let text = match text {
            Some(Ok(text)) => text,
            Some(Err(error)) => {
                tracing::warn!(%error, "the pipe broke");
                break;
            }
            None => break,
        };
        let messages: Vec<Message> = match parse(text) {
            Ok(Body::Single(message)) => vec![message],
            Ok(Body::Batch(messages)) => messages.into_iter().flatten().collect(),
            Err(error) => {
                // Programs print things: the pipe lives on (SEMANTICS 8).
                core.tell_noise(&error);
                continue;
            }
        };
        for message in messages {
            match message {
                Message::Response(response) => match live.waiting.lock().remove(&response.id) {
                    // Nobody waits any more where the call was given up.
                    Some(waiting) => drop(waiting.send(readable(response.reply))),
                    None => tracing::debug!(id = %response.id, "a response that nobody waits for"),
                },
                message => core.hear(message, None, Some(&live)).await,
            }
        }
    }
    live.end();
}

/// The reply, or what its caller is told where no client can read it.
fn readable(reply: Reply) -> Reply {
    match reply.fault() {
        None => reply,
        Some(fault) => {
            let text = format!("the server answered with something that is not a valid response: {fault}");
            ErrorObject::outcome_unknown("upstream_invalid", text).into()
        }
    }
}
