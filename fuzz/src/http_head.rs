//! Any method, path, headers and body, for any policy, through every check in the order of the server: no panic; each refusal
//! is a status, one small JSON-RPC error and headers that can be sent.

use crate::json::error_in;
use arbitrary::{Result, Unstructured};
use bowline_proto::{
    http::{
        AllowedHosts, AllowedOrigins, Delete, Get, LastEventId, MAX_LAST_EVENT_ID_BYTES,
        MAX_SESSION_ID_BYTES, ModernMessage, Payload, Policy, Post, Refusal, SessionMode, StaleSession, Verb,
        admit, check_length, check_session_post, check_session_revision, cors_headers, negotiate, preflight,
        route_delete, route_get, route_post,
    },
    jsonrpc::{Message, parse},
    modern::{RequestDigest, RoundParams, check_request},
    revision::Revision,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "host", "origin", "content-type", "accept", "content-length", "mcp-session-id", "mcp-protocol-version", "last-event-id",
    "access-control-request-headers", "access-control-request-method", "authorization", "mcp-x", "mcp-method", "mcp-name",
];

#[rustfmt::skip]
const VALUES: &[&str] = &[
    "", "localhost", "localhost:8000", "127.0.0.1:1", "[::1]:80", "evil.example", "http://localhost:5173", "null", "*",
    "https://app.example.com", "application/json", "application/json; charset=utf-8", "text/event-stream",
    "application/json, text/event-stream", "*/*", "*/*;q=0", "text/*;q=0.0, */*", "a/b;x=\"\\\"", "0", "2", "99999999999999999999",
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2025-11-25,2025-11-25", "abc", "mcp-a, mcp-b,,x", "tools/call", "=?base64?dA==?=",
];

const BODIES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},1,{"jsonrpc":"2.0","id":2,"method":"initialize"}]"#,
    "[]",
    "",
];

pub fn run(data: &[u8]) {
    let _ = checked(&mut Unstructured::new(data));
}

fn checked(u: &mut Unstructured<'_>) -> Result<()> {
    let policy = policy(u)?;
    let method = match u.int_in_range(0..=6)? {
        0 | 1 => Method::POST,
        2 => Method::GET,
        3 => Method::DELETE,
        4 => Method::OPTIONS,
        5 => Method::HEAD,
        _ => match Method::from_bytes(u.arbitrary::<&[u8]>()?) {
            Ok(method) => method,
            Err(_) => return Ok(()),
        },
    };
    let path = if u.ratio(7, 8)? { *u.choose(&["/mcp", "/mcp/"])? } else { u.arbitrary::<&str>()? };
    let mut headers = HeaderMap::new();
    for _ in 0..u.int_in_range(0..=10)? {
        let name = if u.ratio(9, 10)? {
            HeaderName::from_static(u.choose(NAMES)?)
        } else if let Ok(name) = HeaderName::from_bytes(u.arbitrary::<&[u8]>()?) {
            name
        } else {
            continue;
        };
        let value = if u.ratio(3, 4)? { u.choose(VALUES)?.as_bytes() } else { u.arbitrary::<&[u8]>()? };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    // Most requests get past the first checks.
    if u.ratio(7, 8)? {
        headers.insert(header::HOST, HeaderValue::from_static("localhost:8000"));
        headers.remove(header::ORIGIN);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let body = match u.int_in_range(0..=2)? {
        0 => u.bytes(u.len())?,
        _ => u.choose(BODIES)?.as_bytes(),
    };
    if let Err(refusal) = road(&policy, &method, path, &headers, body) {
        told(&policy, &refusal);
    }
    let mut out = HeaderMap::new();
    cors_headers(&policy, headers.get(header::ORIGIN), &mut out);
    if let Some(allowed) = out.get(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        let origin = headers.get(header::ORIGIN).expect("an answer to an origin");
        assert!(allowed == origin || policy.origins.is_any());
        assert!(policy.origins.allow(origin.as_bytes(), policy.loopback));
    }
    Ok(())
}

fn policy(u: &mut Unstructured<'_>) -> Result<Policy> {
    let stale_session = *u.choose(&[StaleSession::NotFound, StaleSession::Ignore])?;
    let lists = ["https://app.example.com", "null", "*", "http://[::1]:8080"];
    let origins = AllowedOrigins::parse(&lists[..u.int_in_range(0..=4)?]).expect("origins");
    let hosts = AllowedHosts::parse(if u.arbitrary()? { &["mcp.example.com", "[::2]:443"][..] } else { &[] });
    let any: &str = u.arbitrary()?;
    let _ = (AllowedHosts::parse([any]), AllowedOrigins::parse([any]));
    Ok(Policy {
        path: "/mcp".into(),
        origins,
        hosts: hosts.expect("hosts"),
        loopback: u.arbitrary()?,
        mode: *u.choose(&[
            SessionMode::Stateful,
            SessionMode::Stateless { resumable: false, stale_session },
            SessionMode::Stateless { resumable: true, stale_session },
        ])?,
        body_limit: 4096,
        modern: u.arbitrary()?,
    })
}

/// As `bowline-server` does it.
fn road(
    policy: &Policy,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> std::result::Result<(), Refusal> {
    let verb = admit(policy, method, path, headers)?.verb;
    assert!(policy.serves(path));
    if verb == Verb::Preflight {
        assert_eq!(preflight(policy, headers).status, 204);
        return Ok(());
    }
    negotiate(verb, headers)?;
    let revision = Revision::V2025_03_26;
    match verb {
        Verb::Post => {
            check_length(policy, headers)?;
            match route_post(policy, headers, parse(Bytes::copy_from_slice(body))?)? {
                Post::Initialize(hello) => {
                    assert_eq!(&*hello.request.method, "initialize");
                    assert_eq!(hello.revision, Revision::negotiate(&hello.requested));
                }
                Post::Session(post) => {
                    assert_eq!(policy.mode, SessionMode::Stateful);
                    visible(post.session, MAX_SESSION_ID_BYTES);
                    no_initialize(&post.body);
                    check_session_post(revision, &post)?;
                }
                Post::Modern(post) => {
                    assert!(policy.modern && post.revision.is_modern());
                    if let ModernMessage::Request(request) = &post.message {
                        let meta = check_request(headers, request)?;
                        assert!(meta.capabilities.is_object());
                        let _ = RoundParams::of(request.params.as_ref());
                        let _ = RequestDigest::of(&request.method, request.params.as_ref());
                    }
                }
                Post::Stateless(post) => {
                    assert_ne!(policy.mode, SessionMode::Stateful);
                    no_initialize(&post.body);
                    assert!(!post.body.messages().any(|message| matches!(message, Message::Response(_))));
                    assert!(post.revision.features().batch || matches!(post.body, Payload::Single(_)));
                }
            }
        }
        Verb::Get => {
            let Get { session, header_revision, last_event_id } = route_get(policy, headers)?;
            assert_eq!(session.is_some(), policy.mode == SessionMode::Stateful);
            session.into_iter().for_each(|session| visible(session, MAX_SESSION_ID_BYTES));
            if let Some(LastEventId::Text(cursor)) = last_event_id {
                visible(cursor, MAX_LAST_EVENT_ID_BYTES);
            }
            check_session_revision(revision, header_revision, None)?;
        }
        Verb::Delete | Verb::Preflight => {
            let Delete { session, header_revision } = route_delete(policy, headers)?;
            visible(session, MAX_SESSION_ID_BYTES);
            check_session_revision(revision, header_revision, None)?;
        }
    }
    Ok(())
}

fn visible(text: &str, max: usize) {
    assert!((1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
}

fn no_initialize(body: &Payload) {
    for message in body.messages() {
        let (Message::Request(bowline_proto::jsonrpc::Request { method, .. })
        | Message::Notification(bowline_proto::jsonrpc::Notification { method, .. })) = message
        else {
            continue;
        };
        assert_ne!(&**method, "initialize");
    }
}

fn told(policy: &Policy, refusal: &Refusal) {
    let body = refusal.body();
    let (code, id) = error_in(&body);
    assert_eq!(id, refusal.id);
    assert!(matches!(code, -32700 | -32602..=-32600 | -32001 | -32020 | -32022), "{code}");
    let status = refusal.status.as_u16();
    assert!((400..500).contains(&status) || (status, code) == (200, -32602), "{status} {code}");
    assert!(body.len() < 4096, "a refusal of {} bytes", body.len());
    assert!(refusal.error.message.chars().all(|c| !c.is_control()), "{:?}", refusal.error.message);
    let mut headers = HeaderMap::new();
    refusal.write_headers(&mut headers);
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    if status == 405 {
        assert_eq!(headers[header::ALLOW], policy.methods().as_str());
    }
}
