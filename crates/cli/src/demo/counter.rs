//! The server of the demo: one tool that counts and knows nothing about connections.

use super::happening::{Recorder, What};
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, Hello, NoSession, Peer, RawHandler};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The largest number that the tool counts to.
const MOST: u64 = 1_000;

/// An MCP server whose tool `count` takes one tick for each number and reports every number as progress.
pub(super) struct Counter {
    tick: Duration,
    recorder: Recorder,
    runs: Arc<AtomicU64>,
}

impl Counter {
    pub(super) fn new(tick: Duration, recorder: Recorder) -> Self {
        Self { tick, recorder, runs: Arc::default() }
    }
}

impl RawHandler for Counter {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        let result = json!({
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "bowline-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        Box::pin(async move { Ok(raw(&result)?) })
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let (tick, recorder, runs) = (self.tick, self.recorder.clone(), self.runs.clone());
        Box::pin(async move {
            let to = match target(&call) {
                Ok(to) => to,
                Err(error) => return error.into(),
            };
            let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
            recorder.note(What::Started { run }).await;
            count(&call, to, tick, &recorder).await.into()
        })
    }

    fn notified(&self, _: &Peer, _: Notification) {}

    fn ended(&self, _: &Peer) {}
}

/// How far to count: `tools/call` of `count` with `{"to": n}`.
fn target(call: &Call) -> Result<u64, ErrorObject> {
    if call.method() != "tools/call" {
        return Err(ErrorObject::method_not_found(call.method()));
    }
    let params: Value = call.params().and_then(|params| params.to().ok()).unwrap_or_default();
    let to = params["arguments"]["to"].as_u64().filter(|to| (1..=MOST).contains(to));
    match (params["name"].as_str(), to) {
        (Some("count"), Some(to)) => Ok(to),
        _ => Err(ErrorObject::new(-32602, "the only tool is `count`, with the argument `to` from 1 to 1000")),
    }
}

async fn count(call: &Call, to: u64, tick: Duration, recorder: &Recorder) -> Result<Raw, ErrorObject> {
    let mut numbers = Vec::new();
    let mut next = Instant::now();
    for number in 1..=to {
        next += tick;
        tokio::time::sleep_until(next).await;
        numbers.push(number);
        recorder.note(What::Counted(number)).await;
        if let Some(token) = call.progress_token() {
            let params = json!({ "progressToken": token, "progress": number, "total": to });
            // Whether somebody reads it now is not the tool's business.
            let _ = call.notify(&Notification::new("notifications/progress", Some(raw(&params)?)));
        }
    }
    recorder.note(What::Finished).await;
    let sum: u64 = numbers.iter().sum();
    raw(&json!({
        "content": [{ "type": "text", "text": format!("counted to {to}; the sum is {sum}") }],
        "structuredContent": { "numbers": numbers, "sum": sum },
    }))
}

fn raw(value: &Value) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal("not_json", error.to_string()))
}
