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
/// - 405: this session mode has nothing that could be read without a cursor, or nothing at all; or the header names a modern
///   revision.
/// - 400 with -32022: a revision that is not served.
/// - 400 with -32600: no session id, where there are sessions.
/// - 404 with -32001: a session id that cannot be one of ours.
pub fn route_get<'h>(policy: &Policy, headers: &'h HeaderMap) -> Result<Get<'h>, Refusal> {
    check_get_served(policy, headers)?;
    let header_revision = header_revision(policy, headers, None)?;
    check_legacy(policy, header_revision)?;
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
    let header_revision = header_revision(policy, headers, None)?;
    check_legacy(policy, header_revision)?;
    match Field::session(headers) {
        Field::Text(session) => Ok(Delete { session, header_revision }),
        Field::Absent => Err(no_session(None)),
        Field::Unusable => Err(session_not_found(None)),
    }
}

/// 405 for a client that says that it is modern: it has no sessions and no streams to come back to (SEMANTICS 4).
fn check_legacy(policy: &Policy, header: Option<Revision>) -> Result<(), Refusal> {
    match header {
        Some(revision) if revision.is_modern() => Err(Refusal::method_not_allowed(
            policy.methods(),
            format!(
                "Revision {revision} sends everything with POST: it has no sessions and no streams to come back to"
            ),
        )),
        _ => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::policy::tests::{RESUMABLE, STATEFUL, STATELESS, policy};
    use http::{HeaderName, HeaderValue};

    const IGNORING: SessionMode =
        SessionMode::Stateless { resumable: true, stale_session: StaleSession::Ignore };

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    fn told(refusal: &Refusal) -> (u16, i64) {
        assert_eq!(refusal.id, None);
        (refusal.status.as_u16(), refusal.error.code)
    }

    const SESSION: (&str, &[u8]) = ("mcp-session-id", b"s1");
    const CURSOR: (&str, &[u8]) = ("last-event-id", b"c1");
    const MODERN: (&str, &[u8]) = ("mcp-protocol-version", b"2026-07-28");
    const LEGACY: (&str, &[u8]) = ("mcp-protocol-version", b"2025-11-25");

    #[test]
    fn a_get_reads_a_stream_of_its_session() {
        let ok =
            |session, header_revision, last_event_id| Ok(Get { session, header_revision, last_event_id });
        let cursor = Some(LastEventId::Text("c1"));
        for (mode, lines, expected) in [
            (STATEFUL, &[SESSION][..], ok(Some("s1"), None, None)),
            (STATEFUL, &[SESSION, CURSOR], ok(Some("s1"), None, cursor)),
            (STATEFUL, &[SESSION, LEGACY], ok(Some("s1"), Some(Revision::V2025_11_25), None)),
            (STATEFUL, &[SESSION, ("last-event-id", b"")], ok(Some("s1"), None, None)),
            (
                STATEFUL,
                &[SESSION, ("last-event-id", b"\xff")],
                ok(Some("s1"), None, Some(LastEventId::Malformed)),
            ),
            (STATEFUL, &[], Err((400, -32600))),
            (STATEFUL, &[CURSOR], Err((400, -32600))),
            (STATEFUL, &[("mcp-session-id", b"")], Err((400, -32600))),
            (STATEFUL, &[("mcp-session-id", b"a b")], Err((404, -32001))),
            (STATEFUL, &[("mcp-session-id", &[b'a'; 257]), CURSOR], Err((404, -32001))),
            (STATEFUL, &[SESSION, MODERN], Err((400, -32022))),
            (STATEFUL, &[MODERN], Err((400, -32022))),
            (STATELESS, &[], Err((405, -32600))),
            (STATELESS, &[CURSOR], Err((405, -32600))),
            (STATELESS, &[SESSION], Err((405, -32600))),
            (STATELESS, &[MODERN], Err((405, -32600))),
            (RESUMABLE, &[CURSOR], ok(None, None, cursor)),
            (RESUMABLE, &[], Err((405, -32600))),
            (RESUMABLE, &[("last-event-id", b"")], Err((405, -32600))),
            (RESUMABLE, &[SESSION, CURSOR], Err((404, -32001))),
            (RESUMABLE, &[("mcp-session-id", b"\xff"), CURSOR], Err((404, -32001))),
            (IGNORING, &[SESSION, CURSOR], ok(None, None, cursor)),
        ] {
            let headers = headers(lines);
            let answer = route_get(&policy(mode), &headers).map_err(|refusal| told(&refusal));
            assert_eq!(answer, expected, "{mode:?} {lines:?}");
        }
    }

    #[test]
    fn a_delete_ends_its_session() {
        let ok = |header_revision| Ok(Delete { session: "s1", header_revision });
        for (mode, lines, expected) in [
            (STATEFUL, &[SESSION][..], ok(None)),
            (STATEFUL, &[SESSION, LEGACY], ok(Some(Revision::V2025_11_25))),
            (STATEFUL, &[], Err((400, -32600))),
            (STATEFUL, &[("mcp-session-id", b"\xff")], Err((404, -32001))),
            (STATEFUL, &[SESSION, ("mcp-session-id", b"s2")], Err((404, -32001))),
            (STATEFUL, &[SESSION, MODERN], Err((400, -32022))),
            (STATELESS, &[SESSION], Err((405, -32600))),
            (RESUMABLE, &[SESSION], Err((405, -32600))),
        ] {
            let headers = headers(lines);
            let answer = route_delete(&policy(mode), &headers).map_err(|refusal| told(&refusal));
            assert_eq!(answer, expected, "{mode:?} {lines:?}");
        }
    }
}
