//! Sessions that another backend began.

use crate::client::Server;
use bowline_rmcp::Options;
use bowline_store::MemoryStore;
use serde_json::json;
use std::{sync::Arc, time::Duration};

#[tokio::test(start_paused = true)]
async fn a_session_of_another_backend_gets_a_service_that_knows_its_client() {
    let store = MemoryStore::default();
    let backend =
        || Server::built(Options::default(), |builder| builder.shared_store(Arc::new(store.clone())));
    let (first, second) = (backend(), backend());
    let client = first.client().await;
    client.call("echo", json!({ "text": "here" })).await.response().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let there = client.at(&second.endpoint);
    assert_eq!(there.text("echo", json!({ "text": "there" })).await, "there");
    assert_eq!((first.diary.handlers(), second.diary.handlers()), (1, 1));
    // It asks a client of which it knows what it can do.
    let mut asking = there.call("elicit", json!({})).await;
    asking.until("elicitation/create").await;
    there.notify("notifications/roots/list_changed", json!({})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(second.diary.has("roots changed") && !first.diary.has("roots changed"));
    there.delete().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The other one has nothing to do for the session, and learns of its end when it is asked.
    assert_eq!(client.call("echo", json!({ "text": "gone" })).await.status, 404);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((first.diary.handlers(), second.diary.handlers()), (0, 0));
}
