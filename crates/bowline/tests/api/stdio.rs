//! Standard input and output, over pipes in memory (SEMANTICS 8).

use bowline::{Call, NoInput, Options, Server};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    task::JoinHandle,
};

struct Process {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Process {
    fn start() -> Self {
        let server = Server::builder("s", "1")
            .tool("slow", "Takes its time", |ctx: Call, _: NoInput| async move {
                ctx.progress(1.0, None);
                tokio::time::sleep(Duration::from_secs(5)).await;
                "slow"
            })
            .tool("never", "Never ends", |_: Call, _: NoInput| std::future::pending::<()>())
            .tool("quick", "Is quick", |_: Call, _: NoInput| async { "two\nlines" })
            .tool("ask", "Asks", |ctx: Call, _: NoInput| async move {
                ctx.ask("roots", bowline::Roots).await.map(|roots| roots.len().to_string())
            })
            .build()
            .unwrap();
        let (input, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, output) = tokio::io::duplex(64 * 1024);
        let mut options = Options::default();
        options.body_limit = 1_000;
        let stdio = server.stdio().options(options).grace(Duration::from_secs(10));
        let serving = tokio::spawn(stdio.serve_on(stdin, stdout));
        Self { input, output: BufReader::new(output).lines(), serving }
    }

    async fn line(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    async fn call(&mut self, id: u64, tool: &str) {
        let params = json!({ "name": tool, "_meta": { "progressToken": id } });
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await;
    }

    /// The next line, which is one JSON value and nothing else.
    async fn next(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.output.next_line().await.unwrap()?).unwrap())
    }

    async fn hello(&mut self, revision: &str) -> Value {
        let params = json!({ "protocolVersion": revision, "capabilities": { "roots": {} } });
        self.send(json!({ "jsonrpc": "2.0", "id": "h", "method": "initialize", "params": params })).await;
        let hello = self.next().await.unwrap();
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        hello
    }

    /// Ends the input; returns what is still written.
    async fn end(mut self) -> Vec<Value> {
        drop(self.input);
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        self.serving.await.unwrap().unwrap();
        rest
    }
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_served_line_by_line() {
    for revision in crate::revisions() {
        let mut process = Process::start();
        assert_eq!(process.hello(revision).await["result"]["protocolVersion"], revision);
        process.call(1, "quick").await;
        let answer = process.next().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["result"]["content"][0]["text"]),
            (&json!(1), &json!("two\nlines"))
        );
        assert!(process.end().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_holds_nobody_up_and_can_be_cancelled() {
    let mut process = Process::start();
    process.hello("2025-11-25").await;
    process.call(1, "slow").await;
    process.call(2, "quick").await;
    let (mut first, mut second) = (process.next().await.unwrap(), process.next().await.unwrap());
    if first["id"] == 2 {
        std::mem::swap(&mut first, &mut second);
    }
    assert_eq!((&first["method"], &second["id"]), (&json!("notifications/progress"), &json!(2)));
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    process.send(cancelled).await;
    process.call(3, "quick").await;
    assert_eq!(process.next().await.unwrap()["id"], 3);
    assert!(process.end().await.is_empty(), "a cancelled call is not answered");
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_and_answered() {
    let mut process = Process::start();
    process.hello("2025-11-25").await;
    process.call(1, "ask").await;
    let question = process.next().await.unwrap();
    assert_eq!(question["method"], "roots/list");
    process.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [{ "uri": "file:///a" }] } })).await;
    assert_eq!(process.next().await.unwrap()["result"]["content"][0]["text"], "1");
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_answered_and_the_pipe_lives_on() {
    let mut process = Process::start();
    for (line, code) in [
        ("{", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        ("7", -32600),
        (&"x".repeat(2_000), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, -32600),
    ] {
        process.line(line).await;
        assert_eq!(process.next().await.unwrap()["error"]["code"], code, "{line}");
    }
    // Nobody waits for an answer to a notification.
    process.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    process.line("").await;
    assert_eq!(process.hello("2025-11-25").await["id"], "h");
    process.line("{").await;
    assert_eq!(process.next().await.unwrap()["error"]["code"], -32700);
    process.call(1, "quick").await;
    assert_eq!(process.next().await.unwrap()["id"], 1);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn batches_are_served_where_the_revision_has_them() {
    let mut process = Process::start();
    process.hello("2025-03-26").await;
    let ping = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    process.send(json!([ping(1), ping(2)])).await;
    assert_eq!(process.next().await.unwrap().as_array().unwrap().len(), 2);
    process.end().await;
    let mut process = Process::start();
    process.hello("2025-11-25").await;
    process.send(json!([ping(1), ping(2)])).await;
    assert_eq!(process.next().await.unwrap()["error"]["code"], -32600);
    process.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_input_waits_for_what_runs_but_not_for_ever() {
    let mut process = Process::start();
    process.hello("2025-11-25").await;
    process.call(1, "slow").await;
    process.call(2, "never").await;
    let begun = tokio::time::Instant::now();
    let rest = process.end().await;
    assert!(rest.iter().any(|message| message["id"] == 1 && message["result"].is_object()), "{rest:?}");
    let took = tokio::time::Instant::now() - begun;
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(15), "{took:?}");
}
