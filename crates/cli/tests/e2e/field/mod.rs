//! What others have failed at in the field, case by case: the name of a test begins with its case. docs/field-cases.md says
//! what we do in each.

mod a_lost_sessions;
mod c_outcome;
mod d_backends;
mod e_polling;
mod f_replay;
mod g_reconnects;
mod h_silence;
mod i_limits;
mod j_gateway;
mod k_identity;
mod l_endings;
mod m_bytes;
mod n_handshake;
mod o_leaving;
mod p_shutdown;
mod q_lists;

use crate::common::command;
use bowline_testkit::{Answer, Program, Serve, Session};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// In front of a server that is this text of Python.
fn scripted(script: &str) -> Serve {
    let python = std::env::var_os("BOWLINE_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    command([python, "-uc".into(), script.into()])
}

/// The memory that a program has in use.
fn resident_kib(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The files and sockets that a program has open.
fn open_files(program: &Program) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", program.pid())).expect("it runs").count()
}

/// The status of a probe.
async fn probe(program: &Program, path: &str) -> u16 {
    crate::common::exchange(program, format!("GET {path} HTTP/1.1\r\nHost: probe\r\n\r\n")).await.status()
}

/// The next message of a stream.
async fn next_message(answer: &mut Answer) -> Value {
    loop {
        if let Some(message) = answer.block().await.expect("the stream goes on").message() {
            return message;
        }
    }
}

/// The text of a tool's result, and how long its answer took.
async fn timed(session: &Session, name: &str, arguments: Value) -> (Value, Duration) {
    let began = Instant::now();
    let response = session.call(name, arguments).await.response().await;
    (response, Instant::now() - began)
}

/// Reads the answer to a message on connections that break after `cut`, each resumed at the newest id; all messages of it.
async fn through_cuts(session: &Session, message: &Value, cut: Duration) -> Vec<Value> {
    let (mut messages, mut cursor) = (Vec::<Value>::new(), None);
    let mut answer = session.post(message).await;
    loop {
        assert_eq!(answer.status(), 200, "{}", answer.head.text);
        let deadline = Instant::now() + cut;
        while let Ok(Some(block)) = timeout_at(deadline, answer.block()).await {
            messages.extend(block.message());
        }
        cursor = answer.last_id.take().or(cursor);
        answer.abort();
        if messages.last().is_some_and(|message| message.get("method").is_none()) {
            return messages;
        }
        answer = session.get(cursor.as_deref()).await;
    }
}
