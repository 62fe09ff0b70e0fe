//! A legacy session, each request on a connection of its own.

use crate::{Answer, Raw};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// An `initialize` request for a revision, by a client that can answer everything.
#[must_use]
pub fn initialize(revision: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision,
        "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
        "clientInfo": { "name": "testkit", "version": "1" },
    } })
}

/// A session, or where its id is taken away, a client without one.
#[derive(Clone, Debug)]
pub struct Session {
    /// Where requests go.
    pub address: SocketAddr,
    /// `Mcp-Session-Id`.
    pub id: Option<String>,
    /// What was negotiated.
    pub revision: String,
    ids: Arc<AtomicU64>,
}

impl Session {
    /// A client that has sent nothing yet.
    #[must_use]
    pub fn none(address: SocketAddr) -> Self {
        Self { address, id: None, revision: String::new(), ids: Arc::new(AtomicU64::new(1)) }
    }

    /// `initialize` and `notifications/initialized`.
    pub async fn start(address: SocketAddr, revision: &str) -> Self {
        let session = Self::hello(address, &initialize(revision)).await;
        assert_eq!(session.revision, revision, "negotiated");
        session.initialized().await;
        session
    }

    /// The first half of the handshake, with a message of the caller's.
    pub async fn hello(address: SocketAddr, message: &Value) -> Self {
        let mut session = Self::none(address);
        let mut answer = session.post(message).await;
        let body = answer.json().await;
        assert_eq!(answer.status(), 200, "{body}");
        session.id = Some(answer.header("mcp-session-id").expect("a session").to_owned());
        body["result"]["protocolVersion"].as_str().expect("a revision").clone_into(&mut session.revision);
        session
    }

    /// The second half.
    pub async fn initialized(&self) {
        let mut answer = self.notify("notifications/initialized", json!({})).await;
        assert_eq!((answer.status(), answer.text().await.as_str()), (202, ""));
    }

    /// The same session at another address: through a proxy, on another backend.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// The same client under another session id, or none.
    #[must_use]
    pub fn with_id(&self, id: Option<&str>) -> Self {
        Self { id: id.map(Into::into), ..self.clone() }
    }

    /// An id that no request of this session has had.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The bytes of a request as a careful client would send it. `headers` replace those of the same name; an empty value
    /// takes the header away.
    #[must_use]
    pub fn request(&self, method: &str, headers: &[(&str, &str)], body: &str) -> String {
        let host = self.address.to_string();
        let length = body.len().to_string();
        let mut all: Vec<(&str, &str)> = vec![("Host", &host)];
        match method {
            "POST" => all.extend([
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
                ("Content-Length", length.as_str()),
            ]),
            "GET" => all.push(("Accept", "text/event-stream")),
            _ => {}
        }
        if let Some(id) = &self.id {
            all.push(("Mcp-Session-Id", id));
            all.push(("MCP-Protocol-Version", &self.revision));
        }
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        let mut request = format!("{method} /mcp HTTP/1.1\r\n");
        for (name, value) in all {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request + "\r\n" + body
    }

    /// Sends one request on a new connection.
    pub async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        Answer::to(Raw::connect(self.address).await, self.request(method, headers, body)).await
    }

    /// POSTs one message.
    pub async fn post(&self, message: &Value) -> Answer {
        self.send("POST", &[], &message.to_string()).await
    }

    /// POSTs one message, or says why there is no answer.
    ///
    /// # Errors
    /// A connection that is refused, ends or is silent.
    pub async fn try_post(&self, message: &Value) -> io::Result<Answer> {
        let raw = Raw::try_connect(self.address).await?;
        Answer::try_to(raw, self.request("POST", &[], &message.to_string())).await
    }

    /// A `tools/call` as a message.
    #[must_use]
    pub fn tool(&self, name: &str, arguments: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": "tools/call",
                "params": { "name": name, "arguments": arguments } })
    }

    /// A `tools/call` that wants progress.
    #[must_use]
    pub fn tool_with_progress(&self, name: &str, arguments: &Value) -> Value {
        let mut message = self.tool(name, arguments);
        message["params"]["_meta"] = json!({ "progressToken": format!("token-{}", message["id"]) });
        message
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.post(&self.tool(name, &arguments)).await
    }

    /// Calls a tool, polls where it is parked, and returns the text of its result. Panics when it is no result.
    pub async fn call_for_text(&self, name: &str, arguments: Value) -> String {
        text_of(&self.finish(self.call(name, arguments).await).await)
    }

    /// The response of a call whose answer has begun, polled for where it is parked.
    pub async fn finish(&self, answer: Answer) -> Value {
        let (mut messages, _) = self.poll(answer).await;
        messages.pop().expect("a poll ends with the response")
    }

    /// Sends any request.
    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params }))
            .await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Opens the standalone stream, or resumes at a cursor.
    pub async fn get(&self, cursor: Option<&str>) -> Answer {
        let headers: Vec<_> = cursor.map(|cursor| ("Last-Event-ID", cursor)).into_iter().collect();
        self.send("GET", &headers, "").await
    }

    /// Ends the session.
    pub async fn delete(&self) -> Answer {
        self.send("DELETE", &[], "").await
    }

    /// Polls as a client does from where `answer` ends, waiting as told, until the response is there. Returns all messages
    /// from `answer` on, and how often it polled.
    pub async fn poll(&self, mut answer: Answer) -> (Vec<Value>, usize) {
        let (mut messages, mut polls) = (Vec::new(), 0);
        let mut retry = None;
        let mut last_id = None;
        loop {
            assert_eq!(answer.status(), 200, "{}", answer.head.text);
            if !answer.is_stream() {
                return (vec![answer.json().await], polls);
            }
            while let Some(block) = answer.block().await {
                retry = block.retry.or(retry);
                messages.extend(block.message());
            }
            last_id = answer.last_id.take().or(last_id);
            if messages.last().is_some_and(|message| message.get("method").is_none()) {
                return (messages, polls);
            }
            let pause = retry.expect("the client is told when to come back");
            tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
            polls += 1;
            answer = self.get(last_id.as_deref()).await;
        }
    }
}

/// The text of the result of a tool. Panics when the response is none.
#[must_use]
pub fn text_of(response: &Value) -> String {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no result of a tool: {response}")).to_owned()
}
