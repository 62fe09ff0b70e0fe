//! What is too large or too many.

use bowline_gateway::GatewayOptions;
use bowline_gateway::child::ChildSpec;
use bowline_server::Options;
use serde_json::json;

use crate::support::{PATIENCE, Server, fixture, until};

/// I7: a result of 20 MB on one line, whole.
#[tokio::test]
async fn twenty_megabytes_come_whole() {
    let mut endpoint = Options::default();
    endpoint.max_event_bytes = 64 << 20;
    endpoint.max_stream_bytes = 128 << 20;
    let server = Server::with(fixture(&[]), endpoint);
    let client = server.connected().await;
    let text = client.text(1, "big", json!({ "bytes": 20_000_000 })).await;
    assert_eq!(text.len(), 20_000_000);
    assert!(text.as_bytes().chunks(10).all(|chunk| chunk == b"0123456789"));
    server.end().await;
}

/// A line over the limit cannot be passed on; its call ends all the same, and the process lives.
#[tokio::test]
async fn an_answer_over_the_limit_ends_its_call() {
    let mut options = fixture(&[]);
    options.child.max_line = 100_000;
    let server = Server::new(options);
    let client = server.connected().await;
    let pid = client.pid().await;
    let answer = client.tool(1, "big", json!({ "bytes": 1_000_000 })).await.response().await;
    assert_eq!(answer["error"]["data"], json!({ "reason": "too_large", "outcome": "unknown" }), "{answer}");
    assert_eq!(client.pid().await, pid);
    assert_eq!(server.gateway.stats().too_long, 1);
    server.end().await;
}

/// A server that waits for a second call, then says a line, then answers the first.
fn two_calls(line: &str) -> GatewayOptions {
    let program = format!(
        "import json, sys
calls = []
for line in sys.stdin:
    m = json.loads(line)
    if m['method'] == 'initialize':
        result = {{'protocolVersion': '2025-11-25', 'capabilities': {{}}, 'serverInfo': {{'name': 'fixture', 'version': '1'}}}}
        print(json.dumps({{'jsonrpc': '2.0', 'id': m['id'], 'result': result}}), flush=True)
    elif 'id' in m:
        calls.append(m['id'])
        if m['method'] == 'last':
            first, second, big = calls[0], calls[-1], 'x' * 1000000
            print({line}, flush=True)
            print(json.dumps({{'jsonrpc': '2.0', 'id': first, 'result': {{'ok': 1}}}}), flush=True)"
    );
    let mut options = GatewayOptions::new(ChildSpec::new("python3", ["-c", program.as_str()]));
    options.child.max_line = 100_000;
    options
}

/// Whichever end of the line names the call, that one ends, and the other goes on.
#[tokio::test]
async fn the_call_of_an_answer_over_the_limit_is_known_among_others() {
    for line in [
        "json.dumps({'jsonrpc': '2.0', 'id': second, 'result': {'text': big}})",
        "json.dumps({'jsonrpc': '2.0', 'result': {'text': big, 'id': first}, 'id': second})",
    ] {
        let server = Server::new(two_calls(line));
        let client = server.connected().await;
        // Its answer is a stream, as it takes its time: the server has it.
        let first = client.post(json!({ "jsonrpc": "2.0", "id": "a", "method": "first" })).await;
        let answer = client.request("b", "last", json!({})).await;
        assert_eq!(answer["error"]["data"]["reason"], "too_large", "{answer}");
        assert_eq!(first.response().await["result"]["ok"], 1);
        server.end().await;
    }
}

/// A line over the limit that is no answer costs nobody a result.
#[tokio::test]
async fn a_line_over_the_limit_that_is_no_answer_ends_no_call() {
    for line in [
        "big",
        "json.dumps({'dump': big, 'id': first})",
        "json.dumps({'jsonrpc': '2.0', 'method': 'notifications/message', 'params': {'data': big}})",
        "json.dumps({'jsonrpc': '2.0', 'id': 99999, 'result': {'text': big}})",
    ] {
        let server = Server::new(two_calls(line));
        let client = server.connected().await;
        assert_eq!(client.request("a", "last", json!({})).await["result"]["ok"], 1, "{line}");
        assert_eq!(server.gateway.stats().too_long, 1);
        server.end().await;
    }
}

#[tokio::test]
async fn a_process_too_many_is_refused() {
    let mut options = fixture(&[]);
    options.max_children = 1;
    let server = Server::new(options);
    let first = server.connected().await;
    let answer = server.client().initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "too_many_children", "{answer}");
    assert_eq!(first.text(1, "echo", json!({ "text": "x" })).await, "x");
    first.delete().await;
    until(PATIENCE, || (server.gateway.stats().children == 0).then_some(())).await;
    server.connected().await;
    server.end().await;
}

#[tokio::test]
async fn after_the_shutdown_nothing_starts() {
    let server = Server::new(fixture(&["--no-exit-on-eof"]));
    let clients = [server.connected().await, server.connected().await];
    server.gateway.shutdown().await;
    assert_eq!((server.gateway.stats().children, server.gateway.stats().sessions), (0, 0));
    assert_eq!(server.client().initialize().await["error"]["data"]["reason"], "draining");
    assert_eq!(
        clients[0].request(1, "ping", json!({})).await["error"]["data"]["reason"],
        "upstream_unavailable"
    );
}
