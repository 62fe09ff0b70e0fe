//! The tools on Bowline, as its users write them. Prints `listening PORT`.
//!
//! - `--stateless`: without sessions
//! - `--sse`: every answer is a stream, primed and kept in the store
//! - `--park`: a poll is sent away as soon as it has shown what is new
//! - `--raw`: a handler of raw JSON-RPC below the typed ones

use bowline::{Call, Http, ListenerOptions, NoInput, Options, Raw, RawHandler, ResponseMode, Server};
use bowline_proto::jsonrpc::{Notification, Reply};
use bowline_server::{BoxFuture, Endpoint, Hello, NoSession, Peer};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    count: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Pour {
    count: u32,
    bytes: usize,
}

/// Says many things before its result, without a pause.
async fn notify(ctx: Call, Count { count }: Count) -> String {
    for n in 1..=count {
        ctx.progress(n.into(), None);
        // Progress that nobody has read yet may be merged; the reader gets its turn.
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    "done".into()
}

/// Says something every second.
async fn tick(ctx: Call, Count { count }: Count) -> String {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    for n in 1..=count {
        second.tick().await;
        ctx.progress(n.into(), None);
    }
    "done".into()
}

/// Says three things, sends its client away and waits until it is cancelled.
async fn park(ctx: Call, _: NoInput) -> String {
    for n in 1..=3 {
        ctx.notify("notifications/bench", serde_json::json!({ "n": n }));
    }
    ctx.close_connection();
    ctx.cancelled().await;
    "cancelled".into()
}

/// Says large things as fast as it can.
async fn pour(ctx: Call, Pour { count, bytes }: Pour) -> String {
    let text = "x".repeat(bytes);
    for _ in 0..count {
        ctx.log(bowline::Level::Info, &text);
        tokio::task::yield_now().await;
    }
    "done".into()
}

/// The same echo, below the typed handlers: parameters go back as they came.
struct RawEcho;

impl RawHandler for RawEcho {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        let result = r#"{"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#;
        Box::pin(std::future::ready(Ok(Raw::from_trusted(result.into()))))
    }
    fn call(&self, call: bowline_server::Call) -> BoxFuture<'static, Reply> {
        Box::pin(async move { Reply::Result(call.params().cloned().unwrap_or_else(Raw::empty_object)) })
    }
    fn notified(&self, _: &Peer, _: Notification) {}
    fn ended(&self, _: &Peer) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let mut options = Options::default();
    options.max_sessions = 1_000_000;
    options.max_calls_per_session = 1_000_000;
    if has("--sse") {
        options.response = ResponseMode::Sse;
    }
    if has("--park") {
        options.max_held_streams = 1;
    }
    let http = if has("--raw") {
        Http::new(Endpoint::builder(Arc::new(RawEcho)))
    } else {
        Server::builder("echo", "1")
            .tool("echo", "Says it back", |_: Call, Text { text }: Text| async move { text })
            .tool("notify", "Says many things before its result", notify)
            .tool("tick", "Says something every second", tick)
            .tool("park", "Sends its client away and waits", park)
            .tool("pour", "Says large things", pour)
            .build()?
            .http()
    };
    let http = if has("--stateless") { http.stateless() } else { http };
    let mut listener_options = ListenerOptions::default();
    listener_options.max_connections = 1_000_000;
    bowline_server::raise_file_limit();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("listening {}", listener.local_addr()?.port());
    let http = http.options(options).listener_options(listener_options);
    Ok(http.serve_on(listener, std::future::pending()).await?)
}
