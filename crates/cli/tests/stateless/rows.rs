//! SEMANTICS 3, row by row.

use crate::client::{Client, REVISIONS, error, serve};
use bowline_testkit::Session;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

#[tokio::test]
async fn initialize_starts_no_session_and_promises_nothing_that_needs_one() {
    let program = serve("").await;
    for revision in REVISIONS {
        let mut answer = Client::new(program.address(), revision).initialize().await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.header("mcp-session-id"), None);
        let body = answer.json().await;
        assert_eq!(body["result"]["protocolVersion"], revision);
        assert_eq!(body["result"]["serverInfo"]["name"], "fixture");
        let capabilities = body["result"]["capabilities"].as_object().unwrap();
        // The fixture announces listChanged, subscribe and logging.
        for name in ["tools", "resources", "prompts"] {
            assert_eq!(capabilities[name], json!({}), "{revision}: {body}");
        }
        assert!(!capabilities.contains_key("logging"), "{revision}: {body}");
        assert_eq!(capabilities.contains_key("completions"), revision != "2024-11-05", "{revision}: {body}");
    }
    // A revision that nobody has heard of is answered with one of ours.
    let mut answer = Client::new(program.address(), "1999-01-01").initialize().await;
    assert_eq!(answer.json().await["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_post_is_bound_to_the_revision_of_its_header() {
    let program = serve("").await;
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }, { "jsonrpc": "2.0", "id": 2, "method": "ping" }]);
    // Without a header it is 2025-03-26, the one that has arrays.
    let mut answer = Session::none(program.address()).post(&batch).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json().await.as_array().map(Vec::len), Some(2));
    for revision in REVISIONS {
        let mut answer = Client::new(program.address(), revision).post(&batch).await;
        if revision == "2025-03-26" {
            assert_eq!(answer.status(), 200, "{revision}");
            assert_eq!(answer.json().await.as_array().map(Vec::len), Some(2));
        } else {
            error(answer, 400, -32600, revision).await;
        }
    }
    for wrong in ["1999-01-01", "2026-01-01", "x"] {
        let refused = error(
            Client::new(program.address(), wrong).ask("tools/list", json!({})).await,
            400,
            -32022,
            wrong,
        )
        .await;
        assert_eq!(refused["data"]["requested"], wrong, "{refused}");
        let supported: Vec<_> = refused["data"]["supported"].as_array().unwrap().iter().collect();
        assert!(REVISIONS.iter().all(|revision| supported.contains(&&json!(revision))), "{refused}");
    }
}

#[tokio::test]
async fn a_stale_session_id_is_404_or_on_request_ignored() {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let stale = [("Mcp-Session-Id", "5d1f1f6e-stale")];
    let program = serve("").await;
    error(Client::of(&program).send("POST", &stale, &message).await, 404, -32001, "stale").await;
    let program = serve("--stale-session ignore").await;
    let mut answer = Client::of(&program).send("POST", &stale, &message).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.json().await["result"]["tools"].is_array());
    assert_eq!(answer.header("mcp-session-id"), None);
}

#[tokio::test]
async fn the_server_sees_a_client_of_which_nothing_is_known() {
    let program = serve("").await;
    for revision in REVISIONS {
        let client = Client::new(program.address(), revision);
        client.initialize().await.json().await;
        let info = client.info().await;
        assert_eq!(info["clientCapabilities"], json!({}), "{info}");
        assert_eq!(info["initialized"], true, "{info}");
    }
    let hellos: Vec<Value> =
        program.received().into_iter().filter(|message| message["method"] == "initialize").collect();
    assert!(!hellos.is_empty());
    for hello in hellos {
        assert_eq!(hello["params"]["clientInfo"]["name"], "bowline", "{hello}");
    }
}

#[tokio::test]
async fn who_asks_the_client_is_refused_at_once() {
    let program = serve("").await;
    let client = Client::of(&program);
    client.info().await;
    for (tool, arguments) in [
        ("ask", json!({})),
        ("sample", json!({})),
        ("roots", json!({})),
        ("request", json!({ "method": "x/custom" })),
    ] {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            let response = client.call(tool, arguments.clone()).await.response().await;
            best = best.min(Instant::now() - began);
            assert_eq!(response["result"]["isError"], true, "{tool}: {response}");
            let text = response["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("stateless"), "{tool}: {text}");
        }
        // The best of five: the machine may be busy, a wait would be there every time.
        assert!(best < Duration::from_secs(1), "{tool}: {best:?}");
    }
}

#[tokio::test]
async fn what_needs_a_session_is_not_found() {
    let program = serve("").await;
    for revision in REVISIONS {
        let client = Client::new(program.address(), revision);
        for method in ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
            let params = json!({ "level": "debug", "uri": "fixture://counter" });
            error(client.ask(method, params).await, 200, -32601, method).await;
        }
    }
    // None of it reached a server.
    let known = ["initialize", "notifications/initialized", "ping"];
    for message in program.received() {
        assert!(message["method"].as_str().is_some_and(|method| known.contains(&method)), "{message}");
    }
}

#[tokio::test]
async fn progress_comes_on_the_posts_own_stream_and_logs_do_not() {
    let program = serve("--json-hold 100ms").await;
    let client = Client::of(&program);
    let calls = (0..6).map(|number| {
        let client = client.clone();
        tokio::spawn(async move {
            let ms = 600 + number * 50;
            let mut answer =
                client.call_with_progress("slow", json!({ "ms": ms, "progress": 5 + number })).await;
            assert!(answer.is_stream(), "{}", answer.head.text);
            let mut messages = Vec::new();
            while let Some(block) = answer.block().await {
                assert_eq!(block.id, None, "{block:?}");
                messages.extend(block.message());
            }
            let response = messages.pop().unwrap();
            assert_eq!(
                response["result"]["content"][0]["text"],
                format!("slow: {ms} ms, {} progress", 5 + number)
            );
            assert_eq!(messages.len(), 5 + number, "{messages:?}");
            let token = json!(format!("token-{}", response["id"]));
            for (at, message) in messages.iter().enumerate() {
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], token);
                assert_eq!(message["params"]["progress"], at + 1);
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    // A server that was not told to be quieter still writes log messages; nobody who did not declare `logging` sends them on.
    let mut answer = client.call_with_progress("log", json!({ "n": 3 })).await;
    let response = answer.response().await;
    assert_eq!(response["result"]["content"][0]["text"], "sent 3");
    let sse = serve("--response sse").await;
    let messages = Client::of(&sse).call("log", json!({ "n": 3 })).await.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn notifications_are_taken_and_change_nothing() {
    let program = serve("").await;
    let client = Client::of(&program);
    let running = client.clone();
    let call = json!({ "jsonrpc": "2.0", "id": 77, "method": "tools/call",
                       "params": { "name": "slow", "arguments": { "ms": 1_500 } } });
    let call = tokio::spawn(async move { running.post(&call).await.response().await });
    program.has_received("the call", |message| message["params"]["name"] == "slow").await;
    for (method, params) in [
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({ "requestId": 77 })),
        ("notifications/roots/list_changed", json!({})),
        ("x/anything", json!({})),
    ] {
        let mut answer = client.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        assert_eq!((answer.status(), answer.text().await.as_str()), (202, ""), "{method}");
    }
    // Whoever can guess an id must not cancel another client's call.
    assert_eq!(call.await.unwrap()["result"]["content"][0]["text"], "slow: 1500 ms, 0 progress");
    for method in ["notifications/cancelled", "notifications/roots/list_changed", "x/anything"] {
        assert!(program.received().iter().all(|message| message["method"] != method), "{method}");
    }
}

#[tokio::test]
async fn a_response_is_refused() {
    let program = serve("").await;
    for response in [
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "x" } }),
    ] {
        error(Client::of(&program).post(&response).await, 400, -32600, "a response").await;
    }
}

#[tokio::test]
async fn methods_that_are_not_served_are_refused_at_once() {
    for (options, allowed) in [("", "POST, OPTIONS"), ("--resumable", "POST, GET, OPTIONS")] {
        let program = serve(options).await;
        for method in ["GET", "DELETE", "PUT", "PATCH"] {
            let began = Instant::now();
            let answer = Client::of(&program).send(method, &[], "").await;
            assert_eq!(answer.status(), 405, "{method} {options}");
            assert_eq!(answer.header("allow"), Some(allowed), "{method} {options}");
            assert!((Instant::now() - began) < Duration::from_secs(10), "{method} {options}");
        }
    }
}
