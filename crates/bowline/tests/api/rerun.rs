//! Which calls may be run again where their backend dies: those of tools that say that a second run does no harm.

use axum::body::Body;
use bowline::{Call, MemoryStore, NoInput, Options, Server, Takeover, Tool};
use bowline_store::{BackendId, BackendRegistry as _, StreamLog as _, TakeOver};
use http::Request;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn post(session: Option<&str>, body: &Value) -> Request<Body> {
    let mut request = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_of_tools_that_say_so_may_be_run_again_and_no_others() {
    let slow = |_: Call, _: NoInput| async {
        tokio::time::sleep(Duration::from_secs(40)).await;
        "done"
    };
    let mut options = Options::default();
    options.takeover = Takeover::Rerun;
    let store = MemoryStore::default();
    let server = Server::builder("s", "1")
        .add_tool(Tool::new("reads").read_only(true), slow)
        .add_tool(Tool::new("sets").idempotent(true), slow)
        .add_tool(Tool::new("adds"), slow)
        .add_tool(Tool::new("deletes").read_only(false).idempotent(false), slow)
        .build()
        .unwrap();
    let endpoint = server.http().shared_store(Arc::new(store.clone())).options(options).into_endpoint();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let hello = endpoint.handle(post(None, &hello)).await;
    let session = hello.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    for (tool, expected) in
        [("reads", true), ("sets", true), ("adds", false), ("deletes", false), ("unknown", false)]
    {
        let call =
            json!({ "jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": { "name": tool } });
        drop(endpoint.handle(post(Some(&session), &call)).await);
        let mut found = None;
        for (backend, _) in store.backends().await.unwrap() {
            for open in store.open_streams(backend, 10).await.unwrap() {
                if open.request_id == Some(format!("\"{tool}\"")) {
                    found = Some(open.id);
                }
            }
        }
        let Some(stream) = found else {
            assert_eq!(tool, "unknown", "every other call takes long");
            continue;
        };
        let ttl = Duration::from_secs(60);
        let by = TakeOver { stream, epoch: 2, owner: BackendId(1), open_ttl: ttl };
        assert_eq!(store.take_over(by).await.unwrap().is_some(), expected, "{tool}");
    }
}
