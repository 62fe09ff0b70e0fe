//! A handler that does what the parameters of a call say.

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, Hello, NoSession, Peer, RawHandler};
use serde::Deserialize;
use serde_json::json;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// One thing that a call does.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize)]
pub(super) enum Step {
    Progress,
    Log,
    Sleep(u64),
    Ask,
    Close,
    /// Says something on the session's own stream.
    Aside,
    /// Waits until it is cancelled, and answers all the same.
    UntilCancelled,
    Never,
}

/// The parameters of a call: which one it is, what it does, and how large its result is.
#[derive(Debug, Deserialize, serde::Serialize)]
pub(super) struct Script {
    pub(super) n: u64,
    pub(super) steps: Vec<Step>,
    pub(super) size: usize,
}

/// Counts what it was told.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    pub(super) offered: AtomicUsize,
    pub(super) ended: AtomicUsize,
    pub(super) started: AtomicUsize,
}

impl RawHandler for Scripted {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        self.offered.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            Ok(raw(
                &json!({ "capabilities": { "tools": { "listChanged": true } }, "serverInfo": { "name": "s", "version": "1" } }),
            ))
        })
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Box::pin(run(call))
    }

    fn notified(&self, _: &Peer, _: Notification) {}

    fn ended(&self, _: &Peer) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

async fn run(call: Call) -> Reply {
    let Some(Ok(script)) = call.params().map(Raw::to::<Script>) else {
        return ErrorObject::method_not_found(call.method()).into();
    };
    for (k, step) in script.steps.iter().enumerate() {
        match step {
            Step::Progress => {
                let params = json!({ "progressToken": script.n, "progress": k + 1 });
                call.notify(&Notification::new("notifications/progress", Some(raw(&params))));
            }
            Step::Log => {
                let params = json!({ "level": "info", "data": { "n": script.n, "k": k + 1 } });
                call.notify(&Notification::new("notifications/message", Some(raw(&params))));
            }
            Step::Sleep(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Step::Ask => drop(call.ask("roots/list", None).await),
            Step::Close => call.close_connection(),
            Step::Aside => call.peer().notify(&Notification::new("notifications/tools/list_changed", None)),
            Step::UntilCancelled => drop(call.cancelled().await),
            Step::Never => std::future::pending().await,
        }
    }
    Reply::Result(raw(&json!({ "n": script.n, "pad": "x".repeat(script.size) })))
}

fn raw(value: &serde_json::Value) -> Raw {
    Raw::from_value(value).expect("JSON")
}
