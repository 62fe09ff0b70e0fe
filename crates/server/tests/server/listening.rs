//! SEMANTICS 4: `subscriptions/listen`.

use crate::{
    client::{Answer, Server},
    modern_script::META,
    script::raw,
};
use bowline_proto::jsonrpc::Notification;
use bowline_server::Options;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

#[allow(clippy::needless_pass_by_value, reason = "messages are written with json! where they are sent")]
fn tell(server: &Server, method: &'static str, params: Option<Value>) {
    let notification = Notification::new(method, params.as_ref().map(raw));
    let peers = server.script.peers.lock().clone();
    for peer in peers {
        peer.notify(&notification);
    }
}

async fn listen(server: &Server, notifications: Value) -> (Value, Answer) {
    let mut client = server.modern_client();
    let request = client.request("subscriptions/listen", json!({ "notifications": notifications }));
    (request["id"].clone(), client.send(&request).await)
}

async fn next(answer: &mut Answer) -> Value {
    loop {
        match answer.event().await.unwrap().data {
            Some(data) => return data,
            None => continue,
        }
    }
}

fn subscription(message: &Value) -> &Value {
    &message["params"]["_meta"][format!("{META}/subscriptionId")]
}

#[tokio::test(start_paused = true)]
async fn it_is_acknowledged_first_and_then_told_what_it_asked_for() {
    let server = Server::modern();
    let (id, mut answer) = listen(
        &server,
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a:1"] }),
    )
    .await;
    assert!(answer.is_stream());
    tell(&server, "notifications/tools/list_changed", None);
    let first = next(&mut answer).await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    // The server announces no changes of prompts.
    assert_eq!(
        first["params"]["notifications"],
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["a:1"] })
    );
    assert_eq!(subscription(&first), &id);

    for method in [
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/message",
    ] {
        tell(&server, method, None);
    }
    tell(&server, "notifications/resources/updated", Some(json!({ "uri": "a:2" })));
    tell(&server, "notifications/resources/updated", Some(json!({ "uri": "a:1" })));
    let told = [next(&mut answer).await, next(&mut answer).await];
    assert_eq!(told[0]["method"], "notifications/tools/list_changed");
    assert_eq!(
        (&told[1]["method"], &told[1]["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("a:1"))
    );
    assert!(told.iter().all(|message| *subscription(message) == id));
    assert!(server.script.peers.lock()[0].is_subscribed("a:1"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_misses_nothing_and_holds_nothing_up() {
    let server = Server::modern();
    let (_, mut answer) =
        listen(&server, json!({ "toolsListChanged": true, "resourcesListChanged": true })).await;
    next(&mut answer).await;
    for _ in 0..10_000 {
        tell(&server, "notifications/tools/list_changed", None);
        tell(&server, "notifications/resources/list_changed", None);
    }
    let told = [next(&mut answer).await, next(&mut answer).await];
    assert_eq!(told[0]["method"], "notifications/tools/list_changed");
    assert_eq!(told[1]["method"], "notifications/resources/list_changed");
    let quiet = tokio::time::timeout(Duration::from_secs(1), answer.event()).await;
    assert!(quiet.is_err());
}

#[tokio::test(start_paused = true)]
async fn two_listen_at_once_each_for_itself() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let mut streams = Vec::new();
    for notifications in [json!({ "toolsListChanged": true }), json!({ "resourcesListChanged": true })] {
        let request = client.request("subscriptions/listen", json!({ "notifications": notifications }));
        let mut answer = client.send(&request).await;
        next(&mut answer).await;
        streams.push((request["id"].clone(), answer));
    }
    tell(&server, "notifications/tools/list_changed", None);
    tell(&server, "notifications/resources/list_changed", None);
    for ((id, answer), method) in
        streams.iter_mut().zip(["notifications/tools/list_changed", "notifications/resources/list_changed"])
    {
        let told = next(answer).await;
        assert_eq!((&told["method"], subscription(&told)), (&json!(method), &*id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_kept_alive_and_ends_with_its_client() {
    let server = Server::modern();
    let (_, mut answer) = listen(&server, json!({ "toolsListChanged": true })).await;
    next(&mut answer).await;
    let before = tokio::time::Instant::now();
    // Comments are no events: what comes at last is told.
    let told = tokio::spawn(async move { (next(&mut answer).await, answer) });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    tell(&server, "notifications/tools/list_changed", None);
    let (_, answer) = told.await.unwrap();
    assert!(tokio::time::Instant::now().duration_since(before) >= Duration::from_secs(3_600));
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 0);
    drop(answer);
    assert_eq!(server.script.ended.load(Ordering::SeqCst), 1);
    assert!(server.script.peers.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_ends_in_order_when_the_server_leaves() {
    let server = Server::modern();
    let (id, mut answer) = listen(&server, json!({ "toolsListChanged": true })).await;
    next(&mut answer).await;
    tell(&server, "notifications/tools/list_changed", None);
    server.endpoint.start_drain();
    assert_eq!(next(&mut answer).await["method"], "notifications/tools/list_changed");
    let last = next(&mut answer).await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&id, &json!("complete")));
    assert_eq!(last["result"]["_meta"][format!("{META}/subscriptionId")], id);
    assert!(answer.event().await.is_none());
    let (_, refused) = listen(&server, json!({})).await;
    assert_eq!(refused.status, 503);
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded_and_malformed_wishes_refused() {
    let mut options = Options::default();
    options.max_held_streams = 1;
    let server = Server::modern_options(options);
    let (_, held) = listen(&server, json!({})).await;
    let (_, refused) = listen(&server, json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.headers.contains_key("retry-after")), (503, true));
    drop(held);
    let (_, malformed) = listen(&server, json!({ "toolsListChanged": "yes" })).await;
    assert_eq!(malformed.json().await["error"]["code"], -32602);
}
