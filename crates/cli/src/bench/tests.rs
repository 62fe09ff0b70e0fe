//! The load against an endpoint of this process.

use super::*;
use crate::cli::{Parsed, Refused, parse};
use bowline_proto::jsonrpc::{Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, Endpoint, Hello, ListenerOptions, NoSession, Peer, RawHandler, serve};
use std::{ffi::OsString, sync::Arc};

/// Answers everything but `slow`, which sends its client away and never ends.
struct Server;

impl RawHandler for Server {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        Box::pin(async { Ok(Raw::empty_object()) })
    }
    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            if call.params().is_some_and(|params| params.as_str().contains("\"slow\"")) {
                call.close_connection();
                call.cancelled().await;
            }
            Reply::Result(Raw::empty_object())
        })
    }
    fn notified(&self, _: &Peer, _: Notification) {}
    fn ended(&self, _: &Peer) {}
}

fn options(line: &str) -> Result<BenchOptions, Refused> {
    let args = ["bowline", "bench"].into_iter().chain(line.split_whitespace());
    match parse(args.map(OsString::from))? {
        Parsed::Bench(options) => Ok(options),
        other => panic!("not bench: {other:?}"),
    }
}

/// Serves; returns the endpoint and its URL.
async fn start(options: bowline_server::Options) -> (Endpoint, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let endpoint = Endpoint::builder(Arc::new(Server)).options(options).build();
    let server = endpoint.clone();
    tokio::spawn(
        async move { serve(listener, server, ListenerOptions::default(), std::future::pending()).await },
    );
    (endpoint, url)
}

/// Runs a command line against an endpoint; all of it has to succeed, and no session may be left.
async fn measure(endpoint: &Endpoint, line: &str) -> Vec<Report> {
    let options = options(line).unwrap();
    options.check().unwrap();
    let reports = run(&options).await.unwrap();
    assert!(reports.iter().all(Report::is_good), "{reports:?}");
    assert_eq!(endpoint.metrics().sessions.get(), 0);
    reports
}

#[tokio::test]
async fn what_is_answered_is_measured() {
    let (endpoint, url) = start(bowline_server::Options::default()).await;
    let pid = std::process::id();
    let line = format!("{url} calls sessions -c 4 -n 40 --pid {pid}");
    assert_eq!(measure(&endpoint, &line).await.len(), 2);
    measure(&endpoint, &format!("{url} streams --count 8 --duration 50ms")).await;
}

#[tokio::test]
async fn what_is_parked_is_polled_for_and_ended() {
    let mut options = bowline_server::Options::default();
    // Nearly every poll is sent away at once.
    options.max_held_streams = 1;
    let (endpoint, url) = start(options).await;
    let line = format!("{url} parked polls --tool slow -c 4 -n 40 --count 8 --hold 50ms");
    assert_eq!(measure(&endpoint, &line).await.len(), 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let error = run(&options("http://127.0.0.1:1/mcp").unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("connecting"), "{error}");
}

#[test]
fn what_is_not_bounded_or_makes_no_sense_is_refused() {
    for line in [
        "",
        "http://h/ everything",
        "http://h/ --connections 0",
        "http://h/ --count 100001",
        "http://h/ --duration 2h",
        "http://h/ --duration 0",
        "http://h/ --arguments []",
        "http://h/ --header x",
        "http://h/ --output xml",
    ] {
        assert!(options(line).is_err(), "{line}");
    }
    assert!(options("http://h/ polls").unwrap().check().unwrap_err().contains("--tool"));
    assert_eq!(options("http://h/").unwrap().wanted(), [What::Calls]);
    let header = options("http://h/ -H a:b").unwrap().headers;
    assert_eq!(header, [("a".to_owned(), "b".to_owned())]);
}
