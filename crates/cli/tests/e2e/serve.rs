//! `bowline serve` from its start message to its exit code.

use crate::support::{Served, bowline, soon};
use rustix::process::Signal;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

#[tokio::test]
async fn it_says_where_it_is_and_how_to_use_it() {
    let served = Served::start(&["--path", "/x", "--", "cat"]).await;
    let start = served.said.find('{').unwrap();
    let end = served.said.rfind('}').unwrap();
    let snippet: serde_json::Value = serde_json::from_str(&served.said[start..=end]).unwrap();
    assert_eq!(snippet["mcpServers"]["cat"]["type"], "http");
    assert_eq!(snippet["mcpServers"]["cat"]["url"], format!("http://{}/x", served.address));
    assert!(!served.said.contains("WARNING"), "{}", served.said);
    served.signal(Signal::TERM);
    let ended = served.end().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
}

#[tokio::test]
async fn variables_configure_it() {
    let mut command = bowline(&["serve"]);
    command.env("BOWLINE_PORT", "0").env("BOWLINE_PATH", "/from-env").env("BOWLINE_STDIO", "cat -u");
    command.env("BOWLINE_TRUST_PROXY", "0").env("BOWLINE_KEY", "ab".repeat(32)).env("BOWLINE_JSON_HOLD", "");
    let served = Served::spawn(command).await;
    assert!(served.said.contains("/from-env"), "{}", served.said);
    served.signal(Signal::TERM);
    assert_eq!(served.end().await.code, Some(0));
}

#[tokio::test]
async fn what_is_typed_wins_over_variables() {
    let mut command = bowline(&["serve", "--port", "0", "--path", "/typed", "--", "cat"]);
    command.env("BOWLINE_LISTEN", "127.0.0.1:1").env("BOWLINE_PATH", "/from-env");
    command.env("BOWLINE_STDIO", "no-such-server");
    let served = Served::spawn(command).await;
    assert!(served.said.contains("/typed") && !served.said.contains("/from-env"), "{}", served.said);
    assert!(served.said.contains("serves cat") && served.address.port() != 1, "{}", served.said);
}

#[tokio::test]
async fn it_warns_when_others_can_reach_it() {
    let served = Served::start(&["--host", "0.0.0.0", "--", "cat"]).await;
    assert!(served.said.starts_with("WARNING: 0.0.0.0:"), "{}", served.said);
    assert!(served.said.contains("NO AUTHENTICATION"), "{}", served.said);
}

#[tokio::test]
async fn probes_and_checks() {
    let served = Served::start(&["--", "cat"]).await;
    for path in ["/healthz", "/readyz"] {
        let answer = served.http(&[&format!("GET {path} HTTP/1.1"), "Host: probe"]).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    let answer = served.http(&["POST /mcp HTTP/1.1", "Host: evil.example", "Content-Length: 0"]).await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--allow-host"), "{answer}");
    let answer = served.http(&["GET /nothing HTTP/1.1", "Host: localhost"]).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn the_host_of_a_trusted_proxy() {
    let lines =
        ["POST /mcp HTTP/1.1", "Host: localhost", "X-Forwarded-Host: mcp.example.com", "Content-Length: 0"];
    for (args, refused) in [
        (&["--", "cat"][..], false),
        (&["--trust-proxy", "--", "cat"], true),
        (&["--trust-proxy", "--allow-host", "mcp.example.com", "--", "cat"], false),
    ] {
        let answer = Served::start(args).await.http(&lines).await;
        assert_eq!(answer.starts_with("HTTP/1.1 403 "), refused, "{args:?}: {answer}");
    }
}

#[tokio::test]
async fn a_signal_ends_it_within_a_second_when_nothing_runs() {
    let mut best = Duration::MAX;
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        let served = Served::start(&["--", "cat"]).await;
        // A connection that is kept, as clients do between two requests.
        let mut idle = TcpStream::connect(served.address).await.unwrap();
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut head = [0; 12];
        idle.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        let before = Instant::now();
        served.signal(signal);
        let ended = served.end().await;
        let took = Instant::now() - before;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
        best = best.min(took);
        let mut rest = Vec::new();
        soon("the end of the connection", idle.read_to_end(&mut rest)).await.unwrap();
    }
    // The best of three: the machine may be busy, a wait would be there every time.
    assert!(best < Duration::from_secs(1), "{best:?}");
}

#[tokio::test]
async fn a_hang_up_is_ignored_without_a_terminal() {
    let mut served = Served::start(&["--", "cat"]).await;
    served.signal(Signal::HUP);
    served.says("SIGHUP is ignored").await;
    let answer = served.http(&["GET /readyz HTTP/1.1", "Host: x"]).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    served.signal(Signal::TERM);
    assert_eq!(served.end().await.code, Some(0));
}

#[tokio::test]
async fn a_log_for_machines() {
    let mut command = bowline(&["serve", "--port", "0", "--log-format", "json", "--", "cat"]);
    let mut process = command.spawn().unwrap();
    let mut stderr = process.stderr.take().unwrap();
    // The start message is one line of it.
    let mut line = Vec::new();
    soon("the start message", async {
        while line.last() != Some(&b'\n') {
            line.push(stderr.read_u8().await.unwrap());
        }
    })
    .await;
    let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(line["message"], "serving");
    assert!(line["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{line}");
    let config: serde_json::Value = serde_json::from_str(line["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["mcpServers"]["cat"]["url"], line["url"]);
}

/// A supervisor that hangs reads no more of our stderr. Whatever is said there, clients are served and signals are heard.
#[tokio::test]
async fn a_stderr_that_is_not_read_stops_nothing() {
    // 1 MB for each process, far above what a pipe takes, before it answers: `cat` sends every line back, so that it is
    // nobody's answer, and each `initialize` waits until it is given up.
    let noisy = "head -c 1000000 /dev/zero | tr '\\0' 'x' | fold >&2; exec cat";
    for stderr in ["log", "inherit"] {
        let served = Served::start(&[
            "--stderr",
            stderr,
            "--init-timeout",
            "500ms",
            "--log-level",
            "trace",
            "--",
            "sh",
            "-c",
            noisy,
        ])
        .await;
        let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        let length = format!("Content-Length: {}", body.len());
        let head = ["POST /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json", &length];
        let request = [&head[..], &["Connection: close", "", body]].concat();
        for _ in 0..3 {
            let answer = soon("an answer", async {
                let mut stream = TcpStream::connect(served.address).await.unwrap();
                stream.write_all(request.join("\r\n").as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer
            })
            .await;
            assert!(answer.starts_with("HTTP/1.1 "), "{stderr}: {answer}");
        }
        let answer = served.http(&["GET /healthz HTTP/1.1", "Host: probe"]).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{stderr}: {answer}");
        served.signal(Signal::TERM);
        assert_eq!(soon("the end", served.code()).await, Some(0), "{stderr}");
    }
}
