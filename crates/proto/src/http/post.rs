//! From a parsed body to what has to be done (SEMANTICS 1.8, 2 and 3).
//!
//! Where the contract is silent:
//! - `initialize` without a `params.protocolVersion` is a well-formed request with wrong parameters: 200 with -32602, as for
//!   every such request. A 400 would send clients on to the transport of 2024-11-05.
//! - An array is refused as a whole, without an id: no single request of it is meant.
//! - The id of a response is the id of a request of ours, so that a refused response is told none.

use super::{
    Policy, Refusal, SessionMode, StaleSession,
    era::{check_claim, check_session_revision, header_revision},
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
/// - 404 with -32001: a session id that cannot be one of ours.
/// - 200 with -32602: `initialize` without a `protocolVersion`.
pub fn route_post<'h>(policy: &Policy, headers: &'h HeaderMap, body: Body) -> Result<Post<'h>, Refusal> {
    let body = match body {
        Body::Single(Message::Request(request)) if is_initialize(&request.method) => {
            return initialize(request).map(Post::Initialize);
        }
        Body::Single(message) => Payload::Single(message),
        Body::Batch(members) => Payload::Batch(members),
    };
    if body.messages().any(says_initialize) {
        let message = match &body {
            Payload::Single(_) => "\"initialize\" is a request: it needs an \"id\"",
            Payload::Batch(_) => "\"initialize\" has to be sent alone, not in an array",
        };
        return Err(Refusal::invalid_request(message, None));
    }

    let id = body.request_id();
    let header_revision = header_revision(headers, id)?;
    body.messages().try_for_each(|message| check_claim(message, id))?;

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
