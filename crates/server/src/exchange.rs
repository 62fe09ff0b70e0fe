//! One POST and its answer: quiet until somebody speaks, then a stream.

use crate::{
    call::CallState,
    config::ResponseMode,
    core::Core,
    fleet::rerun::{self, Again},
    outlet::Outlet,
    random,
    session::Session,
    watched::Watched,
};
use bowline_proto::{
    jsonrpc::RequestId,
    legacy::{Millis, too_large},
};
use bowline_store::{EventClass, StreamKind};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

/// The requests of one POST, and what has been said in answer to them.
///
/// As long as nothing was said before the results, nothing is stored and the answer is plain JSON (SEMANTICS 5.1).
/// Anything else, or the end of the hold, opens a stream; from then on everything goes into it.
pub(crate) struct Exchange {
    core: Arc<Core>,
    session: Arc<Session>,
    /// The id that the stream's cursors carry; `None` for a batch, which has none to resume.
    request_id: Option<RequestId>,
    phase: Mutex<Phase>,
    /// The call, where it may be run again by another backend: what that takes is kept with the stream.
    repeatable: OnceLock<Weak<CallState>>,
    /// Where it is run again by this one.
    again: Option<Box<Again>>,
    /// Told of every answer, when they became a stream, and when the client went away before.
    changed: Watched<()>,
}

enum Phase {
    Quiet {
        replies: Vec<Bytes>,
        waiting: usize,
        /// When the client went away, if it did: it knows no id to come back with.
        gone: Option<Millis>,
    },
    Streaming {
        outlet: Arc<Outlet>,
        waiting: usize,
    },
}

/// How a POST is answered.
pub(crate) enum Answer {
    /// With these responses and nothing else. Empty when every call was cancelled.
    Json(Vec<Bytes>),
    /// With a stream.
    Stream(Arc<Outlet>),
}

impl Exchange {
    /// An exchange for one request, or with `request_id` `None` for a batch of `waiting` requests.
    pub(crate) fn new(
        core: &Arc<Core>,
        session: &Arc<Session>,
        request_id: Option<RequestId>,
        waiting: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: core.clone(),
            session: session.clone(),
            request_id,
            phase: Mutex::new(Phase::Quiet { replies: Vec::new(), waiting, gone: None }),
            repeatable: OnceLock::new(),
            again: None,
            changed: Watched::new(()),
        })
    }

    /// The exchange of a call that was taken over with its stream, of which `outlet` is the writing end now.
    pub(crate) fn again(
        core: &Arc<Core>,
        session: &Arc<Session>,
        request_id: &RequestId,
        outlet: Arc<Outlet>,
        again: Again,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: core.clone(),
            session: session.clone(),
            request_id: Some(request_id.clone()),
            phase: Mutex::new(Phase::Streaming { outlet, waiting: 1 }),
            repeatable: OnceLock::new(),
            again: Some(Box::new(again)),
            changed: Watched::new(()),
        })
    }

    /// Notes that another backend may run the call of this exchange again.
    pub(crate) fn set_repeatable(&self, call: &Arc<CallState>) {
        // Only a call that has not begun gets here, and once.
        let _ = self.repeatable.set(Arc::downgrade(call));
    }

    /// What is different where the call is not run for the first time.
    pub(crate) fn run_again(&self) -> Option<&Again> {
        self.again.as_deref()
    }

    /// Who is answered; `None` where nobody authenticates.
    pub(crate) fn principal(&self) -> Option<Box<str>> {
        self.session.principal.clone()
    }

    /// Says something before the result. Returns whether a client may come to see it.
    pub(crate) fn say(&self, payload: Bytes, class: EventClass, coalesce: Option<Bytes>) -> bool {
        match self.outlet_or_open() {
            Some(outlet) => outlet.push(payload, class, coalesce),
            None => {
                self.core.metrics.events_dropped.up();
                false
            }
        }
    }

    /// Notes a member of a batch that is no message: its error is the first thing in the answer.
    pub(crate) fn fault(&self, response: Bytes) {
        if let Phase::Quiet { replies, .. } = &mut *self.phase.lock() {
            replies.push(response);
        }
    }

    /// Gives one call's response; `None` where the call was cancelled and must not be answered. The last one ends the answer.
    pub(crate) fn answer(&self, response: Option<(&RequestId, Bytes)>) {
        let mut phase = self.phase.lock();
        match &mut *phase {
            Phase::Quiet { replies, waiting, gone } => {
                *waiting = waiting.saturating_sub(1);
                if gone.is_some() {
                    self.core.metrics.results_unclaimed.up();
                } else {
                    replies.extend(response.map(|(_, response)| response));
                }
            }
            Phase::Streaming { outlet, waiting } => {
                *waiting = waiting.saturating_sub(1);
                if *waiting == 0 {
                    outlet.seal(response);
                    if self.is_stored() {
                        self.session.keep_result(&self.core, outlet.stream, outlet.said());
                    }
                } else if let Some((id, response)) = response {
                    let limit = self.core.options.max_event_bytes;
                    let response =
                        if response.len() > limit { too_large(id, response.len(), limit) } else { response };
                    outlet.push(response, EventClass::Kept, None);
                }
            }
        }
        drop(phase);
        self.changed.touch();
    }

    /// Turns the answer into a stream now, if it is not one. `None` where nobody could read it: the client is gone
    /// without an id, the endpoint never streams, or every response is given. The last is what a hold finds that ends in the
    /// same moment as its call, and whoever speaks through a call that is over: a stream opened then would never be sealed.
    pub(crate) fn outlet_or_open(&self) -> Option<Arc<Outlet>> {
        let mut phase = self.phase.lock();
        let outlet = match &mut *phase {
            Phase::Streaming { outlet, .. } => return Some(outlet.clone()),
            Phase::Quiet { gone: Some(_), .. } | Phase::Quiet { waiting: 0, .. } => return None,
            Phase::Quiet { .. } if self.core.options.response == ResponseMode::Json => return None,
            Phase::Quiet { replies, waiting, .. } => {
                let outlet = if self.is_stored() {
                    let call = self.repeatable.get().and_then(Weak::upgrade);
                    let session = (!self.session.stateless).then_some(&*self.session);
                    let outlet = Outlet::new(
                        &self.core,
                        StreamKind::Call,
                        random::stream_id(),
                        session,
                        self.request_id.as_ref(),
                        call.and_then(|call| rerun::kept(&call)),
                    );
                    self.core.running.add(&outlet);
                    outlet
                } else {
                    Outlet::unstored(&self.core, random::stream_id())
                };
                let waiting = *waiting;
                outlet.open();
                for reply in std::mem::take(replies) {
                    outlet.push(reply, EventClass::Kept, None);
                }
                *phase = Phase::Streaming { outlet: outlet.clone(), waiting };
                outlet
            }
        };
        drop(phase);
        self.changed.touch();
        Some(outlet)
    }

    /// Whether it answers an array of requests.
    pub(crate) fn is_batch(&self) -> bool {
        self.request_id.is_none()
    }

    /// Whether the stream of this exchange can be resumed: batches cannot (SEMANTICS 2), stateless calls only where the
    /// endpoint says so.
    pub(crate) fn is_stored(&self) -> bool {
        self.request_id.is_some() && self.session.resumable
    }

    /// Waits for the answer: all replies, or a stream. One caller at a time.
    ///
    /// Dropping the future before it is ready means that the client went away; nothing else does.
    pub(crate) async fn wait(&self) -> Answer {
        let mut left = Left { exchange: self, armed: true };
        loop {
            // Told from here on, polled or not.
            let changed = self.changed.changed();
            if let Some(answer) = self.ready() {
                left.armed = false;
                return answer;
            }
            changed.await;
        }
    }

    fn ready(&self) -> Option<Answer> {
        let mut phase = self.phase.lock();
        match &mut *phase {
            Phase::Quiet { replies, waiting: 0, .. } => Some(Answer::Json(std::mem::take(replies))),
            Phase::Quiet { .. } => None,
            Phase::Streaming { outlet, .. } => Some(Answer::Stream(outlet.clone())),
        }
    }

    /// Waits until the answer is a stream.
    pub(crate) async fn wait_open(&self) -> Arc<Outlet> {
        loop {
            // Told from here on, polled or not.
            let changed = self.changed.changed();
            if let Some(outlet) = self.outlet() {
                return outlet;
            }
            changed.await;
        }
    }

    /// Waits until the answer is a stream, or its client went away before it was one.
    pub(crate) async fn wait_unquiet(&self) {
        loop {
            let told = self.changed.changed();
            if !matches!(&*self.phase.lock(), Phase::Quiet { gone: None, .. }) {
                return;
            }
            told.await;
        }
    }

    /// The stream, where that is all that there is to this exchange: its one request may say the rest there itself.
    pub(crate) fn only_stream(&self) -> Option<Arc<Outlet>> {
        if self.is_batch() || self.again.is_some() { None } else { self.outlet() }
    }

    /// The stream, where there is one.
    pub(crate) fn outlet(&self) -> Option<Arc<Outlet>> {
        match &*self.phase.lock() {
            Phase::Streaming { outlet, .. } => Some(outlet.clone()),
            Phase::Quiet { .. } => None,
        }
    }

    /// Since when nobody reads this exchange, if nobody does.
    pub(crate) fn unread_since(&self) -> Option<Millis> {
        match &*self.phase.lock() {
            Phase::Quiet { gone, .. } => *gone,
            Phase::Streaming { outlet, .. } => outlet.unread_since(),
        }
    }
}

/// Notes that the client left, when the future that waited for the answer is dropped.
struct Left<'a> {
    exchange: &'a Exchange,
    armed: bool,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if let Phase::Quiet { gone, .. } = &mut *self.exchange.phase.lock() {
            *gone = Some(self.exchange.core.now());
        }
        self.exchange.changed.touch();
    }
}
