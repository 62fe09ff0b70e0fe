//! Which revision a request speaks: its header, its claim, and the session's (SEMANTICS 1.8 and 2).
//!
//! The era is decided before the session is looked at: a client of a revision that is not served holds no session of ours,
//! and has to read -32022, which makes it fall back to `initialize`. So "not served" answers before "no session id" and
//! before "session not found".

use super::{MCP_PROTOCOL_VERSION, Refusal, refusal::shown};
use crate::{
    jsonrpc::{ErrorObject, Message, Raw, RequestId, code},
    revision::Revision,
};
use http::{HeaderMap, StatusCode};
use memchr::memmem;
use serde_json::json;

/// The key of a request's metadata by which a modern client says its revision.
const CLAIM: &str = "io.modelcontextprotocol/protocolVersion";

/// The revision that `MCP-Protocol-Version` names, if it stands there.
///
/// It may stand repeatedly with one and the same name, as lines or as a list (a proxy that joins lines makes those).
///
/// # Errors
/// 400 with -32022 for a revision that is not served, and for what is no revision; 400 with -32600 for two revisions.
pub(super) fn header_revision(
    headers: &HeaderMap,
    id: Option<&RequestId>,
) -> Result<Option<Revision>, Refusal> {
    let mut found: Option<Revision> = None;
    let lines = headers.get_all(&MCP_PROTOCOL_VERSION).iter();
    let names = lines.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    for name in names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
        let revision = std::str::from_utf8(name).ok().and_then(Revision::from_wire);
        let Some(revision) = revision else { return Err(unsupported(&shown(name), id)) };
        if let Some(other) = found.replace(revision).filter(|&other| other != revision) {
            return Err(Refusal::invalid_request(
                format!("MCP-Protocol-Version names two revisions, {other} and {revision}"),
                id.cloned(),
            ));
        }
    }
    Ok(found)
}

/// Refuses a message whose metadata claims a revision that is not served. A claim of a legacy revision says nothing new.
///
/// # Errors
/// 400 with -32022.
pub(super) fn check_claim(message: &Message, id: Option<&RequestId>) -> Result<(), Refusal> {
    let params = match message {
        Message::Request(request) => request.params.as_ref(),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Response(_) => None,
    };
    let Some(claim) = params.filter(|params| may_claim(params)).and_then(claim_in) else { return Ok(()) };
    let name = claim.string().unwrap_or_else(|| claim.as_str().to_owned());
    match Revision::from_wire(&name) {
        Some(_) => Ok(()),
        None => Err(unsupported(&shown(name.as_bytes()), id)),
    }
}

/// Whether the claim can be in this text at all. Its key has letters that stand as they are or as `\u00xx`, so that text
/// with neither needs no second parse.
fn may_claim(params: &Raw) -> bool {
    let text = params.as_str().as_bytes();
    memmem::find(text, b"protocolVersion").is_some() || memmem::find(text, br"\u00").is_some()
}

fn claim_in(params: &Raw) -> Option<Raw> {
    params.member("_meta")?.member(CLAIM)
}

/// With the session's record: the header, where there is one, has to name the negotiated revision.
///
/// # Errors
/// 400 with -32600.
pub fn check_session_revision(
    negotiated: Revision,
    header: Option<Revision>,
    id: Option<&RequestId>,
) -> Result<(), Refusal> {
    match header {
        Some(header) if header != negotiated => Err(Refusal::invalid_request(
            format!("MCP-Protocol-Version is {header}, but this session negotiated {negotiated}"),
            id.cloned(),
        )),
        _ => Ok(()),
    }
}

fn unsupported(requested: &str, id: Option<&RequestId>) -> Refusal {
    let mut supported = Revision::ALL.map(Revision::as_str);
    supported.reverse();
    let error =
        ErrorObject::new(code::UNSUPPORTED_REVISION, format!("Unsupported protocol version: {requested}"))
            .with_data(&json!({ "supported": supported, "requested": requested }));
    Refusal::new(StatusCode::BAD_REQUEST, error).with_id(id.cloned())
}
