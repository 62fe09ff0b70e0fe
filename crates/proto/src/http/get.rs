//! What a GET and a DELETE ask for (SEMANTICS 2, 3 and 5.5).

use super::{
    LastEventId, Policy, Refusal, SessionMode, StaleSession,
    era::header_revision,
    fields::{Field, last_event_id},
    post::no_session,
    session_not_found,
};
use crate::revision::Revision;
use http::HeaderMap;

/// A request to read a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'h> {
    /// The id of the session; `None` where there are no sessions.
    pub session: Option<&'h str>,
    /// What `MCP-Protocol-Version` says, where it stands there ([`super::check_session_revision`]).
    pub header_revision: Option<Revision>,
    /// Where to go on. Without one, the session's standalone stream from now on; always there without sessions.
    pub last_event_id: Option<LastEventId<'h>>,
}

/// A request to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'h> {
    /// The id of the session.
    pub session: &'h str,
    /// What `MCP-Protocol-Version` says, where it stands there ([`super::check_session_revision`]).
    pub header_revision: Option<Revision>,
}

/// What this GET asks for, before any look-up.
///
/// # Errors
/// - 405: this session mode has nothing that could be read without a cursor, or nothing at all.
/// - 400 with -32022: a revision that is not served.
/// - 400 with -32600: no session id, where there are sessions.
/// - 404 with -32001: a session id that cannot be one of ours.
pub fn route_get<'h>(policy: &Policy, headers: &'h HeaderMap) -> Result<Get<'h>, Refusal> {
    check_get_served(policy, headers)?;
    let header_revision = header_revision(headers, None)?;
    let session = match (policy.mode, Field::session(headers)) {
        (SessionMode::Stateful, Field::Text(session)) => Some(session),
        (SessionMode::Stateful, Field::Absent) => return Err(no_session(None)),
        (SessionMode::Stateless { stale_session: StaleSession::Ignore, .. }, _)
        | (SessionMode::Stateless { .. }, Field::Absent) => None,
        _ => return Err(session_not_found(None)),
    };
    Ok(Get { session, header_revision, last_event_id: last_event_id(headers) })
}

/// What this DELETE asks for, before any look-up.
///
/// # Errors
/// As [`route_get`]; 405 where there are no sessions.
pub fn route_delete<'h>(policy: &Policy, headers: &'h HeaderMap) -> Result<Delete<'h>, Refusal> {
    if policy.mode != SessionMode::Stateful {
        return Err(no_delete(policy));
    }
    let header_revision = header_revision(headers, None)?;
    match Field::session(headers) {
        Field::Text(session) => Ok(Delete { session, header_revision }),
        Field::Absent => Err(no_session(None)),
        Field::Unusable => Err(session_not_found(None)),
    }
}

/// 405 for a GET that can have no answer in this session mode.
pub(super) fn check_get_served(policy: &Policy, headers: &HeaderMap) -> Result<(), Refusal> {
    let message = match policy.mode {
        SessionMode::Stateful => return Ok(()),
        SessionMode::Stateless { resumable: false, .. } => {
            "GET is not served: this endpoint has no sessions and no streams of its own"
        }
        SessionMode::Stateless { resumable: true, .. } => {
            if last_event_id(headers).is_some() {
                return Ok(());
            }
            "GET is served with Last-Event-ID only: this endpoint has no sessions"
        }
    };
    Err(Refusal::method_not_allowed(policy.methods(), message))
}

pub(super) fn no_delete(policy: &Policy) -> Refusal {
    Refusal::method_not_allowed(policy.methods(), "DELETE is not served: this endpoint has no sessions")
}
