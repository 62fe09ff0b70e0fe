//! The examples run and do what they say. They are programs of their own, built beside this test.

use serde_json::{Value, json};
use std::{path::PathBuf, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

/// Real processes answer in real time; this is only how long a broken one is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program of an example: `target/PROFILE/examples/NAME`, two folders above this test's own.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.is_file(), "{} is not built: run the tests of the whole package", program.display());
    program
}

struct Example {
    _child: Child,
    address: String,
}

impl Example {
    /// Starts an example that listens, and waits until it does.
    async fn start(name: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(program(name)).arg(&address).kill_on_drop(true).spawn().unwrap();
        let listening = async {
            while TcpStream::connect(&address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.expect("the example listens");
        Self { _child: child, address }
    }

    /// One request on a connection of its own: the whole response.
    async fn http(&self, verb: &str, path: &str, headers: &str, body: &str) -> String {
        let head = format!(
            "{verb} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut response = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut response)).await.expect("an answer").unwrap();
        String::from_utf8(response).unwrap()
    }

    async fn post(&self, headers: &str, message: &Value) -> String {
        self.http("POST", "/mcp", headers, &message.to_string()).await
    }

    /// Shakes hands; returns the header that names the session.
    async fn session(&self, headers: &str, capabilities: &Value) -> String {
        let answer = self.post(headers, &initialize(capabilities)).await;
        let id = header(&answer, "mcp-session-id");
        let session = format!("{headers}Mcp-Session-Id: {id}\r\n");
        self.post(&session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        session
    }
}

fn header(answer: &str, name: &str) -> String {
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    let line = line.unwrap_or_else(|| panic!("no {name} in {answer}"));
    line.split_once(':').unwrap().1.trim().to_owned()
}

fn initialize(capabilities: &Value) -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
}

#[tokio::test]
async fn hello_greets_and_is_fifteen_lines() {
    let example = Example::start("hello").await;
    let session = example.session("", &json!({})).await;
    let answer = example.post(&session, &call("hello", &json!({ "name": "Ann" }))).await;
    assert!(answer.contains("Hello, Ann!"), "{answer}");
    let code = include_str!("../../examples/hello.rs");
    let lines = code.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//!"));
    assert!(lines.count() <= 15);
}

#[tokio::test]
async fn the_long_job_tells_how_far_it_is_and_can_be_polled() {
    let example = Example::start("long_job").await;
    let session = example.session("", &json!({})).await;
    let mut watched = call("run_job", &json!({ "steps": 3, "step_ms": 20 }));
    watched["params"]["_meta"] = json!({ "progressToken": "t" });
    let answer = example.post(&session, &watched).await;
    assert!(answer.contains(r#""progress":3"#) && answer.contains(r#"{"steps":3}"#), "{answer}");
    // Without a token it lets go of the connection.
    let answer = example.post(&session, &call("run_job", &json!({ "steps": 1, "step_ms": 300 }))).await;
    assert!(!answer.contains("structuredContent"), "{answer}");
    let cursor = answer.lines().filter_map(|line| line.strip_prefix("id:")).next_back().unwrap().trim();
    let resume = format!("{session}Last-Event-ID: {cursor}\r\n");
    let answer = example.http("GET", "/mcp", &resume, "").await;
    assert!(answer.contains(r#"{"steps":1}"#), "{answer}");
}

#[tokio::test]
async fn elicitation_asks_for_a_table() {
    let example = Example::start("elicitation").await;
    let session = example.session("", &json!({ "elicitation": {} })).await;
    let body = call("book_table", &json!({ "restaurant": "Chez Max" })).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{session}\r\n",
        example.address,
        body.len()
    );
    let mut stream = TcpStream::connect(&example.address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(stream).lines();
    let question: Value = loop {
        let line =
            tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("a question");
        if let Some(data) = line.strip_prefix("data:").filter(|data| data.contains("elicitation/create")) {
            break serde_json::from_str(data).unwrap();
        }
    };
    assert_eq!(
        question["params"]["requestedSchema"]["properties"]["place"]["enum"],
        json!(["inside", "outside"])
    );
    let content = json!({ "people": 4, "place": "outside" });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": content } });
    example.post(&session, &answer).await;
    let booked = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("Booked a table for 4 at Chez Max, Outside") {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(PATIENCE, booked).await.unwrap());
}

#[tokio::test]
async fn resources_are_written_listed_and_subscribed_to() {
    let mut child = Command::new(program("resources"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let mut next = async || -> Value {
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    };
    {
        let mut send =
            async |message: Value| input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        let request = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        send(initialize(&json!({}))).await;
        next().await;
        send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let note = |text: &str| json!({ "name": "write_note", "arguments": { "name": "a", "text": text } });
        send(request(1, "resources/subscribe", json!({ "uri": "note:///a" }))).await;
        assert_eq!(next().await["result"], json!({}));
        send(request(2, "tools/call", note("first"))).await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            let message = next().await;
            seen.push(message["method"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned));
        }
        seen.sort();
        assert_eq!(seen, ["2", "notifications/resources/list_changed", "notifications/resources/updated"]);
        send(request(3, "resources/read", json!({ "uri": "note:///a" }))).await;
        assert_eq!(next().await["result"]["contents"][0]["text"], "first");
        send(request(4, "resources/list", json!({}))).await;
        assert_eq!(next().await["result"]["resources"][0]["uri"], "note:///a");
    }
    drop(input);
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("it ends with its input").unwrap();
    assert!(ended.success());
}

#[tokio::test]
async fn mounted_knows_the_caller() {
    let example = Example::start("mounted").await;
    assert!(example.http("GET", "/", "", "").await.contains("at /mcp"));
    let refused = example.post("", &initialize(&json!({}))).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let session = example.session("X-User: ann\r\n", &json!({})).await;
    let answer = example.post(&session, &call("who_am_i", &json!({}))).await;
    assert!(answer.contains("You are ann"), "{answer}");
}

#[tokio::test]
async fn the_transport_frames_messages() {
    let example = Example::start("transport").await;
    let mut stream = TcpStream::connect(&example.address).await.unwrap();
    for message in [initialize(&json!({})), call("ping_me", &json!({}))] {
        let body = message.to_string();
        stream.write_u32(u32::try_from(body.len()).unwrap()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let read = async {
            let length = stream.read_u32().await.unwrap();
            let mut answer = vec![0; length as usize];
            stream.read_exact(&mut answer).await.unwrap();
            serde_json::from_slice::<Value>(&answer).unwrap()
        };
        let answer = tokio::time::timeout(PATIENCE, read).await.unwrap();
        assert_eq!(answer["id"], message["id"]);
    }
}
