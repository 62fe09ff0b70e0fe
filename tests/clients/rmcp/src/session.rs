//! A connected client: what it answers when it is asked, and calls by name.

use crate::report::Failed;
use crate::wire::Wire;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ListRootsResult, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, RunningService};
use rmcp::{ClientHandler, ErrorData, ServiceError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What the client was asked, and the progress that reached it.
#[derive(Debug, Default)]
pub struct Asked {
    pub elicitation: u32,
    pub sampling: u32,
    pub roots: u32,
    pub progress: Vec<f64>,
}

/// The answers of the client.
#[derive(Clone)]
pub struct Answers {
    pub config: ClientConfig,
    pub asked: Arc<Mutex<Asked>>,
}

impl Answers {
    fn note(&self, note: impl FnOnce(&mut Asked)) {
        note(&mut self.asked.lock().expect("nobody panics while it is held"));
    }
}

/// A value of the SDK's model from its JSON; most of its types cannot be written down from outside.
pub fn model<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

impl ClientHandler for Answers {
    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.note(|asked| asked.elicitation += 1);
        model(
            json!({ "action": "accept", "content": { "name": "Ann Example", "check": true, "integer": 7 } }),
        )
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.note(|asked| asked.sampling += 1);
        let params = serde_json::to_value(params).unwrap_or_default();
        let content = &params["messages"][0]["content"];
        let content = content.get(0).unwrap_or(content);
        let text = format!("sampled: {}", content["text"].as_str().unwrap_or_default());
        let content = json!({ "type": "text", "text": text });
        model(json!({ "role": "assistant", "model": "none", "stopReason": "endTurn", "content": content }))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.note(|asked| asked.roots += 1);
        model(json!({ "roots": [{ "uri": "file:///srv/example", "name": "example" }] }))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.note(|asked| asked.progress.push(params.progress));
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

pub struct Session {
    pub client: RunningService<RoleClient, Answers>,
    pub wire: Wire,
    pub asked: Arc<Mutex<Asked>>,
}

impl Session {
    pub async fn call(&self, name: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let params: CallToolRequestParams =
            model(json!({ "name": name, "arguments": arguments })).map_err(ServiceError::McpError)?;
        self.client.call_tool(params).await
    }

    /// The text of a tool's first content; fails on `isError`.
    pub async fn text(&self, name: &str, arguments: Value) -> Result<String, Failed> {
        let result = serde_json::to_value(self.call(name, arguments).await?)?;
        if result["isError"] == true {
            return Err(Failed::new("the tool answered with isError", json!({ "result": result })));
        }
        match result["content"][0]["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(Failed::new("the first content is not text", json!({ "result": result }))),
        }
    }

    /// The progress that came since the last look.
    pub fn progress(&self) -> Vec<f64> {
        std::mem::take(&mut self.asked.lock().expect("nobody panics while it is held").progress)
    }

    /// The long call of server-everything or of the fixture server: tool, arguments, a text that its result has in it.
    pub async fn long_call(&self, seconds: f64) -> Result<(&'static str, Value, &'static str), Failed> {
        let steps = seconds.round().max(1.0) as u64;
        let tools = self.client.list_all_tools().await?;
        Ok(if tools.iter().any(|tool| tool.name == "trigger-long-running-operation") {
            let arguments = json!({ "duration": seconds, "steps": steps });
            ("trigger-long-running-operation", arguments, "completed")
        } else {
            ("slow", json!({ "ms": (seconds * 1000.0).round() as u64, "progress": steps }), "slow:")
        })
    }
}
