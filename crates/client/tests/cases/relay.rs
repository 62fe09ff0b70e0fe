//! The bridge: what a host sees while the far side comes and goes. B1, C2.

use crate::kit::*;
use bowline_client::{ClientOptions, Message, Relay, Target};
use bowline_testkit::scripted::{Act, Scripted, on};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

struct Host {
    relay: Relay,
    inbox: mpsc::Receiver<Message>,
}

impl Host {
    fn new(server: &Scripted, options: ClientOptions) -> Self {
        let (sender, inbox) = mpsc::channel(16);
        Self { relay: Relay::new(Target::http(&server.url()).unwrap(), options, sender), inbox }
    }

    fn patient(server: &Scripted, options: ClientOptions, patience: Duration) -> Self {
        let (sender, inbox) = mpsc::channel(16);
        let target = Target::http(&server.url()).unwrap();
        Self { relay: Relay::patient(target, options, sender, patience), inbox }
    }

    async fn says(&self, message: Value) {
        let text = bytes::Bytes::from(message.to_string());
        self.relay.forward(bowline_proto::jsonrpc::parse_message(text).unwrap()).await;
    }

    async fn hears(&mut self) -> Value {
        let message = tokio::time::timeout(Duration::from_secs(10), self.inbox.recv()).await;
        let message = message.expect("a message in time").expect("the relay is there");
        serde_json::from_slice(&message.to_bytes()).unwrap()
    }

    async fn initialize(&mut self) -> Value {
        self.initialize_as("2025-06-18", json!({ "roots": {} })).await
    }

    async fn initialize_as(&mut self, revision: &str, capabilities: Value) -> Value {
        let params = json!({ "protocolVersion": revision, "capabilities": capabilities, "clientInfo": { "name": "host", "version": "9" } });
        self.says(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
        let answer = self.hears().await;
        self.says(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer
    }

    async fn calls(&self, id: u32) {
        self.says(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "t", "_meta": { "progressToken": "host" } } })).await;
    }
}

/// B1: the server restarts between two calls. Each is answered once; the host hears only that the list may be another.
#[tokio::test]
async fn a_restart_is_not_noticed_by_the_host() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"host","progress":1}}"#;
    let mut steps = with_session([
        on("POST", "tools/call").stream().raw(format!("data: {progress}\n\ndata: {RESULT}\n\n")).close(),
        on("POST", "tools/call").answer(404, "", ""),
    ]);
    steps.extend(handshake("s2"));
    steps.push(call_done());
    let server = Scripted::start(steps).await;
    let mut host = Host::new(&server, options());
    let hello = host.initialize().await;
    assert_eq!(hello["id"], "init");
    assert_eq!(hello["result"]["capabilities"]["tools"], json!({ "listChanged": true }));
    let sent = server.of("POST", "initialize")[0].json()["params"].clone();
    assert_eq!(sent["clientInfo"], json!({ "name": "host", "version": "9" }));
    assert_eq!(
        (&sent["protocolVersion"], &sent["capabilities"]),
        (&json!("2025-06-18"), &json!({ "roots": {} }))
    );

    host.calls(1).await;
    assert_eq!(host.hears().await["params"], json!({ "progressToken": "host", "progress": 1 }));
    assert_eq!(host.hears().await["id"], 1);
    host.calls(2).await;
    let mut rest = [host.hears().await, host.hears().await];
    rest.sort_by_key(|message| message["id"].is_null());
    assert_eq!(rest[0]["id"], 2);
    assert_eq!(rest[0]["result"]["content"][0]["text"], "done");
    assert_eq!(rest[1]["method"], "notifications/tools/list_changed");
    assert_eq!(server.of("POST", "initialize")[1].header("mcp-session-id"), "");
    assert!(host.inbox.try_recv().is_err(), "each answer once");
}

/// C2: a call that was lost on the way is not called repeatable.
#[tokio::test]
async fn a_lost_call_is_an_error_that_does_not_invite_to_repeat_it() {
    let server = Scripted::start(with_session([on("POST", "tools/call").reset()])).await;
    let mut host = Host::new(&server, options());
    host.initialize().await;
    host.calls(7).await;
    let answer = host.hears().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["outcome"]), (&json!(7), &json!("unknown")));
    assert!(!answer.to_string().contains("did not run"), "{answer}");
}

/// Requests of the server reach the host and its answers the server; a cancellation of the host reaches the server, and has no answer.
#[tokio::test]
async fn questions_and_cancellations_cross_the_bridge() {
    let ask = r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#;
    let steps = [
        on("POST", "tools/call").stream().raw(format!("data: {ask}\n\n")).then(Act::Hold),
        on("POST", "-").answer(202, "", ""),
        on("POST", "notifications/cancelled").answer(202, "", ""),
    ];
    let server = Scripted::start(with_session(steps)).await;
    let mut host = Host::new(&server, options());
    host.initialize().await;
    host.calls(1).await;
    let asked = host.hears().await;
    assert_eq!(asked["method"], "roots/list");
    host.says(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } })).await;
    bowline_testkit::eventually("the answer", bowline_testkit::PATIENCE, || {
        server
            .of("POST", "")
            .iter()
            .any(|seen| seen.json()["id"] == 5 && seen.json()["result"] == json!({ "roots": [] }))
    })
    .await;
    host.says(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }))
        .await;
    bowline_testkit::eventually("the cancellation", bowline_testkit::PATIENCE, || {
        server.count("POST", "notifications/cancelled") == 1
    })
    .await;
    assert!(host.relay.drain(bowline_testkit::PATIENCE).await);
    assert!(host.inbox.try_recv().is_err());
}

/// With nobody at the far side the host is answered in time, and may try again; the bridge itself is there.
#[tokio::test]
async fn an_absent_server_is_told_in_time() {
    let server = Scripted::start(with_session([call_done()])).await;
    server.down();
    let mut host = Host::new(&server, options());
    host.says(json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" })).await;
    assert_eq!(host.hears().await["result"], json!({}));
    let refused = host.initialize().await;
    assert_eq!(refused["error"]["data"]["reason"], "upstream_unreachable");
    server.up().await;
    assert!(host.initialize().await["result"].is_object());
    host.calls(1).await;
    assert_eq!(host.hears().await["result"]["content"][0]["text"], "done");
}

/// A patient bridge introduces a stand-in; the first request waits for the server, and is answered when it comes.
#[tokio::test]
async fn a_stand_in_is_introduced_for_an_absent_server() {
    let server = Scripted::start(with_session([call_done()])).await;
    server.down();
    let mut options = options();
    options.outage = Duration::from_secs(10);
    let mut host = Host::patient(&server, options, Duration::from_millis(100));
    let hello = host.initialize().await;
    assert_eq!(hello["result"]["capabilities"]["prompts"], json!({ "listChanged": true }));
    host.calls(1).await;
    host.calls(2).await;
    host.says(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } }))
        .await;
    // A second handshake is none.
    host.says(json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize" })).await;
    assert_eq!(host.hears().await["error"]["message"], "already initialized");
    server.up().await;
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(host.hears().await);
    }
    let changed = heard
        .iter()
        .filter(|message| message["method"].as_str().is_some_and(|m| m.ends_with("list_changed")));
    assert_eq!(changed.count(), 3, "{heard:?}");
    let answers: Vec<_> = heard.iter().filter(|message| message["method"].is_null()).collect();
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(1)), "{heard:?}");
    assert_eq!(answers[0]["result"]["content"][0]["text"], "done");
    assert_eq!((host.relay.waiting(), server.count("POST", "tools/call")), (0, 1));
}

/// And where it stays away, the request gets an error that says that it did not run.
#[tokio::test]
async fn a_request_does_not_wait_for_an_absent_server_for_ever() {
    let server = Scripted::start(with_session([])).await;
    server.down();
    let mut options = options();
    options.outage = Duration::from_millis(200);
    let mut host = Host::patient(&server, options, Duration::from_millis(50));
    host.initialize().await;
    host.calls(1).await;
    let answer = host.hears().await;
    assert_eq!(answer["error"]["data"], json!({ "reason": "upstream_unreachable" }), "{answer}");
    host.relay.close().await;
    host.calls(2).await;
    assert_eq!(host.hears().await["error"]["data"]["reason"], "closed");
}

/// What a modern server says in the words of its era, the host hears in those of its own; and the other way round.
#[tokio::test]
async fn a_host_hears_nothing_of_another_era() {
    let hello = r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"extensions":{"x/y":{}}},"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1","title":"M"}}}"#;
    let list = r#"{"resultType":"complete","ttlMs":9,"cacheScope":"public","tools":[{"name":"t","title":"T","inputSchema":{},"outputSchema":{"type":"array"}}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"},"own/x":1}}"#;
    let asks = r#"{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","url":"https://e.example/","message":"Log in"}}}}"#;
    let done = r#"{"resultType":"complete","structuredContent":[1],"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}"#;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
    let server = Scripted::start([
        on("POST", "server/discover").result(hello),
        on("POST", "subscriptions/listen")
            .stream()
            .then(Act::Until("tools/list"))
            .raw(format!("data: {changed}\n\n"))
            .then(Act::Hold),
        on("POST", "tools/list").result(list),
        on("POST", "tools/call").result(asks),
        on("POST", "tools/call").result(done),
    ])
    .await;
    let mut options = options();
    options.era = bowline_client::Era::Modern;
    options.standalone = true;
    let mut host = Host::new(&server, options);
    let capabilities = json!({ "elicitation": { "url": {} }, "roots": { "listChanged": true }, "tasks": {} });
    let hello = host.initialize_as("2025-11-25", capabilities).await["result"].clone();
    assert_eq!(
        hello,
        json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "m", "version": "1", "title": "M" }, "instructions": "i",
        })
    );

    host.says(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    let mut heard = [host.hears().await, host.hears().await];
    heard.sort_by_key(|message| message["id"].is_null());
    assert_eq!(
        heard[0]["result"],
        json!({ "tools": [{ "name": "t", "title": "T", "inputSchema": {} }], "_meta": { "own/x": 1 } })
    );
    assert_eq!(
        heard[1],
        json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {} })
    );

    let call = json!({ "name": "t", "arguments": {}, "task": { "ttl": 1 } });
    host.says(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call })).await;
    let asked = host.hears().await;
    assert_eq!(
        (&asked["method"], &asked["params"]["url"]),
        (&json!("elicitation/create"), &json!("https://e.example/"))
    );
    assert!(asked["params"]["elicitationId"].is_string(), "{asked}");
    host.says(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } })).await;
    assert_eq!(host.hears().await["result"], json!({ "content": [{ "type": "text", "text": "[1]" }] }));
    let sent = server.of("POST", "tools/call")[0].json()["params"].clone();
    assert_eq!(sent.get("task"), None);
    let capabilities = &sent["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!((&capabilities["roots"], capabilities.get("tasks")), (&json!({}), None), "{capabilities}");
}

/// A host of the oldest revision in front of the newest server: every revision in between takes its own away.
#[tokio::test]
async fn the_oldest_host_hears_its_own_revision() {
    let hello = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"completions":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1","title":"M","icons":[]}}}"#;
    let done = r#"{"resultType":"complete","structuredContent":{"n":1},"content":[{"type":"resource_link","uri":"a:b","name":"B"}]}"#;
    let server =
        Scripted::start([on("POST", "server/discover").result(hello), on("POST", "tools/call").result(done)])
            .await;
    let mut options = options();
    options.era = bowline_client::Era::Modern;
    let mut host = Host::new(&server, options);
    let hello = host.initialize_as("2024-11-05", json!({})).await["result"].clone();
    assert_eq!(
        hello,
        json!({
            "protocolVersion": "2024-11-05", "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "m", "version": "1" },
        })
    );
    host.calls(1).await;
    let result = host.hears().await["result"].clone();
    assert_eq!(result["content"][0]["type"], "text", "{result}");
    assert_eq!(result.as_object().unwrap().len(), 1, "{result}");
}
