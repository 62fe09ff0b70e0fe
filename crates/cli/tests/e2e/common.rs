//! What the tests share.

use bowline_testkit::{Answer, Program, Raw, Serve, Session};
use serde_json::{Value, json};

/// The newest legacy revision: the one with priming.
pub(crate) const PRIMED: &str = "2025-11-25";

/// The revisions without priming.
pub(crate) const OLDER: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

/// The program in front of the fixture server.
pub(crate) fn fixture() -> Serve {
    Serve::fixture(env!("CARGO_BIN_EXE_bowline"))
}

/// The program in front of another command.
pub(crate) fn command<A: Into<std::ffi::OsString>>(command: impl IntoIterator<Item = A>) -> Serve {
    Serve::command(env!("CARGO_BIN_EXE_bowline"), command)
}

/// The fixture with options, started.
pub(crate) async fn serve(options: &str) -> Program {
    fixture().with(options).start().await
}

/// A request that any session is answered.
pub(crate) fn ping() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })
}

/// Sends bytes on a new connection and reads the head of the answer.
pub(crate) async fn exchange(program: &Program, request: impl AsRef<[u8]>) -> Answer {
    Answer::to(Raw::connect(program.address()).await, request).await
}

/// Asserts that an answer is a refusal: this status, one JSON-RPC error object with this code, and no id.
pub(crate) async fn assert_refused(mut answer: Answer, status: u16, code: i64, what: &str) -> Value {
    let body = assert_error(&mut answer, status, code, what).await;
    assert_eq!(body.get("id"), None, "{what}: {body}");
    body
}

/// The same, whatever the id.
pub(crate) async fn assert_error(answer: &mut Answer, status: u16, code: i64, what: &str) -> Value {
    assert_eq!(answer.status(), status, "{what}: {}", answer.head.text);
    let body = answer.json().await;
    assert_eq!(body["jsonrpc"], "2.0", "{what}: {body}");
    assert_eq!(body["error"]["code"], code, "{what}: {body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {body}");
    body
}

/// Asserts that the program still does its work.
pub(crate) async fn assert_serves(session: &Session) {
    assert_eq!(session.call_for_text("echo", json!({ "text": "still there" })).await, "still there");
}
