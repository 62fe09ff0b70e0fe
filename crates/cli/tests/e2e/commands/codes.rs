//! Each exit code.

use super::line;
use crate::{
    common::fixture,
    support::{bowline, run, soon},
};
use bowline_testkit::{Dir, PATIENCE, eventually, processes};
use rustix::process::Signal;
use serde_json::{Value, json};

#[tokio::test]
async fn what_the_server_says() {
    let program = fixture().start().await;
    let url = program.url();
    // 1: the tool itself failed.
    let ended = line(&["call", url, "env", "name=NOT_SET_ANYWHERE"]).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), "NOT_SET_ANYWHERE is not set\n"),
        "{}",
        ended.stderr
    );
    // 3: errors of the protocol.
    for args in [
        &["call", url, "no-such-tool"][..],
        &["read", url, "fixture://nothing"],
        &["prompt", url, "nothing"],
        &["prompt", url, "greet"],
    ] {
        let ended = line(args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("bowline: the server answered with error -32"), "{}", ended.stderr);
    }
    let ended = line(&["call", url, "no-such-tool", "-o", "json"]).await;
    let error: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((ended.code, &error["error"]["code"]), (Some(3), &json!(-32602)));
    assert_eq!(error["error"]["data"], json!({ "name": "no-such-tool" }));
}

#[tokio::test]
async fn nobody_there_is_4() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/mcp");
    for args in [&["list", &url, "--outage", "0"][..], &["call", &url, "echo", "--outage", "300ms"]] {
        let ended = line(args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
    }
    let ended = line(&["list", "--", "no-such-server"]).await;
    assert!(ended.code == Some(4) && ended.stderr.contains("no-such-server"), "{}", ended.stderr);
}

#[tokio::test]
async fn credentials() {
    let dir = Dir::new();
    let tokens = dir.join("tokens");
    std::fs::write(&tokens, "me=0123456789abcdef0123456789abcdef\n").unwrap();
    let program = fixture().with(&format!("--auth-token-file {}", tokens.display())).start().await;
    let url = program.url();
    for args in [&["list", url, "--no-login"][..], &["list", url, "--token", "wrong"]] {
        let ended = line(args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), ""), "{args:?}: {}", ended.stderr);
    }
    let mut command = bowline(&["call", url, "echo", "text=in"]);
    command.env("BOWLINE_TOKEN", "0123456789abcdef0123456789abcdef");
    let ended = run(command).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "in\n"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_call_whose_outcome_is_unknown_is_6_and_ran_once() {
    let program = fixture().start().await;
    let dir = Dir::new();
    let ledger = dir.join("ledger");
    let file = format!("file={}", ledger.display());
    let lines = || std::fs::read_to_string(&ledger).unwrap_or_default().lines().count();
    // Its own limit.
    let ended = line(&["call", program.url(), "count", &file, "ms:=60000", "--timeout", "1s"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), lines()), (Some(6), "", 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("1s"), "{}", ended.stderr);
    // The server dies.
    let call =
        tokio::spawn(run(bowline(&["call", program.url(), "count", &file, "ms:=60000", "-o", "json"])));
    eventually("the call runs", PATIENCE, || lines() == 2).await;
    let address = program.address();
    drop(program);
    let _program = fixture().listen(address).start().await;
    let ended = call.await.unwrap();
    let error: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (ended.code, &error["error"]["data"]["outcome"]),
        (Some(6), &json!("unknown")),
        "{}",
        ended.stderr
    );
    assert_eq!(lines(), 2);
}

#[tokio::test]
async fn what_fails_here_is_7() {
    let program = fixture().start().await;
    let blocks = r#"blocks:=[{"type":"image","mimeType":"image/png","data":"iVBORw=="}]"#;
    let ended = line(&["call", program.url(), "show", blocks, "--save", "/dev/null/x"]).await;
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert!(ended.stderr.contains("/dev/null/x"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_signal_cancels_and_says_which() {
    let program = fixture().start().await;
    let mut child = bowline(&["call", program.url(), "slow", "ms:=60000"]).spawn().unwrap();
    program.has_received("the call", |message| message["method"] == "tools/call").await;
    processes::signal(child.id().unwrap(), Signal::INT);
    let status = soon("its end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(130));
    eventually("the end of the session's server", PATIENCE, || program.servers().is_empty()).await;
}

#[tokio::test]
async fn wrong_usage_is_2() {
    for (args, message) in [
        (&["list"][..], "no server"),
        (&["call", "echo"], "after `--`"),
        (&["call", "http://127.0.0.1:1/"], "the tool is missing"),
        (&["call", "http://127.0.0.1:1/", "echo", "text"], "key=value"),
        (&["call", "http://127.0.0.1:1/", "echo", "n:=x"], "JSON"),
        (&["call", "http://a.example/", "echo"], "--allow-http"),
        (&["list", "http://127.0.0.1:1/", "things"], "tools, resources, templates or prompts"),
        (&["read", "http://127.0.0.1:1/"], "URI"),
        (&["read", "http://127.0.0.1:1/", "a:b", "c:d"], "one word too many"),
        (&["complete", "http://127.0.0.1:1/", "p"], "name=beginning"),
        (&["list", "http://127.0.0.1:1/", "--output", "xml"], "xml"),
    ] {
        let ended = line(args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{args:?}: {}", ended.stderr);
    }
}
