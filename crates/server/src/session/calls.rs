//! The calls of a session that run on this backend, and cancels that came before theirs.

use super::Session;
use crate::{CancelReason, call::CallState};
use bowline_proto::{jsonrpc::RequestId, legacy::Millis};
use std::{
    borrow::Borrow,
    collections::{HashSet, VecDeque},
    hash::{Hash, Hasher},
    sync::Arc,
};

/// How long a cancel waits for its call, and how many do. One that waits is usually for a call that is over.
const MARKER_MS: u64 = 2_000;
const MARKERS: usize = 32;

/// The calls of a session, and cancels that came before theirs.
#[derive(Default)]
pub(super) struct Calls {
    running: HashSet<ById>,
    markers: VecDeque<(RequestId, Millis)>,
}

/// A call, found by its id.
struct ById(Arc<CallState>);

impl Borrow<RequestId> for ById {
    fn borrow(&self) -> &RequestId {
        self.0.id()
    }
}
impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}
impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}
impl Eq for ById {}

impl Calls {
    fn mark(&mut self, id: RequestId, now: Millis) {
        if self.markers.len() >= MARKERS {
            self.markers.pop_front();
        }
        self.markers.push_back((id, now));
    }

    /// Takes a marker for `id` out; whether there was one.
    fn take_marker(&mut self, id: &RequestId, now: Millis) -> bool {
        self.markers.retain(|(_, at)| now.0.saturating_sub(at.0) < MARKER_MS);
        let found = self.markers.iter().position(|(marked, _)| marked == id);
        found.is_some_and(|at| self.markers.remove(at).is_some())
    }
}

/// Why a call was not registered.
pub(crate) enum AddCall {
    /// A call of that id runs in this session.
    Duplicate,
    /// The session runs as many calls as it may.
    TooMany,
}

impl Session {
    /// Registers a call before it runs, so that a cancel, a poll and the end of the session find it. Either of the first and the
    /// last that came just before stops it now.
    pub(crate) fn add_call(&self, call: &Arc<CallState>, limit: usize) -> Result<(), AddCall> {
        let mut calls = self.calls.lock();
        if calls.running.contains(call.id()) {
            return Err(AddCall::Duplicate);
        }
        if calls.running.len() >= limit {
            return Err(AddCall::TooMany);
        }
        calls.running.insert(ById(call.clone()));
        // Nearly never: then nobody asks for the time.
        let cancelled = !calls.markers.is_empty() && calls.take_marker(call.id(), call.core.now());
        drop(calls);
        // Looked at after it was added: whoever ends the session meanwhile finds the call, or is seen here.
        if self.has_ended() {
            call.cancel(CancelReason::SessionEnded);
        } else if cancelled {
            call.cancel(CancelReason::Client);
        }
        Ok(())
    }

    pub(crate) fn remove_call(&self, call: &Arc<CallState>) {
        let Some(mut calls) = self.calls.lock_if_made() else { return };
        // Nearly always it is this one; another one of its id is put back.
        if let Some(other) = calls.running.take(call.id()).filter(|held| !Arc::ptr_eq(&held.0, call)) {
            calls.running.insert(other);
        }
    }

    /// Cancels a call because its client says so; whether it runs here. A cancel that overtook its request on another connection
    /// leaves a marker that the call meets (SEMANTICS 6).
    pub(crate) fn cancel_call(&self, id: &RequestId, now: Millis) -> bool {
        let mut calls = self.calls.lock();
        match calls.running.get(id).map(|held| held.0.clone()) {
            Some(call) => {
                drop(calls);
                call.cancel(CancelReason::Client);
                true
            }
            None => {
                calls.mark(id.clone(), now);
                false
            }
        }
    }

    /// Every running call, for the end of the session.
    pub(crate) fn take_calls(&self) -> Vec<Arc<CallState>> {
        let calls = self.calls.lock_if_made();
        calls.map(|mut calls| calls.running.drain().map(|held| held.0).collect()).unwrap_or_default()
    }
}
