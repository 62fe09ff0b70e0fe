//! The handler that an endpoint gives its messages to.

use crate::{link::Link, options::Options, words};
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, Hello, NoSession, Peer, RawHandler};
use parking_lot::Mutex;
use rmcp::{RoleServer, Service};
use std::{collections::HashMap, fmt, sync::Arc};

/// An rmcp handler behind an endpoint: one service of rmcp for each session. [`crate::handler`] with options.
///
/// Sessions hold on to it and to the endpoint: end with [`Endpoint::close`](bowline_server::Endpoint::close).
pub struct RmcpHandler<F> {
    factory: F,
    options: Options,
    /// By session id.
    links: Mutex<HashMap<String, Arc<Link>>>,
}

impl<F> RmcpHandler<F> {
    /// A handler for each session, made by `factory`, which must not block.
    pub fn new(factory: F, options: Options) -> Self {
        Self { factory, options, links: Mutex::default() }
    }

    /// How many sessions have a service.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.links.lock().len()
    }

    fn link(&self, peer: &Peer) -> Option<Arc<Link>> {
        self.links.lock().get(peer.session_id()).cloned()
    }
}

/// A service that is used for one request.
struct Once(Arc<Link>);

impl Drop for Once {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<S, F> RawHandler for RmcpHandler<F>
where
    S: Service<RoleServer>,
    F: Fn() -> S + Send + Sync + 'static,
{
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        let Hello { peer, params, revision } = hello;
        let session = peer.session_id().to_owned();
        let link = Link::start((self.factory)(), peer, self.options.clone());
        let once = if session.is_empty() {
            Some(Once(link.clone()))
        } else {
            // Should the client leave or the handler refuse, the endpoint says so with `ended`.
            self.links.lock().insert(session, link.clone());
            None
        };
        let params = words::hello(&params, revision);
        Box::pin(async move {
            let _once = once;
            Ok(link.request(None, "initialize", Some(params)).await.into_result()?)
        })
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let peer = call.peer();
        let (link, once) = if peer.session_id().is_empty() {
            let client = words::anybody(peer.revision());
            let link = Link::start_ready((self.factory)(), peer, self.options.clone(), client);
            (Some(link.clone()), Some(Once(link)))
        } else {
            (self.link(&peer), None)
        };
        Box::pin(async move {
            let _once = once;
            let Some(link) = link else {
                let text = "this session has no service here; the request was not sent";
                return ErrorObject::internal("upstream_unavailable", text).into();
            };
            tokio::select! {
                biased;
                // Nobody reads this answer.
                _ = call.cancelled() => ErrorObject::internal("cancelled", "the request was cancelled").into(),
                reply = async {
                    link.ready().await;
                    link.request(Some(&call), call.method(), call.params().cloned()).await
                } => reply,
            }
        })
    }

    fn notified(&self, peer: &Peer, notification: Notification) {
        // Without a session there is nobody who could be told.
        if let Some(link) = self.link(peer) {
            link.notified(notification);
        }
    }

    fn adopt(&self, peer: &Peer) {
        let params = words::hello(peer.initialize_params(), peer.revision());
        let link = Link::start_again((self.factory)(), peer.clone(), self.options.clone(), params);
        self.links.lock().insert(peer.session_id().to_owned(), link);
    }

    fn ended(&self, peer: &Peer) {
        let link = self.links.lock().remove(peer.session_id());
        if let Some(link) = link {
            link.end();
        }
    }
}

impl<F> fmt::Debug for RmcpHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RmcpHandler").field("sessions", &self.sessions()).finish_non_exhaustive()
    }
}
