//! Tokens: who gets in, whose sessions and streams are whose (N8, F4), and how tokens are exchanged.

use crate::common::{PRIMED, fixture, ping};
use bowline_testkit::{Answer, Dir, Program, Session, initialize};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::Duration;

const ALICE: &str = "alice-secret-0123456789";
const ALICE_NEW: &str = "alice-secret-9876543210";
const BOB: &str = "bob-secret-0123456789";

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn send(session: &Session, token: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let authorization = bearer(token);
    let mut all = vec![("Authorization", authorization.as_str())];
    all.extend_from_slice(headers);
    session.send(method, &all, body).await
}

async fn open(program: &Program, token: &str) -> Session {
    let mut session = Session::none(program.address());
    let mut answer = send(&session, token, "POST", &[], &initialize(PRIMED).to_string()).await;
    assert_eq!(answer.status(), 200, "{}", answer.head.text);
    answer.json().await;
    session.id = Some(answer.header("mcp-session-id").unwrap().to_owned());
    session.revision = PRIMED.into();
    session
}

async fn started() -> Program {
    let tokens = format!("alice={ALICE},bob={BOB},alice={ALICE_NEW}");
    fixture().with("--response sse --max-connection 1s").env("BOWLINE_AUTH_TOKENS", tokens).start().await
}

fn hides(text: &str) {
    for token in [ALICE, ALICE_NEW, BOB] {
        assert!(!text.contains(token), "a token is shown: {text}");
    }
}

#[tokio::test]
async fn who_has_no_token_gets_nowhere() {
    let program = started().await;
    let none = Session::none(program.address());
    let wrong = bearer("wrong-secret-0123456789");
    let both = format!("{}, {}", bearer(ALICE), bearer(BOB));
    let huge = "x".repeat(5 * 1024 * 1024);
    for authorization in ["", "Basic YTpi", "Bearer", &wrong, &both, ALICE] {
        let header = ("Authorization", authorization);
        for (method, headers, body) in [
            ("POST", &[header][..], initialize(PRIMED).to_string()),
            ("POST", &[header, ("Content-Type", "text/plain")], "junk".into()),
            ("POST", &[header, ("Accept", "text/html")], String::new()),
            ("POST", &[header, ("Mcp-Session-Id", "nobody")], ping().to_string()),
            ("GET", &[header, ("Last-Event-ID", "x")], String::new()),
            ("DELETE", &[header, ("Mcp-Session-Id", "nobody")], String::new()),
        ] {
            let mut answer = none.send(method, headers, &body).await;
            assert_eq!(answer.status(), 401, "{method} {authorization:?}: {}", answer.head.text);
            assert!(
                answer.header("www-authenticate").unwrap().starts_with("Bearer "),
                "{}",
                answer.head.text
            );
            assert_eq!(answer.json().await["error"]["code"], -32600);
        }
    }
    assert_eq!(none.send("POST", &[], &huge).await.status(), 401, "before its body is read");
    assert_eq!(super::get(program.address(), "/metrics").await.status(), 401);
    assert_eq!(super::get(program.address(), "/healthz").await.status(), 200);
    assert_eq!(program.servers().len(), 0, "nothing was started for anybody");
    let said = program.said();
    assert!(said.contains(r#""Authorization": "Bearer YOUR_TOKEN""#), "{said}");
    hides(&said);
}

#[tokio::test]
async fn a_session_belongs_to_a_name() {
    let program = started().await;
    let session = open(&program, ALICE).await;
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for (token, status) in [(ALICE, 202), (ALICE_NEW, 202), (BOB, 404)] {
        assert_eq!(send(&session, token, "POST", &[], body).await.status(), status, "{token}");
    }
    // Somebody else's session is to the byte what one is that never was.
    for method in ["POST", "GET", "DELETE"] {
        let body = if method == "POST" { body } else { "" };
        let mut bobs = send(&session, BOB, method, &[], body).await;
        let mut unknown =
            send(&session.with_id(Some("AAAAAAAAAAAAAAAAAAAAAA")), BOB, method, &[], body).await;
        assert_eq!((bobs.status(), unknown.status()), (404, 404), "{method}");
        assert_eq!(bobs.text().await, unknown.text().await, "{method}");
    }
    // A token that does not count is no end of the session.
    assert_eq!(send(&session, "wrong-secret-0123456789", "DELETE", &[], "").await.status(), 401);
    assert_eq!(send(&session, ALICE_NEW, "POST", &[], body).await.status(), 202);
    assert_eq!(send(&session, ALICE_NEW, "DELETE", &[], "").await.status(), 204);
    hides(&program.said());
}

#[tokio::test]
async fn a_stream_belongs_to_its_session_and_name() {
    let program = started().await;
    let (alices, bobs) = (open(&program, ALICE).await, open(&program, BOB).await);
    let secret = "the-secret-of-alice";
    let call = |session: &Session, text: &str| session.tool("echo", &json!({ "text": text })).to_string();
    let mut answer = send(&alices, ALICE, "POST", &[], &call(&alices, secret)).await;
    assert!(answer.is_stream(), "{}", answer.head.text);
    let mut cursors: Vec<String> = Vec::new();
    let mut seen = String::new();
    while let Some(block) = answer.block().await {
        seen.push_str(&block.text);
        cursors.extend(block.id);
    }
    assert!(seen.contains(secret) && !cursors.is_empty(), "{seen}");
    let mut random = cursors[0].clone().into_bytes();
    let middle = random.len() / 2;
    random[middle] = if random[middle] == b'A' { b'B' } else { b'A' };
    let random = String::from_utf8(random).unwrap();
    let mut refused = send(&bobs, BOB, "GET", &[("Last-Event-ID", &random)], "").await;
    let expected = (refused.status(), refused.text().await);
    assert_eq!(expected.0, 400);
    for cursor in &cursors {
        let header = [("Last-Event-ID", cursor.as_str())];
        // In Bob's own session, in Alice's, in none.
        let mut own = send(&bobs, BOB, "GET", &header, "").await;
        assert_eq!((own.status(), own.text().await), expected);
        for session in [alices.clone(), alices.with_id(None)] {
            let mut answer = send(&session, BOB, "GET", &header, "").await;
            let text = answer.text().await;
            assert!((400..405).contains(&answer.status()) && !text.contains(secret), "{text}");
        }
    }
    // Alice herself has it, with another token too.
    let mut again = send(&alices, ALICE_NEW, "GET", &[("Last-Event-ID", &cursors[0])], "").await;
    assert!(again.text().await.contains(secret));
    hides(&program.said());
}

/// Waits until a token is answered with a status.
async fn becomes(program: &Program, token: &str, status: u16) {
    let ping = ping().to_string();
    let none = Session::none(program.address());
    for _ in 0..150 {
        // Let in, it is a request without a session.
        if send(&none, token, "POST", &[], &ping).await.status() == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{token} is still not answered with {status}; it said:\n{}", program.said());
}

#[tokio::test]
async fn tokens_are_exchanged_without_a_restart() {
    let dir = Dir::new();
    let path = dir.join("tokens");
    std::fs::write(&path, format!("# who may call\nalice={ALICE}\n")).unwrap();
    let program = fixture().with("--auth-token-file").with(path.to_str().unwrap()).start().await;
    becomes(&program, ALICE, 400).await;
    let session = open(&program, ALICE).await;
    std::fs::write(&path, format!("alice={ALICE_NEW}\nbob={BOB}\n")).unwrap();
    becomes(&program, BOB, 400).await;
    becomes(&program, ALICE, 401).await;
    let body = ping().to_string();
    assert_eq!(send(&session, ALICE_NEW, "POST", &[], &body).await.status(), 200, "the session goes on");
    // What is not usable changes nothing, and is said.
    std::fs::write(&path, "alice").unwrap();
    let pid = Pid::from_raw(program.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    bowline_testkit::eventually("the error", Duration::from_secs(10), || {
        program.said().contains("entry 1: expected NAME=TOKEN")
    })
    .await;
    becomes(&program, BOB, 400).await;
    std::fs::write(&path, format!("carol={ALICE}")).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    becomes(&program, ALICE, 400).await;
    becomes(&program, BOB, 401).await;
    let said = program.said();
    assert!(said.contains("the tokens were read again"), "{said}");
    hides(&said);
}

#[tokio::test]
async fn what_is_no_list_of_tokens_is_wrong_usage() {
    for (variable, message) in [
        ("hunter2hunter2hunter2", "BOWLINE_AUTH_TOKENS: entry 1: expected NAME=TOKEN"),
        ("a=hunter2", "fewer than 16 characters"),
        (",", "no tokens: nobody could call"),
    ] {
        let mut command = crate::support::bowline(&["serve", "--port", "0", "--", "cat"]);
        command.env("BOWLINE_AUTH_TOKENS", variable);
        let ended = crate::support::run(command).await;
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(message) && !ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}
