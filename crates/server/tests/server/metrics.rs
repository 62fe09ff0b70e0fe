//! `/metrics`: what it says, and who is told.

use crate::client::Server;
use bowline_server::{Body, StaticTokens};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

fn request(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::new())).unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Reads OpenMetrics text as strictly as its specification is written. Returns each sample, its labels included, with its value.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let (mut family, mut kind) = ("", "");
    let mut lines = body.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help has a text");
            assert!(families.insert(name), "{name} comes twice");
            assert!(name.starts_with("bowline_") && !name.ends_with("_total"), "{name}");
            assert!(help.ends_with('.'), "{help}");
            let (of, is) = lines
                .next()
                .and_then(|line| line.strip_prefix("# TYPE "))
                .and_then(|rest| rest.split_once(' '))
                .expect("a type follows");
            assert_eq!(of, name);
            assert!(["counter", "gauge", "info"].contains(&is), "{is}");
            (family, kind) = (name, is);
            continue;
        }
        assert!(!line.starts_with('#') && !line.is_empty(), "{line}");
        let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line} is not of {family}"));
        assert_eq!(
            suffix,
            match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            }
        );
        let labels = labels.strip_suffix('}').expect("labels end");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (name, value) = label.split_once('=').expect("a label has a value");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{label}");
            assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'), "{label}");
        }
        let value = value.parse().expect("a whole number");
        assert_eq!(samples.insert(sample.to_owned(), value), None, "{sample} comes twice");
    }
    samples
}

#[tokio::test(start_paused = true)]
async fn what_happens_is_counted() {
    let server = Server::new();
    let mut client = server.client("2025-11-25").await;
    client.call("echo", json!({})).await;
    client.call("nothing", json!({})).await;
    // Four messages, of which the client sees none before it leaves; it comes back for the rest, twice.
    let mut answer = client.call("count", json!({ "n": 3, "every": 1, "then": 1 })).await;
    assert!(answer.event().await.unwrap().is_priming());
    let cursor = answer.last_id.clone();
    drop(answer);
    let parked = parse(&text(server.endpoint.admin().handle(&request(Method::GET, "/metrics", &[]))).await);
    assert_eq!(parked["bowline_calls"], 1);
    assert_eq!((parked["bowline_calls_parked"], parked["bowline_calls_streaming"]), (1, 0));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waiting = parse(&text(server.endpoint.admin().handle(&request(Method::GET, "/metrics", &[]))).await);
    assert_eq!((waiting["bowline_calls_parked"], waiting["bowline_results_waiting"]), (0, 1));
    for _ in 0..2 {
        client.get(cursor.as_deref()).await.messages().await;
    }
    client.get(Some("nonsense")).await;
    client.session = None;
    client.get(None).await;

    let response = server.endpoint.admin().handle(&request(Method::GET, "/metrics", &[]));
    assert_eq!(
        response.headers()["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let now = parse(&text(response).await);
    for (sample, value) in [
        (r#"bowline_http_requests_total{method="POST",code="200"}"#, 4),
        (r#"bowline_http_requests_total{method="POST",code="202"}"#, 1),
        (r#"bowline_http_requests_total{method="GET",code="200"}"#, 2),
        (r#"bowline_http_requests_total{method="GET",code="400"}"#, 2),
        (r#"bowline_bound_hits_total{bound="max-sessions"}"#, 0),
        ("bowline_sessions", 1),
        ("bowline_sessions_opened_total", 1),
        ("bowline_calls", 0),
        ("bowline_calls_succeeded_total", 2),
        ("bowline_calls_failed_total", 1),
        ("bowline_calls_cancelled_total", 0),
        ("bowline_streams_sealed_total", 1),
        ("bowline_polls_total", 3),
        ("bowline_resumes_total", 2),
        ("bowline_results_waiting", 0),
        ("bowline_draining", 0),
        ("bowline_store_sessions", 1),
        ("bowline_store_streams_sealed", 1),
    ] {
        assert_eq!(now.get(sample), Some(&value), "{sample}\n{now:#?}");
    }
    assert!(now["bowline_events_replayed_total"] >= 6, "three or four, twice");
    server.endpoint.start_drain();
    let leaving = parse(&text(server.endpoint.admin().handle(&request(Method::GET, "/metrics", &[]))).await);
    assert_eq!(leaving["bowline_draining"], 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_not_public_by_accident() {
    let host = ("host", "127.0.0.1:8000");
    let server = Server::built(|builder| {
        builder
            .metrics_page(true)
            .allowed_hosts(bowline_proto::http::AllowedHosts::parse(["mcp.example.com"]).unwrap())
    });
    let get = |headers: Vec<(&'static str, &'static str)>| {
        let endpoint = server.endpoint.clone();
        async move { endpoint.handle(request(Method::GET, "/metrics", &headers)).await.status().as_u16() }
    };
    assert_eq!(get(vec![host]).await, 200);
    for headers in [
        vec![("host", "mcp.example.com")],
        vec![host, ("x-forwarded-for", "198.51.100.1")],
        vec![host, ("forwarded", "for=198.51.100.1")],
        vec![host, ("via", "1.1 proxy")],
        vec![host, ("origin", "http://localhost:1")],
    ] {
        assert_eq!(get(headers.clone()).await, 404, "{headers:?}");
    }
    // Unless it is asked for, it is not there.
    let server = Server::new();
    assert_eq!(server.endpoint.handle(request(Method::GET, "/metrics", &[host])).await.status(), 404);
    // Where callers need a token, so do collectors.
    let tokens = Arc::new(StaticTokens::parse("prometheus=prometheus-0123456").unwrap());
    let server = Server::built(|builder| builder.metrics_page(true).authenticator(tokens));
    assert_eq!(server.endpoint.handle(request(Method::GET, "/metrics", &[host])).await.status(), 401);
    let token = ("authorization", "Bearer prometheus-0123456");
    assert_eq!(server.endpoint.handle(request(Method::GET, "/metrics", &[host, token])).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_admin_side_serves_nothing_else() {
    let server = Server::built(|builder| builder.health(false));
    let admin = server.endpoint.admin();
    for (method, path, headers, status) in [
        (Method::GET, "/healthz", &[][..], 200),
        (Method::HEAD, "/readyz", &[("host", "any.example")], 200),
        (Method::GET, "/metrics", &[], 200),
        (Method::GET, "/metrics", &[("origin", "http://localhost")], 403),
        (Method::GET, "/mcp", &[], 404),
        (Method::POST, "/mcp", &[], 405),
    ] {
        assert_eq!(admin.handle(&request(method, path, headers)).status(), status, "{path}");
    }
    // And beside the endpoint there are no probes then.
    let beside = server.endpoint.handle(request(Method::GET, "/healthz", &[("host", "localhost")])).await;
    assert_eq!(beside.status(), 404);
    server.endpoint.start_drain();
    assert_eq!(admin.handle(&request(Method::GET, "/readyz", &[])).status(), 503);
}
