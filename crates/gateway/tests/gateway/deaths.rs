//! Servers that end (J3), and what replaces them.

use std::time::Duration;

use bowline_gateway::child::Environment;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Log, PATIENCE, Server, fixture, until};

/// Every death: an error at once to the caller, a new process in the same session, nothing for anybody else.
#[tokio::test]
async fn every_death_is_an_error_at_once_and_the_session_lives_on() {
    let mut options = fixture(&[]);
    options.hang_timeout = Some(Duration::from_millis(300));
    options.restart.first = Duration::from_millis(100);
    options.restart.crash_loop = 10;
    let server = Server::new(options);
    let (client, bystander) = (server.connected().await, server.connected().await);
    let bystander_pid = bystander.pid().await;
    for (how, words) in [
        ("exit0", "exited with code 0"),
        ("exit1", "exited with code 1"),
        ("kill", "SIGKILL"),
        ("close_stdout", "closed its stdout"),
        ("silent", "hung"),
    ] {
        let pid = client.pid().await;
        let start = Instant::now();
        let answer = client.tool(how, "die", json!({ "how": how })).await.response().await;
        let took = Instant::now() - start;
        // A silent process is known by its silence, twice as long as the limit set above.
        let within = if how == "silent" { 2_000 } else { 1_000 };
        assert!(took < Duration::from_millis(within), "{how}: told after {took:?}");
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32603), &json!("upstream_lost")),
            "{how}"
        );
        assert_eq!(error["data"]["outcome"], "unknown");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("fixture") && message.contains(words), "{how}: {message}");
        assert_ne!(client.pid().await, pid, "{how}");
    }
    assert_eq!(bystander.pid().await, bystander_pid);
    assert_eq!(server.gateway.stats().crashes, 5);
    server.end().await;
}

/// The new process is brought to where the old one was, in the order that strict servers want (J8), and the client learns
/// that a list is another one (Q1).
#[tokio::test]
async fn a_new_process_is_set_up_like_the_old_one() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = server.connected().await;
    client.request(1, "logging/setLevel", json!({ "level": "warning" })).await;
    client.request(2, "resources/subscribe", json!({ "uri": "fixture://counter" })).await;
    client.text(3, "swap", json!({})).await;
    for (id, method) in [(4, "tools/list"), (5, "prompts/list"), (6, "resources/list")] {
        client.request(id, method, json!({})).await;
    }
    let mut standalone = client.get().await;
    standalone.until_method("notifications/tools/list_changed").await; // of the swap
    let before = log.messages().len();
    client.tool(7, "die", json!({ "how": "kill" })).await.response().await;
    let info = client.info().await;
    assert_eq!(
        (&info["level"], &info["subscriptions"], &info["initialized"]),
        (&json!("warning"), &json!(["fixture://counter"]), &json!(true))
    );
    assert_eq!(info["clientCapabilities"]["x"], json!({ "y": 1 }));
    // The tool of the swap is gone; the other lists are as they were.
    let told = standalone.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    client.text(8, "emit", json!({ "method": "x/last" })).await;
    assert_eq!(standalone.next().await.unwrap()["method"], "x/last");

    let methods = log.methods();
    assert_eq!(methods[before], "tools/call"); // that killed it
    assert_eq!(
        methods[before + 1..before + 5],
        ["initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"]
    );
    let hellos: Vec<_> =
        log.messages().into_iter().filter(|message| message["method"] == "initialize").collect();
    assert_eq!(hellos[0]["params"], hellos[1]["params"]);
    server.end().await;
}

/// A request that was in the hands of a process that died is never sent to the next.
#[tokio::test]
async fn nothing_is_sent_twice() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = server.connected().await;
    let calls: Vec<_> = (0..10)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.tool(n, "slow", json!({ "ms": 5_000 })).await.response().await })
        })
        .collect();
    until(PATIENCE, || (log.methods().len() >= 12).then_some(())).await;
    client.tool("die", "die", json!({ "how": "exit1" })).await.response().await;
    for call in calls {
        assert_eq!(call.await.unwrap()["error"]["data"]["outcome"], "unknown");
    }
    client.pid().await;
    let slow = |message: &&serde_json::Value| message["params"]["name"] == "slow";
    assert_eq!(log.messages().iter().filter(slow).count(), 10);
    server.end().await;
}

/// The question of a process that died is cancelled, and its call ends.
#[tokio::test]
async fn questions_of_the_dead_are_cancelled() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let mut stream = client.tool(1, "ask", json!({})).await;
    let question = stream.next().await.unwrap();
    client.tool(2, "die", json!({ "how": "kill" })).await.response().await;
    let cancelled = stream.until_method("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(stream.response().await["error"]["data"]["reason"], "upstream_lost");
    server.end().await;
}

/// A server that does not come up: clear errors at once, few starts, not ready; and all is well as soon as it does come up.
#[tokio::test]
async fn a_crash_loop_is_an_error_at_once_and_few_starts() {
    let mut options = fixture(&[]);
    let broken = Log::of(&mut options); // only for a file name of its own
    std::fs::write(&broken.0, "").unwrap();
    let script = format!("test -e {} && exit 3; exec python3 \"$0\"", broken.0.display());
    let fixture = options.child.args.remove(0);
    options.child.program = "/bin/sh".into();
    options.child.args = vec!["-c".into(), script.into(), fixture];
    options.child.environment = Environment::inherit();
    options.restart.crash_loop = 2;
    options.restart.longest = Duration::from_millis(1_250); // 1 s and its jitter
    let server = Server::new(options);
    for _ in 0..2 {
        let answer = server.client().initialize().await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("exited with code 3"), "{answer}");
    }
    let (start, before) = (Instant::now(), server.gateway.stats().started);
    let mut took = Vec::new();
    while Instant::now() - start < Duration::from_millis(2_500) {
        let asked = Instant::now();
        let answer = server.client().initialize().await;
        took.push(Instant::now() - asked);
        assert_eq!(answer["error"]["data"]["reason"], "upstream_unavailable", "{answer}");
        assert!(bowline_server::RawHandler::ready(&*server.gateway).is_err());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Half of them: the machine may be busy. A wait for the next start would be there every time.
    took.sort_unstable();
    assert!(took[took.len() / 2] < Duration::from_millis(700), "an error took {took:?}");
    let (started, passed) = (server.gateway.stats().started - before, (Instant::now() - start).as_secs());
    assert!((1..=1 + passed).contains(&started), "{started} starts in {passed} s");

    std::fs::remove_file(&broken.0).unwrap();
    let limit = Instant::now() + Duration::from_secs(10);
    while server.client().initialize().await.get("error").is_some() {
        assert!(Instant::now() < limit, "it does not come up again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(bowline_server::RawHandler::ready(&*server.gateway).is_ok());
    server.end().await;
}

/// A process that comes up and dies at each call: its session is told, and only its session.
#[tokio::test]
async fn a_session_that_crashes_its_process_again_and_again_waits() {
    let mut options = fixture(&[]);
    options.restart.crash_loop = 2;
    options.restart.first = Duration::from_secs(10);
    options.restart.longest = Duration::from_secs(10);
    let server = Server::new(options);
    let (client, other) = (server.connected().await, server.connected().await);
    for id in 0..2 {
        client.tool(id, "die", json!({ "how": "exit1" })).await.response().await;
        client.start(json!("sync"), "ping", json!({})).await;
    }
    let start = Instant::now();
    let answer = client.request(9, "ping", json!({})).await;
    assert_eq!(answer["error"]["data"]["reason"], "upstream_unavailable", "{answer}");
    assert!(Instant::now() - start < Duration::from_secs(8));
    assert_eq!(other.text(1, "echo", json!({ "text": "x" })).await, "x");
    assert!(bowline_server::RawHandler::ready(&*server.gateway).is_ok(), "one session is not all");
    server.end().await;
}
