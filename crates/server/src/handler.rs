//! The lowest layer of a server: raw JSON-RPC in, a reply out, and a way to speak in between.

use crate::{Call, Peer};
use bowline_proto::{
    jsonrpc::{ErrorObject, Notification, Raw, Reply},
    modern::tasks::TaskSupport,
    revision::Revision,
};
use std::{future::Future, pin::Pin, time::Duration};

/// A boxed future, as handlers return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A client that wants to start a session: the `initialize` request.
#[derive(Clone, Debug)]
pub struct Hello {
    /// The session that will be made when the handler agrees. What is sent through it waits until then.
    pub peer: Peer,
    /// The parameters of `initialize` as they came.
    pub params: Raw,
    /// The negotiated revision; the answer will carry it whatever the handler puts there.
    pub revision: Revision,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// The answer is this JSON-RPC error.
    Refused(ErrorObject),
    /// It could be served later: 503 with `Retry-After`, so that a balancer may try elsewhere.
    Busy(ErrorObject, Duration),
}

impl From<ErrorObject> for NoSession {
    fn from(error: ErrorObject) -> Self {
        Self::Refused(error)
    }
}

/// What a server does with messages, below any knowledge of tools or resources. The gateway is one; the handler API is
/// another; a foreign framework plugs in here.
///
/// Futures run in the connection's task until they first wait, then in a task of their own that outlives the connection.
/// A future that panics costs its own call an error and nobody else anything.
pub trait RawHandler: Send + Sync + 'static {
    /// Answers `initialize` with the result object (capabilities, server info, instructions). Dropped when the client goes
    /// away before the answer; an error refuses the session.
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>>;

    /// Answers any other request.
    fn call(&self, call: Call) -> BoxFuture<'static, Reply>;

    /// Takes note of a notification other than `notifications/cancelled`, which ends its call by itself. Must not block.
    fn notified(&self, peer: &Peer, notification: Notification);

    /// A session that this handler has not initialised: another backend began it, or this one before it was restarted. Called once before
    /// the first request or notification of it; [`Peer`] has the parameters of `initialize`, the log level and the subscriptions. A
    /// handler that keeps something for each session makes it anew. Must not block: calls wait for what they need.
    fn adopt(&self, peer: &Peer) {
        let _ = peer;
    }

    /// A session ended: deleted, expired, or refused by [`RawHandler::initialize`]. Called once for each session that was offered
    /// or [adopted](Self::adopt), also when it goes on elsewhere and only this backend is done with it.
    fn ended(&self, peer: &Peer);

    /// Whether clients of the modern revision are served too (SEMANTICS 4). Asked once, when an endpoint is built. Default: no; they are
    /// told which revisions are.
    ///
    /// Their calls come as all others do. Each has a [`Peer`] of its own, without a session and gone with it, whose
    /// `initialize_params` say what `_meta` said of the client. [`Call::round`](crate::Call::round) tells them apart.
    fn serves_modern(&self) -> bool {
        false
    }

    /// Says what the server can do, for `server/discover` and for what a listening client is promised: the same object as
    /// [`RawHandler::initialize`] has.
    fn discover(&self, peer: Peer) -> BoxFuture<'static, Result<Raw, ErrorObject>> {
        drop(peer);
        Box::pin(std::future::ready(Err(ErrorObject::method_not_found("server/discover"))))
    }

    /// The name and version of the server (`serverInfo`), which every result to a modern client carries, as far as they are known. Must
    /// not wait.
    fn server_info(&self) -> Option<Raw> {
        None
    }

    /// Whether calls may become tasks (`io.modelcontextprotocol/tasks`), for modern clients that can have them. Default: no.
    fn serves_tasks(&self) -> bool {
        false
    }

    /// Whether this call of a modern client may become a task; asked before [`RawHandler::call`], for `tools/call`. Must not wait.
    fn task_support(&self, call: &Call) -> TaskSupport {
        let _ = call;
        TaskSupport::Never
    }

    /// A modern client listens (`subscriptions/listen`). Until [`RawHandler::ended`] is called with this peer, what is said by
    /// [`Peer::notify`] reaches it as far as it asked for that; [`Peer::is_subscribed`] knows its resources, and
    /// [`Peer::session_id`] tells it apart. Must not block.
    fn listening(&self, peer: &Peer) {
        let _ = peer;
    }

    /// Whether this call may run a second time, on another backend, where this one dies before it has ended: because it changes nothing, or
    /// nothing more the second time, as a tool says that is annotated `readOnlyHint` or `idempotentHint`. Asked before
    /// [`RawHandler::call`], with [`Takeover::Rerun`](crate::Takeover::Rerun) only. Must not wait, nor say anything. Default: no.
    ///
    /// The run on the other backend is a call like any other. Its [`Call::parts`](crate::Call::parts) have no headers: those are not kept.
    fn is_repeatable(&self, call: &Call) -> bool {
        let _ = call;
        false
    }

    /// Whether new sessions can be served, for `/readyz`.
    ///
    /// # Errors
    /// Why not, in a few words for an operator.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// What the handler counts, for `/metrics`. Asked every few seconds; must not wait.
    fn figures(&self) -> Vec<bowline_store::Figure> {
        Vec::new()
    }
}
