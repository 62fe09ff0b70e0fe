//! The other side of a session.

use crate::{ask::Ask, core::Core, session::Session};
use bowline_proto::{
    jsonrpc::{Notification, Raw},
    projection::project_notification,
    revision::Revision,
};
use bowline_store::EventClass;
use bytes::Bytes;
use std::{fmt, sync::Arc};

/// A client, as a handler sees it beside any call. Cheap to clone; it does not keep the session alive.
#[derive(Clone)]
pub struct Peer {
    core: Arc<Core>,
    session: Arc<Session>,
}

impl Peer {
    pub(crate) fn new(core: &Arc<Core>, session: &Arc<Session>) -> Self {
        Self { core: core.clone(), session: session.clone() }
    }

    /// The session's id: a key, not for logs. Empty in the session mode `stateless` and for the calls of modern clients; that of a
    /// modern client that listens is new each time.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session.id
    }

    /// The session in logs: a short hash.
    #[must_use]
    pub fn log_name(&self) -> String {
        self.session.to_string()
    }

    /// Who it is; `None` where no authentication is configured.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.session.principal.as_deref()
    }

    /// The negotiated revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.session.revision
    }

    /// The parameters of `initialize` as they came.
    #[must_use]
    pub fn initialize_params(&self) -> &Raw {
        &self.session.initialize
    }

    /// The level of the last `logging/setLevel` that succeeded.
    #[must_use]
    pub fn log_level(&self) -> Option<String> {
        self.session.record().log_level.clone()
    }

    /// The URIs that are subscribed to.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<String> {
        self.session.record().subscriptions.iter().cloned().collect()
    }

    /// Whether this URI is subscribed to.
    #[must_use]
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.session.record().subscriptions.contains(uri)
    }

    /// What was noted under `name` by a handler of this session, on whichever backend.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<String> {
        self.session.note(name)
    }

    /// Notes something with the session for handlers on other backends, or with `None` takes it away: a small text such as a digest, of 1 KiB
    /// at most and 32 of them. Nothing is kept where no other backend can ask for it.
    pub fn set_note(&self, name: &str, text: Option<String>) {
        if self.core.is_shared() && !self.session.stateless {
            self.session.set_note(&self.core, name, text);
        }
    }

    /// Says something that belongs to no call, on the standalone stream. It is kept until the client opens that stream.
    pub fn notify(&self, notification: &Notification) {
        if let Some(listener) = self.session.listener() {
            return listener.tell(notification);
        }
        if self.session.stateless || self.session.has_ended() {
            return;
        }
        let Some(notification) = project_notification(self.session.revision, notification.clone()) else {
            return;
        };
        // Here every notification may be dropped at a bound: one that must not would end the stream where the store is full.
        let class = EventClass::Droppable;
        let key = progress_key(&notification);
        self.session.standalone(&self.core).push(notification.to_bytes(), class, key);
    }

    /// Asks the client something on the standalone stream.
    pub fn ask(&self, method: &str, params: Option<Raw>) -> Ask {
        Ask::on_standalone(&self.core, &self.session, method, params)
    }

    /// Whether the client reads the standalone stream now.
    #[must_use]
    pub fn reads_standalone(&self) -> bool {
        self.session.standalone_if_made().is_some_and(|outlet| outlet.unread_since().is_none())
    }
}

/// What progress notifications are coalesced by: the token.
pub(crate) fn progress_key(notification: &Notification) -> Option<Bytes> {
    if &*notification.method != "notifications/progress" {
        return None;
    }
    Some(notification.params.as_ref()?.member("progressToken")?.into_bytes())
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer(session {})", self.session)
    }
}
