//! A client without a session, over raw sockets.

use bowline_testkit::{Answer, Program, Serve, Session, text_of};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The legacy revisions.
pub(crate) const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The program in front of the fixture server, without sessions.
pub(crate) fn stateless() -> Serve {
    Serve::fixture(env!("CARGO_BIN_EXE_bowline")).with("--session-mode stateless")
}

/// The same with more options, started.
pub(crate) async fn serve(options: &str) -> Program {
    stateless().with(options).start().await
}

/// A client that speaks a revision, and sends it as clients do after `initialize`.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    session: Session,
    revision: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, revision: &str) -> Self {
        Self { session: Session::none(address), revision: revision.into() }
    }

    /// In the newest legacy revision.
    pub(crate) fn of(program: &Program) -> Self {
        Self::new(program.address(), "2025-11-25")
    }

    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("MCP-Protocol-Version", self.revision.as_str())];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        all.extend(headers);
        self.session.send(method, &all, body).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        self.send("POST", &[], &message.to_string()).await
    }

    /// `initialize`, which carries no revision in its headers.
    pub(crate) async fn initialize(&self) -> Answer {
        let message = bowline_testkit::initialize(&self.revision).to_string();
        self.send("POST", &[("MCP-Protocol-Version", "")], &message).await
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> Answer {
        let id = self.session.next_id();
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.post(&self.session.tool(name, &arguments)).await
    }

    pub(crate) async fn call_with_progress(&self, name: &str, arguments: Value) -> Answer {
        self.post(&self.session.tool_with_progress(name, &arguments)).await
    }

    /// The text of a tool's result.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        text_of(&self.call(name, arguments).await.response().await)
    }

    /// What a process of the fixture knows of its client, and its id.
    pub(crate) async fn info(&self) -> Value {
        serde_json::from_str(&self.text("info", json!({})).await).unwrap()
    }

    /// A poll.
    pub(crate) async fn get(&self, cursor: Option<&str>) -> Answer {
        let headers: Vec<_> = cursor.map(|cursor| ("Last-Event-ID", cursor)).into_iter().collect();
        self.send("GET", &headers, "").await
    }

    /// Polls as a client does until the response is there: all messages, and how often it polled.
    pub(crate) async fn poll(&self, mut answer: Answer) -> (Vec<Value>, usize) {
        let (mut messages, mut polls) = (Vec::new(), 0);
        let (mut retry, mut cursor) = (None, None);
        loop {
            assert_eq!(answer.status(), 200, "{}", answer.head.text);
            assert!(answer.is_stream(), "{}", answer.head.text);
            while let Some(block) = answer.block().await {
                retry = block.retry.or(retry);
                messages.extend(block.message());
            }
            cursor = answer.last_id.take().or(cursor);
            if messages.last().is_some_and(|message: &Value| message.get("method").is_none()) {
                return (messages, polls);
            }
            let pause = retry.expect("the client is told when to come back");
            tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
            polls += 1;
            answer = self.get(cursor.as_deref()).await;
        }
    }
}

/// Asserts that an answer is an error: this status and this code. Returns it.
pub(crate) async fn error(mut answer: Answer, status: u16, code: i64, what: &str) -> Value {
    assert_eq!(answer.status(), status, "{what}: {}", answer.head.text);
    let body = answer.json().await;
    assert_eq!(body["error"]["code"], code, "{what}: {body}");
    body["error"].clone()
}
