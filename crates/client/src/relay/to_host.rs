//! What the server says, for the host.

use super::Inner;
use crate::Handler;
use bowline_proto::jsonrpc::{ErrorObject, Message, Notification, Raw, Request, RequestId};
use futures_util::future::BoxFuture;
use std::sync::{Arc, Weak, atomic::Ordering};
use tokio::sync::{mpsc, oneshot};

/// The client's handler.
pub(super) struct ToHost(pub(super) Weak<Inner>);

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
            let name = format!("bowline-{number}");
            let words = inner.words_now();
            let params =
                words.question(method, params, &name).map_err(|unsupported| unsupported.to_error())?;
            let id = RequestId::from(&*name);
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
        let Some(note) = inner.words_now().notification(note) else { return };
        // There is room: `ready` waited for it, but others may have taken it.
        if let Err(mpsc::error::TrySendError::Full(note)) = inner.host.try_send(Message::Notification(note)) {
            let Message::Notification(note) = note else { return };
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
