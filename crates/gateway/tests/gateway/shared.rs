//! One process for all.

use bowline_gateway::{GatewayOptions, Sharing};
use serde_json::{Value, json};

use crate::support::{Log, Server, fixture};

fn shared() -> GatewayOptions {
    let mut options = fixture(&[]);
    options.sharing = Sharing::Shared;
    options
}

/// J10, K2: equal ids and tokens from five sessions.
#[tokio::test]
async fn equal_ids_and_tokens_do_not_meet() {
    let mut options = shared();
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let mut calls = Vec::new();
    for n in 0..5_u64 {
        let client = server.connected().await;
        calls.push(tokio::spawn(async move {
            for round in 0..10 {
                let text = format!("{n}-{round}");
                assert_eq!(client.text(round, "echo", json!({ "text": text })).await, text);
            }
            let arguments = json!({ "ms": 300, "progress": 2 + n });
            let params = json!({ "name": "slow", "arguments": arguments, "_meta": { "progressToken": 1 } });
            let all = client.start(json!("same"), "tools/call", params).await.all().await;
            let (response, progress) = all.split_last().unwrap();
            assert_eq!(response["id"], "same");
            assert_eq!(progress.len() as u64, 2 + n, "{all:?}");
            for message in progress {
                assert_eq!(
                    (&message["params"]["progressToken"], &message["params"]["total"]),
                    (&json!(1), &json!(2 + n))
                );
            }
            client.pid().await
        }));
    }
    let mut pids = Vec::new();
    for call in calls {
        pids.push(call.await.unwrap());
    }
    pids.dedup();
    assert_eq!((pids.len(), server.gateway.stats().started), (1, 1));
    let hellos: Vec<Value> = log.messages().into_iter().filter(|m| m["method"] == "initialize").collect();
    assert_eq!(hellos.len(), 1);
    assert_eq!(
        (&hellos[0]["params"]["clientInfo"]["name"], &hellos[0]["params"]["capabilities"]),
        (&json!("bowline"), &json!({}))
    );
    assert_eq!(log.methods()[..2], ["initialize", "notifications/initialized"]);
    server.end().await;
}

/// Questions are refused, logs dropped, and neither is announced.
#[tokio::test]
async fn what_could_reach_the_wrong_one_reaches_nobody() {
    let server = Server::new(shared());
    let mut client = server.client();
    let hello = client.initialize().await;
    assert_eq!(hello["result"]["capabilities"].get("logging"), None);
    assert_eq!(hello["result"]["capabilities"]["tools"]["listChanged"], true);
    client.notify("notifications/initialized", json!({})).await;
    let refused = client.tool(1, "ask", json!({})).await.response().await;
    assert_eq!(refused["result"]["isError"], true);
    let all = client.tool(2, "log", json!({ "n": 3 })).await.all().await;
    assert_eq!((all.len(), &all[0]["result"]["content"][0]["text"]), (1, &json!("sent 3")));
    let level = client.request(3, "logging/setLevel", json!({ "level": "debug" })).await;
    assert_eq!(level["error"]["code"], -32601);
    server.end().await;
}

/// Changes go to whom they concern; who leaves or cancels takes nobody along.
#[tokio::test]
async fn changes_go_to_whom_they_concern() {
    let mut options = shared();
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let (a, b, c) = (server.connected().await, server.connected().await, server.connected().await);
    let uri = json!({ "uri": "fixture://counter" });
    for client in [&a, &b] {
        client.request(1, "resources/subscribe", uri.clone()).await;
    }
    let mut streams = [a.get().await, b.get().await, c.get().await];
    assert_eq!(a.text(2, "update", json!({})).await, "told");
    a.text(3, "swap", json!({})).await;
    for stream in &mut streams[..2] {
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/resources/updated");
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
    }
    assert_eq!(streams[2].next().await.unwrap()["method"], "notifications/tools/list_changed");

    // One leaves: the other is still subscribed. The last one ends it.
    a.request(4, "resources/unsubscribe", uri.clone()).await;
    assert!(!log.methods().contains(&"resources/unsubscribe".to_owned()));
    assert_eq!(c.text(5, "update", json!({})).await, "told");
    assert_eq!(streams[1].next().await.unwrap()["method"], "notifications/resources/updated");
    let busy = c.clone();
    let running = tokio::spawn(async move { busy.text(6, "slow", json!({ "ms": 500 })).await });
    b.delete().await;
    log.find(|message| message["method"] == "resources/unsubscribe").await;
    assert_eq!(c.text(7, "update", json!({})).await, "nobody subscribed");
    assert_eq!(running.await.unwrap(), "slow: 500 ms, 0 progress");

    // A cancel is its own session's.
    let other = a.clone();
    let running = tokio::spawn(async move { other.text(8, "slow", json!({ "ms": 500 })).await });
    c.notify("notifications/cancelled", json!({ "requestId": 8 })).await;
    assert_eq!(running.await.unwrap(), "slow: 500 ms, 0 progress");
    server.end().await;
}

/// A shared process that dies is replaced for all; subscriptions are kept.
#[tokio::test]
async fn a_new_process_serves_all() {
    let server = Server::new(shared());
    let (a, b) = (server.connected().await, server.connected().await);
    b.request(1, "resources/subscribe", json!({ "uri": "fixture://counter" })).await;
    let mut stream = b.get().await;
    let answer = a.tool(2, "die", json!({ "how": "kill" })).await.response().await;
    assert_eq!(answer["error"]["data"]["reason"], "upstream_lost");
    assert_eq!(a.text(3, "update", json!({})).await, "told");
    stream.until_method("notifications/resources/updated").await;
    assert_eq!(a.pid().await, b.pid().await);
    server.end().await;
}
