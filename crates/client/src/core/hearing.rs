//! What the server says that answers nothing: notifications to the handler, requests to it and its answers back.

use super::{Core, Link};
use crate::{CallError, ctx::Ctx, pipe::Live};
use bowline_proto::jsonrpc::{ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, code};
use std::sync::{Arc, Weak};
use tokio::time::Instant;

impl Core {
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

    pub(super) async fn hear_notification(self: &Arc<Self>, note: Notification, from: Option<&Ctx>) {
        if let Some(route) = self.route_of(&note) {
            route.hear(self, &note);
            return;
        }
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
}
