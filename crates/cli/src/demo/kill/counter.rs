//! The tool of `demo --kill`: a server on stdio that counts, and writes every run into a ledger. It is this program in a process of its
//! own, without runtime, log or options.

use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{self, BufRead as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::Duration,
};

/// The word on the command line.
pub(crate) const ROLE: &str = "__demo_counter";

/// Serves on stdio until the end of its input: `LEDGER MILLISECONDS-FOR-A-NUMBER`.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let ledger = args.next().map(PathBuf::from);
    let tick = args.next().and_then(|tick| tick.to_str()?.parse().ok()).map(Duration::from_millis);
    let (Some(ledger), Some(tick)) = (ledger, tick) else {
        return ExitCode::FAILURE;
    };
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let id = message["id"].clone();
        if id.is_null() {
            continue;
        }
        match message["method"].as_str() {
            Some("initialize") => say(&json!({ "jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "bowline-demo", "version": env!("CARGO_PKG_VERSION") },
            }})),
            Some("tools/call") => {
                let ledger = ledger.clone();
                thread::spawn(move || count(&id, &message["params"], &ledger, tick));
            }
            Some("ping") => say(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
            _ => say(&json!({ "jsonrpc": "2.0", "id": id,
                "error": { "code": -32601, "message": "the only thing here is the tool `count`" } })),
        }
    }
    ExitCode::SUCCESS
}

fn count(id: &Value, params: &Value, ledger: &PathBuf, tick: Duration) {
    let (call, to) = (params["arguments"]["call"].as_u64(), params["arguments"]["to"].as_u64());
    let (Some(call), Some(to)) = (call, to.filter(|to| *to <= 1_000)) else {
        return say(&json!({ "jsonrpc": "2.0", "id": id,
            "error": { "code": -32602, "message": "`count` needs `call` and `to`, up to 1000" } }));
    };
    // Nothing is counted that is not in the ledger.
    let noted = OpenOptions::new().create(true).append(true).open(ledger);
    if let Err(error) = noted.and_then(|mut file| file.write_all(format!("{call}\n").as_bytes())) {
        return say(&json!({ "jsonrpc": "2.0", "id": id,
            "error": { "code": -32603, "message": format!("the ledger: {error}") } }));
    }
    for number in 1..=to {
        thread::sleep(tick);
        say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": params["_meta"]["progressToken"], "progress": number, "total": to } }));
    }
    let numbers: Vec<u64> = (1..=to).collect();
    let sum: u64 = numbers.iter().sum();
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": {
        "content": [{ "type": "text", "text": format!("counted to {to}; the sum is {sum}") }],
        "structuredContent": { "numbers": numbers, "sum": sum },
    }}));
}

/// Writes a line, in one piece. Whoever does not read any more is not told.
fn say(message: &Value) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(format!("{message}\n").as_bytes()).and_then(|()| out.flush());
}

/// How often each of the calls from 1 on was begun.
pub(super) fn runs(ledger: &std::path::Path, call: u64) -> u64 {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    text.lines().filter(|line| line.parse() == Ok(call)).count() as u64
}
