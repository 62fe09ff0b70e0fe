//! Called as mcp-remote is, and wrongly.

use super::host::Host;
use crate::{
    common::fixture,
    support::{bowline, run},
};
use bowline_testkit::Dir;
use serde_json::json;
use tokio::process::Command;

#[tokio::test]
async fn what_hosts_have_in_their_configurations() {
    let dir = Dir::new();
    let tokens = dir.join("tokens");
    std::fs::write(&tokens, "me=0123456789abcdef0123456789abcdef\n").unwrap();
    let program = fixture().with(&format!("--auth-token-file {}", tokens.display())).start().await;
    // A link of that name is that program.
    let link = dir.join("mcp-remote");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), &link).unwrap();
    let mut command = Command::new(link);
    command.args([program.url(), "3334", "--transport", "http-only", "--allow-http", "--host", "localhost"]);
    command.args([
        "--header",
        "Authorization:${AUTH_HEADER}",
        "--header",
        "X-Other: a b",
        "--debug",
        "--silent",
    ]);
    command.args([
        "--ignore-tool",
        "di*",
        "--ignore-tool",
        "*ow",
        "--auth-timeout",
        "60",
        "--resource",
        "https://tenant.example/",
    ]);
    command.args([
        "--disable-resource-parameter",
        "--static-oauth-client-metadata",
        r#"{"scope":"a b"}"#,
        "--enable-proxy",
    ]);
    command.args(["--static-oauth-client-info", r#"{"client_id":"x","client_secret":"hunter2"}"#]);
    command
        .env("AUTH_HEADER", "Bearer 0123456789abcdef0123456789abcdef")
        .env_remove("HTTPS_PROXY")
        .env_remove("HTTP_PROXY");
    command
        .env_remove("https_proxy")
        .env_remove("http_proxy")
        .env_remove("ALL_PROXY")
        .env_remove("all_proxy");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).kill_on_drop(true);
    let mut host = Host::spawn(command);
    host.initialize().await;
    host.asks(1, "tools/list", json!({})).await;
    let tools = host.answer(1).await["result"]["tools"].to_string();
    assert!(
        tools.contains("\"echo\"") && !tools.contains("\"die\"") && !tools.contains("\"slow\""),
        "{tools}"
    );
    host.calls(2, "slow", json!({ "ms": 1 })).await;
    assert_eq!(host.answer(2).await["error"]["code"], -32602);
    host.calls(3, "echo", json!({ "text": "x" })).await;
    assert_eq!(host.text(3).await, "x");
    let ended = host.end().await;
    assert_eq!(ended.code, Some(0));
    assert!(
        !ended.stderr.contains("0123456789abcdef") && !ended.stderr.contains("hunter2"),
        "{}",
        ended.stderr
    );
}

/// Without credentials, and told not to ask for any.
#[tokio::test]
async fn a_server_that_refuses_is_not_away() {
    let dir = Dir::new();
    let tokens = dir.join("tokens");
    std::fs::write(&tokens, "me=0123456789abcdef0123456789abcdef\n").unwrap();
    let program = fixture().with(&format!("--auth-token-file {}", tokens.display())).start().await;
    let mut host = Host::start(&[program.url(), "--no-login", "--patience", "20s"]);
    let answer = host.initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "unauthorized", "{answer}");
    assert_eq!(host.end().await.code, Some(0));
}

#[tokio::test]
async fn wrong_usage_is_2_and_shows_no_secret() {
    for (args, message) in [
        (&["connect"][..], "<URL>"),
        (&["connect", "mcp.example.com"], "http:// or https://"),
        (&["connect", "http://mcp.example.com/mcp"], "--allow-http"),
        (&["http://mcp.example.com/mcp"], "--allow-http"),
        (&["connect", "https://a.example", "--header", "hunter2"], "no colon"),
        (&["connect", "https://a.example", "--header", "A: ${NOT_SET_ANYWHERE}"], "NOT_SET_ANYWHERE"),
        (&["connect", "https://a.example", "--static-oauth-client-info", "hunter2"], "JSON object"),
        (&["connect", "https://a.example", "--host", "evil.example"], "127.0.0.1 or localhost"),
        (&["connect", "https://a.example", "0"], "CALLBACK_PORT"),
        (&["connect", "https://a.example", "--outage", "5"], "5s"),
    ] {
        let ended = run(bowline(args)).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(message) && !ended.stderr.contains("hunter2"),
            "{args:?}: {}",
            ended.stderr
        );
    }
    let mut command = bowline(&["connect", "https://a.example", "--enable-proxy"]);
    command.env("HTTPS_PROXY", "http://u:hunter2@proxy:1");
    let ended = run(command).await;
    assert!(
        ended.code == Some(2) && ended.stderr.contains("HTTPS_PROXY") && !ended.stderr.contains("hunter2"),
        "{}",
        ended.stderr
    );
}
