//! A request that is not served, and what its sender is told.

use super::Methods;
use crate::jsonrpc::{ErrorObject, ParseError, RequestId, code};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// An answer to a request that is not served: a status, one JSON-RPC error, and the headers that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The JSON-RPC error of the body.
    pub error: ErrorObject,
    /// The id of the request, where it could be read and one request is meant.
    pub id: Option<RequestId>,
    /// The methods that `Allow` lists (405).
    pub allow: Option<Methods>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// `WWW-Authenticate` (401).
    pub challenge: Option<Box<HeaderValue>>,
    /// Whether the connection is closed after the answer, because the rest of the request will not be read.
    pub close: bool,
}

impl Refusal {
    /// A refusal that has only a status and an error.
    #[must_use]
    pub const fn new(status: StatusCode, error: ErrorObject) -> Self {
        Self { status, error, id: None, allow: None, retry_after: None, challenge: None, close: false }
    }

    /// 400 with -32600: this is not a request that the endpoint takes.
    pub fn invalid_request(message: impl Into<String>, id: Option<RequestId>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorObject::new(code::INVALID_REQUEST, message)).with_id(id)
    }

    /// 404 for a path that is not the endpoint's. Its code is not the one of a lost session.
    #[must_use]
    pub fn not_found(path: &str) -> Self {
        let message = format!("Nothing is served at {}", shown(path.as_bytes()));
        Self::new(StatusCode::NOT_FOUND, ErrorObject::new(code::INVALID_REQUEST, message))
    }

    /// 405, with the methods that are served.
    #[must_use]
    pub fn method_not_allowed(methods: Methods, message: impl Into<String>) -> Self {
        Self {
            allow: Some(methods),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, ErrorObject::new(code::INVALID_REQUEST, message))
        }
    }

    /// 429 with -32603 and `data.reason`: a limit of this client is reached; `retry_after` in seconds.
    #[must_use]
    pub fn too_many(reason: &str, retry_after: u32, id: Option<RequestId>) -> Self {
        let message = format!("Too many requests ({reason}); try again in {retry_after} s");
        Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, ErrorObject::internal(reason, message)).with_id(id)
        }
    }

    /// 503 with -32603 and `data.reason`: the request cannot be served now and nothing was started; `retry_after` in
    /// seconds.
    #[must_use]
    pub fn unavailable(reason: &str, retry_after: u32, id: Option<RequestId>) -> Self {
        let message =
            format!("The server cannot take this request now ({reason}); try again in {retry_after} s");
        Self {
            retry_after: Some(retry_after),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, ErrorObject::internal(reason, message)).with_id(id)
        }
    }

    /// 500 with -32603 and `data.reason`: a failure of ours.
    #[must_use]
    pub fn internal(reason: &str, message: impl Into<String>, id: Option<RequestId>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorObject::internal(reason, message)).with_id(id)
    }

    /// This refusal, with the id of the request.
    #[must_use]
    pub fn with_id(mut self, id: Option<RequestId>) -> Self {
        self.id = id;
        self
    }

    /// The body: one JSON-RPC error.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.error.clone().to_response(self.id.as_ref())
    }

    /// Sets the headers of this answer: `Content-Type`, and `Allow`, `Retry-After` and `Connection` where they apply.
    pub fn write_headers(&self, out: &mut HeaderMap) {
        out.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(methods) = self.allow {
            out.insert(header::ALLOW, HeaderValue::from_static(methods.as_str()));
        }
        if let Some(seconds) = self.retry_after {
            out.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = &self.challenge {
            out.insert(header::WWW_AUTHENTICATE, HeaderValue::clone(challenge));
        }
        if self.close {
            out.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl From<ParseError> for Refusal {
    /// 400 with -32700 or -32600: the body is not what [`crate::jsonrpc::parse`] takes (SEMANTICS 1.7).
    fn from(error: ParseError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_error()).with_id(error.id)
    }
}

/// The session is unknown, expired, ended or somebody else's: 404 with -32001, the same to the byte for all of these
/// (the id of the request apart).
#[must_use]
pub fn session_not_found(id: Option<&RequestId>) -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, ErrorObject::new(code::SESSION_NOT_FOUND, "Session not found"))
        .with_id(id.cloned())
}

/// How much of a sender's text is shown back, in bytes.
const MAX_SHOWN_BYTES: usize = 100;

/// A sender's text, fit to be shown: visible ASCII and spaces, bounded.
pub(super) fn shown(text: &[u8]) -> String {
    let cut = &text[..text.len().min(MAX_SHOWN_BYTES)];
    let mut out = String::with_capacity(cut.len() + 3);
    out.extend(cut.iter().map(|&byte| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '?' }));
    if cut.len() < text.len() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::parse;

    fn headers_of(refusal: &Refusal) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        refusal.write_headers(&mut headers);
        let mut list: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
            .collect();
        list.sort();
        list
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_lost_session_reads_the_same_whatever_its_cause() {
        assert_eq!(
            session_not_found(None).body(),
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}"#
        );
        let refusal = session_not_found(Some(&7.into()));
        assert_eq!(refusal.status, 404);
        assert_eq!(
            refusal.body(),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"Session not found"}}"#
        );
    }

    #[test]
    fn each_constructor_has_its_status_code_and_headers() {
        let json = ("content-type", "application/json");
        for (refusal, status, code, headers) in [
            (Refusal::not_found("/x"), 404, -32600, pairs(&[json])),
            (
                Refusal::method_not_allowed(Methods::Post, "no"),
                405,
                -32600,
                pairs(&[("allow", "POST, OPTIONS"), json]),
            ),
            (Refusal::too_many("calls", 3, None), 429, -32603, pairs(&[json, ("retry-after", "3")])),
            (Refusal::unavailable("draining", 2, None), 503, -32603, pairs(&[json, ("retry-after", "2")])),
            (Refusal::internal("bug", "no", None), 500, -32603, pairs(&[json])),
            (
                Refusal { close: true, ..Refusal::invalid_request("no", None) },
                400,
                -32600,
                pairs(&[("connection", "close"), json]),
            ),
        ] {
            assert_eq!((refusal.status.as_u16(), refusal.error.code), (status, code));
            assert_eq!(headers_of(&refusal), headers);
        }
    }

    #[test]
    fn our_own_failures_say_their_reason_and_the_id() {
        let body = Refusal::unavailable("store_unavailable", 1, Some("a".into())).body();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["id"], "a");
        assert_eq!(body["error"]["data"]["reason"], "store_unavailable");
    }

    #[test]
    fn an_unreadable_body_is_400() {
        for (body, code, id) in [
            (&b"{"[..], -32700, None),
            (b"\xff", -32700, None),
            (b"[]", -32600, None),
            (br#"{"jsonrpc":"1.0","id":3,"method":"x"}"#, -32600, Some(3.into())),
            (br#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, None),
        ] {
            let refusal = Refusal::from(parse(Bytes::from_static(body)).unwrap_err());
            assert_eq!((refusal.status.as_u16(), refusal.error.code, refusal.id), (400, code, id));
        }
    }

    #[test]
    fn text_of_a_sender_is_bounded_and_visible() {
        assert_eq!(shown(b"a\r\n\x00\xffb"), "a????b");
        assert_eq!(shown(&[b'x'; 101]), "x".repeat(100) + "...");
        assert_eq!(shown(&[b'x'; 100]), "x".repeat(100));
    }
}
