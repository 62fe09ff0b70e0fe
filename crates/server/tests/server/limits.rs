//! What one client may take, and that it costs nobody else anything.

use crate::client::{Server, initialize};
use bowline_server::{Endpoint, Options, Principal, Rate, Remote, StaticTokens};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Who sends.
#[derive(Clone, Copy, Default)]
struct From {
    address: &'static str,
    principal: Option<&'static str>,
    session: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
}

fn address(address: &'static str) -> From {
    From { address, ..From::default() }
}

async fn send(endpoint: &Endpoint, from: From, message: &Value) -> Response<bowline_server::Body> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost:8000")
        .header("content-type", "application/json")
        .header("accept", "*/*")
        .extension(Remote(from.address.parse().unwrap()));
    if let Some(principal) = from.principal {
        request = request.extension(Principal(principal.into()));
    }
    if let Some(session) = from.session {
        request = request.header("mcp-session-id", session);
    }
    for (name, value) in from.headers {
        request = request.header(*name, *value);
    }
    endpoint.handle(request.body(Full::new(Bytes::from(message.to_string()))).unwrap()).await
}

async fn hello(endpoint: &Endpoint, from: From) -> StatusCode {
    send(endpoint, from, &initialize("2025-11-25")).await.status()
}

fn rate(requests: u32, burst: u32) -> Options {
    let mut options = Options::default();
    options.rate = Some(Rate { requests, per: Duration::from_secs(60), burst });
    options
}

#[tokio::test(start_paused = true)]
async fn who_sends_too_often_waits_and_nobody_else_does() {
    let server = Server::with(rate(60, 3));
    let (a, b) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
    for _ in 0..3 {
        assert_eq!(hello(&server.endpoint, a).await, 200);
    }
    let refused = send(&server.endpoint, a, &json!("not even a message")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let body: Value =
        serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (&body["error"]["code"], &body["error"]["data"]["reason"]),
        (&json!(-32603), &json!("rate_limit"))
    );
    // Another port is the same client, another address or a name is not.
    assert_eq!(hello(&server.endpoint, address("192.0.2.1:2")).await, 429);
    assert_eq!(hello(&server.endpoint, b).await, 200);
    assert_eq!(hello(&server.endpoint, From { principal: Some("alice"), ..a }).await, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hello(&server.endpoint, a).await, 200);
    assert_eq!(hello(&server.endpoint, a).await, 429);
    assert_eq!(server.endpoint.metrics().rate_limited.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn guesses_of_tokens_are_limited_by_address() {
    let tokens = Arc::new(StaticTokens::parse("alice=alice-0123456789").unwrap());
    let server = Server::built(|builder| builder.options(rate(60, 2)).authenticator(tokens));
    let guess = From { headers: &[("authorization", "Bearer guess-0123456789")], ..address("192.0.2.1:1") };
    let alice = From { headers: &[("authorization", "Bearer alice-0123456789")], ..guess };
    assert_eq!(hello(&server.endpoint, guess).await, 401);
    assert_eq!(hello(&server.endpoint, guess).await, 401);
    assert_eq!(hello(&server.endpoint, guess).await, 429);
    assert_eq!(
        hello(&server.endpoint, alice).await,
        200,
        "who has a token is no guesser, whatever the address"
    );
    assert_eq!(server.endpoint.metrics().unauthorized.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_trusted_proxy_names_its_clients() {
    let server = Server::built(|builder| builder.options(rate(60, 1)).trust_proxy(true));
    let proxy = address("192.0.2.1:1");
    let a = From { headers: &[("x-forwarded-for", "10.0.0.9, 198.51.100.1")], ..proxy };
    let b = From { headers: &[("x-forwarded-for", "10.0.0.9, 198.51.100.2")], ..proxy };
    assert_eq!(hello(&server.endpoint, a).await, 200);
    assert_eq!(hello(&server.endpoint, a).await, 429);
    assert_eq!(hello(&server.endpoint, b).await, 200);
    let server = Server::with(rate(60, 1));
    assert_eq!(hello(&server.endpoint, a).await, 200);
    assert_eq!(hello(&server.endpoint, b).await, 429, "nobody is believed who is not trusted");
}

#[tokio::test(start_paused = true)]
async fn a_client_has_so_many_requests_at_a_time_streams_included() {
    let mut options = Options::default();
    options.max_concurrent_per_client = Some(2);
    let server = Server::with(options);
    let mut client = server.client("2025-11-25").await;
    client.principal = None;
    let from = From { address: "192.0.2.1:1", ..From::default() };
    let session: &'static str = client.session.clone().unwrap().leak();
    let from = From { session: Some(session), ..from };
    let slow =
        |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "count", "params": { "n": 3, "every": 60 } });
    let streams =
        [send(&server.endpoint, from, &slow(1)).await, send(&server.endpoint, from, &slow(2)).await];
    let echo = json!({ "jsonrpc": "2.0", "id": 3, "method": "echo" });
    let refused = send(&server.endpoint, from, &echo).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(send(&server.endpoint, From { address: "192.0.2.2:1", ..from }, &echo).await.status(), 200);
    // A connection that ends gives its place back, whatever becomes of the call.
    drop(streams);
    assert_eq!(send(&server.endpoint, from, &echo).await.status(), 200);
    assert_eq!(server.endpoint.metrics().client_requests_refused.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_of_a_client_are_bounded_and_come_back() {
    let mut options = Options::default();
    options.max_sessions = 20;
    options.session_ttl = Duration::from_secs(60);
    let server = Server::with(options.clone());
    let (a, b) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
    // By default a tenth of all.
    let opened = [
        hello(&server.endpoint, a).await,
        hello(&server.endpoint, a).await,
        hello(&server.endpoint, a).await,
    ];
    assert_eq!(opened, [200, 200, 429]);
    assert_eq!(hello(&server.endpoint, b).await, 200);
    // This machine has no bound but that of all.
    for _ in 0..17 {
        assert_eq!(hello(&server.endpoint, address("127.0.0.1:1")).await, 200);
    }
    assert_eq!(hello(&server.endpoint, address("[::1]:1")).await, 503);
    let metrics = server.endpoint.metrics();
    assert_eq!((metrics.client_sessions_refused.get(), metrics.sessions_refused.get()), (1, 1));
    tokio::time::sleep(Duration::from_secs(63)).await;
    assert_eq!(metrics.sessions.get(), 0);
    assert_eq!(hello(&server.endpoint, a).await, 200, "what expired is given back");

    options.max_sessions_per_client = Some(1);
    let server = Server::with(options);
    let local = address("127.0.0.1:1");
    let refused = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "refuse": true } });
    send(&server.endpoint, local, &refused).await;
    let opened = send(&server.endpoint, local, &initialize("2025-11-25")).await;
    assert_eq!(opened.status(), 200, "a handshake that failed takes no place");
    assert_eq!(hello(&server.endpoint, local).await, 429, "an explicit bound is for everybody");
    let session: &'static str = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned().leak();
    let deleted = Request::delete("/mcp").header("host", "localhost").header("mcp-session-id", session);
    assert_eq!(server.endpoint.handle(deleted.body(Full::new(Bytes::new())).unwrap()).await.status(), 204);
    assert_eq!(hello(&server.endpoint, local).await, 200);
}
