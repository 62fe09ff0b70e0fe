//! One request being worked on, as its handler sees it.

use crate::{
    Peer, Round,
    ask::Ask,
    cancel::{Cancelled, Cancelling},
    core::Core,
    exchange::Exchange,
    head::Head,
    limiter::NOT_DUE,
    mailbox,
    modern::ModernCall,
    outlet::Outlet,
    peer::progress_key,
    session::Session,
};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{Notification, Raw, Reply, Request, RequestId},
    legacy::Millis,
    modern::{LogLevel, fit_notification, tasks::progress_message, trace::TraceContext},
    projection::{project_notification, project_reply},
};
use bowline_store::EventClass;
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    },
};

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
    /// This backend gave no sign of life for so long that others may have ended the call.
    OwnerLost,
    /// The store that keeps its answer is away.
    StoreAway,
}

/// A call. Cheap to clone; what is said through it goes on its own stream.
#[derive(Clone)]
pub struct Call(pub(crate) Arc<CallState>);

pub(crate) struct CallState {
    request: Request,
    pub(crate) head: Head,
    pub(crate) core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    /// Held while something is said, so that nothing follows the answer.
    way: Mutex<Way>,
    pub(crate) started: Millis,
    progress_token: Option<Box<Raw>>,
    /// What a call of a modern client has beside; it then says everything by this.
    pub(crate) modern: Option<Box<ModernCall>>,
    pub(crate) cancelling: Cancelling,
    /// When its limits have to be looked at, in [`Millis`]. Changed under the lock of the [`Limiter`](crate::limiter::Limiter).
    pub(crate) due: AtomicU64,
    /// Which one it is among those whose limits are watched.
    pub(crate) number: AtomicU32,
    /// Whether it was answered while its handler ran, which may still put things in order.
    pub(crate) unfinished: AtomicBool,
}

/// Where a call says what it says.
enum Way {
    /// Among the others of its POST, or in plain JSON; a stream is opened where need be.
    Exchange(Arc<Exchange>),
    /// On its stream, which is no other call's. There was an exchange, but a call may wait for long, and there may be many that do.
    Stream(Arc<Outlet>),
    /// It has its answer, and has nothing more to say.
    Answered,
}

impl Way {
    /// Lets go of an exchange that has become a stream.
    fn narrow(&mut self) {
        if let Self::Exchange(exchange) = self
            && let Some(outlet) = exchange.only_stream()
        {
            *self = Self::Stream(outlet);
        }
    }
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
            way: Mutex::new(Way::Exchange(exchange.clone())),
            started: core.now(),
            progress_token: progress_token.map(Box::new),
            cancelling: Cancelling::default(),
            due: AtomicU64::new(NOT_DUE),
            number: AtomicU32::new(0),
            modern: None,
            unfinished: AtomicBool::new(false),
        })
    }

    /// A call of a modern client.
    pub(crate) fn modern(
        core: &Arc<Core>,
        session: &Arc<Session>,
        exchange: &Arc<Exchange>,
        parts: &Arc<Parts>,
        request: Request,
        progress_token: Option<Raw>,
        modern: Box<ModernCall>,
    ) -> Arc<Self> {
        let mut call = Self::new(core, session, exchange, parts, request, progress_token);
        // Nobody else has it yet.
        if let Some(call) = Arc::get_mut(&mut call) {
            call.modern = Some(modern);
        }
        call
    }

    /// Says something before the answer; returns whether a client may come to see it. A handler that was cancelled may still
    /// run, and so may whatever else holds the call: once it is answered, that has nothing more to say (in a batch the
    /// stream goes on, and an answer in plain JSON must not turn into a stream afterwards).
    pub(crate) fn say(&self, payload: Bytes, class: EventClass, coalesce: Option<Bytes>) -> bool {
        let mut way = self.way.lock();
        match (&*way, &self.modern) {
            (Way::Answered, _) => false,
            (_, Some(modern)) => modern.say(payload, class, coalesce),
            (Way::Stream(outlet), None) => outlet.push(payload, class, coalesce),
            (Way::Exchange(exchange), None) => {
                let said = exchange.say(payload, class, coalesce);
                way.narrow();
                said
            }
        }
    }

    /// What the call was part of, as long as that is more than its own stream.
    pub(crate) fn exchange(&self) -> Option<Arc<Exchange>> {
        match &*self.way.lock() {
            Way::Exchange(exchange) => Some(exchange.clone()),
            Way::Stream(_) | Way::Answered => None,
        }
    }

    /// Whether it is one of several of its POST.
    pub(crate) fn is_in_batch(&self) -> bool {
        matches!(&*self.way.lock(), Way::Exchange(exchange) if exchange.is_batch())
    }

    /// The stream of its answer, where there is one and the call is not answered.
    pub(crate) fn outlet(&self) -> Option<Arc<Outlet>> {
        match &*self.way.lock() {
            Way::Exchange(exchange) => exchange.outlet(),
            Way::Stream(outlet) => Some(outlet.clone()),
            Way::Answered => None,
        }
    }

    /// The same; its answer becomes a stream now, if it is not one and can be one.
    pub(crate) fn outlet_or_open(&self) -> Option<Arc<Outlet>> {
        let mut way = self.way.lock();
        match &*way {
            Way::Exchange(exchange) => {
                let outlet = exchange.outlet_or_open();
                way.narrow();
                outlet
            }
            Way::Stream(outlet) => Some(outlet.clone()),
            Way::Answered => None,
        }
    }

    /// Lets go of its exchange, where that has become the call's own stream.
    pub(crate) fn narrow(&self) {
        self.way.lock().narrow();
    }

    /// Waits until its answer is a stream.
    pub(crate) async fn wait_open(&self) -> Arc<Outlet> {
        match self.exchange() {
            Some(exchange) => exchange.wait_open().await,
            None => match self.outlet() {
                Some(outlet) => outlet,
                // It is answered, and never will be one.
                None => std::future::pending().await,
            },
        }
    }

    /// Waits until its answer is a stream, or its client went away before it was one.
    pub(crate) async fn wait_unquiet(&self) {
        if let Some(exchange) = self.exchange() {
            exchange.wait_unquiet().await;
        }
    }

    /// What it says, as it is said where it is not run for the first time; `None` where that was said before.
    fn mark(&self, notification: &Notification) -> Option<Notification> {
        match &*self.way.lock() {
            Way::Exchange(exchange) if exchange.run_again().is_some() => {
                exchange.run_again().and_then(|again| again.mark(notification.clone()))
            }
            _ => Some(notification.clone()),
        }
    }

    /// The call ended with this; `None` where nobody is to be told.
    pub(crate) fn conclude(&self, reply: Option<Reply>) {
        let Some(modern) = &self.modern else {
            let reply = reply.map(|reply| project_reply(self.session.revision, self.request_method(), reply));
            return self.answer(reply.map(|reply| reply.to_bytes(self.id())));
        };
        let mut way = self.way.lock();
        if !matches!(std::mem::replace(&mut *way, Way::Answered), Way::Answered) {
            modern.conclude(&self.core, self.request_method(), reply);
        }
    }

    /// The HTTP status of a plain answer to a modern client.
    pub(crate) fn modern_status(&self) -> StatusCode {
        let status = self.modern.as_ref().map_or(200, |modern| modern.status());
        StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
    }

    /// Since when nobody waits for the call, if nobody does, and for how long it runs on then.
    pub(crate) fn unread(&self) -> (Option<Millis>, std::time::Duration) {
        match &self.modern {
            None => (self.unread_since(), self.core.options.abandon_after),
            // While its client is there, that is its life; between two rounds the client has a time to come back.
            Some(modern) => (modern.asked_since(), self.core.options.input_ttl),
        }
    }

    /// Since when nobody reads what it says, if nobody does.
    pub(crate) fn unread_since(&self) -> Option<Millis> {
        match &*self.way.lock() {
            Way::Exchange(exchange) => exchange.unread_since(),
            Way::Stream(outlet) => outlet.unread_since(),
            Way::Answered => None,
        }
    }

    /// Gives the answer; `None` where there is to be none. The first one counts.
    pub(crate) fn answer(&self, response: Option<Bytes>) {
        let mut way = self.way.lock();
        let response = response.map(|response| (self.id(), response));
        match std::mem::replace(&mut *way, Way::Answered) {
            Way::Exchange(exchange) => exchange.answer(response),
            Way::Stream(outlet) => {
                outlet.seal(response);
                if self.session.resumable {
                    self.session.keep_result(&self.core, outlet.stream, outlet.said());
                }
            }
            Way::Answered => {}
        }
    }

    /// Where other backends put what the client says to the call.
    pub(crate) fn mailbox(&self) -> StreamId {
        mailbox::of_call(&self.session.id, self.id())
    }

    pub(crate) const fn request(&self) -> &Request {
        &self.request
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
        self.cancelling.cancel(reason);
    }

    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancelling.reason()
    }

    pub(crate) const fn cancelled(&self) -> Cancelled<'_> {
        self.cancelling.wait()
    }
}

impl Call {
    /// The id that the client gave the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.0.request.id
    }

    /// Whether this is the same call, and not only one that is alike.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
        self.0.progress_token.as_deref()
    }

    /// The head of the HTTP request that brought the call: headers, and what layers in front of the endpoint put into its extensions.
    /// It is copied when it is first asked for.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        self.0.head.get(&self.0.session.id)
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
        let notification = match &self.0.modern {
            None if self.0.session.stateless && &*notification.method == "notifications/message" => {
                return false;
            }
            None => {
                let said = self.0.mark(notification);
                said.and_then(|said| project_notification(self.0.session.revision, said))
            }
            Some(modern) if modern.task.is() => {
                // A task has no stream; what its progress says in words is its status.
                let progress = Some(notification).filter(|said| &*said.method == "notifications/progress");
                let message = progress.and_then(progress_message);
                return message.is_some_and(|message| modern.say_in_task(&self.0.core, message));
            }
            Some(modern) => fit_notification(notification.clone())
                .filter(|notification| wants(modern.meta.log_level, notification))
                .and_then(|notification| modern.progress_of_round(notification, self.progress_token())),
        };
        let Some(notification) = notification else { return false };
        let key = progress_key(&notification);
        let droppable = matches!(&*notification.method, "notifications/progress" | "notifications/message");
        let class = if droppable { EventClass::Droppable } else { EventClass::Kept };
        self.0.say(notification.to_bytes(), class, key)
    }

    /// What this round of the call came with, and what it leaves for the next one; `None` where the client is a legacy one, which is
    /// asked by requests.
    #[must_use]
    pub fn round(&self) -> Option<&Round> {
        self.0.modern.as_ref().map(|modern| &modern.round)
    }

    /// From which level on a modern client wants log messages of this call; `None` where it wants none. What is below is not sent.
    /// A legacy client's level is its session's ([`Peer::log_level`]).
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        self.0.modern.as_ref()?.meta.log_level
    }

    /// The trace that a modern client says the call belongs to.
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.modern.as_ref().map(|modern| &modern.meta.trace).filter(|trace| !trace.is_empty())
    }

    /// Asks the client something (sampling, elicitation, roots) on this call's stream.
    ///
    /// A modern client is asked by the end of the round: the call stays open, on this backend, until the client comes back with the
    /// answer, for [`crate::Options::input_ttl`] at most. A handler that can run again asks by [`Round::ask`], which keeps nothing open.
    pub fn ask(&self, method: &str, params: Option<Raw>) -> Ask {
        Ask::on_call(self, method, params)
    }

    /// Wishes that the connection be closed while the call runs on: the client polls (SEP-1699). A client whose revision has no
    /// polling keeps its connection; a modern one is given a task, where [`Call::become_task`] would.
    pub fn close_connection(&self) {
        // A modern client has nothing to come back with but a task.
        if let Some(modern) = &self.0.modern {
            modern.task.wish();
            return;
        }
        if let Some(outlet) = self.0.outlet_or_open() {
            outlet.wish_close();
        }
    }

    /// Makes a task of this call now, where its client can have one and the call may become one
    /// ([`RawHandler::task_support`](crate::RawHandler::task_support)): the client gets a handle and lets go of its connection. Returns
    /// whether the call is a task. What is asked then is asked by the task, and the handler waits for the answer.
    pub async fn become_task(&self) -> bool {
        let Some(modern) = &self.0.modern else { return false };
        modern.task.wish();
        modern.task.decided().await
    }

    /// Waits until it is known whether this call becomes a task, without wishing it.
    pub async fn becomes_task(&self) -> bool {
        match &self.0.modern {
            Some(modern) => modern.task.decided().await,
            None => false,
        }
    }

    /// Whether this call is a task.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.0.modern.as_ref().is_some_and(|modern| modern.task.is())
    }

    /// Waits until the call is to stop. A handler that does not look is dropped after a grace.
    pub fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + '_ {
        self.0.cancelled()
    }

    /// Why the call is to stop, if it is.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.0.cancel_reason()
    }
}

/// Whether a modern client wants this notification: log messages only of the level that it asked for, or more severe.
fn wants(level: Option<LogLevel>, notification: &Notification) -> bool {
    if &*notification.method != "notifications/message" {
        return true;
    }
    let said = notification.params.as_ref().and_then(|params| params.member("level")?.string());
    let said = said.and_then(|said| LogLevel::from_wire(&said));
    level.is_some_and(|level| said.is_none_or(|said| said >= level))
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {} in session {})", self.method(), self.id(), self.0.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_takes_few_bytes() {
        assert_eq!(size_of::<CallState>(), 256);
    }
}
