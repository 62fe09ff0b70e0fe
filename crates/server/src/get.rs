//! GET: the standalone stream, and polls with a cursor (SEMANTICS 5.5, 5.6).

use crate::{
    body::Body,
    connection::{Connection, Target},
    core::Core,
    fleet::{orphaned, patiently},
    limits::Caller,
    outlet::FIRST_EPOCH,
    service::{events, nothing},
    session::Session,
    sessions::{self, Found},
};
use bowline_proto::{
    cursor::{Cursor, CursorCodec, CursorError, CursorKind, CursorRequest, Scope},
    http::{
        self as rules, CursorFact, GoneReason, LastEventId, Refusal, Resume, ResumeFacts, SessionFact,
        StreamFact, check_session_revision, resume, route_get, session_not_found,
    },
    jsonrpc::{ErrorObject, Notification, Raw, RequestId},
    sse::encode,
};
use bowline_store::{ReadError, ReadLimit, StreamKind};
use bytes::{Bytes, BytesMut};
use http::{Response, request::Parts};
use std::sync::Arc;

pub(crate) async fn answer(
    core: &Arc<Core>,
    caller: &Caller,
    parts: &Parts,
) -> Result<Response<Body>, Refusal> {
    let get = route_get(&core.policy, &parts.headers)?;
    let principal = caller.principal.as_deref();
    let (session, fact) = match get.session {
        None => (None, SessionFact::None),
        Some(id) => match sessions::find(core, id, principal).await {
            Found::Live(session) => (Some(session), SessionFact::Live),
            Found::Ended => (None, SessionFact::Ended),
            Found::Unknown => (None, SessionFact::Unknown),
            Found::Unavailable => (None, SessionFact::Unavailable),
            Found::NoRoom => return Err(Refusal::unavailable("too_many_sessions", 5, None)),
        },
    };
    if let Some(session) = &session {
        check_session_revision(session.revision, get.header_revision, None)?;
        // Who only reads may be between two connections whenever somebody looks at what is in use.
        let _in_use = session.use_now(core);
        if session.touch_due(core) {
            sessions::touch(core, session).await;
        }
    }
    let Some(last_event_id) = get.last_event_id else {
        return standalone(core, session.as_ref(), fact).await;
    };
    core.metrics.polls.up();

    let scope = Scope { session: get.session, principal };
    let codec = session.as_ref().map_or_else(
        || Arc::new(CursorCodec::new(&core.keys.ring().1, scope)),
        |session| session.cursors(core),
    );
    let decoded = match last_event_id {
        LastEventId::Text(text) => codec.decode(text),
        LastEventId::Malformed => Err(CursorError::Malformed),
    };
    let cursor_fact = match &decoded {
        Ok(cursor) => CursorFact::Good {
            kind: match cursor.kind {
                CursorKind::Call => rules::CursorKind::Call,
                CursorKind::Standalone => rules::CursorKind::Standalone,
            },
            request_id: request_id(cursor),
        },
        Err(CursorError::BadMac { claimed }) => {
            CursorFact::BadMac { claimed_request_id: request_id(claimed) }
        }
        Err(CursorError::Malformed) => CursorFact::Malformed,
    };
    let stream = match &decoded {
        Ok(cursor) => look_at(core, session.as_deref(), cursor).await,
        Err(_) => StreamFact::NotAsked,
    };
    let decision = resume(ResumeFacts { session: fact, cursor: cursor_fact, stream });
    carry_out(core, session, &codec, decoded.ok(), get.header_revision, principal, decision).await
}

async fn standalone(
    core: &Arc<Core>,
    session: Option<&Arc<Session>>,
    fact: SessionFact,
) -> Result<Response<Body>, Refusal> {
    let Some(session) = session else {
        return Err(match fact {
            SessionFact::Unavailable => Refusal::unavailable("store_unavailable", 1, None),
            _ => session_not_found(None),
        });
    };
    match own_stream(core, session, None, false).await? {
        Ok(body) => Ok(events(core, body)),
        Err(ReadError::Unavailable(_)) => Err(Refusal::unavailable("store_unavailable", 2, None)),
        Err(error) => {
            tracing::warn!(%session, %error, "a standalone stream cannot be read");
            Err(Refusal::unavailable("stream_lost", 2, None))
        }
    }
}

/// Opens a session's own stream, behind what was delivered last or behind `cursor`. Where the store does not have it any more, the session
/// is looked up anew: it may just have ended. If it lives, the store has lost the stream, and it begins again. `lost` says that what the
/// cursor stands for is not there any more.
///
/// # Errors
/// The session is gone, or nobody can say.
async fn own_stream(
    core: &Arc<Core>,
    session: &Arc<Session>,
    cursor: Option<&Cursor>,
    lost: bool,
) -> Result<Result<Body, ReadError>, Refusal> {
    let open = async |session: &Arc<Session>, begins_again: bool| {
        let outlet = session.standalone(core).clone();
        // Or another backend has made it again meanwhile, of which its writer here has to learn.
        if begins_again || (core.is_shared() && outlet.has_lost_its_log()) {
            outlet.begin_again();
        }
        let target = Target {
            stream: outlet.stream,
            kind: StreamKind::Standalone,
            request_id: None,
            after: cursor.map(|cursor| cursor.offset),
            poll: cursor.map_or(0, |cursor| cursor.poll),
            epoch: cursor.map_or(FIRST_EPOCH, |cursor| cursor.epoch),
            of: cursor.map(|cursor| cursor.stream),
            lost,
            outlet: Some(outlet),
            leaving: None,
            comes_back: cursor.is_some(),
        };
        Connection::open(core, session, target).await
    };
    match open(session, false).await {
        Err(ReadError::Gone) => match sessions::find_again(core, session).await {
            Found::Live(session) => Ok(open(&session, true).await),
            Found::Ended | Found::Unknown => Err(session_not_found(None)),
            Found::Unavailable => Err(Refusal::unavailable("store_unavailable", 1, None)),
            Found::NoRoom => Err(Refusal::unavailable("too_many_sessions", 5, None)),
        },
        opened => Ok(opened),
    }
}

/// What the store knows of the stream that a cursor names.
async fn look_at(core: &Arc<Core>, session: Option<&Session>, cursor: &Cursor) -> StreamFact {
    let one = ReadLimit { events: 1, bytes: 1 };
    // A session's own log is found by its session; what the cursor names is which of them it was.
    let own = session.filter(|_| cursor.kind == CursorKind::Standalone).map(|session| session.standalone_id);
    let stream = own.unwrap_or(cursor.stream);
    let read = || patiently(core.store.read_after(stream, cursor.offset, one));
    let mut page = read().await;
    // Whoever comes to a call whose backend died ends it.
    if cursor.kind == CursorKind::Call
        && let Ok(open) = &page
        && orphaned(core, cursor.stream, open, request_id(cursor).as_ref()).await
    {
        page = read().await;
    }
    match page {
        Ok(page) if own.is_some_and(|own| own.of_incarnation(page.incarnation) != cursor.stream) => {
            StreamFact::Gone(GoneReason::Lost)
        }
        // Of another log than the cursor: the store lost what the client has seen. Where it was ended since by somebody else, its last
        // message stands where the client saw another one.
        Ok(page) if page.epoch < cursor.epoch => StreamFact::Gone(GoneReason::Lost),
        Ok(page) if page.epoch > cursor.epoch && page.sealed && cursor.offset >= page.tail => {
            StreamFact::Gone(GoneReason::Lost)
        }
        Ok(page) => StreamFact::Readable { after_tail: page.sealed && cursor.offset >= page.tail },
        Err(ReadError::Evicted { .. }) => StreamFact::Gone(GoneReason::Evicted),
        Err(ReadError::Lost { .. }) => StreamFact::Gone(GoneReason::Lost),
        Err(ReadError::Gone) => StreamFact::Gone(GoneReason::Expired),
        Err(ReadError::Unavailable(_)) => StreamFact::Unavailable,
    }
}

async fn carry_out(
    core: &Arc<Core>,
    session: Option<Arc<Session>>,
    codec: &CursorCodec,
    cursor: Option<Cursor>,
    revision: Option<bowline_proto::revision::Revision>,
    principal: Option<&str>,
    decision: Resume,
) -> Result<Response<Body>, Refusal> {
    match (decision, cursor) {
        (Resume::Refuse(refusal), _) => Err(refusal),
        (Resume::NothingLeft, _) => Ok(nothing()),
        (Resume::ErrorEvent { id, error }, cursor) => {
            Ok(events(core, error_event(codec, cursor, id.as_ref(), error)))
        }
        (Resume::Hold, Some(cursor)) => Ok(events(core, hold(core, codec, cursor))),
        (decision @ (Resume::Stream | Resume::StandaloneLost), Some(cursor)) => {
            let lost = matches!(decision, Resume::StandaloneLost);
            let session = session.unwrap_or_else(|| {
                // Without sessions a cursor says what a session would: who may read, and that the client polls.
                let revision = revision.unwrap_or(bowline_proto::revision::Revision::NEWEST_LEGACY);
                Arc::new(Session::binding(core, revision, principal))
            });
            resume_stream(core, &session, cursor, lost).await
        }
        // A decision about a position needs one; the rules give none without a cursor.
        (Resume::Hold | Resume::Stream | Resume::StandaloneLost, None) => Err(session_not_found(None)),
    }
}

async fn resume_stream(
    core: &Arc<Core>,
    session: &Arc<Session>,
    cursor: Cursor,
    lost: bool,
) -> Result<Response<Body>, Refusal> {
    if cursor.kind == CursorKind::Standalone {
        return match own_stream(core, session, Some(&cursor), lost).await? {
            Ok(body) => {
                core.metrics.resumes.up();
                Ok(events(core, body))
            }
            // No request waits for what a session's own stream says: its client comes again.
            Err(_) => Ok(events(core, hold(core, &session.cursors(core), cursor))),
        };
    }
    let request_id = request_id(&cursor);
    let target = Target {
        stream: cursor.stream,
        kind: StreamKind::Call,
        request_id: request_id.clone(),
        after: Some(cursor.offset),
        poll: cursor.poll,
        epoch: cursor.epoch,
        of: Some(cursor.stream),
        lost: false,
        // A call that runs here knows of wishes to close; one that is over, or runs elsewhere, is only read.
        // So does one that was taken over since, and only does not know it yet.
        outlet: core.running.get(cursor.stream).filter(|outlet| outlet.epoch() >= cursor.epoch),
        leaving: None,
        comes_back: true,
    };
    match Connection::open(core, session, target).await {
        Ok(body) => {
            core.metrics.resumes.up();
            Ok(events(core, body))
        }
        Err(ReadError::Unavailable(_)) => Ok(events(core, hold(core, &session.cursors(core), cursor))),
        // It went away between the look and the read, and so may its session have.
        Err(_) if !session.stateless && matches!(sessions::find_again(core, session).await, Found::Ended) => {
            Err(session_not_found(None))
        }
        Err(_) => Ok(events(
            core,
            error_event(
                &session.cursors(core),
                Some(cursor),
                request_id.as_ref(),
                ErrorObject::outcome_unknown(
                    "expired",
                    "the server no longer has the messages of this request",
                ),
            ),
        )),
    }
}

/// A fresh id, an error for the request, the end: what ends the wait in every client.
fn error_event(
    codec: &CursorCodec,
    cursor: Option<Cursor>,
    id: Option<&RequestId>,
    error: ErrorObject,
) -> Body {
    let mut out = BytesMut::new();
    let payload = error.to_response(id);
    match cursor {
        Some(mut cursor) => {
            cursor.poll = cursor.poll.saturating_add(1);
            let mut text = String::new();
            codec.mint(&cursor, &mut text);
            encode::message(&mut out, &text, &payload);
        }
        None => encode::data(&mut out, &payload),
    }
    Body::full(out.freeze())
}

/// The store is away: the same position under a fresh id, and a longer wait.
fn hold(core: &Core, codec: &CursorCodec, mut cursor: Cursor) -> Body {
    cursor.poll = cursor.poll.saturating_add(1);
    let retry = core.options.retry.pick(std::time::Duration::ZERO, 200, crate::random::word(), false);
    let mut text = String::new();
    codec.mint(&cursor, &mut text);
    let mut out = BytesMut::new();
    encode::priming(&mut out, &text, Some(u64::from(retry)));
    Body::full(out.freeze())
}

fn request_id(cursor: &Cursor) -> Option<RequestId> {
    match &cursor.request {
        CursorRequest::Id(id) => RequestId::from_json(id.as_json()).ok(),
        CursorRequest::None | CursorRequest::InRecord => None,
    }
}

/// What tells a client to look again at everything that it may have missed on the standalone stream (SEMANTICS 5.6).
pub(crate) fn resync_messages(session: &Session) -> Vec<Bytes> {
    let mut messages: Vec<Bytes> = session
        .advertised_lists()
        .iter()
        .map(|list| Notification::new(format!("notifications/{list}/list_changed"), None).to_bytes())
        .collect();
    for uri in &session.record().subscriptions {
        let params = Raw::from_value(&serde_json::json!({ "uri": uri })).ok();
        messages.push(Notification::new("notifications/resources/updated", params).to_bytes());
    }
    messages
}
