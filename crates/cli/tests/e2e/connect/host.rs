//! A host: starts `bowline connect` and speaks with it, line by line.

use crate::support::{Ended, bowline, soon};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{collections::BTreeMap, process::Stdio, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

pub(super) struct Host {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// What it has said on stderr.
    stderr: Arc<Mutex<String>>,
    /// Messages that are no answers, and answers that nobody has asked for yet.
    pub(super) notes: Vec<Value>,
    answers: BTreeMap<String, Value>,
}

impl Host {
    /// Starts it with these arguments.
    pub(super) fn start(args: &[&str]) -> Self {
        Self::spawn(bowline(&[&["connect"], args].concat()))
    }

    pub(super) fn spawn(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut said = process.stderr.take().unwrap();
        let kept = Arc::clone(&stderr);
        tokio::spawn(async move {
            let mut chunk = vec![0; 4096];
            while let Ok(bytes @ 1..) = said.read(&mut chunk).await {
                kept.lock().await.push_str(&String::from_utf8_lossy(&chunk[..bytes]));
            }
        });
        let stdout = BufReader::new(process.stdout.take().unwrap()).lines();
        Self {
            stdin: process.stdin.take(),
            stdout,
            process,
            stderr,
            notes: Vec::new(),
            answers: BTreeMap::new(),
        }
    }

    pub(super) async fn says(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    pub(super) async fn asks(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    pub(super) async fn calls(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        self.asks(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    }

    /// Shakes hands; returns the answer.
    pub(super) async fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "host", "version": "1" } });
        self.asks("init", "initialize", params).await;
        let answer = self.answer("init").await;
        self.says(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    /// Reads one line; false at the end. An answer that came twice fails the test.
    async fn read(&mut self) -> bool {
        let Some(line) = soon("a line", self.stdout.next_line()).await.unwrap() else { return false };
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        if message["id"].is_null() || message["method"].is_string() {
            self.notes.push(message);
        } else {
            let id = message["id"].to_string();
            let before = self.answers.insert(id, message);
            assert!(before.is_none(), "answered twice: {before:?}");
        }
        true
    }

    /// The answer to a request.
    pub(super) async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = Into::<Value>::into(id).to_string();
        loop {
            if let Some(answer) = self.answers.get(&id).filter(|answer| !answer["taken"].is_boolean()) {
                let answer = answer.clone();
                // Kept, so that a second one is noticed.
                self.answers.insert(id, json!({ "taken": true }));
                return answer;
            }
            assert!(self.read().await, "it ended before it answered {id}: {}", self.stderr.lock().await);
        }
    }

    /// The text of a tool's result.
    pub(super) async fn text(&mut self, id: impl Into<Value>) -> String {
        let answer = self.answer(id).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
    }

    /// Reads until a notification of that method came.
    pub(super) async fn hears(&mut self, method: &str) {
        while !self.notes.iter().any(|note| note["method"] == method) {
            assert!(self.read().await, "it ended before {method}");
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// What it has said on stderr so far.
    pub(super) async fn said(&self) -> String {
        self.stderr.lock().await.clone()
    }

    /// Closes stdin.
    pub(super) fn leaves(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin and waits for the end; what was left on stdout was read, and is all JSON-RPC.
    pub(super) async fn end(mut self) -> Ended {
        self.leaves();
        while self.read().await {}
        let code = soon("its end", self.process.wait()).await.unwrap().code();
        Ended { code, stdout: String::new(), stderr: self.said().await }
    }
}
