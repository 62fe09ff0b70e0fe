//! Requests of the process: to a client and back.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, RequestId, code};
use bowline_server::{Ask, Call, Peer};
use tokio::task::AbortHandle;

use super::{Upstream, cancelled};
use crate::line::one_line;

/// A request of the process, on its way to a client.
pub(crate) struct Question {
    pub(crate) ask: Ask,
    pub(crate) on: On,
}

/// The stream that a question is on.
pub(crate) enum On {
    Call(Call),
    Standalone(Peer),
}

impl On {
    pub(super) fn notify(&self, notification: &Notification) {
        match self {
            Self::Call(call) => drop(call.notify(notification)),
            Self::Standalone(peer) => peer.notify(notification),
        }
    }
}

/// A question that waits for its answer.
pub(super) struct Open {
    /// The id that the client knows it by.
    pub(super) seen_as: RequestId,
    pub(super) on: On,
    pub(super) task: AbortHandle,
}

impl Upstream {
    /// Passes a request of the process on, at once and in order with what else it says.
    pub(super) async fn question(self: &Arc<Self>, request: Request) {
        if &*request.method == "ping" {
            return self.post(Reply::Result(Raw::empty_object()).to_bytes(&request.id));
        }
        let Some(audience) = self.audience.upgrade() else { return };
        let Request { id, method, .. } = &request;
        let refused = {
            let open = self.questions.lock();
            let limit = self.common.options.max_questions;
            if open.contains_key(id) {
                Some(ErrorObject::new(
                    code::INVALID_REQUEST,
                    format!("a request with the id {id} is open already"),
                ))
            } else if open.len() >= limit {
                let text = format!("{limit} requests wait for the client already; {method} is one too many");
                Some(ErrorObject::internal("too_many_requests", text))
            } else {
                None
            }
        };
        let asked = match refused {
            Some(error) => Err(error),
            None => audience.question(self, &request),
        };
        let Question { ask, on } = match asked {
            Ok(question) => question,
            Err(error) => return self.post(Reply::from(error).to_bytes(id)),
        };
        let seen_as = ask.id().clone();
        let mut ask = Box::pin(ask);
        // Sent here and now, so that nothing the process says later overtakes it.
        if let Poll::Ready(reply) = poll_fn(|cx| Poll::Ready(ask.as_mut().poll(cx))).await {
            return self.post(self.fit().reply(method, reply).to_bytes(id));
        }
        let upstream = self.clone();
        let (id, method) = (request.id.clone(), request.method.clone());
        // The task takes its entry out again, which it can only do once the lock is free.
        let mut open = self.questions.lock();
        let task = tokio::spawn(async move {
            let reply = upstream.fit().reply(&method, ask.await);
            let known = upstream.questions.lock().remove(&id).is_some();
            if known && let Err(error) = upstream.child.send(one_line(reply.to_bytes(&id))).await {
                tracing::debug!(target: "bowline::gateway", child = %upstream.name, %error, "an answer was dropped");
            }
        });
        open.insert(request.id, Open { seen_as, on, task: task.abort_handle() });
    }

    /// The process gives up a request of its own: the client is told under the id that it knows.
    pub(super) fn question_cancelled(&self, notification: &Notification) {
        let params = notification.params.as_ref();
        let id = params.and_then(|params| params.member("requestId"));
        let id = id.and_then(|id| RequestId::from_json(id.as_str()).ok());
        let Some(open) = id.and_then(|id| self.questions.lock().remove(&id)) else { return };
        open.task.abort();
        open.on.notify(&cancelled(&open.seen_as, params.and_then(|params| params.member("reason"))));
    }
}
