//! SEMANTICS 1: the order of checks, up to the body.

use crate::common::{assert_error, assert_refused, assert_serves, exchange, ping, serve};
use bowline_testkit::{PATIENCE, Session, eventually, initialize};

/// Every header that is wrong in its own way; each later check would refuse the request too.
#[tokio::test]
async fn the_first_check_that_fails_answers() {
    let program = serve("").await;
    let mut session = Session::none(program.address());
    session.id = Some("nobody".into());
    session.revision = "1999-01-01".into();
    let evil = ("Origin", "https://evil.example");
    let rebound = ("Host", "rebound.example");
    let (kind, accept) = (("Content-Type", "text/plain"), ("Accept", "text/html"));
    for (headers, status, code) in [
        (&[evil, rebound, kind, accept][..], 403, -32600),
        (&[rebound, kind, accept], 403, -32600),
        (&[kind, accept], 415, -32600),
        (&[accept], 406, -32600),
        (&[], 400, -32700),
    ] {
        assert_refused(session.send("POST", headers, "{").await, status, code, &format!("{headers:?}")).await;
    }
    // The path comes after where it came from, and before the method.
    let request = |method: &str, path: &str, headers: &[(&str, &str)]| {
        session.request(method, headers, "").replacen(" /mcp ", &format!(" {path} "), 1)
    };
    let answer = exchange(&program, request("PUT", "/elsewhere", &[evil])).await;
    assert_refused(answer, 403, -32600, "origin before path").await;
    let answer = exchange(&program, request("PUT", "/elsewhere", &[])).await;
    assert_refused(answer, 404, -32600, "path before method").await;
    let answer = exchange(&program, request("PUT", "/mcp", &[])).await;
    assert_refused(answer, 405, -32600, "method").await;
    // A session that does not exist comes after everything that can be said without it.
    assert_eq!(session.post(&ping()).await.status(), 400, "a revision that nobody serves");
    session.revision = "2025-11-25".into();
    assert_eq!(session.post(&ping()).await.status(), 404);
}

#[tokio::test]
async fn origins_of_this_machine_are_allowed_and_others_are_told_the_option() {
    let program = serve("").await;
    let session = program.client().await;
    for origin in ["http://localhost:5173", "http://127.0.0.1", "https://localhost", "http://[::1]:8080"] {
        let answer = session.send("POST", &[("Origin", origin)], &ping().to_string()).await;
        assert_eq!(answer.status(), 200, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    }
    for origin in ["https://evil.example", "http://localhost.evil.example", "null", "http://127.0.0.1.nip.io"]
    {
        for method in ["POST", "GET", "DELETE", "OPTIONS"] {
            let answer = session.send(method, &[("Origin", origin)], "").await;
            let body = assert_refused(answer, 403, -32600, origin).await;
            let message = body["error"]["message"].as_str().unwrap();
            assert!(message.contains("--allow-origin"), "{message}");
        }
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_configured_origin_and_host_are_allowed() {
    let program = serve("--allow-origin https://app.example.com --allow-host mcp.example.com").await;
    let session = program.client().await;
    let headers = [("Origin", "https://app.example.com"), ("Host", "mcp.example.com")];
    let mut answer = session.send("POST", &headers, &ping().to_string()).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    for headers in [[("Origin", "https://app.example.org")], [("Host", "mcp.example.org")]] {
        let answer = session.send("POST", &headers, &ping().to_string()).await;
        assert_refused(answer, 403, -32600, headers[0].1).await;
    }
}

#[tokio::test]
async fn hosts_that_are_not_this_machine_are_refused_on_loopback() {
    let program = serve("").await;
    let session = program.client().await;
    let port = program.address().port();
    for host in ["localhost", "127.0.0.1", &format!("localhost:{port}"), "[::1]:8000"] {
        assert_eq!(
            session.send("POST", &[("Host", host)], &ping().to_string()).await.status(),
            200,
            "{host}"
        );
    }
    for host in ["rebound.example", "localhost.evil.example:80", "169.254.169.254", "0.0.0.0.example"] {
        let answer = session.send("POST", &[("Host", host)], &ping().to_string()).await;
        let body = assert_refused(answer, 403, -32600, host).await;
        assert!(body["error"]["message"].as_str().unwrap().contains("--allow-host"), "{body}");
    }
    let twice = session.request("POST", &[], "{}").replacen("Host:", "Host: localhost\r\nHost:", 1);
    assert_eq!(exchange(&program, twice).await.status(), 400);
}

/// A web page may not read the refusal, so the log has it: once in a while, whatever is sent.
#[tokio::test]
async fn refused_origins_and_hosts_are_in_the_log() {
    let program = serve("").await;
    let session = program.client().await;
    for _ in 0..20 {
        for header in [("Origin", "https://app.example"), ("Host", "mcp.example")] {
            assert_eq!(session.send("POST", &[header], "").await.status(), 403);
        }
    }
    let told =
        || program.said().lines().filter(|line| line.contains("WARN") && line.contains("refused")).count();
    eventually("the log", PATIENCE, || told() > 0).await;
    assert!(
        program.said().contains("--allow-origin https://app.example would allow it"),
        "{}",
        program.said()
    );
    assert!(told() <= 2, "{}", program.said());
}

#[tokio::test]
async fn a_preflight_tells_methods_and_headers() {
    let program = serve("").await;
    let session = Session::none(program.address());
    let origin = ("Origin", "http://localhost:5173");
    let asked = ("Access-Control-Request-Headers", "content-type,mcp-session-id,mcp-param-city,x-other");
    let headers = [origin, ("Access-Control-Request-Method", "POST"), asked];
    let mut answer = session.send("OPTIONS", &headers, "").await;
    assert_eq!((answer.status(), answer.text().await.as_str()), (204, ""));
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1));
    let methods = answer.header("access-control-allow-methods").unwrap();
    assert!(["POST", "GET", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
    let allowed = answer.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
    for name in ["content-type", "authorization", "last-event-id", "mcp-session-id", "mcp-protocol-version"] {
        assert!(allowed.contains(name), "{name} in {allowed}");
    }
    assert!(allowed.contains("mcp-param-city") && !allowed.contains("x-other"), "{allowed}");
    assert_exposed(answer.header("access-control-expose-headers"));
    // No preflight, and yet an answer.
    assert_eq!(session.send("OPTIONS", &[], "").await.status(), 204);
}

fn assert_exposed(exposed: Option<&str>) {
    let exposed = exposed.unwrap_or_default().to_ascii_lowercase();
    for name in ["mcp-session-id", "mcp-protocol-version", "www-authenticate", "retry-after"] {
        assert!(exposed.contains(name), "{name} in {exposed:?}");
    }
}

#[tokio::test]
async fn a_web_page_can_read_every_answer() {
    let program = serve("").await;
    let session = program.client().await;
    let origin = ("Origin", "http://localhost:5173");
    let body = ping().to_string();
    let no_session = session.with_id(Some("nobody"));
    for (status, answer) in [
        (200, session.send("POST", &[origin], &body).await),
        (202, session.send("POST", &[origin], r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await),
        (400, session.send("POST", &[origin], "{").await),
        (404, no_session.send("POST", &[origin], &body).await),
        (405, session.send("PUT", &[origin], "").await),
        (406, session.send("POST", &[origin, ("Accept", "text/html")], &body).await),
        (415, session.send("POST", &[origin, ("Content-Type", "text/html")], &body).await),
        (403, session.send("POST", &[origin, ("Host", "rebound.example")], &body).await),
        (200, session.send("GET", &[origin], "").await),
        (204, session.send("DELETE", &[origin], "").await),
    ] {
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{status}");
        assert_exposed(answer.header("access-control-expose-headers"));
    }
}

#[tokio::test]
async fn paths_and_methods() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    for (path, status) in [
        ("/mcp", 200),
        ("/mcp/", 200),
        ("/mcp?key=value", 200),
        ("/mcp/?", 200),
        ("/mcp//", 404),
        ("/MCP", 404),
        ("/", 404),
        ("/mcp/more", 404),
        ("//mcp", 404),
        ("/sse", 404),
        ("/..%2fmcp", 404),
        ("*", 404),
    ] {
        let request = session.request("POST", &[], &body).replacen(" /mcp ", &format!(" {path} "), 1);
        let mut answer = exchange(&program, request).await;
        assert_eq!(answer.status(), status, "{path}");
        if status == 404 {
            assert_error(&mut answer, 404, -32600, path).await;
        }
    }
    for method in ["PUT", "PATCH", "TRACE", "post", "PROPFIND"] {
        let answer = session.send(method, &[("Content-Length", "0")], "").await;
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        assert!(["POST", "GET", "DELETE"].iter().all(|served| allow.contains(served)), "{method}: {allow}");
        assert_refused(answer, 405, -32600, method).await;
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn another_path_is_served_where_it_is_configured() {
    let program = serve("--path /tools/mcp").await;
    assert!(program.url().ends_with("/tools/mcp"), "{}", program.url());
    let session = Session::none(program.address());
    let request = session.request("POST", &[], &initialize("2025-11-25").to_string());
    let there = request.replacen(" /mcp ", " /tools/mcp ", 1);
    assert_eq!(exchange(&program, there).await.status(), 200);
    assert_refused(exchange(&program, request).await, 404, -32600, "/mcp").await;
}

#[tokio::test]
async fn only_json_is_taken() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    for kind in ["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"] {
        assert_eq!(session.send("POST", &[("Content-Type", kind)], &body).await.status(), 200, "{kind}");
    }
    for kind in [
        "",
        "text/plain",
        "application/jsonp",
        "application/json-patch+json",
        "json",
        "application/x-www-form-urlencoded",
    ] {
        let answer = session.send("POST", &[("Content-Type", kind)], &body).await;
        assert_refused(answer, 415, -32600, kind).await;
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn both_kinds_have_to_be_accepted() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    for accept in [
        "",
        "*/*",
        "application/json, text/event-stream",
        "text/event-stream;q=0.1,application/json;q=0.2",
        "application/*, text/*",
        "text/event-stream, */*",
        "APPLICATION/JSON, Text/Event-Stream",
    ] {
        assert_eq!(session.send("POST", &[("Accept", accept)], &body).await.status(), 200, "{accept}");
    }
    for accept in [
        "application/json",
        "text/event-stream",
        "text/html",
        "application/json, text/event-stream;q=0",
        "application/json, text/plain",
    ] {
        let answer = session.send("POST", &[("Accept", accept)], &body).await;
        assert_refused(answer, 406, -32600, accept).await;
    }
    let twice = session.request("POST", &[("Accept", "application/json")], &body).replacen(
        "Host:",
        "Accept: text/event-stream\r\nHost:",
        1,
    );
    assert_eq!(exchange(&program, twice).await.status(), 200, "in two headers");
    for (accept, status) in [
        ("text/event-stream", 200),
        ("*/*", 200),
        ("", 200),
        ("application/json", 406),
        ("text/event-stream;q=0", 406),
    ] {
        let answer = session.send("GET", &[("Accept", accept)], "").await;
        assert_eq!(answer.status(), status, "GET {accept}");
    }
    assert_serves(&session).await;
}
