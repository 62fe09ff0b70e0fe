//! A login while the host waits: the host is told of a stand-in, and of the lists when somebody has logged in.

use super::host::Host;
use crate::authorization::{Guarded, browse};
use bowline_testkit::{Dir, PATIENCE};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn the_host_does_not_wait_for_a_person() {
    let server = Guarded::start().await;
    let dir = Dir::new();
    let file = dir.join("credentials.json");
    let url = server.url();
    let args =
        [&url, "--no-browser", "--patience", "300ms", "--credentials", file.to_str().unwrap(), "--silent"];
    let mut host = Host::start(&args);
    let hello = host.initialize().await;
    assert!(hello["result"]["capabilities"]["tools"].is_object(), "{hello}");
    host.asks(1, "tools/list", json!({})).await;
    let began = tokio::time::Instant::now();
    let address = loop {
        let said = host.said().await;
        if let Some(line) = said.lines().find(|line| line.contains("/authorize?")) {
            break line.to_owned();
        }
        assert!(tokio::time::Instant::now() - began < PATIENCE, "no address: {said}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    browse(&address).await;
    assert_eq!(host.answer(1).await["result"]["tools"][0]["name"], "secret");
    host.hears("notifications/tools/list_changed").await;
    assert_eq!(host.end().await.code, Some(0));
}
