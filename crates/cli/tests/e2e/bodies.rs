//! SEMANTICS 1.6 and 1.7: how large and how slow a body may be, and what has to be in it.

use crate::common::{assert_refused, assert_serves, exchange, ping, serve};
use bowline_testkit::{Answer, Raw};
use serde_json::{Value, json};
use std::fmt::Write as _;

const MEBIBYTE: usize = 1024 * 1024;

fn padded(bytes: usize) -> String {
    let mut message = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping", "params": { "pad": "" } });
    let empty = message.to_string().len();
    message["params"]["pad"] = "x".repeat(bytes - empty).into();
    message.to_string()
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_and_one_above_is_not() {
    let program = serve("").await;
    let session = program.client().await;
    let at = session.send("POST", &[], &padded(4 * MEBIBYTE)).await;
    assert_eq!(at.status(), 200);
    let mut above = session.send("POST", &[], &padded(4 * MEBIBYTE + 1)).await;
    assert_eq!(above.status(), 413);
    assert_eq!(above.json().await["error"]["code"], -32600);
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_refused_before_the_body_comes() {
    let program = serve("--body-limit 64KiB").await;
    let session = program.client().await;
    let body = padded(70_000);
    let request = session.request("POST", &[], &body);
    let head = &request[..request.len() - body.len()];
    let mut answer = exchange(&program, head).await;
    assert_eq!(answer.status(), 413, "only the head was sent");
    assert_eq!(answer.json().await["error"]["code"], -32600);
    assert!(answer.raw().is_closed().await);
    assert_serves(&session).await;
}

/// The whole body is sent before anything is read: a server that closed at once would reset the answer away.
#[tokio::test]
async fn the_answer_to_a_body_that_is_too_large_can_be_read_by_who_sends_it_all() {
    let program = serve("--body-limit 64KiB").await;
    let session = program.client().await;
    for megabytes in [1, 3, 6] {
        let body = padded(megabytes * MEBIBYTE);
        let mut chunked =
            session.request("POST", &[("Content-Length", ""), ("Transfer-Encoding", "chunked")], "");
        for part in body.as_bytes().chunks(100_000) {
            let _ = write!(chunked, "{:x}\r\n{}\r\n", part.len(), std::str::from_utf8(part).unwrap());
        }
        chunked.push_str("0\r\n\r\n");
        for request in [session.request("POST", &[], &body), chunked] {
            let mut answer = exchange(&program, request).await;
            assert_eq!(answer.status(), 413);
            assert_eq!(answer.json().await["error"]["code"], -32600);
        }
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_chunked_body_without_end_is_refused_at_the_limit() {
    let program = serve("--body-limit 64KiB").await;
    let session = program.client().await;
    let head = session.request("POST", &[("Content-Length", ""), ("Transfer-Encoding", "chunked")], "");
    let mut raw = Raw::connect(program.address()).await;
    raw.send(head).await;
    for _ in 0..20 {
        raw.send(format!("1000\r\n{}\r\n", "x".repeat(0x1000))).await;
    }
    let head = raw.head().await;
    assert_eq!(head.status, 413, "{}", head.text);
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_chunked_body_is_read_as_any_other() {
    let program = serve("").await;
    let session = program.client().await;
    let head = session.request("POST", &[("Content-Length", ""), ("Transfer-Encoding", "chunked")], "");
    let body = ping().to_string();
    let (first, second) = body.split_at(9);
    let chunks = format!("9;ext=1\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\nTrailer: 1\r\n\r\n", second.len());
    let mut answer = exchange(&program, head + &chunks).await;
    assert_eq!(answer.json().await["result"], json!({}));
}

#[tokio::test]
async fn a_length_that_lies_hurts_nobody_else() {
    let program = serve("").await;
    let session = program.client().await;
    let body = ping().to_string();
    // Too short: what follows is not another request.
    let request = session.request("POST", &[("Content-Length", "10")], &body);
    let mut answer = exchange(&program, request).await;
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.json().await["error"]["code"], -32700);
    // Too long, and the rest never comes: an end, then a reset.
    let request = session.request("POST", &[("Content-Length", "1000")], &body);
    let mut raw = Raw::connect(program.address()).await;
    raw.send(&request).await;
    raw.finish_sending().await;
    if let Ok(Some(head)) = raw.try_head("POST").await {
        assert_eq!(head.status, 400, "{}", head.text);
    }
    let mut raw = Raw::connect(program.address()).await;
    raw.send(&request).await;
    raw.abort();
    for length in ["-1", "1e3", "0x10", "99999999999999999999999", "5, 6"] {
        let answer = exchange(&program, session.request("POST", &[("Content-Length", length)], &body)).await;
        assert!(matches!(answer.status(), 400 | 413), "{length}: {}", answer.head.text);
    }
    assert_serves(&session).await;
}

/// The limit is 30 s and no option changes it; the kit's patience is less, so the wait is here.
#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() {
    let program = serve("").await;
    let session = program.client().await;
    let request = session.request("POST", &[("Content-Length", "1000")], "{\"jsonrpc\":");
    let mut raw = Raw::connect(program.address()).await;
    raw.send(request).await;
    let began = tokio::time::Instant::now();
    tokio::time::sleep(std::time::Duration::from_secs(25)).await;
    let mut answer = Answer::to(raw, "").await;
    let waited = tokio::time::Instant::now() - began;
    assert_eq!(answer.status(), 408, "{}", answer.head.text);
    assert!((28..=35).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(answer.json().await["error"]["code"], -32600);
    assert!(answer.raw().is_closed().await);
    assert_serves(&session).await;
}

#[tokio::test]
async fn what_is_not_json_is_a_parse_error() {
    let program = serve("").await;
    let session = program.client().await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}}}}}"#, nested(200));
    for body in [
        &b""[..],
        b" ",
        b"{",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
        b"not json",
        b"{'jsonrpc':'2.0'}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}",
        b"\x00\x01\x02",
    ] {
        let shown = String::from_utf8_lossy(body).into_owned();
        let head = session.request("POST", &[("Content-Length", &body.len().to_string())], "");
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        assert_refused(exchange(&program, request).await, 400, -32700, &shown).await;
    }
    let answer = session.send("POST", &[], &deep).await;
    assert_eq!(answer.status(), 400, "deep nesting");
    let answer = session.send("POST", &[], &nested(100_000)).await;
    assert_eq!(answer.status(), 400, "very deep nesting");
    assert_serves(&session).await;
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[tokio::test]
async fn json_that_is_no_message_is_an_invalid_request() {
    let program = serve("").await;
    let session = program.client().await;
    let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(201));
    for body in [
        "42",
        "null",
        "\"ping\"",
        "{}",
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1e400,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        &long_id,
    ] {
        let mut answer = session.send("POST", &[], body).await;
        assert_eq!(answer.status(), 400, "{body}: {}", answer.text().await);
        let error = answer.json().await;
        assert_eq!(error["error"]["code"], -32600, "{body}: {error}");
        assert_ne!(error.get("id"), Some(&Value::Null), "an error has the id of its request, or none");
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let program = serve("").await;
    let session = program.client().await;
    let long = format!("\"{}\"", "i".repeat(200));
    for id in ["0", "-5", "9007199254740993", "\"\"", "\"a\\u0041\\n\"", "\"1\"", "\"\u{2028}\"", &long] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let mut answer = session.send("POST", &[], &body).await;
        let text = answer.text().await;
        let (sent, came): (Value, Value) =
            (serde_json::from_str(id).unwrap(), serde_json::from_str(&text).unwrap());
        assert_eq!(came["id"], sent, "{text}");
        assert!(text.contains("9007199254740993") || !id.starts_with("90"), "{text}");
    }
}
