//! The script for modern clients, and such a client.

use crate::{
    client::{Answer, Client, Server},
    script::{Script, Scripted, raw},
};
use bowline_proto::{
    jsonrpc::{ErrorObject, Notification, Raw, Reply},
    modern::{input::InputRequest, tasks::TaskSupport},
};
use bowline_server::{
    BoxFuture, Call, Endpoint, EndpointBuilder, Hello, NoSession, Options, Peer, RawHandler, rerun,
};
use http::Method;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

pub(crate) const META: &str = "io.modelcontextprotocol";

struct Modern(Scripted);

impl RawHandler for Modern {
    fn initialize(&self, hello: Hello) -> BoxFuture<'static, Result<Raw, NoSession>> {
        self.0.initialize(hello)
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        if call.method() != "tools/call" {
            return self.0.call(call);
        }
        let name = call.params().and_then(|params| params.member("name")?.string()).unwrap_or_default();
        let script = self.0.0.clone();
        let again = name.starts_with("rerun") || name == "task_rounds";
        let work = Box::pin(tool(script, call.clone(), name));
        if again { rerun(call, work) } else { work }
    }

    fn notified(&self, peer: &Peer, notification: Notification) {
        self.0.notified(peer, notification);
    }

    fn ended(&self, peer: &Peer) {
        self.0.ended(peer);
        self.0.0.peers.lock().retain(|known| known.session_id() != peer.session_id());
    }

    fn serves_modern(&self) -> bool {
        true
    }

    fn discover(&self, _: Peer) -> BoxFuture<'static, Result<Raw, ErrorObject>> {
        Box::pin(async {
            Ok(raw(&json!({
                "capabilities": {
                    "tools": { "listChanged": true },
                    "resources": { "subscribe": true, "listChanged": true },
                    "prompts": {},
                },
                "serverInfo": { "name": "script", "version": "1" },
                "instructions": "Do",
            })))
        })
    }

    fn server_info(&self) -> Option<Raw> {
        Some(raw(&json!({ "name": "script", "version": "1" })))
    }

    fn serves_tasks(&self) -> bool {
        true
    }

    fn task_support(&self, call: &Call) -> TaskSupport {
        let name = call.params().and_then(|params| params.member("name")?.string()).unwrap_or_default();
        match name.split('_').next() {
            Some("task") => TaskSupport::Optional,
            Some("must") => TaskSupport::Required,
            _ => TaskSupport::Never,
        }
    }

    fn is_repeatable(&self, call: &Call) -> bool {
        self.0.is_repeatable(call)
    }

    fn listening(&self, peer: &Peer) {
        self.0.0.peers.lock().push(peer.clone());
    }
}

async fn tool(script: Arc<Script>, call: Call, name: String) -> Reply {
    let roots = || call.ask("roots/list", None);
    match name.as_str() {
        // Stays open, and is asked once, twice at once, or twice in a row.
        "ask" => roots().await,
        "ask_both" => {
            let (first, second) = futures_util::future::join(roots(), roots()).await;
            Reply::Result(raw(&json!([answer(first), answer(second)])))
        }
        "ask_again" => {
            let first = roots().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            let second = roots().await;
            Reply::Result(raw(&json!({ "answers": [answer(first), answer(second)] })))
        }
        "ask_slowly" => {
            let said = roots().await;
            for n in 1..=3 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let progress = json!({ "progressToken": "t", "progress": n });
                let _ = call.notify(&Notification::new("notifications/progress", Some(raw(&progress))));
            }
            said
        }
        // Runs again.
        "rerun" | "rerun_once" => {
            script.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let Some(round) = call.round() else { return Reply::Result(Raw::empty_object()) };
            if round.kept("k").is_none() {
                round.keep("k", &raw(&json!("kept")));
            }
            let mut answers = Vec::new();
            for key in ["first", "second"] {
                match round.answer(key) {
                    Some(answer) => answers.push(answer),
                    None => {
                        let asked =
                            InputRequest { key: key.into(), method: "roots/list".into(), params: None };
                        if let Err(error) = round.ask(asked) {
                            return error.into();
                        }
                        std::future::pending::<()>().await;
                    }
                }
            }
            if name == "rerun_once"
                && let Err(error) = round.spend().await
            {
                return error.into();
            }
            Reply::Result(raw(&json!({ "answers": answers, "kept": round.kept("k") })))
        }
        "log" => {
            for level in ["debug", "warning"] {
                let params = raw(&json!({ "level": level, "data": level }));
                let _ = call.notify(&Notification::new("notifications/message", Some(params)));
            }
            Reply::Result(raw(&json!({ "level": call.log_level().map(|level| level.as_str()) })))
        }
        "changed" => {
            let changed = Notification::new("notifications/tools/list_changed", None);
            Reply::Result(raw(&json!({ "said": call.notify(&changed) })))
        }
        "task_sleep" | "must_sleep" | "task_fail" => {
            script.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let seconds = call.params().and_then(|params| params.member("seconds")?.to().ok()).unwrap_or(0.0);
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            if name == "task_fail" {
                return ErrorObject::new(-7, "It did not work").into();
            }
            Reply::Result(raw(&json!({ "slept": seconds })))
        }
        "task_ask" => {
            script.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let is_task = call.become_task().await;
            let (first, second) = futures_util::future::join(roots(), roots()).await;
            let third = roots().await;
            let answers = json!([answer(first), answer(second), answer(third)]);
            Reply::Result(raw(&json!({ "answers": answers, "task": is_task })))
        }
        "task_ask_first" => {
            let first = roots().await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            Reply::Result(raw(&json!({ "answers": [answer(first)] })))
        }
        // Asks in a round of its own, and takes its time after that.
        "task_rounds" => {
            let Some(round) = call.round() else { return Reply::Result(Raw::empty_object()) };
            let Some(first) = round.answer("first") else {
                let asked = InputRequest { key: "first".into(), method: "roots/list".into(), params: None };
                if let Err(error) = round.ask(asked) {
                    return error.into();
                }
                return std::future::pending().await;
            };
            tokio::time::sleep(Duration::from_secs(20)).await;
            Reply::Result(raw(&json!({ "answers": [first] })))
        }
        "task_stubborn" => {
            let reason = call.cancelled().await;
            script.cancelled.lock().push(reason);
            std::future::pending().await
        }
        "task_progress" => {
            let mut said = Vec::new();
            for n in 1..=3 {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let progress = json!({ "progressToken": "t", "progress": n, "message": format!("step {n}") });
                said.push(call.notify(&Notification::new("notifications/progress", Some(raw(&progress)))));
                let log = raw(&json!({ "level": "error", "data": n }));
                said.push(call.notify(&Notification::new("notifications/message", Some(log))));
            }
            Reply::Result(raw(&json!({ "said": said })))
        }
        "slow" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Reply::Result(raw(&json!({ "slow": true })))
        }
        "not_found" => ErrorObject::new(-32002, "Resource not found").into(),
        _ => Reply::Result(raw(&json!({ "name": name, "client": call.peer().initialize_params() }))),
    }
}

fn answer(reply: Reply) -> Value {
    match reply {
        Reply::Result(raw) | Reply::Error(raw) => raw.to().unwrap(),
    }
}

impl Server {
    pub(crate) fn modern() -> Self {
        Self::modern_with(|builder| builder)
    }

    pub(crate) fn modern_options(options: Options) -> Self {
        Self::modern_with(|builder| builder.options(options))
    }

    pub(crate) fn modern_with(configure: impl FnOnce(EndpointBuilder) -> EndpointBuilder) -> Self {
        let script = Arc::new(Script::default());
        let handler = Arc::new(Modern(Scripted(script.clone())));
        Self { endpoint: configure(Endpoint::builder(handler)).build(), script }
    }

    pub(crate) fn modern_client(&self) -> ModernClient {
        ModernClient {
            client: Client { endpoint: self.endpoint.clone(), session: None, next_id: 0, principal: None },
            capabilities: json!({ "roots": {}, "elicitation": {} }),
            level: None,
        }
    }
}

#[derive(Clone)]
pub(crate) struct ModernClient {
    pub(crate) client: Client,
    pub(crate) capabilities: Value,
    pub(crate) level: Option<&'static str>,
}

impl ModernClient {
    /// A request as its revision wants it.
    pub(crate) fn request(&mut self, method: &str, mut params: Value) -> Value {
        let id = self.client.id();
        params["_meta"][format!("{META}/protocolVersion")] = json!("2026-07-28");
        params["_meta"][format!("{META}/clientCapabilities")] = self.capabilities.clone();
        params["_meta"][format!("{META}/clientInfo")] = json!({ "name": "test", "version": "1" });
        if let Some(level) = self.level {
            params["_meta"][format!("{META}/logLevel")] = json!(level);
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Sends a request with the headers that its body wants.
    pub(crate) async fn send(&self, request: &Value) -> Answer {
        let method = request["method"].as_str().unwrap();
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        let named = ["name", "taskId"].iter().find_map(|member| request["params"][member].as_str());
        headers.extend(named.map(|name| ("mcp-name", name)));
        self.client.send(Method::POST, &headers, request.to_string().into()).await
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Answer {
        let request = self.request(method, params);
        self.send(&request).await
    }

    pub(crate) async fn tool(&mut self, name: &str, more: Value) -> Answer {
        let mut params = more;
        params["name"] = json!(name);
        self.call("tools/call", params).await
    }

    /// What came of a call of a tool: its status, and the result or the error.
    pub(crate) async fn outcome(&mut self, name: &str, more: Value) -> (u16, Value) {
        let answer = self.tool(name, more).await;
        let status = answer.status.as_u16();
        let body = answer.json().await;
        let said = if body["error"].is_null() { &body["result"] } else { &body["error"] };
        (status, said.clone())
    }
}

/// The next round of a request that asked something.
#[allow(clippy::needless_pass_by_value, reason = "messages are written with json! where they are sent")]
pub(crate) fn next_round(asked: &Value, answers: Value) -> Value {
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    json!({ "inputResponses": answers, "requestState": asked["requestState"] })
}
