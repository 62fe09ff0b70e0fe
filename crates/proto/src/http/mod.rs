//! What an HTTP request asks for, decided from its method, headers and parsed body (SEMANTICS 1 to 4 and 5.6).
//!
//! The server calls these in the order of SEMANTICS 1; the first that refuses answers:
//!
//! 1. [`admit`]: `Origin`, `Host`, path, method. [`preflight`] answers what it finds to be `OPTIONS`.
//! 2. (Authentication is the server's.)
//! 3. [`negotiate`]: `Content-Type` and `Accept`.
//! 4. [`check_length`] before the body is read, [`too_large`] and [`too_slow`] while it is; then [`jsonrpc::parse`].
//! 5. [`route_post`], [`route_get`], [`route_delete`]: what has to be done, before any look-up.
//! 6. With the session's record: [`check_session_post`] and [`check_session_revision`]; for a cursor [`resume`].
//!
//! [`cors_headers`] go on every answer, refusals too. Nothing here allocates for a POST that is not refused, `initialize`
//! apart.
//!
//! A header that may stand once and stands twice with the same value is taken once. A blank one counts as absent.
//!
//! [`jsonrpc::parse`]: crate::jsonrpc::parse

mod admit;
mod authority;
mod cors;
mod era;
mod fields;
mod get;
mod length;
mod negotiate;
mod policy;
mod post;
mod refusal;
mod resume;
mod shown;

pub use admit::{Admitted, Verb, admit};
pub use authority::{AllowListError, AllowedHosts, AllowedOrigins};
pub use cors::{Answer, cors_headers, preflight};
pub use era::check_session_revision;
pub use fields::{
    LAST_EVENT_ID, LastEventId, MAX_LAST_EVENT_ID_BYTES, MAX_SESSION_ID_BYTES, MCP_PROTOCOL_VERSION,
    MCP_SESSION_ID,
};
pub use get::{Delete, Get, route_delete, route_get};
pub use length::{check_length, too_large, too_slow};
pub use negotiate::negotiate;
pub use policy::{Methods, Policy, SessionMode, StaleSession};
pub use post::{
    InitializeRequest, ModernMessage, ModernPost, Payload, Post, SessionPost, StatelessPost,
    check_session_post, route_post,
};
pub use refusal::{Refusal, session_not_found};
pub use resume::{CursorFact, CursorKind, GoneReason, Resume, ResumeFacts, SessionFact, StreamFact, resume};
pub use shown::address_shown;
