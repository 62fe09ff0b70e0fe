//! Servers that bend the rules.

use bowline_gateway::child::{ChildSpec, StderrPolicy};
use bowline_gateway::{GatewayOptions, Sharing};
use bowline_proto::http::{SessionMode, StaleSession};
use bowline_server::Endpoint;
use serde_json::json;

use crate::modern::Modern;
use crate::support::{Client, Server, fixture};

const STATELESS: SessionMode =
    SessionMode::Stateless { resumable: false, stale_session: StaleSession::NotFound };

/// A server that reads a message at a time as `m`, and writes lines with `say`.
fn script(body: &str) -> GatewayOptions {
    let program = format!(
        "import json, os, sys
def say(text):
    os.write(1, (text if isinstance(text, bytes) else text.encode()) + b'\\n')
def result(value, of):
    return json.dumps({{'jsonrpc': '2.0', 'id': of, 'result': value}})
for line in sys.stdin.buffer:
    m = json.loads(line)
    if m.get('method') == 'initialize':
        say(result({{'protocolVersion': '2025-11-25', 'capabilities': {{}}, 'serverInfo': {{'name': 'fixture', 'version': '1'}}}}, m['id']))
    elif m.get('method') == 'pid':
        say(result({{'pid': os.getpid()}}, m['id']))
    elif 'id' in m:
{}",
        body.lines().map(|line| format!("        {line}\n")).collect::<String>()
    );
    let mut spec = ChildSpec::new("python3", ["-c", program.as_str()]);
    spec.stderr = StderrPolicy::Log;
    GatewayOptions::new(spec)
}

#[tokio::test]
async fn ids_that_come_back_as_strings_are_known() {
    let server = Server::new(script("say(result({'ok': 1}, str(m['id'])))"));
    let client = server.connected().await;
    assert_eq!(
        client.request("x", "a", json!({})).await,
        json!({ "jsonrpc": "2.0", "id": "x", "result": { "ok": 1 } })
    );
    server.end().await;
}

#[tokio::test]
async fn responses_in_an_array_are_taken_one_by_one() {
    let server = Server::new(script(
        "say('[' + result({'ok': 1}, m['id']) + ', 7, {\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}]')",
    ));
    let client = server.connected().await;
    assert_eq!(client.request(1, "a", json!({})).await["result"]["ok"], 1);
    assert_eq!(client.get().await.next().await.unwrap()["method"], "x/y");
    server.end().await;
}

/// Answers that cannot be passed on end their call, not the process.
#[tokio::test]
async fn broken_answers_are_errors_and_nothing_else() {
    let server = Server::new(script(
        "if m['method'] == 'deep': say(result(0, m['id']).replace('0}', '[' * 300 + ']' * 300 + '}'))
if m['method'] == 'bytes': say(result('X', m['id']).encode().replace(b'X', b'\\xff'))
if m['method'] == 'both': say(result({}, m['id'])[:-1] + ', \"error\": {}}')
if m['method'] == 'nan': say(result({'a': float('nan')}, m['id']))
if m['method'] == 'control': say(result({'a': 'X'}, m['id']).replace('X', chr(9)))
if m['method'] == 'none': say(json.dumps({'jsonrpc': '2.0', 'id': m['id']}))
if m['method'] == 'cut': say(result({'a': 'X'}, m['id'])[:-4])
if m['method'] == 'member': say('[' + json.dumps({'jsonrpc': '2.0', 'id': m['id']}) + ']')
if m['method'] == 'text': say(result('text', m['id']))
if m['method'] == 'nil': say(result(None, m['id']))
if m['method'] == 'code': say(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': 5}}))
if m['method'] == 'null': say('{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}')",
    ));
    let client = server.connected().await;
    for method in ["deep", "bytes", "both", "nan", "control", "none", "cut", "member", "text", "nil", "code"]
    {
        let answer = client.request(method, method, json!({})).await;
        assert_eq!(
            answer["error"]["data"],
            json!({ "reason": "upstream_invalid", "outcome": "unknown" }),
            "{answer}"
        );
    }
    assert_eq!(
        client.request(1, "null", json!({})).await["error"],
        json!({ "code": -32700, "message": "what?" })
    );
    assert_eq!(server.gateway.stats().started, 1);
    server.end().await;
}

/// Others run meanwhile, so nothing of this is guessed.
#[tokio::test]
async fn answers_that_can_be_understood_are_taken() {
    let server = Server::new(script(
        "if m['method'] == 'float': say(result({'ok': 1}, float(m['id'])))
if m['method'] == 'both': say(result({'ok': 1}, m['id'])[:-1] + ', \"error\": null}')
if m['method'] == 'glued': say('Loading model...' + result({'ok': 1}, m['id']))
if m['method'] == 'two': say('{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}' + result({'ok': 1}, m['id']))",
    ));
    let client = server.connected().await;
    let _waits = (client.post(json!({ "jsonrpc": "2.0", "id": "w", "method": "wait" }))).await;
    for method in ["float", "both", "glued", "two"] {
        let answer = client.request(method, method, json!({})).await;
        assert_eq!(answer["result"]["ok"], 1, "{method}: {answer}");
    }
    server.end().await;
}

/// `initialize` does not wait for its time to be over when its answer is there and cannot be read.
#[tokio::test]
async fn a_greeting_that_cannot_be_read_fails_at_once() {
    let program = "import os, sys
for line in sys.stdin: os.write(1, b'{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":NaN}}\\n')";
    let mut options = GatewayOptions::new(ChildSpec::new("python3", ["-c", program]));
    options.init_timeout = std::time::Duration::from_secs(600);
    let server = Server::new(options);
    let answer = server.client().initialize().await;
    assert_eq!(answer["error"]["data"]["reason"], "upstream_invalid", "{answer}");
    server.end().await;
}

/// A modern server that asks what nobody can answer would ask the same again in every round.
#[tokio::test]
async fn a_round_that_asks_nothing_ends_the_call() {
    let program = "import json, sys
calls = 0
def answer(m, **said): print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], **said}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m.get('method') == 'initialize':
        answer(m, error={'code': -32601, 'message': 'no'})
    elif m.get('method') == 'server/discover':
        answer(m, result={'resultType': 'complete', 'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {}}})
    elif m.get('method') == 'tools/call':
        calls += 1
        result = {'resultType': 'input_required', **m['params']['arguments']}
        if m['params']['name'] == 'count': result = {'resultType': 'complete', 'content': [], 'calls': calls}
        answer(m, result=result)";
    let mut spec = ChildSpec::new("python3", ["-c", program]);
    spec.stderr = StderrPolicy::Log;
    let server = Server::new(GatewayOptions::new(spec));
    let mut legacy = server.client();
    legacy.initialize_with(json!({ "elicitation": {} })).await;
    let modern = Modern::of(&server);
    let cases = [
        json!({}),
        json!({ "inputRequests": {} }),
        json!({ "inputRequests": 5, "requestState": "s" }),
        json!({ "inputRequests": { "a": { "method": "x/y" } }, "requestState": "s" }),
    ];
    let invalid = json!({ "reason": "upstream_invalid", "outcome": "unknown" });
    for asked in &cases {
        let answer = legacy.tool(1, "x", asked.clone()).await.response().await;
        assert_eq!(answer["error"]["data"], invalid, "{answer}");
        let answer = modern.tool("x", asked.clone()).await.response().await;
        assert_eq!(answer["error"]["data"], invalid, "{answer}");
    }
    // It was told what this client can be asked.
    let roots = json!({ "inputRequests": { "a": { "method": "roots/list" } } });
    assert_eq!(legacy.tool(1, "x", roots).await.response().await["error"]["data"], invalid);
    let count = legacy.tool(2, "count", json!({})).await.response().await;
    assert_eq!(count["result"]["calls"], cases.len() + 2, "each call ran once: {count}");
    server.end().await;
}

/// Why a server does not want to be initialised is for its client to know, in both eras.
#[tokio::test]
async fn a_refused_greeting_is_told_in_the_words_of_the_server() {
    let program = "import json, sys
for line in sys.stdin:
    m = json.loads(line)
    error = {'code': -32000, 'message': 'the licence has expired'}
    print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'error': error}), flush=True)";
    let server = Server::new(GatewayOptions::new(ChildSpec::new("python3", ["-c", program])));
    let told = server.client().initialize().await;
    assert_eq!(told["error"]["message"], "the licence has expired", "{told}");
    for client in [Modern::of(&server), Modern::mute(&server)] {
        let told = client.request("tools/list", json!({})).await;
        assert_eq!(told["error"]["message"], "the licence has expired", "{told}");
    }
    server.end().await;
}

/// A process that does not read any more cannot work on anything: it is replaced, and what it did not get is sent to the
/// new one.
#[tokio::test]
async fn a_process_that_stopped_reading_is_replaced() {
    let server = Server::new(script(
        "if m['method'] == 'deafen':
    os.close(0)
    say(result({}, m['id']))
    import time
    time.sleep(600)",
    ));
    let client = server.connected().await;
    let pid = client.request(1, "pid", json!({})).await["result"]["pid"].clone();
    client.request(2, "deafen", json!({})).await;
    // The first line finds the pipe closed only when it is written: its fate is unknown. The next one is not lost.
    let lost = client.request(3, "pid", json!({})).await;
    let next = if lost.get("error").is_some() { client.request(4, "pid", json!({})).await } else { lost };
    assert!(next["result"]["pid"].is_u64() && next["result"]["pid"] != pid, "{next}");
    server.end().await;
}

/// In the session mode `stateless` any request may be the first.
#[tokio::test]
async fn without_sessions_a_shared_process_serves() {
    let mut options = fixture(&[]);
    options.sharing = Sharing::Shared;
    let gateway = bowline_gateway::Gateway::new(options, bowline_gateway::child::Guard::none());
    let endpoint = Endpoint::builder(gateway.clone()).session_mode(STATELESS).build();
    let client = Client { endpoint, session: String::new() };
    assert_eq!(client.text(1, "echo", json!({ "text": "x" })).await, "x");
    assert_eq!(client.info().await["initialized"], true);
    gateway.shutdown().await;
    assert_eq!(gateway.stats().children, 0);
}

/// A process for one client needs a session to belong to.
#[tokio::test]
async fn without_sessions_there_is_no_process_of_ones_own() {
    let gateway = bowline_gateway::Gateway::new(fixture(&[]), bowline_gateway::child::Guard::none());
    let endpoint = Endpoint::builder(gateway.clone()).session_mode(STATELESS).build();
    let mut client = Client { endpoint, session: String::new() };
    assert_eq!(client.initialize().await["error"]["data"]["reason"], "stateless");
    assert_eq!(gateway.stats().started, 0);
}
