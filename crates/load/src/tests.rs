//! The load against servers that are written out here, byte by byte.

use super::{turns::MAX_FAILURES_IN_A_ROW, *};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// A server that answers each request with what `answer` makes of its text.
async fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut buf = vec![0; 65_536];
                loop {
                    let Ok(len @ 1..) = stream.read(&mut buf).await else { return };
                    let answer = answer(std::str::from_utf8(&buf[..len]).unwrap());
                    // In pieces, so that nothing depends on what comes together.
                    for piece in answer.as_bytes().chunks(7) {
                        if stream.write_all(piece).await.is_err() {
                            return;
                        }
                    }
                    if answer.contains("Connection: close") {
                        return;
                    }
                }
            });
        }
    });
    Target::find(&url, &[("Authorization".into(), "Bearer t".into())]).await.unwrap()
}

fn json(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn chunked(events: &str) -> String {
    let (one, two) = events.split_at(events.len() / 2);
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x};x=y\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    )
}

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;

fn plan(most: u64) -> Plan {
    Plan::new(2, Duration::from_secs(20)).at_most(most)
}

#[tokio::test]
async fn calls_are_counted_and_what_is_no_result_is_not() {
    let target = server(|request| {
        assert!(request.contains("Host: 127.0.0.1:") && request.contains("Authorization: Bearer t\r\n"));
        json(RESULT)
    })
    .await;
    let template = Template::tool("echo", "{}");
    let outcome = calls(&target, plan(50), &[], &template).await;
    assert_eq!((outcome.done, outcome.failed, outcome.latency.len()), (50, 0, 50));
    assert!(outcome.per_second() > 0.0);

    let target = server(|_| json(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602}}"#)).await;
    let outcome = calls(&target, plan(50), &[], &template).await;
    assert_eq!((outcome.done, outcome.failed), (0, u64::from(2 * MAX_FAILURES_IN_A_ROW)));
    assert!(outcome.failure.unwrap().contains("-32602"));
}

#[tokio::test]
async fn every_framing_is_read_and_a_closed_connection_is_opened_anew() {
    let asked = AtomicUsize::new(0);
    let target = server(move |_| match asked.fetch_add(1, Relaxed) % 4 {
        0 => json(RESULT),
        1 => chunked(&format!("id: 1\ndata:\n\ndata: {RESULT}\n\n")),
        2 => format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{RESULT}"),
        _ => format!("HTTP/1.1 100 Continue\r\n\r\n{}", json(RESULT)),
    })
    .await;
    let outcome =
        calls(&target, Plan { connections: 1, ..plan(12) }, &[], &Template::new("ping", "{}")).await;
    assert_eq!((outcome.done, outcome.failure), (12, None));
}

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let target = server(|request| {
        if request.starts_with("DELETE") {
            assert!(request.contains("Mcp-Session-Id: s1\r\n"));
            return "HTTP/1.1 204 No Content\r\n\r\n".into();
        }
        if request.contains("\"initialize\"") {
            assert!(!request.contains("Mcp-Session-Id"));
            return chunked(&format!("data: {RESULT}\n\n"))
                .replace("\r\ntransfer", "\r\nmcp-session-id: s1\r\ntransfer");
        }
        assert!(request.contains("MCP-Protocol-Version: 2025-06-18\r\n"));
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into()
    })
    .await;
    let outcome = sessions(&target, plan(6)).await;
    assert_eq!((outcome.done, outcome.failure), (6, None));
    let opened = open_sessions(&target, 5, 2).await.unwrap();
    assert_eq!(opened.len(), 5);
    end_sessions(&target, &opened).await.unwrap();
    assert_eq!(opened[0], Session { id: Some("s1".into()), revision: "2025-06-18".into() });
}

#[tokio::test]
async fn a_parked_call_is_polled_for_under_the_newest_id_until_its_response() {
    let target = server(|request| {
        if request.starts_with("POST") {
            return chunked("id: a0\nretry: 10\ndata:\n\nid: a1\ndata: {\"method\":\"x\"}\n\n");
        }
        let at = request.find("Last-Event-ID: a").unwrap() + 16;
        let seen: usize = request[at..].split('\r').next().unwrap().parse().unwrap();
        if seen < 4 {
            chunked(&format!("id: a{}\ndata:\n\n", seen + 1))
        } else {
            chunked(&format!("id: a5\ndata: {RESULT}\n\n"))
        }
    })
    .await;
    let sessions = [Session::none()];
    let hold = Duration::from_secs(5);
    let parked = park(&target, &sessions, &Template::tool("slow", "{}"), 3, 2, hold).await.unwrap();
    assert_eq!(parked, vec![Parked { session: 0, last_event_id: "a1".into() }; 3]);
    let outcome = polls(&target, plan(1000), &sessions, &parked, hold).await;
    // Three with nothing new and one with the response, for each call.
    assert_eq!((outcome.done, outcome.events, outcome.failure), (12, 3, None));
}

#[tokio::test]
async fn streams_stay_open_and_are_counted() {
    let target = server(|_| {
        let event = "data: {\"method\":\"x\"}\n\n";
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n{event}{event}")
    })
    .await;
    let opened = streams(&target, &vec![Session::none(); 3], None).await.unwrap();
    assert_eq!(opened.len(), 3);
    while opened.messages() < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!((opened.messages(), opened.ended()), (6, 0));
    let target = server(|_| json("{}").replace("200 OK", "405 No")).await;
    let refused = streams(&target, &[Session::none()], None).await.unwrap_err();
    assert!(refused.to_string().contains("405"), "{refused}");
}

#[tokio::test]
async fn urls_and_headers_that_cannot_be_sent_are_refused() {
    for (url, said) in [
        ("https://example.com/mcp", "TLS"),
        ("example.com/mcp", "http://"),
        ("http:///mcp", "host"),
        ("http://u@h/mcp", "a user name"),
        ("http://127.0.0.1/a b", "characters"),
    ] {
        let error = Target::find(url, &[]).await.unwrap_err().to_string();
        assert!(error.contains(said), "{url}: {error}");
    }
    for (name, value) in [("", "x"), ("a b", "x"), ("a", "x\r\ny: z"), ("a", "\u{e9}")] {
        let headers = [(name.to_owned(), value.to_owned())];
        assert!(Target::find("http://127.0.0.1:1/", &headers).await.is_err(), "{name:?} {value:?}");
    }
}
