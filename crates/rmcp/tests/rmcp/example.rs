//! The example runs and does what it says. It is a program of its own, built beside this test.

use serde_json::{Value, json};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{TcpListener, TcpStream},
    process::Command,
};

/// Real processes answer in real time; this is only how long a broken one is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a message on a connection of its own; the lines of the answer.
async fn post(address: &str, session: &str, message: &Value) -> Lines<BufReader<TcpStream>> {
    let body = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{session}\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    BufReader::new(stream).lines()
}

/// The next line that has `part`.
async fn line_with(lines: &mut Lines<BufReader<TcpStream>>, part: &str) -> String {
    let found = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap_or_else(|| panic!("no {part} in the answer"));
            if line.contains(part) {
                return line;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {part} in time"))
}

#[tokio::test]
async fn the_example_cooks_and_asks() {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/rmcp_handler");
    assert!(program.is_file(), "{} is not built: run the tests of the whole package", program.display());
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let _child = Command::new(program).arg(&address).stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let listening = async {
        while TcpStream::connect(&address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.expect("the example listens");
    let request = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "t", "version": "1" } });
    let mut hello = post(&address, "", &request(0, "initialize", params)).await;
    let session = format!("{}\r\n", line_with(&mut hello, "mcp-session-id:").await);
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    line_with(&mut post(&address, &session, &ready).await, "202").await;

    let job = json!({ "name": "cook", "arguments": { "steps": 3, "step_ms": 20 }, "_meta": { "progressToken": "t" } });
    let mut cooked = post(&address, &session, &request(1, "tools/call", job)).await;
    line_with(&mut cooked, "notifications/progress").await;
    line_with(&mut cooked, "Served after 3 steps").await;

    let mut booked =
        post(&address, &session, &request(2, "tools/call", json!({ "name": "book", "arguments": {} }))).await;
    let question = line_with(&mut booked, "elicitation/create").await;
    let question: Value = serde_json::from_str(question.trim_start_matches("data:")).unwrap();
    let result = json!({ "action": "accept", "content": { "people": 4 } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
    line_with(&mut post(&address, &session, &answer).await, "202").await;
    line_with(&mut booked, "Booking 1: a table for 4").await;
}
