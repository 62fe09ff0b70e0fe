//! CORS: what a web page of an allowed origin may send and read (SEMANTICS 1.2).

use super::Policy;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// The headers that a page may send. `Mcp-*` cannot be said as a pattern, so that further ones are allowed by name when a
/// preflight asks for them.
const REQUEST_HEADERS: &str = "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id";
/// The headers that a page may read.
const EXPOSED_HEADERS: &str = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After";
/// How long a browser may keep the answer to a preflight, in seconds; browsers have lower bounds of their own.
const MAX_AGE: &str = "7200";
/// How much of `Access-Control-Request-Headers` is looked at, in bytes.
const MAX_REQUESTED_BYTES: usize = 4096;

/// An answer without a body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// All of its headers.
    pub headers: HeaderMap,
}

/// Sets the CORS headers of any answer, refusals too, to a request with this `Origin`. Nothing without an origin, or where
/// it is not allowed.
pub fn cors_headers(policy: &Policy, origin: Option<&HeaderValue>, out: &mut HeaderMap) {
    let Some(origin) = origin else { return };
    if policy.origins.is_any() {
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    } else {
        // Once, on an answer to a preflight too, which has these headers already.
        if !out.get_all(header::VARY).iter().any(|vary| vary == "Origin") {
            out.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        if !policy.origins.allow(origin.as_bytes(), policy.loopback) {
            return;
        }
        out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
    out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
}

/// What a browser asks before a page of the internet may speak to a private network, and what allows it (Private Network Access).
const ASKS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The answer to `OPTIONS`: 204 with the methods and headers that a page may send, and its CORS headers.
#[must_use]
pub fn preflight(policy: &Policy, headers: &HeaderMap) -> Answer {
    let mut out = HeaderMap::new();
    let methods = HeaderValue::from_static(policy.methods().as_str());
    out.insert(header::ALLOW, methods.clone());
    if let Some(origin) = headers.get(header::ORIGIN) {
        cors_headers(policy, Some(origin), &mut out);
        out.append(header::VARY, HeaderValue::from_static("Access-Control-Request-Headers"));
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(headers));
        out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        let asks = headers.get(&ASKS_PRIVATE_NETWORK).is_some_and(|asks| asks == "true");
        if asks && policy.origins.allow(origin.as_bytes(), policy.loopback) {
            out.insert(ALLOWS_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
    }
    Answer { status: StatusCode::NO_CONTENT, headers: out }
}

/// [`REQUEST_HEADERS`], and what is asked for by a name that starts with `mcp-`.
fn allowed_headers(headers: &HeaderMap) -> HeaderValue {
    let known = |name: &str| REQUEST_HEADERS.split(", ").any(|known| known == name);
    let mut allowed = REQUEST_HEADERS.to_owned();
    let mut budget = MAX_REQUESTED_BYTES;
    for value in headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        let Some(left) = budget.checked_sub(value.len()) else { break };
        budget = left;
        let names = value.as_bytes().split(|&byte| byte == b',');
        for name in names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()) {
            if name.as_str().starts_with("mcp-") && !known(name.as_str()) {
                allowed.push_str(", ");
                allowed.push_str(name.as_str());
            }
        }
    }
    // Names of headers and ", " are always the value of a header.
    HeaderValue::try_from(allowed).unwrap_or_else(|_| HeaderValue::from_static(REQUEST_HEADERS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{
        AllowedOrigins,
        policy::tests::{RESUMABLE, STATEFUL, STATELESS, policy},
    };

    fn one(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
        headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn an_allowed_origin_may_read_the_headers_of_every_answer() {
        for (origin, allowed) in [
            (None, None),
            (Some("http://localhost:5173"), Some("http://localhost:5173")),
            (Some("https://evil.example"), None),
            (Some("null"), None),
        ] {
            let mut out = HeaderMap::new();
            let header = origin.map(HeaderValue::from_static);
            cors_headers(&policy(STATEFUL), header.as_ref(), &mut out);
            assert_eq!(one(&out, header::ACCESS_CONTROL_ALLOW_ORIGIN), allowed, "{origin:?}");
            let exposed = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After";
            assert_eq!(one(&out, header::ACCESS_CONTROL_EXPOSE_HEADERS), allowed.map(|_| exposed));
            assert_eq!(one(&out, header::VARY), origin.map(|_| "Origin"));
        }
    }

    #[test]
    fn any_origin_is_said_as_such() {
        let policy = Policy { origins: AllowedOrigins::any(), ..policy(STATEFUL) };
        let mut out = HeaderMap::new();
        cors_headers(&policy, Some(&HeaderValue::from_static("null")), &mut out);
        assert_eq!(one(&out, header::ACCESS_CONTROL_ALLOW_ORIGIN), Some("*"));
        assert_eq!(one(&out, header::VARY), None);
    }

    #[test]
    fn a_preflight_lists_methods_and_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, HeaderValue::from_static("http://localhost:5173"));
        headers.insert(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_static("content-type, Mcp-Param-City,mcp-session-id, x-other, mcp bad"),
        );
        for (mode, methods) in [
            (STATEFUL, "POST, GET, DELETE, OPTIONS"),
            (RESUMABLE, "POST, GET, OPTIONS"),
            (STATELESS, "POST, OPTIONS"),
        ] {
            let answer = preflight(&policy(mode), &headers);
            assert_eq!(answer.status, 204);
            let out = &answer.headers;
            assert_eq!(one(out, header::ACCESS_CONTROL_ALLOW_ORIGIN), Some("http://localhost:5173"));
            assert_eq!(one(out, header::ACCESS_CONTROL_ALLOW_METHODS), Some(methods));
            assert_eq!(one(out, header::ALLOW), Some(methods));
            assert_eq!(
                one(out, header::ACCESS_CONTROL_ALLOW_HEADERS),
                Some(
                    "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, \
                     mcp-protocol-version, mcp-session-id, mcp-param-city"
                )
            );
            assert_eq!(one(out, header::ACCESS_CONTROL_MAX_AGE), Some("7200"));
            let mut again = out.clone();
            cors_headers(&policy(mode), headers.get(header::ORIGIN), &mut again);
            assert_eq!(&again, out, "setting them again, as for any answer, changes nothing");
        }
    }

    #[test]
    fn an_allowed_page_may_reach_a_private_network_where_its_browser_asks() {
        for (origin, asks, allowed) in [
            ("http://localhost:5173", Some("true"), true),
            ("http://localhost:5173", Some("false"), false),
            ("http://localhost:5173", None, false),
            ("https://evil.example", Some("true"), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            if let Some(asks) = asks {
                headers.insert(ASKS_PRIVATE_NETWORK, HeaderValue::from_static(asks));
            }
            let answer = preflight(&policy(STATEFUL), &headers).headers;
            assert_eq!(one(&answer, ALLOWS_PRIVATE_NETWORK), allowed.then_some("true"), "{origin} {asks:?}");
        }
    }

    #[test]
    fn options_without_an_origin_is_told_the_methods_alone() {
        let answer = preflight(&policy(STATEFUL), &HeaderMap::new());
        assert_eq!(answer.status, 204);
        assert_eq!(answer.headers.len(), 1);
        assert!(answer.headers.contains_key(header::ALLOW));
    }

    #[test]
    fn what_a_preflight_asks_for_is_bounded() {
        let mut headers = HeaderMap::new();
        let name = "mcp-param-x,".repeat(1000);
        headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::try_from(name).unwrap());
        assert_eq!(allowed_headers(&headers), REQUEST_HEADERS);
    }
}
