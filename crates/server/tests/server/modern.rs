//! SEMANTICS 4: a request of a modern client stands alone.

use crate::{client::Server, modern_script::META};
use bowline_proto::http::{SessionMode, StaleSession};
use bowline_server::{CancelReason, Options, ResponseMode};
use http::Method;
use serde_json::{Value, json};
use std::{sync::atomic::Ordering, time::Duration};

fn stateless() -> SessionMode {
    SessionMode::Stateless { resumable: true, stale_session: StaleSession::NotFound }
}

#[tokio::test(start_paused = true)]
async fn it_is_served_whatever_the_session_mode_and_whatever_else_its_headers_say() {
    for mode in [SessionMode::Stateful, stateless()] {
        let server = Server::modern_with(|builder| builder.session_mode(mode));
        let mut client = server.modern_client();
        for session in [None, Some("unknown".to_owned())] {
            client.client.session = session;
            let answer = client.tool("echo", json!({})).await;
            assert_eq!((answer.status.as_u16(), answer.headers.get("mcp-session-id")), (200, None));
            let result = answer.json().await["result"].clone();
            assert_eq!(result["resultType"], "complete");
            assert_eq!(result["_meta"][format!("{META}/serverInfo")]["name"], "script");
            assert_eq!(result["client"]["clientInfo"]["name"], "test");
            assert_eq!(result["client"]["capabilities"]["roots"], json!({}));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_says_what_it_is_and_what_it_can_do() {
    let server = Server::modern();
    let answer = server.modern_client().call("server/discover", json!({})).await;
    assert_eq!(answer.status, 200);
    let result = answer.json().await["result"].clone();
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["supportedVersions"].as_array().unwrap().len(), 5);
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    assert_eq!((&result["instructions"], &result["serverInfo"]), (&json!("Do"), &Value::Null));
    assert_eq!(result["_meta"][format!("{META}/serverInfo")]["version"], "1");
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(300_000), &json!("private")));
}

#[tokio::test(start_paused = true)]
async fn each_mistake_has_its_status_and_code() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let good = client.request("tools/call", json!({ "name": "echo" }));
    let without = |key: &str| {
        let mut request = good.clone();
        request["params"]["_meta"].as_object_mut().unwrap().remove(&format!("{META}/{key}"));
        request
    };
    let with = |key: &str, value: Value| {
        let mut request = good.clone();
        request["params"]["_meta"][format!("{META}/{key}")] = value;
        request
    };
    let method = |method: &str| {
        let mut request = good.clone();
        request["method"] = json!(method);
        request
    };
    for (request, status, code) in [
        (without("protocolVersion"), 400, -32602),
        (without("clientCapabilities"), 400, -32602),
        (with("clientCapabilities", json!(7)), 400, -32602),
        (with("logLevel", json!("loud")), 400, -32602),
        (with("protocolVersion", json!("2025-11-25")), 400, -32020),
        (with("protocolVersion", json!("v999.0.0")), 400, -32020),
        (method("initialize"), 404, -32601),
        (method("ping"), 404, -32601),
        (method("logging/setLevel"), 404, -32601),
        (method("resources/subscribe"), 404, -32601),
        (method("unknown/method"), 404, -32601),
    ] {
        let answer = client.send(&request).await;
        assert_eq!(answer.status, status, "{request}");
        let body = answer.json().await;
        assert_eq!((&body["error"]["code"], &body["id"]), (&json!(code), &good["id"]), "{request}");
    }
    // A client that says nothing of itself is served too.
    assert_eq!(client.send(&without("clientInfo")).await.status, 200);
    // What is wrong with the call itself is no matter of HTTP.
    let (status, error) = client.outcome("not_found", json!({})).await;
    assert_eq!((status, &error["code"]), (200, &json!(-32602)));
    assert_eq!(server.script.calls.load(Ordering::SeqCst), 1, "only unknown/method came to the handler");
}

#[tokio::test(start_paused = true)]
async fn header_and_body_have_to_agree() {
    let server = Server::modern();
    let mut client = server.modern_client();
    let request = client.request("tools/call", json!({ "name": "echo" })).to_string();
    let (version, method, name) =
        (("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo"));
    for (headers, status) in [
        (&[version, method, name][..], 200),
        (&[version, method, ("mcp-name", "=?base64?ZWNobw==?=")], 200),
        (&[version, method], 400),
        (&[version, name], 400),
        (&[method, name], 400),
        (&[("mcp-protocol-version", "2025-11-25"), method, name], 400),
        (&[version, ("mcp-method", "tools/list"), name], 400),
        (&[version, method, ("mcp-name", "other")], 400),
    ] {
        let answer = client.client.send(Method::POST, headers, request.clone().into()).await;
        assert_eq!(answer.status, status, "{headers:?}");
        if status == 400 {
            assert_eq!(answer.json().await["error"]["code"], -32020, "{headers:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_is_accepted_and_a_response_is_not() {
    let server = Server::modern();
    let client = server.modern_client().client;
    for (body, status) in [
        (json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }), 202),
        (json!({ "jsonrpc": "2.0", "id": 1, "result": {} }), 400),
        (json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }]), 400),
    ] {
        let headers = [("mcp-protocol-version", "2026-07-28")];
        let answer = client.send(Method::POST, &headers, body.to_string().into()).await;
        assert_eq!(answer.status, status, "{body}");
        if status == 202 {
            assert_eq!(answer.text().await, "");
        }
    }
    assert_eq!(server.script.notified.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn get_and_delete_are_not_for_modern_clients() {
    let server = Server::modern();
    let client = server.modern_client().client;
    for method in [Method::GET, Method::DELETE] {
        let headers = [("mcp-protocol-version", "2026-07-28"), ("last-event-id", "x")];
        let answer = client.send(method.clone(), &headers, "".into()).await;
        assert_eq!((answer.status.as_u16(), answer.headers.contains_key("allow")), (405, true), "{method}");
        // Without the header they are what the session mode makes of them.
        assert_eq!(client.send(method, &[], "".into()).await.status, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_serves_legacy_clients_alone_says_so() {
    for server in [Server::new(), Server::modern_with(|builder| builder.modern(false))] {
        let answer = server.modern_client().tool("echo", json!({})).await;
        assert_eq!(answer.status, 400);
        let error = answer.json().await["error"].clone();
        assert_eq!((&error["code"], &error["data"]["supported"][0]), (&json!(-32022), &json!("2025-11-25")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_a_stream_without_ids_that_is_never_closed_early() {
    let server = Server::modern();
    let mut answer = server.modern_client().tool("slow", json!({})).await;
    assert!(answer.is_stream());
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    let events = answer.events().await;
    assert!(events.iter().all(|event| event.id.is_none() && event.retry.is_none()), "{events:?}");
    let last = events.last().unwrap().data.clone().unwrap();
    assert_eq!((&last["result"]["slow"], &last["result"]["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(events.iter().filter(|event| event.data.is_some()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_the_stream_cancels_at_once() {
    let server = Server::modern();
    // Before it is a stream, and after.
    for hold in [Duration::from_millis(10), Duration::from_secs(5)] {
        let mut client = server.modern_client();
        let call = async move {
            let mut answer = client.call("stubborn", json!({})).await;
            answer.event().await
        };
        assert!(tokio::time::timeout(hold, call).await.is_err());
        tokio::time::sleep(Duration::from_millis(1)).await;
        let cancelled = std::mem::take(&mut *server.script.cancelled.lock());
        assert_eq!(cancelled, [CancelReason::Disconnected]);
    }
}

#[tokio::test(start_paused = true)]
async fn log_messages_come_from_the_level_that_the_request_names() {
    let server = Server::modern();
    for (level, expected) in [
        (None, &[][..]),
        (Some("debug"), &["debug", "warning"]),
        (Some("notice"), &["warning"]),
        (Some("error"), &[]),
    ] {
        let mut client = server.modern_client();
        client.level = level;
        let mut answer = client.tool("log", json!({})).await;
        let messages = if answer.is_stream() { answer.messages().await } else { vec![answer.json().await] };
        let levels: Vec<_> =
            messages.iter().filter_map(|message| message["params"]["level"].as_str()).collect();
        assert_eq!(levels, expected, "{level:?}");
        assert_eq!(messages.last().unwrap()["result"]["level"], json!(level));
    }
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_no_request_is_not_on_its_stream() {
    let server = Server::modern();
    let (_, result) = server.modern_client().outcome("changed", json!({})).await;
    assert_eq!(result["said"], false);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_right_where_answers_are_streams_from_the_start() {
    let mut options = Options::default();
    options.response = ResponseMode::Sse;
    let server = Server::modern_options(options);
    let answer = server.modern_client().call("unknown/method", json!({})).await;
    assert_eq!(answer.status, 404);
    assert!(server.modern_client().tool("slow", json!({})).await.is_stream());
}

#[tokio::test(start_paused = true)]
async fn fifty_of_each_era_get_their_own_answers() {
    let server = Server::modern();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..50_u64 {
        let mut legacy = server.client("2025-11-25").await;
        let mut modern = server.modern_client();
        all.spawn(async move {
            let answer = legacy.call("count", json!({ "n": n % 4, "every": 0.5, "mark": n })).await;
            let mut answer = answer;
            let messages =
                if answer.is_stream() { answer.messages().await } else { vec![answer.json().await] };
            let last = messages.last().unwrap();
            assert_eq!(
                (&last["result"]["counted"], &last["result"]["resultType"]),
                (&json!(n % 4), &Value::Null)
            );
            assert_eq!(messages.len() as u64, n % 4 + 1);
        });
        all.spawn(async move {
            let request = modern.request("count", json!({ "n": n % 3, "every": 0.4 }));
            let mut answer = modern.send(&request).await;
            let messages =
                if answer.is_stream() { answer.messages().await } else { vec![answer.json().await] };
            let last = messages.last().unwrap();
            assert_eq!((&last["id"], &last["result"]["counted"]), (&request["id"], &json!(n % 3)));
            assert_eq!(last["result"]["resultType"], "complete");
            assert_eq!(messages.len() as u64, n % 3 + 1);
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}
