//! Requests of another implementation's own, to a client and back.

use super::{On, cancelled};
use crate::Ask;
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, RequestId, code};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::task::AbortHandle;

/// The requests of another implementation that wait for their client, by its own ids. Bounded by whoever asks
/// [`Questions::refusal`] before.
#[derive(Default)]
pub struct Questions(Mutex<HashMap<RequestId, Open>>);

/// A question that waits for its answer.
struct Open {
    /// The id that the client knows it by.
    seen_as: RequestId,
    on: On,
    task: AbortHandle,
}

impl Questions {
    /// Why the request cannot be asked now, where `limit` of them may be open at once.
    #[must_use]
    pub fn refusal(&self, request: &Request, limit: usize) -> Option<ErrorObject> {
        let Request { id, method, .. } = request;
        let open = self.0.lock();
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
    }

    /// Asks, here and now, so that nothing that the other side says later overtakes it; `answered` gets the answer unless
    /// the question is given up before. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The answer, where it is there at once; `answered` is not called then.
    pub fn ask<F>(
        self: &Arc<Self>,
        id: RequestId,
        mut ask: Ask,
        on: On,
        answered: impl FnOnce(Reply) -> F + Send + 'static,
    ) -> Result<(), Reply>
    where
        F: Future<Output = ()> + Send,
    {
        let seen_as = ask.id().clone();
        if let Poll::Ready(reply) = Pin::new(&mut ask).poll(&mut Context::from_waker(Waker::noop())) {
            return Err(reply);
        }
        let questions = self.clone();
        let asked = id.clone();
        // The task takes its entry out again, which it can only do once the lock is free.
        let mut open = self.0.lock();
        let task = crate::task::spawn(async move {
            let reply = ask.await;
            let known = questions.0.lock().remove(&asked).is_some();
            if known {
                answered(reply).await;
            }
        });
        open.insert(id, Open { seen_as, on, task: task.abort_handle() });
        Ok(())
    }

    /// The other side gives up a request of its own (its `notifications/cancelled`): the client is told under the id that it knows.
    pub fn cancel(&self, notification: &Notification) {
        let params = notification.params.as_ref();
        let id = params.and_then(|params| params.member("requestId"));
        let id = id.and_then(|id| RequestId::from_json(id.as_str()).ok());
        if let Some(open) = id.and_then(|id| self.0.lock().remove(&id)) {
            open.give_up(params.and_then(|params| params.member("reason")));
        }
    }

    /// The other side has gone: every client that has a question of it is told that nobody waits for the answer.
    pub fn close(&self, reason: &str) {
        let all: Vec<_> = self.0.lock().drain().map(|(_, open)| open).collect();
        for open in all {
            open.give_up(Raw::from_value(reason).ok());
        }
    }

    /// Whether nothing waits for a client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Open {
    fn give_up(self, reason: Option<Raw>) {
        self.task.abort();
        self.on.notify(&cancelled(&self.seen_as, reason));
    }
}

impl fmt::Debug for Questions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Questions({} open)", self.0.lock().len())
    }
}
