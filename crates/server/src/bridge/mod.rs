//! For handlers that pass messages on to another implementation of MCP: which call a message belongs to, and where what
//! names no call goes (SEMANTICS 6, "In front of a stdio server").
//!
//! A [`Calls`] has the requests that the other side works on, under ids of ours; [`Questions`] has the other side's own
//! requests that wait for a client; [`On`] is the stream that a message goes to.

mod calls;
mod place;
mod questions;

pub use calls::Calls;
pub use place::{On, Subject};
pub use questions::Questions;

use bowline_proto::jsonrpc::{Notification, Raw, RequestId};

/// `notifications/cancelled` for a request.
#[must_use]
pub fn cancelled(id: &RequestId, reason: Option<Raw>) -> Notification {
    let reason = reason.map(|reason| format!(r#","reason":{}"#, reason.as_str())).unwrap_or_default();
    let params = format!(r#"{{"requestId":{}{reason}}}"#, id.to_json());
    Notification::new("notifications/cancelled", Some(Raw::from_trusted(params.into())))
}
