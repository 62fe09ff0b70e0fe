//! The same echo on Bowline. `stateless` as the second argument serves it without sessions.

use bowline_proto::{
    http::{SessionMode, StaleSession},
    jsonrpc::{ErrorObject, Notification, Raw, Reply},
};
use bowline_server::{BoxFuture, Call, Endpoint, Hello, ListenerOptions, NoSession, Peer, RawHandler, serve};
use std::sync::Arc;

struct Echo;

impl RawHandler for Echo {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        Box::pin(async {
            Raw::parse(r#"{"capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#)
                .map_err(|error| ErrorObject::new(-32603, error.to_string()).into())
        })
    }
    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        Box::pin(async move { Reply::Result(call.params().cloned().unwrap_or_else(Raw::empty_object)) })
    }
    fn notified(&self, _: &Peer, _: Notification) {}
    fn ended(&self, _: &Peer) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(9002);
    let mut builder = Endpoint::builder(Arc::new(Echo));
    if std::env::args().nth(2).as_deref() == Some("stateless") {
        builder = builder
            .session_mode(SessionMode::Stateless { resumable: false, stale_session: StaleSession::NotFound });
    }
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    serve(listener, builder.build(), ListenerOptions::default(), std::future::pending()).await
}
