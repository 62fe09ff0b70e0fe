//! What a GET with a cursor is answered: the table of SEMANTICS 5.6.
//!
//! **Lost or expired?** A MAC that holds proves that we gave the cursor out in this session, so that a session without a
//! record was lost or has expired. The store cannot tell these apart once nothing is left (a restart in memory with a
//! configured key loses both record and stream). Unsealed calls keep their session alive, so whoever still waits for one
//! has a lost session, not an expired one; and the error is the only answer that ends such a wait in every SDK, where a
//! 404 to a poll lets some of them hang. So a cursor of a call that may still be waited for is answered with the error, and
//! the client's next POST is told 404. Where nobody waits (a standalone stream; a call whose response the cursor is
//! after), the answer is 404 at once. A store that leaves a tombstone when a session expires reports [`SessionFact::Ended`],
//! and then an expired session is 404 for every cursor.
//!
//! **Which comes first?** The session: a cursor of another server or version is 400 only in a session that lives, else the
//! client would never learn that its session is gone. While the store cannot say whether a session lives, a cursor that
//! is not good is told 503, neither 400 nor 404.

use super::{Refusal, session_not_found};
use crate::jsonrpc::{ErrorObject, RequestId, code};
use http::StatusCode;

/// All that a decision about a cursor needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeFacts {
    /// What is known of the session that the request names.
    pub session: SessionFact,
    /// What the cursor is.
    pub cursor: CursorFact,
    /// What is known of the stream that it names. Looked at where the cursor is good; otherwise the stream need not be
    /// looked up, and [`StreamFact::NotAsked`] says so.
    pub stream: StreamFact,
}

/// What is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFact {
    /// There are no sessions (`stateless`).
    None,
    /// It lives, and is the caller's.
    Live,
    /// It ended: there is a tombstone, or it is another principal's.
    Ended,
    /// There is nothing: it expired, was lost, or never was.
    Unknown,
    /// The store cannot be asked.
    Unavailable,
}

/// What a cursor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorFact {
    /// No event id of ours.
    Malformed,
    /// It has the form of one, but its MAC fails: another session, principal or key, or a forgery.
    BadMac {
        /// The request id that it carries, which anybody may have written.
        claimed_request_id: Option<RequestId>,
    },
    /// We gave it out, in this session, to this principal.
    Good {
        /// The kind of its stream.
        kind: CursorKind,
        /// The id of the request that its stream answers; `None` for a standalone stream.
        request_id: Option<RequestId>,
    },
}

/// The kind of stream that a cursor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorKind {
    /// It answers one request.
    Call,
    /// It is the session's own.
    Standalone,
}

/// What is known of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFact {
    /// It was not looked up. With a good cursor in a session that lives this counts as [`Self::Unavailable`].
    NotAsked,
    /// It can be read from the cursor on.
    Readable {
        /// The stream is sealed and the cursor is at or after its last message.
        after_tail: bool,
    },
    /// It cannot, and never will be.
    Gone(GoneReason),
    /// The store cannot be asked.
    Unavailable,
}

/// Why a stream cannot be read from a cursor on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    /// Its time to live is over, or it never was.
    Expired,
    /// The events after the cursor were dropped at a bound.
    Evicted,
    /// The log ends before the cursor: it lost its end.
    Lost,
    /// The backend that worked on the call died: nobody can know whether it ran.
    OwnerLost,
}

/// What the GET is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// 200: what is strictly after the cursor, then live.
    Stream,
    /// 204: nothing is left, and nothing will come.
    NothingLeft,
    /// 200: a fresh id and this JSON-RPC error; end.
    ErrorEvent {
        /// The request that the error answers.
        id: Option<RequestId>,
        /// The error.
        error: ErrorObject,
    },
    /// 200: `list_changed` for each advertised list and `resources/updated` for each subscription; then live.
    StandaloneLost,
    /// 200: the same position as a fresh id, a longer `retry`; end.
    Hold,
    /// An answer that is no stream.
    Refuse(Refusal),
}

/// How long a client is asked to wait for a store that cannot be asked, in seconds.
const STORE_RETRY_AFTER: u32 = 2;

/// What a GET with a cursor is answered.
#[must_use]
pub fn resume(facts: ResumeFacts) -> Resume {
    let ResumeFacts { session, cursor, stream } = facts;
    match (session, cursor) {
        (SessionFact::Ended, _) => Resume::Refuse(session_not_found(None)),

        (SessionFact::Live, CursorFact::Good { kind, request_id }) => good(kind, request_id, stream),
        (SessionFact::None, CursorFact::Good { kind: CursorKind::Call, request_id }) => {
            good(CursorKind::Call, request_id, stream)
        }
        (SessionFact::Unavailable, CursorFact::Good { .. }) => Resume::Hold,
        (SessionFact::Unknown, CursorFact::Good { kind, request_id }) => {
            without_record(kind, request_id, stream)
        }

        (SessionFact::Unknown, _) => Resume::Refuse(session_not_found(None)),
        (SessionFact::Unavailable, _) => {
            Resume::Refuse(Refusal::unavailable("store_unavailable", STORE_RETRY_AFTER, None))
        }
        (SessionFact::None, CursorFact::BadMac { claimed_request_id: Some(id) }) => Resume::ErrorEvent {
            id: Some(id),
            error: ErrorObject::outcome_unknown(
                "unknown_cursor",
                "This stream cannot be resumed: its event id was made with another key. The call may have run",
            ),
        },
        (SessionFact::Live, CursorFact::BadMac { .. }) => {
            Resume::Refuse(wrong_cursor("Last-Event-ID is not an event id of this session"))
        }
        // Without sessions there are no standalone streams, and an error needs the id of a request.
        (SessionFact::None, CursorFact::BadMac { .. } | CursorFact::Good { .. })
        | (SessionFact::None | SessionFact::Live, CursorFact::Malformed) => {
            Resume::Refuse(wrong_cursor("Last-Event-ID is not an event id of this server"))
        }
    }
}

fn good(kind: CursorKind, request_id: Option<RequestId>, stream: StreamFact) -> Resume {
    match (stream, kind) {
        (StreamFact::Readable { after_tail: false }, _) => Resume::Stream,
        (StreamFact::Readable { after_tail: true }, _) => Resume::NothingLeft,
        (StreamFact::Unavailable | StreamFact::NotAsked, _) => Resume::Hold,
        (StreamFact::Gone(_), CursorKind::Standalone) => Resume::StandaloneLost,
        (StreamFact::Gone(reason), CursorKind::Call) => {
            Resume::ErrorEvent { id: request_id, error: gone(reason) }
        }
    }
}

/// The cursor is ours, but its session has no record and no tombstone.
fn without_record(kind: CursorKind, request_id: Option<RequestId>, stream: StreamFact) -> Resume {
    match (kind, stream) {
        (CursorKind::Standalone, _) | (CursorKind::Call, StreamFact::Readable { after_tail: true }) => {
            Resume::Refuse(session_not_found(None))
        }
        (CursorKind::Call, _) => Resume::ErrorEvent {
            id: request_id,
            error: ErrorObject::outcome_unknown(
                "session_lost",
                "The session of this call was lost. The call may have run; start a new session",
            ),
        },
    }
}

fn gone(reason: GoneReason) -> ErrorObject {
    match reason {
        GoneReason::Expired => ErrorObject::outcome_unknown(
            "expired",
            "This stream is not kept any more: its result was not fetched in time. The call may have run",
        ),
        GoneReason::Evicted => ErrorObject::outcome_unknown(
            "evicted",
            "This stream cannot be resumed: events after this position were dropped at a limit. The call may have run",
        ),
        GoneReason::Lost => ErrorObject::outcome_unknown(
            "lost",
            "This stream cannot be resumed: the store lost events that were sent. The call may have run",
        ),
        GoneReason::OwnerLost => ErrorObject::outcome_unknown(
            "owner_lost",
            "The backend that worked on this call is gone. The call may have run",
        ),
    }
}

fn wrong_cursor(message: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, ErrorObject::new(code::INVALID_PARAMS, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionFact::{Ended, Live, None as NoSessions, Unavailable, Unknown};

    const READABLE: StreamFact = StreamFact::Readable { after_tail: false };
    const READ: StreamFact = StreamFact::Readable { after_tail: true };
    const EXPIRED: StreamFact = StreamFact::Gone(GoneReason::Expired);

    fn call() -> CursorFact {
        CursorFact::Good { kind: CursorKind::Call, request_id: Some("r".into()) }
    }
    fn standalone() -> CursorFact {
        CursorFact::Good { kind: CursorKind::Standalone, request_id: None }
    }
    fn bad() -> CursorFact {
        CursorFact::BadMac { claimed_request_id: Some("r".into()) }
    }

    /// The outcome in one line: what the client sees of it.
    fn seen(session: SessionFact, cursor: CursorFact, stream: StreamFact) -> String {
        match resume(ResumeFacts { session, cursor, stream }) {
            Resume::Stream => "stream".into(),
            Resume::NothingLeft => "204".into(),
            Resume::ErrorEvent { id, error } => {
                let reason = error.data.unwrap().member("reason").unwrap().string().unwrap();
                format!("error {} {reason} for {}", error.code, id.unwrap())
            }
            Resume::StandaloneLost => "standalone lost".into(),
            Resume::Hold => "hold".into(),
            Resume::Refuse(refusal) => format!("{} {}", refusal.status.as_u16(), refusal.error.code),
        }
    }

    #[test]
    fn row_good() {
        for session in [Live, NoSessions] {
            assert_eq!(seen(session, call(), READABLE), "stream");
        }
        assert_eq!(seen(Live, standalone(), READABLE), "stream");
    }

    #[test]
    fn row_at_or_after_the_response() {
        for session in [Live, NoSessions] {
            assert_eq!(seen(session, call(), READ), "204");
        }
    }

    #[test]
    fn row_stream_expired_evicted_lost_or_its_owner_died() {
        for (reason, word) in [
            (GoneReason::Expired, "expired"),
            (GoneReason::Evicted, "evicted"),
            (GoneReason::Lost, "lost"),
            (GoneReason::OwnerLost, "owner_lost"),
        ] {
            for session in [Live, NoSessions] {
                let expected = format!("error -32603 {word} for \"r\"");
                assert_eq!(seen(session, call(), StreamFact::Gone(reason)), expected);
            }
            let facts = ResumeFacts { session: Live, cursor: call(), stream: StreamFact::Gone(reason) };
            let Resume::ErrorEvent { error, .. } = resume(facts) else { panic!("no error") };
            assert_eq!(error.data.unwrap().member("outcome").unwrap().string().unwrap(), "unknown");
        }
    }

    #[test]
    fn row_standalone_events_are_gone() {
        for reason in [GoneReason::Expired, GoneReason::Evicted, GoneReason::Lost, GoneReason::OwnerLost] {
            assert_eq!(seen(Live, standalone(), StreamFact::Gone(reason)), "standalone lost");
        }
    }

    #[test]
    fn row_store_unreachable() {
        for cursor in [call(), standalone()] {
            assert_eq!(seen(Live, cursor.clone(), StreamFact::Unavailable), "hold");
            assert_eq!(seen(Unavailable, cursor, StreamFact::NotAsked), "hold");
        }
        assert_eq!(seen(NoSessions, call(), StreamFact::Unavailable), "hold");
    }

    #[test]
    fn row_session_record_lost_without_a_tombstone() {
        for stream in [READABLE, EXPIRED, StreamFact::Unavailable, StreamFact::NotAsked] {
            assert_eq!(seen(Unknown, call(), stream), "error -32603 session_lost for \"r\"");
        }
        // Nobody waits for anything.
        assert_eq!(seen(Unknown, call(), READ), "404 -32001");
        for stream in [READABLE, EXPIRED] {
            assert_eq!(seen(Unknown, standalone(), stream), "404 -32001");
        }
    }

    #[test]
    fn row_session_ended_expired_or_never_known() {
        for cursor in [call(), standalone(), bad(), CursorFact::Malformed] {
            for stream in [READABLE, READ, EXPIRED, StreamFact::NotAsked] {
                assert_eq!(seen(Ended, cursor.clone(), stream), "404 -32001");
            }
        }
        for cursor in [bad(), CursorFact::Malformed] {
            assert_eq!(seen(Unknown, cursor, StreamFact::NotAsked), "404 -32001");
        }
    }

    #[test]
    fn row_mac_fails_with_a_session() {
        let answer = |claimed_request_id| {
            resume(ResumeFacts {
                session: Live,
                cursor: CursorFact::BadMac { claimed_request_id },
                stream: StreamFact::NotAsked,
            })
        };
        assert_eq!(seen(Live, bad(), StreamFact::NotAsked), "400 -32602");
        assert_eq!(answer(None), answer(Some(1.into())), "one answer for all");
    }

    #[test]
    fn row_mac_fails_without_sessions() {
        let expected = "error -32603 unknown_cursor for \"r\"";
        assert_eq!(seen(NoSessions, bad(), StreamFact::NotAsked), expected);
        let nobody = CursorFact::BadMac { claimed_request_id: None };
        assert_eq!(seen(NoSessions, nobody, StreamFact::NotAsked), "400 -32602");
    }

    #[test]
    fn row_malformed() {
        for session in [Live, NoSessions] {
            assert_eq!(seen(session, CursorFact::Malformed, StreamFact::NotAsked), "400 -32602");
        }
        assert_eq!(seen(NoSessions, standalone(), READABLE), "400 -32602");
    }

    #[test]
    fn a_cursor_that_is_not_good_waits_for_a_store_that_is_away() {
        for cursor in [bad(), CursorFact::Malformed] {
            assert_eq!(seen(Unavailable, cursor.clone(), StreamFact::NotAsked), "503 -32603");
            let facts = ResumeFacts { session: Unavailable, cursor, stream: StreamFact::NotAsked };
            let Resume::Refuse(refusal) = resume(facts) else { panic!("no refusal") };
            assert_eq!(refusal.retry_after, Some(2));
        }
    }
}
