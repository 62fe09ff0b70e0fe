//! From a parsed body to what has to be done (SEMANTICS 1.8, 2, 3 and 4).
//!
//! Where the contract is silent:
//! - `initialize` without a `params.protocolVersion` is a well-formed request with wrong parameters: 200 with -32602, as for
//!   every such request. A 400 would send clients on to the transport of 2024-11-05.
//! - An array is refused as a whole, without an id: no single request of it is meant.
//! - The id of a response is the id of a request of ours, so that a refused response is told none.

use super::{
    Policy, Refusal, SessionMode, StaleSession,
    era::{Era, check_session_revision, claims_modern, era},
    fields::Field,
    session_not_found,
};
use crate::{
    jsonrpc::{Body, ErrorObject, Message, ParseError, Request, RequestId, code},
    revision::Revision,
};
use http::{HeaderMap, StatusCode};

/// What a POST asks for.
#[derive(Debug)]
pub enum Post<'h> {
    /// `initialize`, alone. Headers about sessions and revisions are ignored on it.
    Initialize(InitializeRequest),
    /// Anything else, where there are sessions.
    Session(SessionPost<'h>),
    /// Anything else, where there are none.
    Stateless(StatelessPost),
    /// A request or a notification of a modern revision, whatever the session mode ([`modern::check_request`] is next).
    ///
    /// [`modern::check_request`]: crate::modern::check_request
    Modern(ModernPost),
}

/// One message of a modern revision; never a response.
#[derive(Debug)]
pub struct ModernPost {
    /// The revision that the header names.
    pub revision: Revision,
    /// The message.
    pub message: ModernMessage,
}

/// What a modern client may send.
#[derive(Debug)]
pub enum ModernMessage {
    /// Something to be answered.
    Request(Request),
    /// Something that has no effect: this era has no notifications over HTTP.
    Notification,
}

/// A handshake.
#[derive(Debug)]
pub struct InitializeRequest {
    /// The request.
    pub request: Request,
    /// The revision that the client asks for, as it wrote it.
    pub requested: String,
    /// The revision that it gets.
    pub revision: Revision,
}

/// Messages in a session. The record of the session has to be found, then [`check_session_post`] applies.
#[derive(Debug)]
pub struct SessionPost<'h> {
    /// The id of the session: 1 to 256 visible ASCII characters.
    pub session: &'h str,
    /// What `MCP-Protocol-Version` says, where it stands there.
    pub header_revision: Option<Revision>,
    /// The messages.
    pub body: Payload,
}

/// Messages without a session. Holds no response; an array only where the revision has arrays.
#[derive(Debug)]
pub struct StatelessPost {
    /// The revision that they speak.
    pub revision: Revision,
    /// The messages.
    pub body: Payload,
}

/// What a body holds, `initialize` apart.
#[derive(Debug)]
pub enum Payload {
    /// One message.
    Single(Message),
    /// An array; never empty. A member that is no message gets its own error.
    Batch(Vec<Result<Message, ParseError>>),
}

impl Payload {
    /// The id of the one request in it, for errors about the whole.
    #[must_use]
    pub const fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Single(Message::Request(request)) => Some(&request.id),
            _ => None,
        }
    }

    /// The messages that could be read.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let (single, batch) = match self {
            Self::Single(message) => (Some(message), &[][..]),
            Self::Batch(members) => (None, members.as_slice()),
        };
        single.into_iter().chain(batch.iter().filter_map(|member| member.as_ref().ok()))
    }
}

/// What this POST asks for, before any look-up.
///
/// The order: `initialize`; then a revision that is not served; then the session id; then what the mode does not take.
///
/// # Errors
/// - 400 with -32600: `initialize` in an array or without an id; no session id where there are sessions; without
///   sessions, a response, or an array in a revision that has none.
/// - 400 with -32022: a revision that is not served, in the header or in the metadata.
/// - 400 with -32020 or -32602: the header and the metadata of a modern request do not agree, or say nothing of use.
/// - 404 with -32001: a session id that cannot be one of ours.
/// - 200 with -32602: `initialize` without a `protocolVersion`.
pub fn route_post<'h>(policy: &Policy, headers: &'h HeaderMap, body: Body) -> Result<Post<'h>, Refusal> {
    let body = match body {
        Body::Single(Message::Request(request))
            if is_initialize(&request.method)
                && !(policy.modern && claims_modern(request.params.as_ref())) =>
        {
            return initialize(request).map(Post::Initialize);
        }
        Body::Single(message) => Payload::Single(message),
        Body::Batch(members) => Payload::Batch(members),
    };
    if body.messages().any(says_initialize) && body.request_id().is_none() {
        let message = match &body {
            Payload::Single(_) => "\"initialize\" is a request: it needs an \"id\"",
            Payload::Batch(_) => "\"initialize\" has to be sent alone, not in an array",
        };
        return Err(Refusal::invalid_request(message, None));
    }

    let header_revision = match era(policy, headers, &body)? {
        Era::Legacy(header) => header,
        Era::Modern(revision) => return modern(revision, body).map(Post::Modern),
    };

    let id = body.request_id();
    let session = Field::session(headers);
    match policy.mode {
        SessionMode::Stateful => match session {
            Field::Text(session) => Ok(Post::Session(SessionPost { session, header_revision, body })),
            Field::Absent => Err(no_session(id)),
            Field::Unusable => Err(session_not_found(id)),
        },
        SessionMode::Stateless { stale_session, .. } => {
            if stale_session == StaleSession::NotFound && session != Field::Absent {
                return Err(session_not_found(id));
            }
            let revision = header_revision.unwrap_or(Revision::WITHOUT_HEADER);
            check_batch(revision, &body)?;
            if body.messages().any(|message| matches!(message, Message::Response(_))) {
                return Err(Refusal::invalid_request(
                    "A response, but this endpoint has no sessions and asks nothing of its clients",
                    None,
                ));
            }
            Ok(Post::Stateless(StatelessPost { revision, body }))
        }
    }
}

fn modern(revision: Revision, body: Payload) -> Result<ModernPost, Refusal> {
    let message = match body {
        Payload::Single(Message::Request(request)) => ModernMessage::Request(request),
        Payload::Single(Message::Notification(_)) => ModernMessage::Notification,
        Payload::Single(Message::Response(_)) => {
            return Err(Refusal::invalid_request(
                format!("A response, but a server asks nothing of a client of revision {revision}"),
                None,
            ));
        }
        Payload::Batch(_) => {
            return Err(Refusal::invalid_request(
                format!("A JSON array, but revision {revision} sends one message at a time"),
                None,
            ));
        }
    };
    Ok(ModernPost { revision, message })
}

/// With the session's record at hand: the header has to name the negotiated revision, and only a revision that has arrays
/// may send one.
///
/// # Errors
/// 400 with -32600.
pub fn check_session_post(negotiated: Revision, post: &SessionPost<'_>) -> Result<(), Refusal> {
    check_session_revision(negotiated, post.header_revision, post.body.request_id())?;
    check_batch(negotiated, &post.body)
}

/// 400 with -32600: a request that needs a session and names none.
pub(super) fn no_session(id: Option<&RequestId>) -> Refusal {
    Refusal::invalid_request(
        "No Mcp-Session-Id header: send \"initialize\" first, then the session id of its answer with every request",
        id.cloned(),
    )
}

fn check_batch(revision: Revision, body: &Payload) -> Result<(), Refusal> {
    match body {
        Payload::Batch(_) if !revision.features().batch => Err(Refusal::invalid_request(
            format!("A JSON array, but revision {revision} sends one message at a time"),
            None,
        )),
        _ => Ok(()),
    }
}

fn is_initialize(method: &str) -> bool {
    method == "initialize"
}

fn says_initialize(message: &Message) -> bool {
    match message {
        Message::Request(request) => is_initialize(&request.method),
        Message::Notification(notification) => is_initialize(&notification.method),
        Message::Response(_) => false,
    }
}

fn initialize(request: Request) -> Result<InitializeRequest, Refusal> {
    let requested = request
        .params
        .as_ref()
        .and_then(|params| params.member("protocolVersion"))
        .and_then(|version| version.string());
    match requested {
        Some(requested) => {
            let revision = Revision::negotiate(&requested);
            Ok(InitializeRequest { request, requested, revision })
        }
        None => Err(Refusal::new(
            StatusCode::OK,
            ErrorObject::new(
                code::INVALID_PARAMS,
                "\"initialize\" needs params.protocolVersion, a string such as \"2025-11-25\"",
            ),
        )
        .with_id(Some(request.id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::policy::tests::{RESUMABLE, STATEFUL, STATELESS, policy},
        jsonrpc::parse,
    };
    use bytes::Bytes;
    use http::{HeaderName, HeaderValue};

    const IGNORING: SessionMode =
        SessionMode::Stateless { resumable: false, stale_session: StaleSession::Ignore };

    const REQUEST: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":"ours","result":{}}"#;
    const CLAIMING: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;

    const SESSION: (&str, &[u8]) = ("mcp-session-id", b"s1");
    const ODD: (&str, &[u8]) = ("mcp-session-id", b"\xff odd");
    const MODERN: (&str, &[u8]) = ("mcp-protocol-version", b"2026-07-28");
    const UNKNOWN: (&str, &[u8]) = ("mcp-protocol-version", b"1.0");
    const V0326: (&str, &[u8]) = ("mcp-protocol-version", b"2025-03-26");
    const V1125: (&str, &[u8]) = ("mcp-protocol-version", b"2025-11-25");

    fn initialize_with(params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
    }

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    /// What a POST is found to be where only legacy revisions are served, in one line.
    fn seen(mode: SessionMode, lines: &[(&'static str, &[u8])], body: &str) -> String {
        seen_by(&policy(mode), lines, body)
    }

    fn seen_by(policy: &Policy, lines: &[(&'static str, &[u8])], body: &str) -> String {
        let headers = headers(lines);
        let body = parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        match route_post(policy, &headers, body) {
            Ok(Post::Initialize(found)) => format!("initialize {} -> {}", found.requested, found.revision),
            Ok(Post::Session(post)) => match post.header_revision {
                Some(revision) => format!("session {} {revision}", post.session),
                None => format!("session {}", post.session),
            },
            Ok(Post::Stateless(post)) => format!("stateless {}", post.revision),
            Ok(Post::Modern(found)) => match found.message {
                ModernMessage::Request(request) => format!("modern {} {}", found.revision, request.method),
                ModernMessage::Notification => format!("modern {} notification", found.revision),
            },
            Err(refusal) => {
                let id = refusal.id.map_or_else(|| "no id".to_owned(), |id| format!("id {id}"));
                format!("{} {} {id}", refusal.status.as_u16(), refusal.error.code)
            }
        }
    }

    #[test]
    fn initialize_negotiates_whatever_the_headers_say() {
        for mode in [STATEFUL, STATELESS, RESUMABLE] {
            for lines in [&[][..], &[SESSION], &[ODD], &[MODERN], &[UNKNOWN, SESSION]] {
                for (requested, revision) in [
                    ("2024-11-05", "2024-11-05"),
                    ("2025-03-26", "2025-03-26"),
                    ("2025-06-18", "2025-06-18"),
                    ("2025-11-25", "2025-11-25"),
                    ("2026-07-28", "2025-11-25"),
                    ("", "2025-11-25"),
                ] {
                    let body = initialize_with(&format!(r#"{{"protocolVersion":"{requested}"}}"#));
                    assert_eq!(seen(mode, lines, &body), format!("initialize {requested} -> {revision}"));
                }
            }
        }
    }

    #[test]
    fn initialize_needs_an_id_its_parameters_and_to_be_alone() {
        for mode in [STATEFUL, STATELESS] {
            for params in ["{}", "null", r#"{"protocolVersion":1}"#, r#"{"protocolVersion":null}"#] {
                assert_eq!(seen(mode, &[], &initialize_with(params)), "200 -32602 id 1", "{params}");
            }
            let note = r#"{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
            let request = initialize_with(r#"{"protocolVersion":"2025-03-26"}"#);
            for lines in [&[][..], &[SESSION, V0326]] {
                assert_eq!(seen(mode, lines, note), "400 -32600 no id");
                assert_eq!(seen(mode, lines, &format!("[{request}]")), "400 -32600 no id");
                assert_eq!(seen(mode, lines, &format!("[{REQUEST},{note}]")), "400 -32600 no id");
            }
        }
    }

    #[test]
    fn stateful_rows() {
        let batch = format!("[{REQUEST},1]");
        for (lines, body, expected) in [
            (&[SESSION][..], REQUEST, "session s1"),
            (&[SESSION, V1125], REQUEST, "session s1 2025-11-25"),
            (&[SESSION], NOTE, "session s1"),
            (&[SESSION], RESPONSE, "session s1"),
            (&[SESSION], &batch, "session s1"),
            (&[], REQUEST, "400 -32600 id 7"),
            (&[V1125], REQUEST, "400 -32600 id 7"),
            (&[("mcp-session-id", b"")], REQUEST, "400 -32600 id 7"),
            (&[], NOTE, "400 -32600 no id"),
            (&[], RESPONSE, "400 -32600 no id"),
            (&[], &batch, "400 -32600 no id"),
            (&[ODD], REQUEST, "404 -32001 id 7"),
            (&[ODD], NOTE, "404 -32001 no id"),
            (&[("mcp-session-id", &[b'a'; 257])], REQUEST, "404 -32001 id 7"),
            (&[SESSION, ("mcp-session-id", b"s2")], REQUEST, "404 -32001 id 7"),
            (&[SESSION, SESSION], REQUEST, "session s1"),
        ] {
            assert_eq!(seen(STATEFUL, lines, body), expected, "{lines:?} {body}");
        }
    }

    #[test]
    fn stateless_rows() {
        let batch = format!("[{REQUEST},{NOTE},1]");
        let with_response = format!("[{REQUEST},{RESPONSE}]");
        for (mode, lines, body, expected) in [
            (STATELESS, &[][..], REQUEST, "stateless 2025-03-26"),
            (STATELESS, &[V1125], REQUEST, "stateless 2025-11-25"),
            (RESUMABLE, &[V1125], REQUEST, "stateless 2025-11-25"),
            (STATELESS, &[V1125], NOTE, "stateless 2025-11-25"),
            (STATELESS, &[], RESPONSE, "400 -32600 no id"),
            (STATELESS, &[], &batch, "stateless 2025-03-26"),
            (STATELESS, &[V0326], &batch, "stateless 2025-03-26"),
            (STATELESS, &[V1125], &batch, "400 -32600 no id"),
            (STATELESS, &[], &with_response, "400 -32600 no id"),
            (STATELESS, &[SESSION], REQUEST, "404 -32001 id 7"),
            (STATELESS, &[ODD], REQUEST, "404 -32001 id 7"),
            (STATELESS, &[SESSION], NOTE, "404 -32001 no id"),
            (STATELESS, &[("mcp-session-id", b"")], REQUEST, "stateless 2025-03-26"),
            (IGNORING, &[SESSION, V1125], REQUEST, "stateless 2025-11-25"),
            (IGNORING, &[ODD], REQUEST, "stateless 2025-03-26"),
        ] {
            assert_eq!(seen(mode, lines, body), expected, "{mode:?} {lines:?} {body}");
        }
    }

    #[test]
    fn a_revision_that_is_not_served_answers_before_the_session_does() {
        for mode in [STATEFUL, STATELESS, RESUMABLE, IGNORING] {
            for session in [&[][..], &[SESSION], &[ODD]] {
                for version in [MODERN, UNKNOWN] {
                    let lines = [session, &[version]].concat();
                    assert_eq!(seen(mode, &lines, REQUEST), "400 -32022 id 7", "{lines:?}");
                    assert_eq!(seen(mode, &lines, NOTE), "400 -32022 no id", "{lines:?}");
                }
                assert_eq!(seen(mode, session, CLAIMING), "400 -32022 id 7");
                assert_eq!(seen(mode, session, &format!("[{REQUEST},{CLAIMING}]")), "400 -32022 no id");
            }
        }
    }

    #[test]
    fn a_modern_request_is_modern_whatever_the_session_mode() {
        let claiming = |method: &str| CLAIMING.replace("tools/list", method);
        for mode in [STATEFUL, STATELESS, RESUMABLE, IGNORING] {
            let policy = Policy { modern: true, ..policy(mode) };
            for session in [&[][..], &[SESSION], &[ODD]] {
                let lines = [session, &[MODERN, ("last-event-id", b"1")]].concat();
                let seen = |body: &str| seen_by(&policy, &lines, body);
                assert_eq!(seen(CLAIMING), "modern 2026-07-28 tools/list");
                assert_eq!(seen(&claiming("initialize")), "modern 2026-07-28 initialize");
                assert_eq!(seen(NOTE), "modern 2026-07-28 notification");
                assert_eq!(seen(RESPONSE), "400 -32600 no id");
                assert_eq!(seen(&format!("[{CLAIMING}]")), "400 -32600 no id");
                // A handshake that a proxy put a header on is one all the same.
                let hello = initialize_with(r#"{"protocolVersion":"2026-07-28"}"#);
                assert_eq!(seen(&hello), "initialize 2026-07-28 -> 2025-11-25");
            }
            let lines = [SESSION, V1125];
            assert_ne!(seen_by(&policy, &lines, REQUEST), "modern 2026-07-28 tools/list");
        }
    }

    #[test]
    fn with_the_record_the_revision_and_arrays_are_checked() {
        let check = |negotiated, lines: &[(&'static str, &[u8])], body: &str| {
            let headers = headers(lines);
            let body = parse(Bytes::copy_from_slice(body.as_bytes())).unwrap();
            let Ok(Post::Session(post)) = route_post(&policy(STATEFUL), &headers, body) else {
                panic!("not a post in a session")
            };
            check_session_post(negotiated, &post)
                .map_err(|refusal| (refusal.status.as_u16(), refusal.error.code, refusal.id))
        };
        let batch = format!("[{REQUEST}]");
        let (old, new) = (Revision::V2025_03_26, Revision::V2025_11_25);
        assert_eq!(check(new, &[SESSION], REQUEST), Ok(()));
        assert_eq!(check(new, &[SESSION, V1125], REQUEST), Ok(()));
        assert_eq!(check(new, &[SESSION, V0326], REQUEST), Err((400, -32600, Some(7.into()))));
        assert_eq!(check(new, &[SESSION, V0326], NOTE), Err((400, -32600, None)));
        assert_eq!(check(old, &[SESSION], &batch), Ok(()));
        assert_eq!(check(old, &[SESSION, V0326], &batch), Ok(()));
        for revision in Revision::ALL.into_iter().filter(|&revision| revision != old) {
            assert_eq!(check(revision, &[SESSION], &batch), Err((400, -32600, None)), "{revision}");
        }
    }

    #[test]
    fn members_that_are_no_messages_stay_where_they_stand() {
        let body = parse(Bytes::from(format!("[1,{REQUEST},{NOTE}]"))).unwrap();
        let headers = headers(&[]);
        let Ok(Post::Stateless(post)) = route_post(&policy(STATELESS), &headers, body) else {
            panic!("not served")
        };
        assert_eq!(post.body.messages().count(), 2);
        let Payload::Batch(members) = post.body else { panic!("not an array") };
        assert!(members[0].is_err() && members[1].is_ok() && members[2].is_ok());
    }
}
