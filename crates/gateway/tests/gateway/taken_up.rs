//! Sessions that another backend began: this one starts a process for them and brings it to where the client is.

use std::time::Duration;

use bowline_store::{MemoryStore, SessionLookup, SessionRecord, SessionStore as _};
use serde_json::json;

use crate::support::{Client, Log, PATIENCE, Server, fixture, until};

/// Waits until what the client set, or has seen, is in the store.
async fn stored(store: &MemoryStore, client: &Client, done: impl Fn(&SessionRecord) -> bool) {
    let look = || match store.load_session(&client.session).now() {
        Some(Ok(SessionLookup::Live(_, record))) => done(&record).then_some(()),
        _ => None,
    };
    until(PATIENCE, look).await;
}

fn has_seen(record: &SessionRecord, lists: &[&str]) -> bool {
    lists.iter().all(|list| record.notes.get(&format!("seen {list}/list")).is_some())
}

#[tokio::test]
async fn a_session_of_another_backend_gets_a_process_that_is_set_up_like_the_old_one() {
    let store = MemoryStore::default();
    let mut options = fixture(&[]);
    let first_log = Log::of(&mut options);
    let first = Server::sharing(options, &store);
    let mut options = fixture(&[]);
    let log = Log::of(&mut options);
    let second = Server::sharing(options, &store);
    let client = first.connected().await;
    client.request(1, "logging/setLevel", json!({ "level": "warning" })).await;
    client.request(2, "resources/subscribe", json!({ "uri": "fixture://counter" })).await;
    for (id, method) in [(3, "tools/list"), (4, "prompts/list"), (5, "resources/list")] {
        client.request(id, method, json!({})).await;
    }
    let pid = client.pid().await;
    stored(&store, &client, |record| {
        record.log_level.as_deref() == Some("warning")
            && record.subscriptions.contains("fixture://counter")
            && has_seen(record, &["tools", "prompts", "resources"])
    })
    .await;
    let there = second.serves(&client);
    let info = there.info().await;
    assert_ne!(info["pid"], pid);
    assert_eq!(
        (&info["level"], &info["subscriptions"], &info["initialized"]),
        (&json!("warning"), &json!(["fixture://counter"]), &json!(true))
    );
    assert_eq!(info["clientCapabilities"]["x"], json!({ "y": 1 }));
    // Strict servers want this order; and it is said once.
    let methods = log.methods();
    assert_eq!(methods[..2], ["initialize", "notifications/initialized"], "{methods:?}");
    assert_eq!(methods.iter().filter(|method| *method == "notifications/initialized").count(), 1);
    assert_eq!(log.messages()[0]["params"]["unknown"], json!({ "deep": [true] }), "as it came");
    // The lists are those that the client has seen: there is nothing to tell.
    let mut standalone = there.get().await;
    let lists =
        || (log.methods().iter().filter(|method| method.ends_with("/list")).count() >= 3).then_some(());
    until(PATIENCE, lists).await;
    there.text(6, "emit", json!({ "method": "x/first" })).await;
    assert_eq!(standalone.next().await.unwrap()["method"], "x/first");
    assert_eq!(second.gateway.stats().taken_up, 1);

    // Both serve on; the end of the session ends both processes.
    assert_eq!(client.pid().await, pid);
    assert_eq!(there.delete().await, 204);
    let gone = || (first.gateway.stats().children + second.gateway.stats().children == 0).then_some(());
    // What is known of it there may be a second old.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(client.post(json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" })).await.status, 404);
    until(PATIENCE, gone).await;
    assert!(!first_log.methods().is_empty());
    first.end().await;
    second.end().await;
}

#[tokio::test]
async fn a_client_is_told_of_lists_that_are_others_there() {
    let store = MemoryStore::default();
    let (first, second) = (Server::sharing(fixture(&[]), &store), Server::sharing(fixture(&[]), &store));
    let client = first.connected().await;
    let mut standalone = client.get().await;
    client.text(1, "swap", json!({})).await;
    standalone.until_method("notifications/tools/list_changed").await;
    // A list with the tool of the swap, which no other process has.
    for (id, method) in [(2, "tools/list"), (3, "prompts/list"), (4, "resources/list")] {
        client.request(id, method, json!({})).await;
    }
    stored(&store, &client, |record| has_seen(record, &["tools", "prompts", "resources"])).await;
    let there = second.serves(&client);
    there.request(5, "ping", json!({})).await;
    let told = standalone.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    there.text(6, "emit", json!({ "method": "x/last" })).await;
    assert_eq!(standalone.next().await.unwrap()["method"], "x/last", "the other lists are as they were");
    first.end().await;
    second.end().await;
}

#[tokio::test]
async fn a_backend_that_is_full_serves_the_session_when_there_is_room() {
    let store = MemoryStore::default();
    let first = Server::sharing(fixture(&[]), &store);
    let mut options = fixture(&[]);
    options.max_children = 1;
    let second = Server::sharing(options, &store);
    let client = first.connected().await;
    let other = second.connected().await;
    let there = second.serves(&client);
    let refused = there.request(1, "tools/list", json!({})).await;
    assert_eq!(refused["error"]["data"]["reason"], "too_many_children");
    assert_eq!(other.delete().await, 204);
    let room = || (second.gateway.stats().children == 0).then_some(());
    until(PATIENCE, room).await;
    assert!(there.pid().await > 0);
    first.end().await;
    second.end().await;
}

#[tokio::test]
async fn a_shared_process_hears_of_the_clients_of_other_backends() {
    let store = MemoryStore::default();
    let shared = || {
        let mut options = fixture(&[]);
        options.sharing = bowline_gateway::Sharing::Shared;
        options
    };
    let (first, second) = (Server::sharing(shared(), &store), Server::sharing(shared(), &store));
    let client = first.connected().await;
    client.request(1, "resources/subscribe", json!({ "uri": "fixture://counter" })).await;
    stored(&store, &client, |record| record.subscriptions.contains("fixture://counter")).await;
    let there = second.serves(&client);
    there.request(2, "ping", json!({})).await;
    let mut standalone = there.get().await;
    standalone.until_method("notifications/tools/list_changed").await;
    let subscribed = || async { there.info().await["subscriptions"] == json!(["fixture://counter"]) };
    for _ in 0..100 {
        if subscribed().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(subscribed().await);
    first.end().await;
    second.end().await;
}
