//! Which revision a request speaks: its header, its claim, and the session's (SEMANTICS 1.8, 2 and 4).
//!
//! The era is decided before the session is looked at: a client of a revision that is not served holds no session of ours,
//! and has to read -32022, which makes it fall back to `initialize`. So "not served" answers before "no session id" and
//! before "session not found".

use super::{MCP_PROTOCOL_VERSION, Payload, Policy, Refusal, refusal::shown};
use crate::{
    jsonrpc::{ErrorObject, Message, Raw, RequestId, code},
    modern::meta::PROTOCOL_VERSION,
    revision::Revision,
};
use http::{HeaderMap, StatusCode};
use memchr::memmem;
use serde_json::json;
use std::sync::LazyLock;

/// The era of a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// With a handshake; what `MCP-Protocol-Version` says, where it stands there.
    Legacy(Option<Revision>),
    /// With metadata on every request: the header and, where the message is a request, its claim agree on this revision.
    Modern(Revision),
}

/// Which era the messages of a POST are of.
///
/// # Errors
/// - 400 with -32022: a revision that is not served, and what is no revision, in the header or in a claim.
/// - 400 with -32020: the header and the claim of a modern revision do not agree, or the header is missing.
/// - 400 with -32602: a claim that is no text; a modern header on a request without a claim.
/// - 400 with -32600: two revisions in the header.
pub(super) fn era(policy: &Policy, headers: &HeaderMap, body: &Payload) -> Result<Era, Refusal> {
    let id = body.request_id();
    let header = header_revision(policy, headers, id)?;
    for message in body.messages() {
        let Some(claim) = claim_of(message) else { continue };
        let Some(name) = claim.string() else {
            if policy.modern {
                let what = format!("_meta[\"{PROTOCOL_VERSION}\"] has to be a string");
                return Err(Refusal::new(
                    StatusCode::BAD_REQUEST,
                    ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {what}")),
                )
                .with_id(id.cloned()));
            }
            return Err(unsupported(policy, &shown(claim.as_str().as_bytes()), id));
        };
        let claimed = Revision::from_wire(&name).filter(|&revision| policy.serves_revision(revision));
        // Where one of the two is modern they have to agree. A legacy claim beside a legacy header says nothing new.
        let modern = |revision: Option<Revision>| revision.is_some_and(Revision::is_modern);
        match claimed {
            Some(_) if header == claimed => {}
            Some(_) if modern(claimed) || modern(header) => return Err(disagreement(&name, header, id)),
            Some(_) => {}
            None if modern(header) => return Err(disagreement(&name, header, id)),
            None => return Err(unsupported(policy, &shown(name.as_bytes()), id)),
        }
    }
    Ok(match header {
        Some(revision) if revision.is_modern() => Era::Modern(revision),
        header => Era::Legacy(header),
    })
}

/// Whether this request claims a revision that is none with a handshake: then it is modern, whatever its method.
pub(super) fn claims_modern(params: Option<&Raw>) -> bool {
    let claim = params.filter(|params| may_claim(params)).and_then(claim_in);
    claim.is_some_and(|claim| {
        claim.string().and_then(|name| Revision::from_wire(&name)).is_none_or(Revision::is_modern)
    })
}

/// The revision that `MCP-Protocol-Version` names, if it stands there.
///
/// It may stand repeatedly with one and the same name, as lines or as a list (a proxy that joins lines makes those).
///
/// # Errors
/// 400 with -32022 for a revision that is not served, and for what is no revision; 400 with -32600 for two revisions.
pub(super) fn header_revision(
    policy: &Policy,
    headers: &HeaderMap,
    id: Option<&RequestId>,
) -> Result<Option<Revision>, Refusal> {
    let mut found: Option<Revision> = None;
    let lines = headers.get_all(&MCP_PROTOCOL_VERSION).iter();
    let names = lines.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    for name in names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
        let revision = std::str::from_utf8(name).ok().and_then(Revision::from_wire);
        let served = revision.filter(|&revision| policy.serves_revision(revision));
        let Some(revision) = served else { return Err(unsupported(policy, &shown(name), id)) };
        if let Some(other) = found.replace(revision).filter(|&other| other != revision) {
            return Err(Refusal::invalid_request(
                format!("MCP-Protocol-Version names two revisions, {other} and {revision}"),
                id.cloned(),
            ));
        }
    }
    Ok(found)
}

/// What the metadata of a message claims, where it claims anything.
fn claim_of(message: &Message) -> Option<Raw> {
    let params = match message {
        Message::Request(request) => request.params.as_ref(),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Response(_) => None,
    };
    params.filter(|params| may_claim(params)).and_then(claim_in)
}

/// Whether the claim can be in this text at all. Its key ends in letters that stand as they are or as `\u00xx`, so that text
/// with neither needs no second parse. The slash tells it from the `protocolVersion` of `initialize`.
fn may_claim(params: &Raw) -> bool {
    // Made once: the search of a short text costs less than getting ready for it.
    static LETTERS: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new(b"/protocolVersion"));
    let text = params.as_str().as_bytes();
    LETTERS.find(text).is_some()
        || (memchr::memchr(b'\\', text).is_some() && memmem::find(text, br"\u00").is_some())
}

fn claim_in(params: &Raw) -> Option<Raw> {
    params.member("_meta")?.member(PROTOCOL_VERSION)
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

fn unsupported(policy: &Policy, requested: &str, id: Option<&RequestId>) -> Refusal {
    let supported: Vec<_> = policy.revisions().map(Revision::as_str).collect();
    let error =
        ErrorObject::new(code::UNSUPPORTED_REVISION, format!("Unsupported protocol version: {requested}"))
            .with_data(&json!({ "supported": supported, "requested": requested }));
    Refusal::new(StatusCode::BAD_REQUEST, error).with_id(id.cloned())
}

fn disagreement(claimed: &str, header: Option<Revision>, id: Option<&RequestId>) -> Refusal {
    let claimed = shown(claimed.as_bytes());
    let what = match header {
        Some(header) => format!("it is {header}, but the metadata of the body says {claimed}"),
        None => format!("it is missing, and the metadata of the body says {claimed}"),
    };
    Refusal::new(
        StatusCode::BAD_REQUEST,
        ErrorObject::new(code::HEADER_MISMATCH, format!("Header mismatch: MCP-Protocol-Version: {what}")),
    )
    .with_id(id.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        http::policy::tests::{STATEFUL, policy},
        jsonrpc::{Body, parse},
    };
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
                header_revision(&policy(STATEFUL), &headers, None).map_err(|refusal| told(&refusal)),
                expected,
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_refused_revision_says_what_is_served_newest_first() {
        let mut headers = HeaderMap::new();
        headers.insert(&MCP_PROTOCOL_VERSION, HeaderValue::from_static("2026-07-28"));
        let body = header_revision(&policy(STATEFUL), &headers, Some(&1.into())).unwrap_err().body();
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
                let refused = era(&policy(STATEFUL), &HeaderMap::new(), &Payload::Single(message));
                let refused = refused.err().map(|refusal| told(&refusal));
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

    /// What a request is found to be where modern revisions are served: its era, or the code of its refusal.
    fn with_modern(header: Option<&str>, claim: Option<&str>) -> Result<Era, i64> {
        let policy = Policy { modern: true, ..policy(STATEFUL) };
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(&MCP_PROTOCOL_VERSION, HeaderValue::from_str(header).unwrap());
        }
        let meta = claim.map_or_else(String::new, |claim| format!(r#""{PROTOCOL_VERSION}":{claim}"#));
        let text = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"x","params":{{"_meta":{{{meta}}}}}}}"#);
        let Ok(Body::Single(message)) = parse(Bytes::from(text)) else { panic!("{claim:?}") };
        era(&policy, &headers, &Payload::Single(message)).map_err(|refusal| {
            assert_eq!((refusal.status.as_u16(), refusal.id), (400, Some(5.into())));
            refusal.error.code
        })
    }

    #[test]
    fn the_era_of_a_request_is_its_own() {
        let (modern, legacy) = (Some("2026-07-28"), Some("2025-11-25"));
        let (claims_modern, claims_legacy) = (Some(r#""2026-07-28""#), Some(r#""2025-06-18""#));
        for (header, claim, expected) in [
            (None, None, Ok(Era::Legacy(None))),
            (legacy, None, Ok(Era::Legacy(Some(Revision::V2025_11_25)))),
            (legacy, claims_legacy, Ok(Era::Legacy(Some(Revision::V2025_11_25)))),
            (None, claims_legacy, Ok(Era::Legacy(None))),
            (modern, claims_modern, Ok(Era::Modern(Revision::V2026_07_28))),
            // What is missing in the body is looked at with the rest of the metadata.
            (modern, None, Ok(Era::Modern(Revision::V2026_07_28))),
            (None, claims_modern, Err(-32020)),
            (legacy, claims_modern, Err(-32020)),
            (modern, claims_legacy, Err(-32020)),
            (modern, Some(r#""v999.0.0""#), Err(-32020)),
            (Some("v999.0.0"), Some(r#""v999.0.0""#), Err(-32022)),
            (Some("v999.0.0"), None, Err(-32022)),
            (None, Some(r#""v999.0.0""#), Err(-32022)),
            (legacy, Some(r#""v999.0.0""#), Err(-32022)),
            (modern, Some("7"), Err(-32602)),
            (None, Some("null"), Err(-32602)),
        ] {
            assert_eq!(with_modern(header, claim), expected, "{header:?} {claim:?}");
        }
    }

    #[test]
    fn a_refusal_lists_the_modern_revision_where_it_is_served() {
        let policy = Policy { modern: true, ..policy(STATEFUL) };
        let refusal = unsupported(&policy, "v999.0.0", None);
        let data: serde_json::Value = refusal.error.data.unwrap().to().unwrap();
        assert_eq!(
            data["supported"],
            json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
        );
    }
}
