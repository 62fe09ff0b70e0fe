//! Scripts that many cases begin with, and a client that does not wait long.

use bowline_client::{CallError, Client, ClientOptions, Era, ReconnectPolicy, Target, ToolOutput};
use bowline_testkit::scripted::{Scripted, Step, on};
use std::time::Duration;

/// What is done at once, on a machine that does other things too: all that might be waited for in its place takes longer.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(4);

pub(crate) const RESULT: &str =
    r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;

/// A client whose waits are twenty times shorter than usual.
pub(crate) fn options() -> ClientOptions {
    let mut options = ClientOptions::new("test", "1");
    options.era = Era::Legacy;
    options.reconnect = ReconnectPolicy {
        backoff_base: Duration::from_millis(50),
        backoff_max: Duration::from_millis(1_500),
        min_wait: Duration::from_millis(5),
        ..ReconnectPolicy::default()
    };
    options.outage = Duration::from_millis(4_500);
    options.standalone = false;
    options
}

pub(crate) async fn connect(server: &Scripted) -> Client {
    connect_with(server, options()).await
}

pub(crate) async fn connect_with(server: &Scripted, options: ClientOptions) -> Client {
    Client::connect(Target::http(&server.url()).unwrap(), options).await.unwrap()
}

/// The handshake that gives out the session `session`; an empty one: none.
pub(crate) fn handshake(session: &str) -> [Step; 2] {
    let headers = if session.is_empty() { String::new() } else { format!("mcp-session-id: {session}\r\n") };
    let result = r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    [
        on("POST", "initialize").json(200, &headers, result),
        on("POST", "notifications/initialized").answer(202, "", ""),
    ]
}

pub(crate) fn with_session(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    handshake("s1").into_iter().chain(steps).collect()
}

/// A call that is answered at once.
pub(crate) fn call_done() -> Step {
    on("POST", "tools/call").json(200, "", RESULT)
}

pub(crate) async fn call(client: &Client) -> Result<ToolOutput, CallError> {
    client.call_tool("t", &serde_json::json!({})).await
}

pub(crate) fn text(result: Result<ToolOutput, CallError>) -> String {
    match result {
        Ok(output) => output.text(),
        Err(error) => panic!("the call failed: {error}"),
    }
}

pub(crate) fn is_unknown(result: &Result<ToolOutput, CallError>) -> bool {
    matches!(result, Err(CallError::OutcomeUnknown { .. }))
}

/// How long `work` took.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = tokio::time::Instant::now();
    let value = tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    (value, tokio::time::Instant::now() - began)
}

pub(crate) fn event(id: &str, data: &str) -> String {
    format!("id: {id}\ndata: {data}\n\n")
}
