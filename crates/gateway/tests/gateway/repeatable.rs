//! Which calls may be run again where their backend dies: those of tools that the server marks so in its list.

use std::sync::Arc;
use std::time::Duration;

use bowline_gateway::GatewayOptions;
use bowline_server::{Options, Takeover};
use bowline_store::{BackendId, BackendRegistry as _, MemoryStore, StreamLog as _, TakeOver};
use serde_json::json;

use crate::support::{Client, Log, PATIENCE, Server, fixture, until};

fn rerunning(options: GatewayOptions, store: &MemoryStore) -> Server {
    let mut endpoint = Options::default();
    endpoint.takeover = Takeover::Rerun;
    endpoint.json_hold = Duration::from_millis(10);
    Server::built(options, |builder| builder.options(endpoint).shared_store(Arc::new(store.clone())))
}

/// Begins a call that takes long, and says whether another backend could run it again.
async fn may_run_again(client: &Client, store: &MemoryStore, id: u64, tool: &str) -> bool {
    let mut arguments = json!({ "ms": 600_000 });
    if tool == "job" {
        arguments["file"] = json!("/dev/null");
        arguments["key"] = json!("k");
    }
    let answer = client.tool(id, tool, arguments).await;
    drop(answer);
    for (backend, _) in store.backends().await.unwrap() {
        for open in store.open_streams(backend, 100).await.unwrap() {
            if open.request_id != Some(id.to_string()) {
                continue;
            }
            let by = TakeOver { stream: open.id, epoch: 2, owner: BackendId(1), open_ttl: PATIENCE };
            let taken = store.take_over(by).await.unwrap();
            let kept = taken.map(|taken| String::from_utf8(taken.rerun.to_vec()).unwrap());
            assert!(kept.as_ref().is_none_or(|kept| kept.contains(tool)), "{kept:?}");
            return kept.is_some();
        }
    }
    panic!("no call {id}");
}

#[tokio::test]
async fn a_call_of_a_marked_tool_may_be_run_again_once_the_list_was_read() {
    let store = MemoryStore::default();
    let server = rerunning(fixture(&["--idempotent", "job"]), &store);
    let client = server.connected().await;
    assert!(!may_run_again(&client, &store, 1, "job").await, "nobody knows yet what it does");
    client.request(2, "tools/list", json!({})).await;
    assert!(may_run_again(&client, &store, 3, "job").await);
    assert!(!may_run_again(&client, &store, 4, "slow").await);
    server.end().await;
}

#[tokio::test]
async fn a_backend_that_takes_a_session_up_reads_the_list_itself_where_it_has_to_know() {
    let store = MemoryStore::default();
    let first = rerunning(fixture(&["--idempotent", "job"]), &store);
    let mut options = fixture(&["--idempotent", "job"]);
    options.learn_tools = true;
    let log = Log::of(&mut options);
    let second = rerunning(options, &store);
    let client = first.connected().await;
    let there = second.serves(&client);
    there.pid().await;
    let listed = || log.methods().iter().any(|method| method == "tools/list").then_some(());
    until(PATIENCE, listed).await;
    // The answer is on its way.
    there.pid().await;
    assert!(may_run_again(&there, &store, 1, "job").await);
    assert!(!may_run_again(&there, &store, 2, "slow").await);
    first.end().await;
    second.end().await;
}
