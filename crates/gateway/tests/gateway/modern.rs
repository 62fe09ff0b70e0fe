//! A client of the modern revision.

use bowline_server::Endpoint;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{PATIENCE, Reading, Server};

const KEY: &str = "io.modelcontextprotocol";

/// A client that says the same of itself with every request.
#[derive(Clone)]
pub(crate) struct Modern {
    pub(crate) endpoint: Endpoint,
    pub(crate) capabilities: Value,
    pub(crate) meta: Value,
    pub(crate) token: Option<&'static str>,
    /// What it repeats in headers.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

impl Modern {
    /// One that can be asked everything.
    pub(crate) fn of(server: &Server) -> Self {
        Self {
            endpoint: server.endpoint.clone(),
            capabilities: json!({ "sampling": {}, "elicitation": {}, "roots": {} }),
            meta: json!({}),
            token: None,
            headers: Vec::new(),
        }
    }

    /// One that can be asked nothing.
    pub(crate) fn mute(server: &Server) -> Self {
        Self { capabilities: json!({}), ..Self::of(server) }
    }

    /// The same with more metadata.
    pub(crate) fn with(&self, key: &str, value: Value) -> Self {
        let mut client = self.clone();
        client.meta[key] = value;
        client
    }

    pub(crate) fn with_level(&self, level: &str) -> Self {
        self.with(&format!("{KEY}/logLevel"), json!(level))
    }

    /// Sends a request; what comes is still to be read.
    pub(crate) async fn start(&self, id: impl Into<Value>, method: &str, mut params: Value) -> Reading {
        let mut meta = self.meta.clone();
        meta[format!("{KEY}/protocolVersion")] = json!("2026-07-28");
        meta[format!("{KEY}/clientCapabilities")] = self.capabilities.clone();
        meta[format!("{KEY}/clientInfo")] = json!({ "name": "modern-test", "version": "1" });
        params["_meta"] = meta;
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        let names = ["name", "uri", "taskId"];
        if let Some(name) = names.into_iter().find_map(|key| params[key].as_str()) {
            request = request.header("mcp-name", name);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let message = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params });
        let request = request.body(Full::new(Bytes::from(message.to_string()))).unwrap();
        Reading::new(timeout(PATIENCE, self.endpoint.handle(request)).await.expect("an answer in time"))
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Value {
        self.start(1, method, params).await.response().await
    }

    /// Starts a tool.
    pub(crate) async fn tool(&self, name: &str, arguments: Value) -> Reading {
        self.start(1, "tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// The next round of a tool whose answer asked something; `answers` are by question.
    pub(crate) async fn go_on(&self, name: &str, arguments: Value, asked: &Value, answer: Value) -> Value {
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let keys = asked["result"]["inputRequests"].as_object().unwrap().keys();
        let answers: Value =
            keys.map(|key| (key.clone(), answer.clone())).collect::<serde_json::Map<_, _>>().into();
        let params = json!({
            "name": name, "arguments": arguments,
            "inputResponses": answers, "requestState": asked["result"]["requestState"],
        });
        self.start(2, "tools/call", params).await.response().await
    }

    /// Runs a tool to its end and returns its text.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        text(&self.tool(name, arguments).await.response().await)
    }

    /// Listens, and takes the acknowledgement.
    pub(crate) async fn listen(&self, notifications: Value) -> Reading {
        let mut stream =
            self.start("listen", "subscriptions/listen", json!({ "notifications": notifications })).await;
        let first = stream.next().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["notifications"], notifications);
        stream
    }
}

pub(crate) fn text(response: &Value) -> String {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}
