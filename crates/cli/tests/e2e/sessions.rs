//! SEMANTICS 2: sessions, revisions, and what is answered without a stream.

use crate::common::{OLDER, PRIMED, assert_error, assert_refused, assert_serves, fixture, ping, serve};
use bowline_testkit::{Session, initialize};
use serde_json::{Value, json};

#[tokio::test]
async fn initialize_is_plain_json_in_the_revision_that_was_asked_for() {
    let program = serve("").await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut answer = Session::none(program.address()).post(&initialize(asked)).await;
        assert_eq!(answer.status(), 200, "{asked}");
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        let body = answer.json().await;
        assert_eq!((&body["id"], &body["result"]["protocolVersion"]), (&json!(0), &json!(given)), "{asked}");
        assert_eq!(body["result"]["serverInfo"]["name"], "fixture");
    }
}

#[tokio::test]
async fn initialize_is_plain_json_even_when_the_server_is_slow() {
    let program =
        fixture().server_args("--slow-init 1.5").with("--json-hold 100ms --response sse").start().await;
    let session = Session::hello(program.address(), &initialize(PRIMED)).await;
    session.initialized().await;
    assert_eq!(session.ask("ping", json!({})).await.status(), 200);
}

#[tokio::test]
async fn headers_about_other_sessions_mean_nothing_on_initialize() {
    let program = serve("").await;
    let session = program.client().await;
    let stale = session.with_id(Some("nobody"));
    for (session, revision) in [(&session, "1900-01-01"), (&session, "2026-07-28"), (&stale, "2025-03-26")] {
        let headers = [("MCP-Protocol-Version", revision)];
        let answer = session.send("POST", &headers, &initialize(PRIMED).to_string()).await;
        assert_eq!(answer.status(), 200, "{revision}");
        assert_ne!(answer.header("mcp-session-id"), session.id.as_deref());
    }
    assert_serves(&session).await;
}

#[tokio::test]
async fn a_server_that_speaks_one_revision_serves_clients_of_all() {
    for upstream in ["2024-11-05", "2025-11-25"] {
        let program = fixture().server_args(&format!("--revision {upstream}")).start().await;
        for revision in OLDER.into_iter().chain([PRIMED]) {
            let session = program.session(revision).await;
            assert_serves(&session).await;
            let info = session.call_for_text("info", json!({})).await;
            assert!(info.contains(upstream), "{info}");
        }
    }
}

#[tokio::test]
async fn anything_else_needs_a_session() {
    let program = serve("").await;
    let nobody = Session::none(program.address());
    for message in [
        ping(),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": { "name": "echo" } }),
    ] {
        let mut answer = nobody.post(&message).await;
        let body = assert_error(&mut answer, 400, -32600, &message.to_string()).await;
        let id = message.get("id").filter(|_| message.get("method").is_some());
        assert!(body.get("id").is_none() || body.get("id") == id, "{body}");
    }
    for method in ["GET", "DELETE"] {
        assert_refused(nobody.send(method, &[], "").await, 400, -32600, method).await;
    }
    assert_eq!(program.received().len(), 0, "nothing of it reached a server");
}

#[tokio::test]
async fn a_session_that_is_not_there_is_404_the_same_for_every_cause() {
    let program = serve("--session-ttl 1s").await;
    let deleted = program.client().await;
    assert_eq!(deleted.delete().await.status(), 204);
    let expired = program.client().await;
    // Each look is a use, so it is looked for once, well after its time.
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    let unknown = expired.with_id(Some("01234567890123456789abcdef"));
    let mut bodies = Vec::new();
    for session in [&expired, &deleted, &unknown, &unknown.with_id(Some("with space and \"quotes\""))] {
        for (method, body) in
            [("POST", ping().to_string()), ("GET", String::new()), ("DELETE", String::new())]
        {
            let mut answer = session.send(method, &[], &body).await;
            assert_eq!(answer.status(), 404, "{method}");
            let text = answer.text().await;
            let error: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(error["error"]["code"], -32001);
            assert_eq!(error["error"]["message"], "Session not found");
            if method != "POST" {
                assert_eq!(error.get("id"), None);
            }
            bodies.push((method, text));
        }
    }
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 3, "one body for each kind of request: {bodies:?}");
}

#[tokio::test]
async fn a_session_survives_no_restart_without_a_store_and_says_so() {
    let mut program = serve("").await;
    let session = program.client().await;
    program.kill();
    program.wait().await;
    let again = fixture().listen(program.address()).start().await;
    assert_eq!(again.address(), session.address);
    for method in ["GET", "DELETE"] {
        assert_refused(session.send(method, &[], "").await, 404, -32001, method).await;
    }
    assert_eq!(session.post(&ping()).await.status(), 404);
    assert_eq!(session.with_id(None).post(&ping()).await.status(), 400);
}

#[tokio::test]
async fn revisions_in_headers_are_held_against_the_session() {
    let program = serve("").await;
    for negotiated in OLDER.into_iter().chain([PRIMED]) {
        let session = program.session(negotiated).await;
        let send = |header| {
            let session = session.clone();
            async move { session.send("POST", &[("MCP-Protocol-Version", header)], &ping().to_string()).await }
        };
        assert_eq!(send("").await.status(), 200, "{negotiated}, no header");
        for served in OLDER.into_iter().chain([PRIMED]) {
            let mut answer = send(served).await;
            if served == negotiated {
                assert_eq!(answer.status(), 200, "{negotiated}");
            } else {
                assert_error(&mut answer, 400, -32600, &format!("{served} in {negotiated}")).await;
            }
        }
        for unknown in ["1999-01-01", "2025-11-26", "nonsense"] {
            let body = assert_error(&mut send(unknown).await, 400, -32022, unknown).await;
            let error = &body["error"];
            assert!(error["message"].as_str().unwrap().contains("Unsupported protocol version"), "{body}");
            assert_eq!(error["data"]["requested"], unknown);
            let supported = error["data"]["supported"].as_array().unwrap();
            assert!(supported.contains(&json!("2025-03-26")) && supported.contains(&json!(PRIMED)), "{body}");
        }
    }
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_with_nothing() {
    let program = serve("").await;
    let session = program.client().await;
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/of/our/own", "params": { "a": 1.50 } }),
        json!({ "jsonrpc": "2.0", "id": "nobody asked", "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 5, "error": { "code": 1, "message": "" } }),
    ] {
        let mut answer = session.post(&message).await;
        assert_eq!(answer.status(), 202, "{message}");
        assert_eq!(answer.text().await, "", "{message}");
        assert_eq!(answer.header("content-type"), None);
    }
    program.has_received("the notification", |m| m["method"] == "notifications/of/our/own").await;
}

#[tokio::test]
async fn unknown_methods_tools_and_resources_are_what_the_server_says() {
    let program = serve("").await;
    let session = program.client().await;
    for (method, params, code) in [
        ("nothing/such", json!({}), -32601),
        ("tools/call", json!({ "name": "no-such-tool" }), -32602),
        ("resources/read", json!({ "uri": "fixture://nothing" }), -32002),
        ("prompts/get", json!({ "name": "nothing" }), -32602),
    ] {
        let mut answer = session.ask(method, params).await;
        assert_error(&mut answer, 200, code, method).await;
    }
    // A method that nobody has heard of is passed on, and its parameters as they are.
    let mut answer = session.ask("x/custom", json!({ "n": 1e2, "deep": [{}, []] })).await;
    assert_eq!(answer.json().await["result"], json!({ "n": 1e2, "deep": [{}, []] }));
    assert_serves(&session).await;
}

#[tokio::test]
async fn requests_before_initialized_are_served_and_questions_wait_for_it() {
    let program = serve("--json-hold 50ms").await;
    let session = Session::hello(program.address(), &initialize(PRIMED)).await;
    assert_serves(&session).await;
    let mut asking = session.call("ask", json!({})).await;
    assert!(asking.block().await.unwrap().is_priming(), "the question waits");
    session.initialized().await;
    let question = loop {
        if let Some(message) = asking.block().await.unwrap().message() {
            break message;
        }
    };
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
    assert_eq!(session.post(&answer).await.status(), 202);
    assert!(asking.response().await["result"].is_object());
}

#[tokio::test]
async fn batches_are_for_2025_03_26() {
    let program = serve("--json-hold 300ms").await;
    let session = program.session("2025-03-26").await;
    let echo = |text: &str| session.tool("echo", &json!({ "text": text }));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/x" });
    let (first, second) = (echo("a"), echo("b"));
    let mut answer = session.post(&json!([first, note, second])).await;
    assert_eq!(answer.status(), 200);
    let replies = answer.json().await;
    let mut told: Vec<_> = replies.as_array().unwrap().iter().map(|r| (r["id"].as_u64(), r)).collect();
    told.sort_by_key(|(id, _)| *id);
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].0, told[1].0), (first["id"].as_u64(), second["id"].as_u64()));
    assert_eq!(told[1].1["result"]["content"][0]["text"], "b");

    let mut answer = session.post(&json!([note, note])).await;
    assert_eq!((answer.status(), answer.text().await.as_str()), (202, ""));

    let slow = session.tool("slow", &json!({ "ms": 900 }));
    let mut answer = session.post(&json!([echo("quick"), slow])).await;
    assert!(answer.is_stream());
    let blocks = answer.blocks().await;
    assert!(blocks.iter().all(|block| block.id.is_none() && block.message().is_some()), "{blocks:?}");
    assert_eq!(blocks.len(), 2);

    for body in [json!([]), json!([initialize("2025-03-26")]), json!([ping(), initialize("2025-03-26")])] {
        let answer = session.post(&body).await;
        assert_refused(answer, 400, -32600, &body.to_string()).await;
    }
    for revision in ["2024-11-05", "2025-06-18", PRIMED] {
        let session = program.session(revision).await;
        assert_refused(session.post(&json!([ping()])).await, 400, -32600, revision).await;
    }
}

#[tokio::test]
async fn delete_ends_calls_streams_and_the_server_behind() {
    let program = serve("--json-hold 50ms").await;
    let session = program.client().await;
    let other = program.client().await;
    let mut call = session.call("slow", json!({ "ms": 60_000 })).await;
    let mut standalone = session.get(None).await;
    assert!(call.block().await.unwrap().is_priming());
    assert_eq!(program.servers().len(), 2);
    let mut deleted = session.delete().await;
    assert_eq!((deleted.status(), deleted.text().await.as_str()), (204, ""));
    assert_eq!(call.messages().await, [] as [Value; 0]);
    assert_eq!(standalone.messages().await, [] as [Value; 0]);
    assert_eq!(session.post(&ping()).await.status(), 404);
    assert_eq!(session.get(call.last_id.as_deref()).await.status(), 404);
    assert_eq!(session.delete().await.status(), 404);
    bowline_testkit::eventually("the server ends", bowline_testkit::PATIENCE, || {
        program.servers().len() == 1
    })
    .await;
    assert_serves(&other).await;
}

#[tokio::test]
async fn sessions_and_calls_are_bounded() {
    let program = serve("--max-sessions 2 --max-calls-per-session 2 --json-hold 50ms").await;
    let session = program.client().await;
    let other = program.client().await;
    let mut refused = Session::none(program.address()).post(&initialize(PRIMED)).await;
    assert_eq!(refused.status(), 503);
    assert!(refused.header("retry-after").is_some(), "{}", refused.head.text);
    assert!(refused.json().await["error"]["code"].is_number());
    assert_eq!(other.delete().await.status(), 204);
    program.client().await;

    let slow = session.tool("slow", &json!({ "ms": 60_000 }));
    let _first = session.post(&slow).await;
    assert_eq!(session.post(&slow).await.status(), 400, "an id that is in use");
    let _second = session.call("slow", json!({ "ms": 60_000 })).await;
    let mut third = session.call("echo", json!({ "text": "x" })).await;
    assert_eq!(third.status(), 429);
    assert!(third.json().await["error"].is_object());
}

#[tokio::test]
async fn sessions_do_not_see_each_other() {
    let program = serve("").await;
    let sessions = [program.client().await, program.session("2025-06-18").await];
    assert_eq!(sessions[0].call_for_text("swap", json!({})).await, "swapped is there");
    for (session, there) in sessions.iter().zip([true, false]) {
        let list = session.ask("tools/list", json!({})).await.json().await;
        assert_eq!(list.to_string().contains("\"swapped\""), there);
    }
}

/// A shared server is one process, and ids of different clients do not meet in it.
#[tokio::test]
async fn a_shared_server_answers_each_client_its_own() {
    let program = serve("--child shared --json-hold 50ms").await;
    let mut clients = Vec::new();
    for n in 0..8 {
        let address = program.address();
        clients.push(tokio::spawn(async move {
            let session = Session::start(address, PRIMED).await;
            for m in 0..20 {
                // The same ids and tokens in every session.
                let text = format!("{n}-{m}");
                let call = json!({ "jsonrpc": "2.0", "id": m, "method": "tools/call", "params": {
                    "name": "echo", "arguments": { "text": text }, "_meta": { "progressToken": 1 } } });
                let response = session.post(&call).await.response().await;
                assert_eq!(bowline_testkit::text_of(&response), text);
                assert_eq!(response["id"], m);
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(program.servers().len(), 1);
}
