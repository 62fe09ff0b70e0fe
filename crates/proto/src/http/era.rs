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
use std::sync::LazyLock;

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
    // Made once: the search of a short text costs less than getting ready for it.
    static LETTERS: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b"protocolVersion"));
    let text = params.as_str().as_bytes();
    LETTERS.find(text).is_some()
        || (memchr::memchr(b'\\', text).is_some() && memmem::find(text, br"\u00").is_some())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Body, parse};
    use bytes::Bytes;
    use http::HeaderValue;

    /// What is refused: its code, and the revision that its data names.
    fn told(refusal: &Refusal) -> (i64, Option<String>) {
        assert_eq!(refusal.status, 400);
        let requested = refusal.error.data.as_ref().and_then(|data| data.member("requested")?.string());
        (refusal.error.code, requested)
    }

    #[test]
    fn the_header_names_one_revision_that_is_served() {
        let served = |revision| Ok(Some(revision));
        let unsupported = |requested: &str| Err((-32022, Some(requested.to_owned())));
        for (lines, expected) in [
            (&[][..], Ok(None)),
            (&[&b""[..]], Ok(None)),
            (&[b" , "], Ok(None)),
            (&[b"2024-11-05"], served(Revision::V2024_11_05)),
            (&[b"2025-11-25"], served(Revision::V2025_11_25)),
            (&[b"2025-06-18", b"2025-06-18"], served(Revision::V2025_06_18)),
            (&[b"2025-06-18, 2025-06-18"], served(Revision::V2025_06_18)),
            (&[b"2025-06-18", b"2025-11-25"], Err((-32600, None))),
            (&[b"2025-06-18,2025-11-25"], Err((-32600, None))),
            (&[b"2026-07-28"], unsupported("2026-07-28")),
            (&[b"2025-06-18", b"2026-07-28"], unsupported("2026-07-28")),
            (&[b"1999-01-01"], unsupported("1999-01-01")),
            (&[b"DRAFT-2026-v1"], unsupported("DRAFT-2026-v1")),
            (&[b"\xff\xfe"], unsupported("??")),
            (&[&[b'9'; 300]], unsupported(&("9".repeat(100) + "..."))),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(&MCP_PROTOCOL_VERSION, HeaderValue::from_bytes(line).unwrap());
            }
            assert_eq!(
                header_revision(&headers, None).map_err(|refusal| told(&refusal)),
                expected,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_refused_revision_says_what_is_served_newest_first() {
        let mut headers = HeaderMap::new();
        headers.insert(&MCP_PROTOCOL_VERSION, HeaderValue::from_static("2026-07-28"));
        let body = header_revision(&headers, Some(&1.into())).unwrap_err().body();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            json!({
                "jsonrpc": "2.0",
                "id": 1,
                "error": {
                    "code": -32022,
                    "message": "Unsupported protocol version: 2026-07-28",
                    "data": {
                        "supported": ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                        "requested": "2026-07-28",
                    },
                },
            })
        );
    }

    #[test]
    fn a_claim_of_a_revision_that_is_not_served_is_found() {
        let claim = |value: &str| {
            format!(r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{value}}},"name":"x"}}"#)
        };
        for (params, requested) in [
            (claim(r#""2026-07-28""#), Some("2026-07-28")),
            (claim(r#""2027-01-01""#), Some("2027-01-01")),
            (claim("7"), Some("7")),
            (claim("null"), Some("null")),
            (claim(r#""2025-06-18""#), None),
            // JSON may write the same key in other ways.
            (
                r#"{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}"#.into(),
                Some("2026-07-28"),
            ),
            (
                r#"{"\u005fmeta":{"io.modelcontextprotocol/\u0070rotocolVersion":"2026-07-28"}}"#.into(),
                Some("2026-07-28"),
            ),
            // Not the metadata of the request.
            (
                r#"{"arguments":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#.into(),
                None,
            ),
            (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#.into(), None),
            (r#"{"_meta":"io.modelcontextprotocol/protocolVersion"}"#.into(), None),
            (r#"{"_meta":{"protocolVersion":"2026-07-28"}}"#.into(), None),
            ("{}".into(), None),
        ] {
            for id in [r#""id":5,"#, ""] {
                let text = format!(r#"{{"jsonrpc":"2.0",{id}"method":"x","params":{params}}}"#);
                let Ok(Body::Single(message)) = parse(Bytes::from(text)) else { panic!("{params}") };
                let refused = check_claim(&message, None).err().map(|refusal| told(&refusal));
                let expected = requested.map(|requested| (-32022, Some(requested.to_owned())));
                assert_eq!(refused, expected, "{params}");
            }
        }
    }

    #[test]
    fn the_header_has_to_name_what_was_negotiated() {
        let negotiated = Revision::V2025_06_18;
        assert_eq!(check_session_revision(negotiated, None, None), Ok(()));
        assert_eq!(check_session_revision(negotiated, Some(negotiated), None), Ok(()));
        let refusal =
            check_session_revision(negotiated, Some(Revision::V2025_11_25), Some(&3.into())).unwrap_err();
        assert_eq!(told(&refusal), (-32600, None));
        assert_eq!(refusal.id, Some(3.into()));
        assert!(refusal.error.message.contains("2025-11-25") && refusal.error.message.contains("2025-06-18"));
    }
}
