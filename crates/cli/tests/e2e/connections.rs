//! What clients do to connections: odd requests, old versions, halves, and many at once.

use crate::common::{assert_serves, exchange, ping, serve};
use bowline_testkit::{Answer, Raw};
use serde_json::json;

#[tokio::test]
async fn one_connection_serves_many_requests_refusals_among_them() {
    let program = serve("").await;
    let session = program.client().await;
    let good = session.request("POST", &[], &ping().to_string());
    let refused = session.request("POST", &[], "{");
    let gone = session.with_id(Some("nobody")).request("POST", &[], &ping().to_string());
    let mut raw = Raw::connect(program.address()).await;
    for (request, status) in [(&good, 200), (&refused, 400), (&good, 200), (&gone, 404), (&good, 200)] {
        let mut answer = Answer::to(raw, request).await;
        assert_eq!(answer.status(), status);
        answer.text().await;
        raw = answer.into_raw();
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let program = serve("").await;
    let session = program.client().await;
    let echo = |n: u64| session.tool("echo", &json!({ "text": n.to_string() })).to_string();
    let all: String = (0..10).map(|n| session.request("POST", &[], &echo(n))).collect();
    let mut raw = Raw::connect(program.address()).await;
    raw.send(all).await;
    for n in 0..10 {
        assert_eq!(raw.head().await.status, 200);
        let body: serde_json::Value = serde_json::from_slice(&raw.body().await).unwrap();
        assert_eq!(body["result"]["content"][0]["text"], n.to_string());
    }
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let program = serve("").await;
    let session = program.client().await;
    let mut raw = Raw::connect(program.address()).await;
    raw.send_bytewise(session.request("POST", &[], &ping().to_string())).await;
    assert_eq!(raw.head().await.status, 200);
    assert_eq!(raw.body().await, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

#[tokio::test]
async fn a_plain_answer_leaves_in_one_piece() {
    let program = serve("").await;
    let session = program.client().await;
    for _ in 0..20 {
        let mut answer = session.post(&ping()).await;
        answer.text().await;
        assert_eq!(answer.raw().reads.len(), 1, "head and body come together: {:?}", answer.raw().reads);
    }
}

#[tokio::test]
async fn http_1_0_is_served_and_closed() {
    let program = serve("").await;
    let session = program.client().await;
    let old = |request: String| request.replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut answer = exchange(&program, old(session.request("POST", &[], &ping().to_string()))).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json().await["result"], json!({}));
    assert!(answer.raw().is_closed().await);
    // A stream, which has no chunks there: it ends with its connection.
    let slow = session.tool("slow", &json!({ "ms": 1200 })).to_string();
    let mut answer = exchange(&program, old(session.request("POST", &[], &slow))).await;
    assert!(answer.is_stream() && answer.header("transfer-encoding").is_none(), "{}", answer.head.text);
    assert_eq!(answer.messages().await.len(), 1);
}

#[tokio::test]
async fn an_absolute_target_is_served() {
    let program = serve("").await;
    let session = program.client().await;
    let target = format!(" http://{}/mcp ", program.address());
    let request = session.request("POST", &[], &ping().to_string()).replacen(" /mcp ", &target, 1);
    assert_eq!(exchange(&program, request).await.status(), 200);
}

#[tokio::test]
async fn what_is_no_http_is_refused_or_closed_and_hurts_nobody() {
    let program = serve("").await;
    let session = program.client().await;
    for bytes in [
        &b"\r\n\r\n\r\n\r\nGARBAGE\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"POST /mcp\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00\x00\x00\x00\x00",
        b"POST /mcp HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n folded: header\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /m\xffcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        let mut raw = Raw::connect(program.address()).await;
        raw.send(bytes).await;
        raw.finish_sending().await;
        match raw.try_head("POST").await {
            Ok(Some(head)) => {
                assert!((400..500).contains(&head.status), "{shown:?}: {}", head.text);
                let body = String::from_utf8(raw.body().await).unwrap();
                assert!(!body.contains('<'), "no page for browsers: {body}");
            }
            Ok(None) => {}
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::TimedOut, "{shown:?}"),
        }
    }
    assert_serves(&session).await;
}

/// A request with both framings is how requests are smuggled past a proxy: what follows it must not be taken for a request.
#[tokio::test]
async fn two_framings_smuggle_nothing() {
    let program = serve("").await;
    let session = program.client().await;
    let hidden = session.request("DELETE", &[], "");
    let headers = [("Transfer-Encoding", "chunked"), ("Content-Length", "4")];
    let both = session.request("POST", &headers, "0\r\n\r\n") + &hidden;
    let mut raw = Raw::connect(program.address()).await;
    raw.send(both).await;
    raw.finish_sending().await;
    let head = raw.head().await;
    assert_eq!(head.status, 400, "{}", head.text);
    let _ = raw.body().await;
    assert!(raw.is_closed().await, "the connection cannot be trusted any more");
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_client_that_waits_for_100_is_told_to_go_on_or_why_not() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    let expecting = |headers: &[(&str, &str)]| {
        let mut all = vec![("Expect", "100-continue")];
        all.extend_from_slice(headers);
        let request = session.request("POST", &all, &body);
        request[..request.len() - body.len()].to_owned()
    };
    let mut raw = Raw::connect(program.address()).await;
    raw.send(expecting(&[])).await;
    assert_eq!(raw.head().await.status, 100);
    raw.send(&body).await;
    assert_eq!(raw.head().await.status, 200);
    for (header, status) in [
        (("Content-Type", "text/plain"), 415),
        (("Accept", "text/html"), 406),
        (("Content-Length", "99999999"), 413),
    ] {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(expecting(&[header])).await;
        assert_eq!(raw.head().await.status, status, "refused before the body is asked for");
    }
}

#[tokio::test]
async fn head_is_405_without_a_body() {
    let program = serve("").await;
    let session = program.client().await;
    let mut raw = Raw::connect(program.address()).await;
    raw.send(session.request("HEAD", &[], "")).await;
    let head = raw.try_head("HEAD").await.unwrap().unwrap();
    assert_eq!(head.status, 405);
    assert!(head.header("allow").is_some());
    raw.send(session.request("POST", &[], &ping().to_string())).await;
    assert_eq!(raw.head().await.status, 200, "nothing came between");
}

#[tokio::test]
async fn headers_are_bounded() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    let some = "x".repeat(8 * 1024);
    assert_eq!(session.send("POST", &[("X-Padding", &some)], &body).await.status(), 200, "8 KiB are usual");
    let large = "x".repeat(2 * 1024 * 1024);
    let many: Vec<_> = (0..2000).map(|n| (format!("X-{n}"), "1")).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    for headers in [&[("X-Padding", large.as_str())][..], &many] {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(session.request("POST", headers, &body)).await;
        match raw.try_head("POST").await {
            Ok(Some(head)) => assert!(matches!(head.status, 400 | 431), "{}", head.text),
            Ok(None) => {}
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::TimedOut),
        }
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn halves_of_requests_and_resets_leave_no_trace() {
    let program = serve("").await;
    let session = program.client().await;
    let request = session.request("POST", &[], &session.tool("echo", &json!({ "text": "x" })).to_string());
    for at in (0..request.len()).step_by(7) {
        let mut raw = Raw::connect(program.address()).await;
        raw.send(&request[..at]).await;
        if at % 2 == 0 {
            raw.abort();
        }
    }
    assert_serves(&session).await;
    assert!(
        program.received().iter().filter(|m| m["method"] == "tools/call").count() == 1,
        "halves do not run"
    );
}

#[tokio::test]
async fn probes_answer_before_every_check() {
    let program = serve("").await;
    for path in ["/healthz", "/readyz"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: whatever.example\r\nOrigin: https://evil.example\r\n\r\n");
        assert_eq!(exchange(&program, request).await.status(), 200, "{path}");
    }
}
