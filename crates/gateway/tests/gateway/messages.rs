//! What passes, and that it passes untouched.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::{Log, PATIENCE, Server, fixture, until};

/// K3: the id comes back to the letter.
#[tokio::test]
async fn ids_come_back_to_the_letter() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    for id in ["0", "-1", "\"0\"", "\"init-1\"", "\"\"", "9007199254740992", "18446744073709551615"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"x"}}}}}}"#
        );
        let mut answer = client.post(call).await;
        assert_eq!(answer.next().await.unwrap()["result"]["content"][0]["text"], "x");
        assert!(answer.raw[0].starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{}", answer.raw[0]);
    }
    for id in ["18446744073709551616", "1.5", "null", "true", "{}"] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let answer = client.post(call).await;
        assert_eq!(answer.status, 400, "{id}");
    }
    server.end().await;
}

/// J10: 500 calls at once over one pipe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_calls_do_not_cross() {
    let mut endpoint = bowline_server::Options::default();
    endpoint.max_calls_per_session = 500;
    let server = Server::with(fixture(&[]), endpoint);
    let client = server.connected().await;
    let calls: Vec<_> = (0..500)
        .map(|n: u64| {
            let client = client.clone();
            tokio::spawn(async move {
                let id = if n.is_multiple_of(2) { json!(n) } else { json!(n.to_string()) };
                let text = format!("text {}", n * 7919);
                let answer = client.tool(id.clone(), "echo", json!({ "text": text })).await.response().await;
                assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&id, &json!(text)));
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    server.end().await;
}

#[tokio::test]
async fn progress_comes_in_order_and_before_the_result() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let params = json!({ "name": "slow", "arguments": { "ms": 100, "progress": 5 }, "_meta": { "progressToken": "t" } });
    let all = client.start(json!(1), "tools/call", params).await.all().await;
    let progress: Vec<_> = all.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(progress, [Some(1), Some(2), Some(3), Some(4), Some(5), None]);
    assert!(all[..5].iter().all(|message| message["params"]["progressToken"] == "t"));
    assert_eq!(all[5]["result"]["content"][0]["text"], "slow: 100 ms, 5 progress");
    server.end().await;
}

#[tokio::test]
async fn calls_with_one_token_each_hear_their_own_progress() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let params = |token: &serde_json::Value| json!({ "name": "slow", "arguments": { "ms": 300, "progress": 3 }, "_meta": { "progressToken": token } });
    // Any number is a token too, and comes back as it is.
    for token in [json!("t"), json!(7), json!(1.5), json!(1e300)] {
        let one = client.start(json!(format!("{token} one")), "tools/call", params(&token)).await;
        let two = client.start(json!(format!("{token} two")), "tools/call", params(&token)).await;
        for answer in [one, two] {
            let all = answer.all().await;
            let progress: Vec<_> = all.iter().map(|message| message["params"]["progress"].as_u64()).collect();
            assert_eq!(progress, [Some(1), Some(2), Some(3), None], "{token}");
            assert!(all[..3].iter().all(|message| message["params"]["progressToken"] == token), "{token}");
        }
    }
    // What cannot be exchanged passes: it is this client's own affair.
    let twins = r#"{"jsonrpc":"2.0","id":"twins","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":1,"progressToken":2}}}"#;
    let answer = client.post(twins).await.all().await;
    assert_eq!(answer[0]["result"]["content"][0]["text"], "x");
    server.end().await;
}

/// Methods, members and errors that nobody knows; parameters over several lines.
#[tokio::test]
async fn the_unknown_passes_untouched() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = server.connected().await;

    let pretty = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x/custom\",\"params\":{\r\n  \"deep\": [1.50, 12345678901234567890123],\n \"s\":\"a\\nb\" }}";
    let answer = client.post(pretty).await.response().await;
    assert_eq!(answer["result"]["s"], "a\nb");
    let unknown = client.request(2, "x/unknown", json!({})).await;
    assert_eq!(
        (&unknown["error"]["code"], &unknown["error"]["data"]["method"]),
        (&json!(-32601), &json!("x/unknown"))
    );
    let missing = client.request(3, "resources/read", json!({ "uri": "fixture://none" })).await;
    assert_eq!(
        (&missing["error"]["code"], &missing["error"]["data"]["uri"]),
        (&json!(-32002), &json!("fixture://none"))
    );
    client.notify("notifications/roots/list_changed", json!({ "unknown": 1 })).await;
    client.notify("x/note", json!({ "a": [1] })).await;
    let note = log.find(|message| message["method"] == "x/note").await;
    assert_eq!(note, json!({ "jsonrpc": "2.0", "method": "x/note", "params": { "a": [1] } }));

    // To the child, raw: digits and all.
    let sent = std::fs::read_to_string(&log.0).unwrap();
    assert!(sent.contains("1.50, 12345678901234567890123"), "{sent}");
    let messages = log.messages();
    let hello = &messages[0]["params"];
    assert_eq!(hello["unknown"], json!({ "deep": [true] }));
    assert_eq!(
        (&hello["clientInfo"]["name"], &hello["capabilities"]["x"]),
        (&json!("test"), &json!({ "y": 1 }))
    );
    server.end().await;
}

#[tokio::test]
async fn notifications_of_the_server_reach_the_standalone_stream_or_their_call() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    // Said before the client listens: kept.
    client.text(1, "emit", json!({ "method": "x/custom", "params": { "n": 1 } })).await;
    let mut standalone = client.get().await;
    assert_eq!(standalone.until_method("x/custom").await["params"], json!({ "n": 1 }));
    client.text(2, "swap", json!({})).await;
    standalone.until_method("notifications/tools/list_changed").await;
    client.request(3, "resources/subscribe", json!({ "uri": "fixture://counter" })).await;
    client.text(4, "update", json!({})).await;
    assert_eq!(
        standalone.until_method("notifications/resources/updated").await["params"]["uri"],
        "fixture://counter"
    );
    // A log message goes with the only running call, although the standalone stream is read.
    let all = client.tool(5, "log", json!({ "n": 2 })).await.all().await;
    assert_eq!(all[0]["params"]["data"], "message 1 of 2");
    assert_eq!(all[2]["result"]["content"][0]["text"], "sent 2");
    server.end().await;
}

/// J6.
#[tokio::test]
async fn a_cancel_reaches_the_process_and_nothing_is_answered() {
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let client = server.connected().await;
    let caller = client.clone();
    let call =
        tokio::spawn(async move { caller.tool("mine", "slow", json!({ "ms": 20_000 })).await.all().await });
    let sent = log.find(|message| message["method"] == "tools/call").await;
    let start = Instant::now();
    for id in ["mine", "mine", "unknown"] {
        client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }
    let told = log.find(|message| message["method"] == "notifications/cancelled").await;
    assert!(Instant::now() - start < Duration::from_secs(10));
    assert_eq!(told["params"]["requestId"], sent["id"]);
    assert_ne!(sent["id"], "mine");
    assert_eq!(call.await.unwrap(), [json!(null); 0]);
    assert_eq!(client.text("mine", "echo", json!({ "text": "next" })).await, "next");
    let cancels = log.methods().iter().filter(|method| *method == "notifications/cancelled").count();
    assert_eq!(cancels, 1);
    server.end().await;
}

/// J5: what does not belong on stdout is skipped.
#[tokio::test]
async fn noise_is_skipped_and_counted() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    for id in 0..20 {
        assert_eq!(client.text(id, "noise", json!({})).await, "quiet again");
    }
    assert_eq!(server.gateway.stats().noise, 20 * 6);
    server.end().await;
}

/// J1: clients that leave, at whatever moment, take nobody with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_leave_harm_nobody() {
    let server = Server::new(fixture(&[]));
    let mut stay = Vec::new();
    for n in 0..10_u64 {
        let client = server.connected().await;
        let call = tokio::spawn(async move { client.text(n, "slow", json!({ "ms": 1_500 })).await });
        if n % 2 == 0 {
            stay.push(call);
        } else {
            // Before the answer became a stream, and while the stream is read.
            tokio::time::sleep(Duration::from_millis(120 * n)).await;
            call.abort();
        }
    }
    for call in stay {
        assert_eq!(call.await.unwrap(), "slow: 1500 ms, 0 progress");
    }
    assert_eq!((server.gateway.stats().started, server.gateway.stats().crashes), (10, 0));
    server.end().await;
}

/// A client that does not read its stream holds up neither the process nor its other calls.
#[tokio::test]
async fn a_client_that_does_not_read_holds_nothing_up() {
    let server = Server::new(fixture(&[]));
    let client = server.connected().await;
    let unread = client.tool(1, "log", json!({ "n": 20_000 })).await;
    assert_eq!(client.text(2, "echo", json!({ "text": "x" })).await, "x");
    let all = unread.all().await;
    assert_eq!(all.last().unwrap()["result"]["content"][0]["text"], "sent 20000");
    server.end().await;
}

/// DELETE ends the process and what it started (J4).
#[tokio::test]
async fn delete_ends_the_process_and_its_grandchild() {
    let server = Server::new(fixture(&["--ignore-term", "--no-exit-on-eof"]));
    let (client, other) = (server.connected().await, server.connected().await);
    let pid = client.pid().await;
    let grandchild =
        client.text(1, "spawn_grandchild", json!({ "ignore_term": true })).await.parse().unwrap();
    assert!(exists_both(pid, grandchild));
    assert_eq!(client.delete().await, 204);
    until(PATIENCE, || (!crate::support::exists(pid) && !crate::support::exists(grandchild)).then_some(()))
        .await;
    assert_eq!(other.text(1, "echo", json!({ "text": "still here" })).await, "still here");
    server.end().await;
}

fn exists_both(a: u64, b: u64) -> bool {
    crate::support::exists(a) && crate::support::exists(b)
}
