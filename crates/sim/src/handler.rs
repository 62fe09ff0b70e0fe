//! The tool of every backend: it takes steps, says each one with a hash of all so far, asks, and keeps a ledger.

use crate::{
    host::Process,
    plan::CallPlan,
    trace::{End, Trace, What, digest},
};
use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply};
use bowline_server::{BoxFuture, Call, Hello, NoSession, Peer, RawHandler, simulation::Admission};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The handler of one incarnation of a backend.
pub(crate) struct Tool {
    pub(crate) trace: Arc<Trace>,
    pub(crate) process: Arc<Process>,
}

/// The parameters of `tools/call` for one call.
pub(crate) fn parameters(call: u64, plan: &CallPlan) -> Value {
    json!({
        "name": "steps",
        "arguments": {
            "call": call, "steps": plan.steps, "every": plan.every, "after": plan.after,
            "asks": plan.asks, "closes": plan.closes, "shouts": plan.shouts, "repeatable": plan.repeatable,
        },
        "_meta": { "progressToken": call },
    })
}

/// The hash of the first `steps` steps of a call.
pub(crate) fn hash_of(call: u64, steps: u64) -> u64 {
    (1..=steps).fold(call, |hash, step| digest(format!("{hash}/{step}").as_bytes()))
}

fn raw(value: &Value) -> Raw {
    Raw::from_value(value).expect("a JSON value is JSON")
}

impl RawHandler for Tool {
    fn initialize(&self, _: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        let result = raw(&json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": { "listChanged": true }, "resources": { "subscribe": true } },
            "serverInfo": { "name": "steps", "version": "1" },
        }));
        Box::pin(std::future::ready(Ok(result)))
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let (trace, process) = (self.trace.clone(), self.process.clone());
        if call.method() == "ping" {
            return Box::pin(std::future::ready(Reply::Result(Raw::empty_object())));
        }
        Box::pin(async move {
            let params: Value = call.params().and_then(|params| params.to().ok()).unwrap_or(Value::Null);
            let arguments = params["arguments"].clone();
            let Some(number) = arguments["call"].as_u64() else {
                return ErrorObject::method_not_found(call.method()).into();
            };
            let run = trace.next_run();
            trace.note(What::RunBegan {
                call: number,
                run,
                backend: process.backend,
                incarnation: process.incarnation,
            });
            let mut run = Run { trace, process, call: number, number: run, ended: false };
            let work = steps(&run.trace, &call, number, &arguments);
            let cancelled = call.cancelled();
            tokio::select! {
                biased;
                reply = work => {
                    run.end(End::Result);
                    reply
                }
                _ = cancelled => {
                    run.end(End::Cancelled);
                    ErrorObject::internal("cancelled", "as you wish").into()
                }
            }
        })
    }

    fn is_repeatable(&self, call: &Call) -> bool {
        let params: Value = call.params().and_then(|params| params.to().ok()).unwrap_or(Value::Null);
        params["arguments"]["repeatable"] == true
    }

    fn notified(&self, _: &Peer, _: Notification) {}

    fn ended(&self, _: &Peer) {}
}

async fn steps(trace: &Trace, call: &Call, number: u64, arguments: &Value) -> Reply {
    let count = arguments["steps"].as_u64().unwrap_or(0);
    let ms = |name: &str| Duration::from_millis(arguments[name].as_u64().unwrap_or(0));
    let mut hash = number;
    for step in 1..=count {
        tokio::time::sleep(ms("every")).await;
        hash = digest(format!("{hash}/{step}").as_bytes());
        let progress = json!({ "progressToken": number, "progress": step, "message": hash.to_string() });
        let _ = call.notify(&Notification::new("notifications/progress", Some(raw(&progress))));
        if arguments["shouts"] == true {
            let shout = json!({ "uri": format!("sim:{number}/{step}") });
            call.peer().notify(&Notification::new("notifications/resources/updated", Some(raw(&shout))));
        }
        if arguments["closes"] == step {
            call.close_connection();
        }
        if arguments["asks"] == step {
            let question = json!({
                "message": number.to_string(),
                "requestedSchema": { "type": "object", "properties": {} },
            });
            let reply = call.ask("elicitation/create", Some(raw(&question))).await;
            let said = match reply {
                Reply::Result(answer) => {
                    answer.to::<Value>().ok().and_then(|a| a["content"]["call"].as_u64())
                }
                Reply::Error(_) => None,
            };
            trace.note(What::Answered { call: number, said });
        }
    }
    tokio::time::sleep(ms("after")).await;
    let text = format!("{number}/{count}/{hash}");
    Reply::Result(raw(&json!({ "content": [{ "type": "text", "text": text }] })))
}

/// A run in the ledger.
struct Run {
    trace: Arc<Trace>,
    process: Arc<Process>,
    call: u64,
    number: u64,
    ended: bool,
}

impl Run {
    fn end(&mut self, how: End) {
        if !std::mem::replace(&mut self.ended, true) {
            self.trace.note(What::RunEnded { call: self.call, run: self.number, how });
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let killed = self.process.admission() == Admission::Dead;
        self.end(if killed { End::Killed } else { End::Dropped });
    }
}
