//! A stdio MCP server for the soak: one tool, `work`, that takes its time, reports, asks, and writes every run into a ledger.
//!
//! `bowline-soak-tool LEDGER`. A run is written down before it begins and before its result is written; lines of many processes go
//! into one file, each in one piece.

use bowline_soak::journal::{Ask, Event, Journal, Plan, payload};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    io::{self, BufRead as _, Write as _},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How long the tool waits for an answer to its question.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What a running call waits for.
#[derive(Default)]
struct Running {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    answer: Option<Value>,
}

struct Tool {
    ledger: Journal,
    out: Mutex<io::Stdout>,
    calls: Mutex<HashMap<String, Arc<Running>>>,
    questions: Mutex<HashMap<String, Arc<Running>>>,
    next_question: AtomicU64,
    pid: u32,
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: bowline-soak-tool LEDGER");
        return ExitCode::from(2);
    };
    let ledger = match Journal::open(path.as_ref()) {
        Ok(ledger) => ledger,
        Err(error) => {
            eprintln!("bowline-soak-tool: cannot open {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    };
    let tool = Arc::new(Tool {
        ledger,
        out: Mutex::new(io::stdout()),
        calls: Mutex::default(),
        questions: Mutex::default(),
        next_question: AtomicU64::new(1),
        pid: std::process::id(),
    });
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(message) => tool.receive(message),
            Err(error) => eprintln!("bowline-soak-tool: not JSON: {error}"),
        }
    }
    // Running calls go unanswered, as with most servers.
    ExitCode::SUCCESS
}

impl Tool {
    fn receive(self: &Arc<Self>, message: Value) {
        let id = message.get("id").cloned();
        match (message["method"].as_str(), id) {
            (Some("initialize"), Some(id)) => {
                let asked = message["params"]["protocolVersion"].as_str().unwrap_or_default();
                let known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
                let revision = if known.contains(&asked) { asked } else { "2025-11-25" };
                let result = json!({ "protocolVersion": revision, "capabilities": { "tools": {}, "logging": {} },
                    "serverInfo": { "name": "soak", "version": "1" } });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            }
            (Some("tools/list"), Some(id)) => {
                let tools = json!([{ "name": "work", "description": "Works, reports and asks as told.",
                    "inputSchema": { "type": "object", "required": ["call"] } }]);
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": tools } }));
            }
            (Some("tools/call"), Some(id)) => self.start(id, &message["params"]),
            (Some("ping" | "logging/setLevel"), Some(id)) => {
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
            }
            (Some(method), Some(id)) => {
                let error = json!({ "code": -32601, "message": format!("unknown method {method}") });
                self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            (Some("notifications/cancelled"), None) => {
                let running = self.calls.lock().get(&message["params"]["requestId"].to_string()).cloned();
                if let Some(running) = running {
                    running.state.lock().cancelled = true;
                    running.changed.notify_all();
                }
            }
            (None, Some(id)) => {
                if let Some(running) = self.questions.lock().remove(&id.to_string()) {
                    running.state.lock().answer = Some(message);
                    running.changed.notify_all();
                }
            }
            _ => {}
        }
    }

    fn start(self: &Arc<Self>, id: Value, params: &Value) {
        let arguments = &params["arguments"];
        let (call, plan) = (arguments["call"].as_str(), serde_json::from_value::<Plan>(arguments.clone()));
        let (Some(call), Ok(plan)) = (call.map(str::to_owned), plan) else {
            let error =
                json!({ "code": -32602, "message": "`work` takes call, ms, progress, size, ask and log" });
            return self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        };
        let token = params["_meta"].get("progressToken").cloned();
        let running = Arc::new(Running::default());
        self.calls.lock().insert(id.to_string(), running.clone());
        self.ledger.note(Event::Start { call: call.clone(), pid: self.pid });
        let tool = self.clone();
        let work = move || {
            let result = tool.work(&call, &plan, token.as_ref(), &running);
            tool.calls.lock().remove(&id.to_string());
            match result {
                Some(result) => {
                    tool.ledger.note(Event::Finish { call, pid: tool.pid });
                    tool.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
                }
                None => tool.ledger.note(Event::Stopped { call, pid: tool.pid }),
            }
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(work);
        drop(thread.expect("a thread can be started: a session runs a few calls at a time"));
    }

    /// One run; `None` when it was cancelled.
    fn work(&self, call: &str, plan: &Plan, token: Option<&Value>, running: &Arc<Running>) -> Option<Value> {
        if plan.log {
            let params = json!({ "level": "info", "logger": "soak", "data": { "call": call } });
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }));
        }
        let steps = plan.progress.max(1);
        let mut asked = "none";
        for step in 1..=steps {
            if !running.rest(Duration::from_micros(plan.ms * 1_000 / steps)) {
                return None;
            }
            if let (Some(token), true) = (token, plan.progress > 0) {
                let params =
                    json!({ "progressToken": token, "progress": step, "total": steps, "message": call });
                self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
            }
            if step == steps.div_ceil(2) && plan.ask != Ask::None {
                asked = self.ask(call, plan.ask, running)?;
            }
        }
        Some(json!({
            "content": [{ "type": "text", "text": payload(call, plan.size) }],
            "structuredContent": { "call": call, "asked": asked },
        }))
    }

    /// Asks the client and waits: what became of it; `None` when the call was cancelled meanwhile.
    fn ask(&self, call: &str, ask: Ask, running: &Arc<Running>) -> Option<&'static str> {
        let id = json!(format!("q{}", self.next_question.fetch_add(1, Ordering::Relaxed)));
        let text = format!("ask {call}");
        let (method, params) = if ask == Ask::Elicit {
            let schema = json!({ "type": "object", "properties": { "call": { "type": "string" } }, "required": ["call"] });
            ("elicitation/create", json!({ "message": text, "requestedSchema": schema }))
        } else {
            let content = json!({ "type": "text", "text": text });
            (
                "sampling/createMessage",
                json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 10 }),
            )
        };
        self.questions.lock().insert(id.to_string(), running.clone());
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut state = running.state.lock();
        while state.answer.is_none() && !state.cancelled {
            if running.changed.wait_for(&mut state, ANSWER_WITHIN).timed_out() {
                break;
            }
        }
        self.questions.lock().remove(&id.to_string());
        if state.cancelled {
            return None;
        }
        let Some(answer) = state.answer.take() else { return Some("unanswered") };
        if answer.get("error").is_some() {
            return Some("refused");
        }
        let right = if ask == Ask::Elicit {
            answer["result"]["content"]["call"] == call
        } else {
            answer["result"]["content"]["text"] == format!("answer {call}")
        };
        Some(if right { "answered" } else { "foreign" })
    }

    fn send(&self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let mut out = self.out.lock();
        // A gateway that has gone needs no answer.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

impl Running {
    /// Waits; `false` when the call was cancelled.
    fn rest(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.cancelled {
            self.changed.wait_for(&mut state, time);
        }
        !state.cancelled
    }
}
