//! N: plain HTTP.

use super::scripted;
use crate::common::{
    OLDER, PRIMED, assert_error, assert_refused, assert_serves, exchange, fixture, ping, serve,
};
use bowline_testkit::{Session, initialize, text_of};
use serde_json::json;

#[tokio::test]
async fn n1_the_revision_of_a_header_counts_after_initialize_only() {
    let program = serve("").await;
    let nobody = Session::none(program.address());
    for header in ["", PRIMED, "2026-07-28", "2099-01-01", "nonsense"] {
        let headers = [("MCP-Protocol-Version", header)];
        let mut hello = nobody.send("POST", &headers, &initialize("2025-06-18").to_string()).await;
        assert_eq!(hello.status(), 200, "{header}");
        assert_eq!(hello.json().await["result"]["protocolVersion"], "2025-06-18", "{header}");
    }
    let session = program.session("2025-06-18").await;
    let body = ping().to_string();
    for (header, status, code) in [
        ("", 200, 0),
        ("2025-06-18", 200, 0),
        ("2025-03-26", 400, -32600),
        (PRIMED, 400, -32600),
        ("2099-01-01", 400, -32022),
        ("nonsense", 400, -32022),
    ] {
        let mut answer = session.send("POST", &[("MCP-Protocol-Version", header)], &body).await;
        match status {
            200 => assert_eq!(answer.status(), 200, "{header}"),
            _ => {
                assert_error(&mut answer, status, code, header).await;
            }
        }
    }
}

#[tokio::test]
async fn n2_accept_is_read_as_http_says() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    for (accept, status) in [
        ("application/json, text/event-stream", 200),
        ("text/event-stream, application/json", 200),
        ("text/event-stream;q=0.9, application/json;q=0.1", 200),
        ("application/json; charset=utf-8, text/event-stream", 200),
        ("application/*, text/*", 200),
        ("*/*", 200),
        ("", 200),
        ("application/json", 406),
        ("text/html", 406),
    ] {
        let answer = session.send("POST", &[("Accept", accept)], &body).await;
        match status {
            200 => assert_eq!(answer.status(), 200, "{accept}"),
            _ => {
                let refused = assert_refused(answer, 406, -32600, accept).await;
                let message = refused["error"]["message"].as_str().unwrap();
                assert!(message.contains("text/event-stream"), "says what is missing: {message}");
            }
        }
    }
    let two = session.request("POST", &[("Accept", "application/json")], &body);
    let two = two.replacen("Host:", "Accept: text/event-stream\r\nHost:", 1);
    assert_eq!(exchange(&program, two).await.status(), 200, "in two lines");
}

#[tokio::test]
async fn n3_a_notification_is_202_with_nothing() {
    for options in ["", "--response sse", "--session-mode stateless"] {
        let program = serve(options).await;
        let mut hello = Session::none(program.address()).post(&initialize(PRIMED)).await;
        let mut session = Session::none(program.address()).with_id(hello.header("mcp-session-id"));
        hello.text().await;
        session.revision = PRIMED.into();
        let mut answer = session.notify("notifications/initialized", json!({})).await;
        assert_eq!((answer.status(), answer.header("content-type")), (202, None), "{options}");
        assert!(matches!(answer.header("content-length"), None | Some("0")), "{}", answer.head.text);
        assert_eq!(answer.header("transfer-encoding"), None, "{}", answer.head.text);
        assert_eq!(answer.text().await, "");
    }
}

#[tokio::test]
async fn n4_the_path_is_served_with_and_without_a_slash_and_never_redirected() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    for path in ["/mcp", "/mcp/"] {
        for (method, body) in [("POST", body.as_str()), ("GET", "")] {
            let request = session.request(method, &[], body).replacen(" /mcp ", &format!(" {path} "), 1);
            assert_eq!(exchange(&program, request).await.status(), 200, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn n5_a_web_page_may_send_and_read_every_header_that_it_needs() {
    let program = serve("").await;
    let session = program.client().await;
    let origin = ("Origin", "http://localhost:5173");
    let wanted = "content-type, mcp-protocol-version, mcp-session-id, last-event-id, authorization, mcp-method, mcp-name, \
                  mcp-param-city";
    let headers =
        [origin, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", wanted)];
    let preflight = session.send("OPTIONS", &headers, "").await;
    assert_eq!(preflight.status(), 204);
    let allowed = preflight.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    assert!(wanted.split(", ").all(|name| allowed.split(',').any(|a| a.trim() == name)), "{allowed}");
    let methods = preflight.header("access-control-allow-methods").unwrap().to_owned();
    assert!(["GET", "POST", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
    for (status, answer) in [
        (200, session.send("POST", &[origin], &ping().to_string()).await),
        (200, session.send("POST", &[origin], &initialize(PRIMED).to_string()).await),
        (400, session.send("POST", &[origin], "{").await),
        (404, session.with_id(Some("nobody")).send("POST", &[origin], &ping().to_string()).await),
    ] {
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{status}");
        let exposed = answer.header("access-control-expose-headers").unwrap().to_ascii_lowercase();
        assert!(exposed.contains("mcp-session-id") && exposed.contains("mcp-protocol-version"), "{exposed}");
    }
}

#[tokio::test]
async fn n6_hosts_and_origins_are_checked_where_it_helps_and_the_option_is_named() {
    let loopback = serve("").await;
    let behind_proxy = serve("--allow-host mcp.example.com --trust-proxy").await;
    let forwarded = ("X-Forwarded-Host", "mcp.example.com");
    for (program, header, refused) in [
        (&loopback, ("Host", "mcp.example.com"), Some("--allow-host")),
        (&loopback, ("Origin", "https://evil.example"), Some("--allow-origin")),
        (&loopback, ("Origin", "null"), Some("--allow-origin")),
        (&loopback, ("Host", "localhost"), None),
        (&behind_proxy, ("Host", "mcp.example.com"), None),
        (&behind_proxy, ("Host", "mcp.example.com:443"), None),
        (&behind_proxy, forwarded, None),
        (&behind_proxy, ("X-Forwarded-Host", "evil.example"), Some("--allow-host")),
    ] {
        let nobody = Session::none(program.address());
        let mut headers = vec![header];
        if header.0 != "Host" && header.0 != "Origin" {
            headers.push(("Host", "localhost"));
        }
        let answer = nobody.send("POST", &headers, &initialize(PRIMED).to_string()).await;
        match refused {
            None => assert_eq!(answer.status(), 200, "{header:?}: {}", answer.head.text),
            Some(option) => {
                let body = assert_refused(answer, 403, -32600, header.1).await;
                assert!(body["error"]["message"].as_str().unwrap().contains(option), "{body}");
            }
        }
    }
    // Where others may connect anyway, every name is taken.
    let open = fixture().listen("0.0.0.0:0".parse().unwrap()).start().await;
    let port = open.address().port();
    let session = Session::none(([127, 0, 0, 1], port).into());
    let answer = session.send("POST", &[("Host", "mcp.example.com")], &initialize(PRIMED).to_string()).await;
    assert_eq!(answer.status(), 200);
}

/// Answers every request in an array, with a notification in it.
const BATCHING: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}}
    else:
        result = message.get("params")
    if "id" in message:
        print(json.dumps([{"jsonrpc": "2.0", "id": message["id"], "result": result},
                          {"jsonrpc": "2.0", "method": "notifications/x"}]))
"#;

#[tokio::test]
async fn n7_an_array_is_served_where_its_revision_has_them_and_refused_elsewhere() {
    let program = serve("").await;
    let session = program.session("2025-03-26").await;
    let mut answer = session.post(&json!([ping(), { "jsonrpc": "2.0", "method": "notifications/x" }])).await;
    assert_eq!((answer.status(), answer.json().await.as_array().map(Vec::len)), (200, Some(1)));
    assert_refused(session.post(&json!([])).await, 400, -32600, "empty").await;
    for revision in OLDER.into_iter().chain([PRIMED]).filter(|revision| *revision != "2025-03-26") {
        let session = program.session(revision).await;
        for body in [json!([ping()]), json!([])] {
            assert_refused(session.post(&body).await, 400, -32600, revision).await;
        }
        assert_serves(&session).await;
    }
    // On stdio.
    let program = scripted(BATCHING).start().await;
    let session = program.client().await;
    assert_eq!(session.ask("x/any", json!({ "n": 1 })).await.json().await["result"], json!({ "n": 1 }));
}

const ANN: &str = "Bearer ann-0123456789abcdef";
const ANN_LATER: &str = "Bearer ann-fedcba9876543210";
const BEN: &str = "Bearer ben-0123456789abcdef";

#[tokio::test]
async fn n8_a_session_belongs_to_a_name_and_outlives_its_tokens() {
    let tokens = [("ann", ANN), ("ann", ANN_LATER), ("ben", BEN)];
    let tokens =
        tokens.map(|(name, bearer)| format!("{name}={}", bearer.trim_start_matches("Bearer "))).join(",");
    let program = fixture().with("--response sse").env("BOWLINE_AUTH_TOKENS", tokens).start().await;
    let nobody = Session::none(program.address());
    let hello = nobody.send("POST", &[("Authorization", ANN)], &initialize(PRIMED).to_string()).await;
    let mut session = nobody.with_id(hello.header("mcp-session-id"));
    session.revision = PRIMED.into();
    let secret = session.tool("echo", &json!({ "text": "a secret" })).to_string();
    let mut answer = session.send("POST", &[("Authorization", ANN)], &secret).await;
    let cursor = answer.block().await.unwrap().id.unwrap();
    answer.abort();
    let poll = async |bearer| {
        session.send("GET", &[("Authorization", bearer), ("Last-Event-ID", cursor.as_str())], "").await
    };
    // An expired token is refused and ends nothing; another one of the same name resumes.
    assert_eq!(poll("Bearer expired-0123456789abcdef").await.status(), 401);
    assert_eq!(text_of(&poll(ANN_LATER).await.response().await), "a secret");
    // To somebody else there is no such session.
    let unknown = session.with_id(Some("nobody"));
    for (method, body) in [("POST", ping().to_string()), ("GET", String::new()), ("DELETE", String::new())] {
        let headers = [("Authorization", BEN), ("Last-Event-ID", if method == "GET" { &cursor } else { "" })];
        let mut foreign = session.send(method, &headers, &body).await;
        let expected = unknown.send(method, &headers, &body).await.text().await;
        assert_eq!((foreign.status(), foreign.text().await), (404, expected), "{method}");
    }
    assert_eq!(
        session.send("POST", &[("Authorization", ANN_LATER)], &ping().to_string()).await.status(),
        200
    );
}
