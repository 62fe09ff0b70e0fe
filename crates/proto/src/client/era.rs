//! Which era a server speaks: SEMANTICS 7.6.

use crate::jsonrpc::{ErrorObject, Raw, code};
use crate::revision::Revision;

/// The revision without a handshake that this client speaks.
pub const MODERN: &str = "2026-07-28";

/// What the answer to `server/discover` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDiscover {
    /// The server speaks [`MODERN`], and this was its `DiscoverResult`.
    Modern,
    /// The server is modern, yet this was not the result: the request was wrong, or the server wants it again.
    ModernError,
    /// The server is modern and speaks no revision of ours.
    Incompatible,
    /// `initialize` is next.
    Initialize,
    /// Says nothing about the era: 401, 403, 429 and 5xx.
    Unknown,
}

/// Reads the answer to `server/discover`: its HTTP status (200 on a pipe) and the response in its body.
#[must_use]
pub fn after_discover(status: u16, response: Option<Result<&Raw, &ErrorObject>>) -> AfterDiscover {
    match response {
        Some(Ok(result)) => {
            match result.member("supportedVersions").and_then(|list| list.to::<Vec<String>>().ok()) {
                Some(list) => of_list(&list, AfterDiscover::Modern),
                None => AfterDiscover::Initialize,
            }
        }
        Some(Err(error)) => match error.code {
            code::UNSUPPORTED_REVISION => {
                let supported = error.data.as_ref().and_then(|data| data.member("supported"));
                let list = supported.and_then(|list| list.to::<Vec<String>>().ok()).unwrap_or_default();
                of_list(&list, AfterDiscover::ModernError)
            }
            code::HEADER_MISMATCH | code::MISSING_CAPABILITY => AfterDiscover::ModernError,
            _ if matches!(status, 401 | 403 | 429) => AfterDiscover::Unknown,
            // A JSON-RPC error is the program's own word, even with a status that a proxy could have made up.
            _ => AfterDiscover::Initialize,
        },
        None if matches!(status, 401 | 403 | 408 | 429 | 500..) => AfterDiscover::Unknown,
        None => AfterDiscover::Initialize,
    }
}

fn of_list(list: &[String], ours: AfterDiscover) -> AfterDiscover {
    if list.iter().any(|name| name == MODERN) {
        ours
    } else if list.is_empty() || list.iter().any(|name| Revision::from_wire(name).is_some()) {
        AfterDiscover::Initialize
    } else {
        AfterDiscover::Incompatible
    }
}

/// What the status of a failed `initialize` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterInitialize {
    /// The 2024-11-05 transport, HTTP+SSE, is next.
    HttpSse,
    /// Nothing is left to try.
    Failed,
}

/// Reads the status of an `initialize` that had no result.
#[must_use]
pub const fn after_initialize(status: u16) -> AfterInitialize {
    match status {
        400 | 404 | 405 => AfterInitialize::HttpSse,
        _ => AfterInitialize::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn results() {
        let after = |text| after_discover(200, Some(Ok(&result(text))));
        assert_eq!(after(r#"{"supportedVersions":["2026-07-28"]}"#), AfterDiscover::Modern);
        assert_eq!(after(r#"{"supportedVersions":["2025-11-25"]}"#), AfterDiscover::Initialize);
        assert_eq!(after(r#"{"supportedVersions":["2031-01-01"]}"#), AfterDiscover::Incompatible);
        assert_eq!(after("{}"), AfterDiscover::Initialize);
    }

    #[test]
    fn errors() {
        let after = |status, code, data: serde_json::Value| {
            after_discover(status, Some(Err(&ErrorObject::new(code, "").with_data(&data))))
        };
        let supported = |list: &[&str]| serde_json::json!({ "supported": list });
        assert_eq!(after(400, -32022, supported(&["2026-07-28"])), AfterDiscover::ModernError);
        assert_eq!(after(400, -32022, supported(&["2025-11-25", "2025-06-18"])), AfterDiscover::Initialize);
        assert_eq!(after(400, -32022, supported(&["2031-01-01"])), AfterDiscover::Incompatible);
        assert_eq!(after(400, -32020, serde_json::json!({})), AfterDiscover::ModernError);
        assert_eq!(after(400, -32600, serde_json::json!({})), AfterDiscover::Initialize);
        assert_eq!(after(404, -32601, serde_json::json!({})), AfterDiscover::Initialize);
        assert_eq!(after(401, -32600, serde_json::json!({})), AfterDiscover::Unknown);
        assert_eq!(after(500, -32601, serde_json::json!({})), AfterDiscover::Initialize);
    }

    #[test]
    fn bare_statuses() {
        for (status, expected) in [
            (400, AfterDiscover::Initialize),
            (404, AfterDiscover::Initialize),
            (405, AfterDiscover::Initialize),
            (200, AfterDiscover::Initialize),
            (401, AfterDiscover::Unknown),
            (403, AfterDiscover::Unknown),
            (429, AfterDiscover::Unknown),
            (503, AfterDiscover::Unknown),
        ] {
            assert_eq!(after_discover(status, None), expected, "{status}");
        }
        assert_eq!(after_initialize(405), AfterInitialize::HttpSse);
        assert_eq!(after_initialize(401), AfterInitialize::Failed);
    }
}
