//! A server that speaks the modern revision only, in front of clients of both eras.

use bowline_gateway::Sharing;
use serde_json::{Value, json};

use crate::modern::{Modern, text};
use crate::support::{Client, Log, Server, modern_fixture};

async fn legacy(server: &Server) -> (Client, Value) {
    let mut client = server.client();
    let hello = client.initialize().await;
    client.notify("notifications/initialized", json!({})).await;
    (client, hello)
}

/// The handshake, the session and `ping` are the gateway's.
#[tokio::test]
async fn a_legacy_client_has_its_handshake() {
    for refuses in ["method", "version"] {
        let mut options = modern_fixture(&["--refuses", refuses]);
        let log = Log::of(&mut options);
        let server = Server::new(options);
        let (client, hello) = legacy(&server).await;
        let result = &hello["result"];
        assert_eq!(
            (&result["protocolVersion"], &result["serverInfo"]["name"]),
            (&json!("2025-11-25"), &json!("modern-fixture")),
            "{hello}"
        );
        assert_eq!(result["capabilities"]["tools"], json!({ "listChanged": true }));
        assert_eq!(result["capabilities"].get("extensions"), None, "{hello}");
        assert_eq!(client.request(1, "ping", json!({})).await["result"], json!({}));
        assert_eq!(
            client.request(2, "logging/setLevel", json!({ "level": "error" })).await["result"],
            json!({})
        );
        let list = client.request(3, "tools/list", json!({})).await;
        let members: Vec<_> = list["result"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["tools"], "nothing of the modern era: {list}");
        let tools = list["result"]["tools"].as_array().unwrap();
        let several = tools.iter().find(|tool| tool["name"] == "several").unwrap();
        assert_eq!(several.get("outputSchema"), None, "an array is no output in this era: {several}");
        let called = client.tool(6, "several", json!({})).await.response().await;
        assert_eq!(called["result"], json!({ "content": [{ "type": "text", "text": "[1,2]" }] }));
        assert_eq!(client.text(4, "echo", json!({ "text": "x" })).await, "x");
        let meta: Value = serde_json::from_str(&client.text(5, "meta", json!({})).await).unwrap();
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"]["sampling"], json!({}));
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "error");
        let methods = log.methods();
        let foreign = ["ping", "logging/setLevel", "notifications/initialized"];
        assert!(!methods.iter().any(|method| foreign.contains(&method.as_str())), "{methods:?}");
        server.end().await;
    }
}

/// What the server asks is asked on the client's stream, round by round.
#[tokio::test]
async fn rounds_are_questions_to_a_legacy_client() {
    let mut options = modern_fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let (client, _) = legacy(&server).await;
    let mut stream = client.tool(1, "twice", json!({})).await;
    for n in 1..=2 {
        let question = stream.next().await.unwrap();
        assert_eq!(
            (&question["method"], &question["params"]["message"]),
            (&json!("elicitation/create"), &json!(format!("Question {n}")))
        );
        let answer = json!({ "action": "accept", "content": { "n": n } });
        client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    }
    let said: Value = serde_json::from_str(&text(&stream.next().await.unwrap())).unwrap();
    assert_eq!(said[1], json!({ "action": "accept", "content": { "n": 2 } }));
    let rounds = log.methods().into_iter().filter(|method| method == "tools/call").count();
    assert_eq!(rounds, 3);
    // An error of the client ends the call with it.
    let mut stream = client.tool(2, "ask", json!({})).await;
    let question = stream.next().await.unwrap();
    let error = json!({ "code": -1, "message": "no" });
    client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "error": error })).await;
    assert_eq!(stream.next().await.unwrap()["error"], error);
    server.end().await;
}

/// Progress, log messages and cancels.
#[tokio::test]
async fn what_belongs_to_a_call_reaches_it() {
    let mut options = modern_fixture(&[]);
    let log = Log::of(&mut options);
    let server = Server::new(options);
    let (client, _) = legacy(&server).await;
    let params = json!({ "name": "slow", "arguments": { "ms": 60_000 }, "_meta": { "progressToken": "t" } });
    let mut stream = client.start(json!("slow"), "tools/call", params).await;
    assert_eq!(stream.next().await.unwrap()["params"]["progressToken"], "t");
    assert_eq!(stream.next().await.unwrap()["params"]["data"], "slow");
    client.notify("notifications/cancelled", json!({ "requestId": "slow" })).await;
    let call = log.find(|message| message["params"]["name"] == "slow").await;
    let cancel = |message: &Value| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == call["id"]
    };
    log.find(cancel).await;
    server.end().await;
}

/// Lists and resources that change are heard on the server's listening stream.
#[tokio::test]
async fn changes_reach_the_standalone_stream() {
    let server = Server::new(modern_fixture(&[]));
    let (client, _) = legacy(&server).await;
    let uri = json!({ "uri": "fixture://counter" });
    assert_eq!(client.request(1, "resources/subscribe", uri.clone()).await["result"], json!({}));
    let mut stream = client.get().await;
    client.text(2, "swap", json!({})).await;
    let told = stream.next().await.unwrap();
    assert_eq!(
        (&told["method"], told.get("params").and_then(|params| params.get("_meta"))),
        (&json!("notifications/tools/list_changed"), None)
    );
    assert!(client.text(3, "update", json!({})).await.starts_with("told"));
    let told = stream.next().await.unwrap();
    assert_eq!((&told["method"], &told["params"]), (&json!("notifications/resources/updated"), &uri));
    assert_eq!(client.request(4, "resources/unsubscribe", uri).await["result"], json!({}));
    assert_eq!(client.text(5, "update", json!({})).await, "told 0");
    server.end().await;
}

/// A modern client in front of it: the rounds of the two sides are each side's own.
#[tokio::test]
async fn a_modern_client_is_served_too() {
    for sharing in [Sharing::PerSession, Sharing::Shared] {
        let mut options = modern_fixture(&[]);
        options.sharing = sharing;
        let server = Server::new(options);
        let client = Modern::of(&server);
        let found = client.request("server/discover", json!({})).await;
        assert_eq!(
            found["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "modern-fixture",
            "{found}"
        );
        assert_eq!(
            found["result"]["capabilities"]["extensions"]["com.example/fixture"],
            json!({}),
            "{found}"
        );
        let several = client.tool("several", json!({})).await.response().await;
        assert_eq!(several["result"]["structuredContent"], json!([1, 2]), "{several}");
        let asked = client.tool("ask", json!({})).await.response().await;
        let answer = json!({ "action": "accept", "content": {} });
        let ended = client.go_on("ask", json!({}), &asked, answer.clone()).await;
        assert_eq!(text(&ended), json!([answer]).to_string().replace(':', ": ").replace(',', ", "));
        let mut stream = client.listen(json!({ "toolsListChanged": true })).await;
        client.text("swap", json!({})).await;
        assert_eq!(stream.next().await.unwrap()["method"], "notifications/tools/list_changed");
        server.end().await;
    }
}

/// Arguments that are repeated in headers are checked here: the process cannot see headers.
#[tokio::test]
async fn headers_have_to_say_what_the_arguments_say() {
    for sharing in [Sharing::PerSession, Sharing::Pool(std::num::NonZeroUsize::MIN)] {
        let mut options = modern_fixture(&[]);
        options.sharing = sharing;
        let server = Server::new(options);
        let client = Modern::mute(&server);
        client.request("tools/list", json!({})).await;
        let with = |value| Modern { headers: vec![("mcp-param-region", value)], ..client.clone() };
        let arguments = json!({ "region": "north" });
        assert_eq!(with("north").text("region", arguments.clone()).await, "north");
        for client in [with("south"), client.clone()] {
            let refused = client.tool("region", arguments.clone()).await;
            assert_eq!(refused.status, 400);
            assert_eq!(refused.response().await["error"]["code"], -32020);
        }
        server.end().await;
    }
}

/// Several clients share a modern process, and its questions still reach the one who is asked: they name their call.
#[tokio::test]
async fn a_shared_modern_server_can_ask() {
    let mut options = modern_fixture(&[]);
    options.sharing = Sharing::Shared;
    let server = Server::new(options);
    let (a, b) = (legacy(&server).await.0, legacy(&server).await.0);
    let mut streams = Vec::new();
    for client in [&a, &b] {
        let mut stream = client.tool(1, "ask", json!({})).await;
        let question = stream.next().await.unwrap();
        streams.push((client, stream, question));
    }
    for (n, (client, mut stream, question)) in streams.into_iter().enumerate() {
        let answer = json!({ "action": "accept", "content": { "n": n } });
        client.post(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
        let said: Value = serde_json::from_str(&text(&stream.next().await.unwrap())).unwrap();
        assert_eq!(said, json!([answer]));
    }
    server.end().await;
}
