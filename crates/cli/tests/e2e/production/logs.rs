//! What is in the log, and what never is.

use crate::common::{PRIMED, fixture};
use bowline_testkit::{Session, initialize};
use serde_json::json;

#[tokio::test]
async fn no_payload_token_or_id_is_logged() {
    for format in ["text", "json"] {
        let token = "hunter2-token-0123456789";
        let program = fixture()
            .with("--json-hold 100ms --max-connection 1s --body-limit 64KiB --log-level trace --log-format")
            .with(format)
            .env("BOWLINE_AUTH_TOKENS", format!("alice={token}"))
            .env("BOWLINE_KEY", "hunter2hunter2hunter2hunter2hunter2hunter2A=")
            .start()
            .await;
        let mut session = Session::none(program.address());
        let bearer = format!("Bearer {token}");
        let auth = ("Authorization", bearer.as_str());
        let mut hello = initialize(PRIMED);
        hello["params"]["clientInfo"]["name"] = json!("hunter2-client");
        let answer = session.send("POST", &[auth], &hello.to_string()).await;
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        session.id = Some(id.clone());
        session.revision = PRIMED.into();
        session.send("POST", &[auth], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        // A call that is parked and polled for, with a secret in every place that takes one.
        let mut call = session.tool("slow", &json!({ "ms": 300, "progress": 2 }));
        call["id"] = json!("hunter2-id");
        call["params"]["_meta"] = json!({ "progressToken": "hunter2-progress" });
        let mut answer = session.send("POST", &[auth], &call.to_string()).await;
        let mut cursor = String::new();
        while let Some(block) = answer.block().await {
            cursor = block.id.unwrap_or(cursor);
        }
        let poll = session.send("GET", &[auth, ("Last-Event-ID", &cursor)], "").await;
        assert!((200..=204).contains(&poll.status()), "{}", poll.head.text);
        // What fails: tools, methods, bodies, cursors, tokens, hosts, paths, sizes.
        for body in [
            session.tool("echo", &json!({ "text": "hunter2-argument" })).to_string(),
            session.tool("fail", &json!({ "message": "hunter2-failure" })).to_string(),
            session.tool("hunter2-tool", &json!({})).to_string(),
            r#"{"jsonrpc":"2.0","id":"hunter2-id2","method":"hunter2/method","params":{"a":"hunter2"}}"#
                .into(),
            r#"{"jsonrpc":"2.0","method":"notifications/hunter2","params":{"a":"hunter2"}}"#.into(),
            r#"{"jsonrpc":"2.0","id":"hunter2-id3","result":{"a":"hunter2"}}"#.into(),
            r#"{"hunter2":"#.into(),
            format!(r#""hunter2{}""#, "x".repeat(100_000)),
        ] {
            session.send("POST", &[auth], &body).await;
        }
        session.send("GET", &[auth, ("Last-Event-ID", "hunter2-cursor")], "").await;
        // These two are no secrets: whoever runs the server has to see what to allow.
        session.send("GET", &[auth, ("Host", "other.example")], "").await;
        session.send("GET", &[auth, ("Origin", "https://other.example")], "").await;
        session.send("POST", &[("Authorization", "Bearer hunter2-guess-0123456789")], "hunter2").await;
        session.with_id(Some("hunter2-session")).send("DELETE", &[auth], "").await;
        assert_eq!(session.send("DELETE", &[auth], "").await.status(), 204);
        program.terminate();
        let mut program = program;
        assert!(program.wait().await.success());

        let said = program.said();
        for secret in ["hunter2", &id, &cursor] {
            let line = said.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is in the log");
        }
        for expected in [
            "Host other.example is not allowed",
            "a request was answered",
            "a call ended",
            "a session began",
            "a session ended",
            "tools/call",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

#[tokio::test]
async fn a_call_can_be_followed_through_the_log() {
    let program = fixture().with("-v --json-hold 50ms --log-format json").start().await;
    let session = program.client().await;
    let answer = session.call("slow", json!({ "ms": 200 })).await;
    session.finish(answer).await;
    bowline_testkit::eventually("the line", bowline_testkit::PATIENCE, || {
        program.said().contains("a call ended")
    })
    .await;
    let said = program.said();
    let lines: Vec<serde_json::Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let line = |message: &str| {
        let found = lines.iter().rfind(|line| line["message"] == message);
        found.unwrap_or_else(|| panic!("no `{message}` in {said}"))
    };
    let call = line("a call ended");
    for hash in ["session", "call", "stream"] {
        let hash = call[hash].as_str().unwrap();
        assert!(hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{call}");
    }
    assert_eq!((&call["method"], &call["outcome"]), (&json!("tools/call"), &json!("result")));
    assert!(call["ms"].as_u64().unwrap() >= 200, "{call}");
    let request = line("a request was answered");
    assert_eq!(request["session"], call["session"], "one session is one hash");
    assert_eq!(request["remote"], "127.0.0.1");
    assert_eq!(line("a session began")["session"], call["session"]);
}
