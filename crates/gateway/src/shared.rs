//! One process for all sessions. The gateway is its only client: it initialises it once, with no capabilities, and answers
//! every client's `initialize` from that. What could reach the wrong principal is refused or dropped (SEMANTICS 6).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, code};
use bowline_proto::revision::Revision;
use bowline_server::bridge::Subject;
use bowline_server::{Call, Peer};
use parking_lot::Mutex;

use crate::common::Common;
use crate::restart::Keeper;
use crate::route::Hearers;
use crate::session::abandoned;
use crate::upstream::{Audience, Question, Upstream};

/// The most subscriptions of one session.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The process that all sessions share.
pub(crate) struct Shared {
    common: Arc<Common>,
    keeper: Arc<Keeper>,
    started: AtomicBool,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    peers: HashMap<String, Peer>,
    /// Who subscribed to a URI, by session id. The process is subscribed as long as somebody is.
    subscribers: HashMap<String, HashSet<String>>,
}

impl Clients {
    fn subscriptions_of(&self, session: &str) -> usize {
        self.subscribers.values().filter(|sessions| sessions.contains(session)).count()
    }

    /// Takes a subscription out; whether it was the last one of its URI.
    fn unsubscribe(&mut self, uri: &str, session: &str) -> bool {
        let Some(sessions) = self.subscribers.get_mut(uri) else { return false };
        let last = sessions.remove(session) && sessions.is_empty();
        if last {
            self.subscribers.remove(uri);
        }
        last
    }
}

impl Shared {
    /// A process that is started when the first client comes.
    pub(crate) fn new(common: &Arc<Common>) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| Self {
            common: common.clone(),
            keeper: Keeper::new(common, shared.clone(), None),
            started: AtomicBool::new(false),
            clients: Mutex::default(),
        })
    }

    /// Starts the process, unless somebody did. In the session mode `stateless` that may be a call.
    fn start(&self) {
        if !self.started.swap(true, Ordering::AcqRel) {
            self.keeper.run();
        }
    }

    /// The answer to a client's `initialize`.
    pub(crate) async fn hello(&self, peer: &Peer) -> Result<Raw, ErrorObject> {
        self.start();
        let hello = self.keeper.hello().await?;
        hello.upstream.initialized(None);
        // Without a session there is no stream that anything could be said on.
        if !peer.session_id().is_empty() {
            self.clients.lock().peers.insert(peer.session_id().to_owned(), peer.clone());
        }
        Ok(without_logging(&hello.result))
    }

    /// Takes up a session that another backend began. The process is subscribed to what its client is; the client is told to look at
    /// the lists again, since nobody knows whether it saw those of this process.
    pub(crate) fn take_up(self: &Arc<Self>, peer: &Peer) {
        self.join(peer, true);
    }

    /// A modern client listens: as a session that has just seen everything.
    pub(crate) fn listening(self: &Arc<Self>, peer: &Peer) {
        self.join(peer, false);
    }

    fn join(self: &Arc<Self>, peer: &Peer, looks_again: bool) {
        self.start();
        let new: Vec<String> = {
            let mut clients = self.clients.lock();
            clients.peers.insert(peer.session_id().to_owned(), peer.clone());
            let uris = peer.subscriptions().into_iter().take(MAX_SUBSCRIPTIONS);
            uris.filter(|uri| {
                let subscribers = clients.subscribers.entry(uri.clone()).or_default();
                subscribers.insert(peer.session_id().to_owned()) && subscribers.len() == 1
            })
            .collect()
        };
        let (shared, peer) = (self.clone(), peer.clone());
        tokio::spawn(async move {
            let Ok(hello) = shared.keeper.hello().await else { return };
            hello.upstream.initialized(None);
            let patience = shared.common.options.init_timeout;
            if hello.upstream.is_modern() && !new.is_empty() {
                hello.upstream.listen(&shared.subscribed()).await;
            }
            let new = new.into_iter().filter(|_| !hello.upstream.is_modern());
            for uri in new {
                let params = Raw::from_value(&serde_json::json!({ "uri": uri })).ok();
                if let Err(error) = hello.upstream.ask("resources/subscribe", params, patience).await {
                    tracing::warn!(target: "bowline::gateway", child = %shared.common.name, "a subscription could not be taken up: {}", error.message);
                }
            }
            let capabilities = hello.result.member("capabilities").filter(|_| looks_again);
            for list in ["tools", "prompts", "resources"] {
                let announced = capabilities.as_ref().and_then(|all| all.member(list)?.member("listChanged"));
                if announced.is_some_and(|announced| announced.as_str() == "true") {
                    peer.notify(&Notification::new(format!("notifications/{list}/list_changed"), None));
                }
            }
        });
    }

    /// A session ended, or a modern client listens no more: nobody else notices.
    pub(crate) fn ended(self: &Arc<Self>, peer: &Peer) {
        let unused: Vec<String> = {
            let mut clients = self.clients.lock();
            clients.peers.remove(peer.session_id());
            let uris: Vec<String> = clients.subscribers.keys().cloned().collect();
            uris.into_iter().filter(|uri| clients.unsubscribe(uri, peer.session_id())).collect()
        };
        let Some(upstream) = self.keeper.upstream_now().filter(|_| !unused.is_empty()) else { return };
        let patience = self.common.options.init_timeout;
        let shared = self.clone();
        tokio::spawn(async move {
            if upstream.is_modern() {
                return upstream.listen(&shared.subscribed()).await;
            }
            for uri in unused {
                let params = Raw::from_value(&serde_json::json!({ "uri": uri })).ok();
                let _ = upstream.ask("resources/unsubscribe", params, patience).await;
            }
        });
    }

    fn subscribed(&self) -> BTreeSet<String> {
        self.clients.lock().subscribers.keys().cloned().collect()
    }

    /// Stops the process, in the background.
    pub(crate) fn end(&self) {
        self.keeper.end();
    }

    pub(crate) fn is_looping(&self) -> bool {
        self.keeper.is_looping()
    }

    pub(crate) fn sessions(&self) -> usize {
        self.clients.lock().peers.len()
    }

    /// Has the process work on a call.
    pub(crate) async fn call(&self, call: &Call) -> Reply {
        tokio::select! {
            biased;
            _ = call.cancelled() => abandoned(),
            reply = async {
                match call.method() {
                    // Its logs reach nobody, so there is no level to set.
                    "logging/setLevel" => ErrorObject::method_not_found(call.method()).into(),
                    "resources/subscribe" => self.subscribe(call).await,
                    "resources/unsubscribe" => self.unsubscribe(call).await,
                    _ => self.answer(call).await,
                }
            } => reply,
        }
    }

    async fn subscribe(&self, call: &Call) -> Reply {
        let (peer, Some(uri)) = (call.peer(), uri(call)) else { return self.answer(call).await };
        let session = peer.session_id();
        if session.is_empty() {
            return ErrorObject::method_not_found(call.method()).into();
        }
        let new = {
            let mut clients = self.clients.lock();
            if clients.subscriptions_of(session) >= MAX_SUBSCRIPTIONS {
                let text = format!("a session may have {MAX_SUBSCRIPTIONS} subscriptions; end some of them");
                return ErrorObject::internal("too_many_subscriptions", text).into();
            }
            // Before the process is asked: whoever unsubscribes meanwhile must not end it for us.
            clients.subscribers.entry(uri.clone()).or_default().insert(session.to_owned())
        };
        let reply = self.answer(call).await;
        if new && reply.is_error() {
            self.clients.lock().unsubscribe(&uri, session);
        }
        reply
    }

    async fn unsubscribe(&self, call: &Call) -> Reply {
        let (peer, Some(uri)) = (call.peer(), uri(call)) else { return self.answer(call).await };
        let last = {
            let mut clients = self.clients.lock();
            let last = clients.unsubscribe(&uri, peer.session_id());
            last || !clients.subscribers.contains_key(&uri)
        };
        if last { self.answer(call).await } else { Reply::Result(Raw::empty_object()) }
    }

    /// From here on, what is done for `from` is for `to`.
    pub(crate) fn hand_over(&self, from: &Call, to: &Call) {
        if let Some(upstream) = self.keeper.upstream_now() {
            upstream.hand_over(from, to);
        }
    }

    /// The same without an end when the call is cancelled, for a request that the process answers.
    pub(crate) async fn answer(&self, call: &Call) -> Reply {
        self.start();
        loop {
            let upstream = match self.keeper.upstream().await {
                Ok(upstream) => upstream,
                Err(error) => return error.into(),
            };
            if let Some(reply) = self.keeper.ask_shared(&upstream, call).await {
                self.keeper.note(call.method(), call.params(), &reply);
                return reply;
            }
        }
    }
}

fn uri(call: &Call) -> Option<String> {
    call.params()?.member("uri")?.string()
}

/// The parameters of `initialize` where the gateway itself is the client.
pub(crate) fn own_hello() -> Raw {
    let params = serde_json::json!({
        "protocolVersion": Revision::NEWEST_LEGACY,
        "capabilities": {},
        "clientInfo": { "name": "bowline", "version": env!("CARGO_PKG_VERSION") },
    });
    Raw::from_value(&params).unwrap_or_else(|_| Raw::empty_object())
}

/// The gateway's own name and version.
pub(crate) fn own_info() -> Raw {
    own_hello().member("clientInfo").unwrap_or_else(Raw::empty_object)
}

/// The result of `initialize` without the capability `logging`, which nobody is served here.
fn without_logging(result: &Raw) -> Raw {
    let stripped = || {
        let mut capabilities: BTreeMap<String, Box<serde_json::value::RawValue>> =
            result.member("capabilities")?.to().ok()?;
        capabilities.remove("logging")?;
        result.with_member("capabilities", &Raw::from_value(&capabilities).ok()?)
    };
    stripped().unwrap_or_else(|| result.clone())
}

impl Audience for Shared {
    fn hello(&self) -> Raw {
        own_hello()
    }

    fn log_level(&self) -> Option<String> {
        None
    }

    fn subscriptions(&self) -> Vec<String> {
        self.subscribed().into_iter().collect()
    }

    fn hear(&self, upstream: &Upstream, subject: Subject, notification: &Notification) {
        match Hearers::of(subject) {
            Hearers::TokenHolder => progress(upstream, notification),
            Hearers::Everyone => self.tell(notification),
            Hearers::Subscribers => {
                let uri = notification.params.as_ref().and_then(|params| params.member("uri")?.string());
                let clients = self.clients.lock();
                let Some(sessions) = uri.and_then(|uri| clients.subscribers.get(&uri)) else { return };
                let peers: Vec<Peer> =
                    sessions.iter().filter_map(|session| clients.peers.get(session).cloned()).collect();
                drop(clients);
                for peer in peers {
                    peer.notify(notification);
                }
            }
            Hearers::Nobody => {
                let method = &*notification.method;
                tracing::trace!(target: "bowline::gateway", child = %upstream.name, method, "dropped: the server is shared");
            }
        }
    }

    fn question(&self, _: &Upstream, request: &Request) -> Result<Question, ErrorObject> {
        Err(ErrorObject::new(
            code::METHOD_NOT_FOUND,
            format!(
                "{} is not served: several clients share this server, and none of them can be asked",
                request.method
            ),
        ))
    }

    fn tell(&self, notification: &Notification) {
        let peers: Vec<Peer> = self.clients.lock().peers.values().cloned().collect();
        for peer in peers {
            peer.notify(notification);
        }
    }
}

/// Gives progress to the call that was sent under the id that is its token, with the client's own token. That of a call that has ended has
/// nowhere to go.
pub(crate) fn progress(upstream: &Upstream, notification: &Notification) {
    let restored = || {
        let params = notification.params.as_ref()?;
        let call = upstream.call_of(our_token(&params.member("progressToken")?)?)?;
        let params = params.with_member("progressToken", call.progress_token()?)?;
        Some((call, params))
    };
    if let Some((call, params)) = restored() {
        call.notify(&Notification::new(notification.method.clone(), Some(params)));
    }
}

/// A token of ours as a server gives it back: some know texts only.
fn our_token(token: &Raw) -> Option<u64> {
    token.string().unwrap_or_else(|| token.as_str().to_owned()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_a_number_or_a_text() {
        let token = |text: &str| our_token(&Raw::parse(text.to_owned()).unwrap());
        assert_eq!((token("42"), token(r#""42""#)), (Some(42), Some(42)));
        for other in ["-1", "1.5", r#""t""#, "null", "[42]", "1e300"] {
            assert_eq!(token(other), None, "{other}");
        }
    }

    #[test]
    fn logging_is_not_announced_and_the_rest_is_untouched() {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let result = raw(r#"{"capabilities":{"tools":{"listChanged": true},"logging":{}},"x":[1.50]}"#);
        assert_eq!(
            without_logging(&result).as_str(),
            r#"{"capabilities":{"tools":{"listChanged": true}},"x":[1.50]}"#
        );
        let without = raw(r#"{"capabilities":{"tools":{}}}"#);
        assert_eq!(without_logging(&without), without);
    }

    #[test]
    fn the_last_subscriber_ends_it() {
        let mut clients = Clients::default();
        for session in ["a", "b"] {
            clients.subscribers.entry("x:1".into()).or_default().insert(session.into());
        }
        assert!(!clients.unsubscribe("x:1", "c"));
        assert!(!clients.unsubscribe("x:1", "a"));
        assert_eq!((clients.subscriptions_of("a"), clients.subscriptions_of("b")), (0, 1));
        assert!(clients.unsubscribe("x:1", "b"));
        assert!(!clients.unsubscribe("x:1", "b"));
    }
}
