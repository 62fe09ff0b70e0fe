//! One request being worked on, as its handler sees it.

use crate::{
    Peer, ask::Ask, core::Core, exchange::Exchange, head::Head, peer::progress_key, session::Session,
    watched::Watched,
};
use bowline_proto::{
    jsonrpc::{Notification, Raw, Request, RequestId},
    legacy::Millis,
    projection::project_notification,
};
use bowline_store::EventClass;
use bytes::Bytes;
use http::request::Parts;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};

/// Why a call was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The client said so (`notifications/cancelled`).
    Client,
    /// Its session ended.
    SessionEnded,
    /// Nobody has read its stream for too long.
    Abandoned,
    /// It ran into its time limit.
    TimedOut,
    /// This backend is leaving and the drain is over.
    Draining,
    /// Its client went away, and this answer cannot be resumed.
    Disconnected,
}

/// A call. Cheap to clone; what is said through it goes on its own stream.
#[derive(Clone)]
pub struct Call(pub(crate) Arc<CallState>);

pub(crate) struct CallState {
    request: Request,
    pub(crate) head: Head,
    pub(crate) core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) started: Millis,
    progress_token: Option<Raw>,
    cancelled: Watched<Option<CancelReason>>,
    /// Whether the call has its answer. Held while something is said, so that nothing follows the answer.
    answered: Mutex<bool>,
}

impl CallState {
    pub(crate) fn new(
        core: &Arc<Core>,
        session: &Arc<Session>,
        exchange: &Arc<Exchange>,
        parts: &Arc<Parts>,
        request: Request,
        progress_token: Option<Raw>,
    ) -> Arc<Self> {
        Arc::new(Self {
            request,
            head: Head::new(parts),
            core: core.clone(),
            session: session.clone(),
            exchange: exchange.clone(),
            started: core.now(),
            progress_token,
            cancelled: Watched::new(None),
            answered: Mutex::new(false),
        })
    }

    /// Says something before the answer; returns whether a client may come to see it. A handler that was cancelled may still
    /// run, and so may whatever else holds the call: once it is answered, that has nothing more to say (in a batch the
    /// stream goes on, and an answer in plain JSON must not turn into a stream afterwards).
    pub(crate) fn say(&self, payload: Bytes, class: EventClass, coalesce: Option<Bytes>) -> bool {
        let answered = self.answered.lock();
        !*answered && self.exchange.say(payload, class, coalesce)
    }

    /// Gives the answer; `None` where there is to be none. The first one counts.
    pub(crate) fn answer(&self, response: Option<Bytes>) {
        let mut answered = self.answered.lock();
        if !std::mem::replace(&mut *answered, true) {
            self.exchange.answer(response.map(|response| (self.id(), response)));
        }
    }

    pub(crate) fn id(&self) -> &RequestId {
        &self.request.id
    }

    pub(crate) fn request_method(&self) -> &str {
        &self.request.method
    }

    pub(crate) fn request_params(&self) -> Option<&Raw> {
        self.request.params.as_ref()
    }

    /// Asks the call to stop; the first reason stands.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.cancelled.modify(|held| {
            let first = held.is_none();
            if first {
                *held = Some(reason);
            }
            first
        });
    }

    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancelled.get()
    }

    pub(crate) async fn cancelled(&self) -> CancelReason {
        loop {
            if let Some(reason) = self.cancelled.wait_for(|reason| reason.is_some()).await {
                return reason;
            }
        }
    }
}

impl Call {
    /// The id that the client gave the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.0.request.id
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.0.request.method
    }

    /// The request as it came.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.0.request
    }

    /// The parameters, raw.
    #[must_use]
    pub fn params(&self) -> Option<&Raw> {
        self.0.request.params.as_ref()
    }

    /// `params._meta.progressToken`, where the client wants progress.
    #[must_use]
    pub fn progress_token(&self) -> Option<&Raw> {
        self.0.progress_token.as_ref()
    }

    /// The head of the HTTP request that brought the call: headers, and what layers in front of the endpoint put into its extensions.
    /// It is copied when it is first asked for.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        self.0.head.get()
    }

    /// The session's other side.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::new(&self.0.core, &self.0.session)
    }

    /// Says something that belongs to this call: progress, a log message, anything. It is in order with everything else
    /// that is said here, and before the result. Returns whether a client may come to see it: notifications may be dropped at a
    /// bound, and nothing is streamed to a client that cannot read streams.
    pub fn notify(&self, notification: &Notification) -> bool {
        // Without a session only progress belongs to a POST: a server that sends log messages has to declare `logging`, and
        // one that announces changes has to keep who wants to know (SEMANTICS 3).
        if self.0.session.stateless && &*notification.method == "notifications/message" {
            return false;
        }
        let Some(notification) = project_notification(self.0.session.revision, notification.clone()) else {
            return false;
        };
        let key = progress_key(&notification);
        let droppable = matches!(&*notification.method, "notifications/progress" | "notifications/message");
        let class = if droppable { EventClass::Droppable } else { EventClass::Kept };
        self.0.say(notification.to_bytes(), class, key)
    }

    /// Asks the client something (sampling, elicitation, roots) on this call's stream.
    pub fn ask(&self, method: &str, params: Option<Raw>) -> Ask {
        Ask::on_call(self, method, params)
    }

    /// Wishes that the connection be closed while the call runs on: the client polls (SEP-1699). A client whose revision has no
    /// polling keeps its connection.
    pub fn close_connection(&self) {
        let answered = self.0.answered.lock();
        if !*answered && let Some(outlet) = self.0.exchange.outlet_or_open() {
            outlet.wish_close();
        }
    }

    /// Waits until the call is to stop. A handler that does not look is dropped after a grace.
    pub async fn cancelled(&self) -> CancelReason {
        self.0.cancelled().await
    }

    /// Why the call is to stop, if it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.cancel_reason()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {} in session {})", self.method(), self.id(), self.0.session)
    }
}
