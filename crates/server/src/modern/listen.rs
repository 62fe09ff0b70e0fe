//! `subscriptions/listen`: a stream of what the client wants to hear of, for as long as it reads.

use super::{discover, tasks};
use crate::{
    Peer,
    body::Body,
    core::{Core, Drain},
    isolate, random,
    service::{events, json},
    session::Session,
};
use bowline_proto::{
    http::Refusal,
    jsonrpc::{ErrorObject, Notification, Reply, Request, RequestId, code},
    modern::{
        RequestMeta, fit_result,
        listen::{ListenFilter, acknowledged, ended, tagged},
        tasks::declared,
    },
    revision::Revision,
    sse::encode,
};
use bytes::{Bytes, BytesMut};
use http::Response;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

/// The writing end of a listening stream. What is announced while the client does not read is told once, so that there are never more
/// messages than things listened to.
pub(crate) struct Listener {
    id: RequestId,
    filter: ListenFilter,
    pending: Mutex<Vec<Pending>>,
    changed: Notify,
}

struct Pending {
    /// What it is about: the method, of resources the URI, and of tasks the id.
    about: (bytestring::ByteString, Option<String>),
    payload: Bytes,
}

impl Listener {
    /// Tells the client, if it listens to this.
    pub(crate) fn tell(&self, notification: &Notification) {
        if !self.filter.wants(notification) {
            return;
        }
        let name = |name: &str| notification.params.as_ref()?.member(name)?.string();
        let about = (notification.method.clone(), name("uri").or_else(|| name("taskId")));
        let payload = tagged(notification.clone(), &self.id).to_bytes();
        let mut pending = self.pending.lock();
        match pending.iter_mut().find(|waiting| waiting.about == about) {
            Some(waiting) => waiting.payload = payload,
            None => pending.push(Pending { about, payload }),
        }
        drop(pending);
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<Pending> {
        std::mem::take(&mut *self.pending.lock())
    }
}

pub(super) async fn answer(
    core: &Arc<Core>,
    principal: Option<&str>,
    revision: Revision,
    meta: &RequestMeta,
    request: &Request,
) -> Result<Response<Body>, Refusal> {
    let id = &request.id;
    let wanted = match ListenFilter::read(request.params.as_ref()) {
        Ok(wanted) => wanted,
        Err(why) => {
            let error = ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {why}"));
            return Ok(json(core, Reply::from(error).to_bytes(id)));
        }
    };
    let has_tasks = core.handler.serves_tasks();
    if has_tasks && !wanted.tasks.is_empty() && !declared(&meta.capabilities) {
        return Err(tasks::undeclared(id));
    }
    if core.is_draining() {
        return Err(Refusal::unavailable("draining", 1, Some(id.clone())));
    }
    if core.metrics.streams_open.get() >= core.options.max_held_streams {
        return Err(Refusal::unavailable("too_many_streams", 5, Some(id.clone())));
    }
    let binding = Arc::new(Session::modern(core, revision, principal, meta));
    let said = match discover::ask(core, &binding).await {
        Ok(said) => said,
        Err(error) => return Ok(json(core, Reply::from(error).to_bytes(id))),
    };
    let capabilities = said.member("capabilities").unwrap_or_else(bowline_proto::jsonrpc::Raw::empty_object);
    let mut filter = wanted.honoured(&capabilities);
    let followed = if has_tasks { tasks::known(core, principal, &filter.tasks).await } else { Vec::new() };
    filter.tasks = followed.iter().map(|(id, _)| id.clone()).collect();
    let first = acknowledged(id, &filter).to_bytes();
    let uris = filter.uris.clone();
    let listener =
        Arc::new(Listener { id: id.clone(), filter, pending: Mutex::default(), changed: Notify::new() });
    let session = Session::modern(core, revision, principal, meta);
    let session = Arc::new(session.listening(random::session_id(), uris, listener.clone()));
    core.metrics.streams_open.up();
    let stream = Stream {
        first: Some(first),
        drain: core.drain.subscribe(),
        over: false,
        _following: tasks::follow(core, followed, &listener),
        listener,
        session: Listening { core: core.clone(), session },
    };
    isolate::run(core, || core.handler.listening(&Peer::new(core, &stream.session.session)));
    let body = futures_util::stream::unfold(stream, |mut stream| async move {
        stream.next().await.map(|bytes| (bytes, stream))
    });
    Ok(events(core, Body::events(body)))
}

/// Tells the handler that the client is gone, whatever the reason.
struct Listening {
    core: Arc<Core>,
    session: Arc<Session>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Self { core, session } = self;
        core.metrics.streams_open.down();
        session.end();
        isolate::run(core, || core.handler.ended(&Peer::new(core, session)));
    }
}

struct Stream {
    /// The acknowledgement, until it is sent: nothing goes before it.
    first: Option<Bytes>,
    drain: watch::Receiver<Drain>,
    over: bool,
    _following: JoinSet<()>,
    listener: Arc<Listener>,
    session: Listening,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let core = self.session.core.clone();
        let mut out = BytesMut::new();
        if let Some(first) = self.first.take() {
            encode::data(&mut out, &first);
            return Some(out.freeze());
        }
        loop {
            for waiting in self.listener.take() {
                encode::data(&mut out, &waiting.payload);
            }
            if !out.is_empty() {
                return Some(out.freeze());
            }
            if *self.drain.borrow_and_update() != Drain::No {
                self.over = true;
                let server = core.handler.server_info();
                let result = fit_result(ended(&self.listener.id), server.as_ref(), None);
                encode::data(&mut out, &Reply::Result(result).to_bytes(&self.listener.id));
                return Some(out.freeze());
            }
            tokio::select! {
                () = self.listener.changed.notified() => {}
                _ = self.drain.changed() => {}
                () = tokio::time::sleep(core.options.keep_alive) => {
                    encode::comment(&mut out, "keep-alive");
                    return Some(out.freeze());
                }
            }
        }
    }
}
