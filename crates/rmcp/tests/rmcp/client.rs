//! A client without sockets: one request, one answer, its messages read as they come.

use crate::handler::{Diary, Everything};
use bowline_proto::sse::{Decoder, Limits};
use bowline_rmcp::{Options, RmcpHandler};
use bowline_server::{Body, Endpoint, EndpointBuilder};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub(crate) const POLLS: &str = "2025-11-25";

/// An endpoint in front of [`Everything`].
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) diary: Arc<Diary>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::built(Options::default(), |builder| builder)
    }

    pub(crate) fn built(
        options: Options,
        configure: impl FnOnce(EndpointBuilder) -> EndpointBuilder,
    ) -> Self {
        let diary = Arc::<Diary>::default();
        let shared = diary.clone();
        let handler = Arc::new(RmcpHandler::new(move || Everything::new(shared.clone()), options));
        Self { endpoint: configure(Endpoint::builder(handler)).build(), diary }
    }

    /// A client without a session.
    pub(crate) fn stranger(&self) -> Client {
        Client { endpoint: self.endpoint.clone(), session: None, next_id: AtomicU64::new(1) }
    }

    pub(crate) async fn client(&self) -> Client {
        let mut client = self.stranger();
        let capabilities = json!({ "sampling": {}, "elicitation": {}, "roots": {} });
        let answer = client.initialize(POLLS, &capabilities).await;
        client.session = Some(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
        client.notify("notifications/initialized", json!({})).await;
        client
    }
}

pub(crate) struct Client {
    endpoint: Endpoint,
    pub(crate) session: Option<String>,
    next_id: AtomicU64,
}

/// The head of an answer, and its messages, whether it is a stream or not.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The id that the request had.
    pub(crate) id: u64,
    body: Body,
    decoder: Decoder,
    unread: Bytes,
    pub(crate) cursor: Option<String>,
}

impl Client {
    /// The same client at another endpoint.
    pub(crate) fn at(&self, endpoint: &Endpoint) -> Self {
        let next_id = AtomicU64::new(self.next_id.load(Ordering::Relaxed));
        Self { endpoint: endpoint.clone(), session: self.session.clone(), next_id }
    }

    async fn send(&self, method: &str, cursor: Option<&str>, id: u64, body: String) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("x-tenant", "acme");
        let headers = [("mcp-session-id", self.session.as_deref()), ("last-event-id", cursor)];
        for (name, value) in headers {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let response = self.endpoint.handle(request.body(Full::new(Bytes::from(body))).unwrap()).await;
        let (parts, body) = response.into_parts();
        let decoder = Decoder::new(Limits::default());
        let (status, headers) = (parts.status, parts.headers);
        Answer { status, headers, id, body, decoder, unread: Bytes::new(), cursor: None }
    }

    pub(crate) async fn post(&self, message: Value) -> Answer {
        let id = message["id"].as_u64().unwrap_or_default();
        self.send("POST", None, id, message.to_string()).await
    }

    pub(crate) async fn request(&self, method: &str, params: Value) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.post(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub(crate) async fn initialize(&self, revision: &str, capabilities: &Value) -> Answer {
        self.request("initialize", json!({ "protocolVersion": revision, "capabilities": capabilities })).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Answer {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The same with a progress token.
    pub(crate) async fn watch(&self, tool: &str, arguments: Value, token: &str) -> Answer {
        let meta = json!({ "progressToken": token });
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    /// The text that a tool answered.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.text().await
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let answer = self.post(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        assert_eq!(answer.status, 202);
    }

    pub(crate) async fn cancel(&self, id: u64) {
        self.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" })).await;
    }

    /// Answers a question of the server.
    pub(crate) async fn answer(&self, question: &Value, result: Value) {
        let answer = self.post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
        assert_eq!(answer.status, 202);
    }

    /// Reads on after `cursor`, or the standalone stream.
    pub(crate) async fn get(&self, cursor: Option<&str>) -> Answer {
        self.send("GET", cursor, 0, String::new()).await
    }

    pub(crate) async fn delete(&self) {
        let answer = self.send("DELETE", None, 0, String::new()).await;
        assert!(answer.status.is_success(), "{}", answer.status);
    }
}

impl Answer {
    /// The next message; `None` where the body ends.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        if self.headers.get("content-type").is_some_and(|kind| kind == "application/json") {
            let body = (&mut self.body).collect().await.unwrap().to_bytes();
            return serde_json::from_slice(&body).ok();
        }
        loop {
            let mut slice = &self.unread[..];
            let event = self.decoder.next_event(&mut slice).unwrap();
            self.unread = self.unread.slice(self.unread.len() - slice.len()..);
            let Some(event) = event else {
                self.unread = self.body.frame().await?.unwrap().into_data().unwrap();
                continue;
            };
            if event.sets_id {
                self.cursor = event.id.map(|id| id.to_string());
            }
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                return Some(serde_json::from_str(&data).unwrap());
            }
        }
    }

    /// The next message with this method; what comes before it must not be the response.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await.unwrap_or_else(|| panic!("the stream ends before {method}"));
            assert!(message.get("method").is_some(), "{method} does not come before {message}");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Every message to the end.
    pub(crate) async fn messages(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    /// The response, which is the last message.
    pub(crate) async fn response(mut self) -> Value {
        self.messages().await.pop().expect("a response")
    }

    pub(crate) async fn text(self) -> String {
        let response = self.response().await;
        let text = response["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {response}")).to_owned()
    }
}
