//! A session with a process of its own: everything passes, ids and progress tokens are exchanged, nothing else is touched.

use std::sync::{Arc, Weak};

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, code};
use bowline_proto::modern::input::undeclared;
use bowline_proto::projection::project_request;
use bowline_proto::revision::Revision;
use bowline_server::bridge::{On, Subject};
use bowline_server::{Call, Peer};
use tokio::sync::OwnedSemaphorePermit;

use crate::common::Common;
use crate::restart::{Keeper, Tokens};
use crate::shared::progress;
use crate::upstream::{Audience, Question, Upstream};

/// One client and its process.
pub(crate) struct Session {
    common: Arc<Common>,
    peer: Peer,
    hello: Raw,
    keeper: Arc<Keeper>,
}

impl Session {
    /// A session whose process is being started. `params` are those of the client's `initialize`; the process is asked for the
    /// revision that was negotiated with the client, in its words.
    pub(crate) fn start(
        common: &Arc<Common>,
        peer: Peer,
        params: &Raw,
        revision: Revision,
        room: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        Self::begin(common, peer, params, revision, |session| Keeper::new(common, session, Some(room)))
    }

    /// A session that another backend began, or this program before it was started again: its process is started, told what the client
    /// said in the beginning, and brought to where the client is.
    pub(crate) fn take_up(common: &Arc<Common>, peer: Peer, room: OwnedSemaphorePermit) -> Arc<Self> {
        let (params, revision) = (peer.initialize_params().clone(), peer.revision());
        Self::begin(common, peer, &params, revision, |session| Keeper::taking_up(common, session, Some(room)))
    }

    fn begin(
        common: &Arc<Common>,
        peer: Peer,
        params: &Raw,
        revision: Revision,
        keeper: impl FnOnce(Weak<Self>) -> Arc<Keeper>,
    ) -> Arc<Self> {
        let version = Raw::from_trusted(format!("\"{revision}\"").into());
        let hello = params.with_member("protocolVersion", &version).unwrap_or_else(Raw::empty_object);
        let fitted = project_request(revision, "initialize", Some(hello.clone())).ok().flatten();
        let hello = fitted.unwrap_or(hello);
        let session = Arc::new_cyclic(|session: &Weak<Self>| Self {
            common: common.clone(),
            peer,
            hello,
            keeper: keeper(session.clone()),
        });
        session.keeper.run();
        session
    }

    /// The answer to `initialize`.
    pub(crate) async fn hello(&self) -> Result<Raw, ErrorObject> {
        self.keeper.hello().await.map(|hello| hello.result)
    }

    /// Stops the process, in the background.
    pub(crate) fn end(&self) {
        self.keeper.end();
    }

    pub(crate) fn is_looping(&self) -> bool {
        self.keeper.is_looping()
    }

    /// Passes a notification of the client on.
    pub(crate) fn notified(&self, notification: Notification) {
        let Some(upstream) = self.keeper.upstream_now() else {
            // A process that replaces another is told `initialized` whatever the client says meanwhile.
            self.common.counters.undelivered.up();
            return;
        };
        if &*notification.method == "notifications/initialized" {
            upstream.initialized(Some(notification));
        } else {
            self.say_initialized(&upstream);
            upstream.notify(notification);
        }
    }

    /// A strict server refuses what comes before `notifications/initialized`, while we serve clients that are early
    /// (SEMANTICS 2): the gateway says it for them, and theirs is dropped. Only `ping` may come before it.
    fn say_initialized(&self, upstream: &Upstream) {
        if upstream.initialized(None) {
            tracing::debug!(session = %self.peer.log_name(), "the client sends before it said initialized");
        }
    }

    /// Has the process work on a call.
    pub(crate) async fn call(&self, call: &Call) -> Reply {
        tokio::select! {
            biased;
            _ = call.cancelled() => abandoned(),
            reply = self.answer(call) => reply,
        }
    }

    async fn answer(&self, call: &Call) -> Reply {
        let (method, params) = (call.method(), call.params());
        loop {
            let upstream = match self.keeper.upstream().await {
                Ok(upstream) => upstream,
                Err(error) => return error.into(),
            };
            if method != "ping" {
                self.say_initialized(&upstream);
            }
            if let Some(reply) = self.keeper.ask(&upstream, call, Tokens::OfOneClient).await {
                self.keeper.note(method, params, &reply);
                return reply;
            }
        }
    }
}

/// What a call that was cancelled ends with; nobody reads it.
pub(crate) fn abandoned() -> Reply {
    ErrorObject::internal("cancelled", "the request was cancelled").into()
}

impl Audience for Session {
    fn hello(&self) -> Raw {
        self.hello.clone()
    }

    fn log_level(&self) -> Option<String> {
        self.peer.log_level()
    }

    fn subscriptions(&self) -> Vec<String> {
        self.peer.subscriptions()
    }

    fn hear(&self, upstream: &Upstream, subject: Subject, notification: &Notification) {
        match subject {
            Subject::Progress => progress(upstream, notification),
            Subject::Log => self.place(upstream).notify(notification),
            Subject::List | Subject::Resource | Subject::Other | Subject::Cancelled => {
                self.peer.notify(notification);
            }
        }
    }

    fn question(&self, upstream: &Upstream, request: &Request) -> Result<Question, ErrorObject> {
        let capabilities = self.peer.initialize_params().member("capabilities");
        if let Some(missing) = undeclared(capabilities.as_ref(), &request.method) {
            let text = format!("{} cannot be asked: the client does not declare {missing}", request.method);
            return Err(ErrorObject::new(code::METHOD_NOT_FOUND, text));
        }
        let on = self.place(upstream);
        Ok(Question { ask: on.ask(request), on })
    }

    fn tell(&self, notification: &Notification) {
        self.peer.notify(notification);
    }

    fn note_seen(&self, method: &'static str, digest: String) {
        self.peer.set_note(&format!("seen {method}"), Some(digest));
    }

    fn seen(&self, method: &'static str) -> Option<String> {
        self.peer.note(&format!("seen {method}"))
    }
}

impl Session {
    fn place(&self, upstream: &Upstream) -> On {
        let (running, newest) = upstream.running();
        On::choose(running, newest, &self.peer)
    }
}
