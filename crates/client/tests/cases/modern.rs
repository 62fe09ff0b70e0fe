//! `2026-07-28`: headers, rounds, tasks, listening, what is sent again and what is not.

use crate::{eras::discovered, kit::*};
use bowline_client::{CallError, CallOptions, ClientOptions, ElicitReply, Era, Handlers, List};
use bowline_testkit::scripted::{Act, Scripted, Step, on};
use serde_json::json;
use std::{sync::Arc, time::Duration};

fn modern() -> ClientOptions {
    let mut options = options();
    options.era = Era::Modern;
    options
}

async fn serve(steps: impl IntoIterator<Item = Step>) -> Scripted {
    Scripted::start([discovered()].into_iter().chain(steps)).await
}

/// Headers mirror the body; a name that no header can carry is encoded; a session id means nothing.
#[tokio::test]
async fn requests_carry_their_metadata() {
    let result = r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","contents":[]}}"#;
    let server =
        serve([on("POST", "resources/read").json(200, "mcp-session-id: x\r\n", result).times(2)]).await;
    let client = connect_with(&server, modern()).await;
    client.read_resource("file:///ü").await.unwrap();
    client.read_resource("file:///a%20b").await.unwrap();
    let reads = server.of("POST", "resources/read");
    assert_eq!(reads[0].header("mcp-name"), "=?base64?ZmlsZTovLy/DvA==?=");
    assert_eq!(reads[1].header("mcp-name"), "file:///a%20b");
    for read in &reads {
        assert_eq!(read.header("mcp-method"), "resources/read");
        assert_eq!(read.header("mcp-protocol-version"), "2026-07-28");
        assert_eq!(read.header("mcp-session-id"), "");
        let meta = &read.json()["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({ "name": "test", "version": "1" }));
        assert_eq!(
            meta["io.modelcontextprotocol/clientCapabilities"]["extensions"],
            json!({ "io.modelcontextprotocol/tasks": {} })
        );
    }
}

/// A stream that breaks off has lost its request: what only reads is asked again under another id, a call is not.
#[tokio::test]
async fn only_what_is_safe_is_sent_again() {
    let server = serve([
        on("POST", "tools/list").stream().raw("id: x\ndata:\n\n").close(),
        on("POST", "tools/list").result(r#"{"tools":[],"resultType":"complete"}"#),
        on("POST", "tools/call").stream().raw("id: x\ndata:\n\n").close(),
    ])
    .await;
    let client = connect_with(&server, modern()).await;
    assert!(client.list_tools().await.unwrap().is_empty());
    let lists = server.of("POST", "tools/list");
    assert_ne!(lists[0].id, lists[1].id);
    assert!(is_unknown(&call(&client).await));
    assert_eq!((server.count("POST", "tools/call"), server.count("GET", "")), (1, 0));
}

/// Questions are answered, and the request sent again with exactly the state that came; then nothing of that is left.
#[tokio::test]
async fn rounds_of_questions_come_to_a_result() {
    let first = r#"{"resultType":"input_required","requestState":"\u0061/b","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"properties":{"n":{"default":7}}}}},"r":{"method":"roots/list"}}}"#;
    let second = r#"{"resultType":"input_required","inputRequests":{"z":{"method":"elicitation/create","params":{"message":"?"}}}}"#;
    let server =
        serve([on("POST", "tools/call").result(first), on("POST", "tools/call").result(second), call_done()])
            .await;
    let handlers = Handlers::new()
        .elicitation(|_| async { Ok(ElicitReply::Accept(None)) })
        .roots(|| async { vec![bowline_client::Root::new("file:///w")] });
    let client = connect_with(&server, modern().handler(handlers)).await;
    let output = client.call_tool("t", &json!({ "a": 1 })).await;
    assert_eq!(text(output), "done");
    let rounds = server.of("POST", "tools/call");
    assert!(rounds[1].body.contains(r#""requestState":"\u0061/b""#), "to the byte: {}", rounds[1].body);
    let params = |n: usize| rounds[n].json()["params"].clone();
    assert_eq!(
        params(1)["inputResponses"],
        json!({ "k": { "action": "accept", "content": { "n": 7 } }, "r": { "roots": [{ "uri": "file:///w" }] } })
    );
    assert_eq!(params(2)["requestState"], json!(null), "none came, so none goes back");
    assert_eq!(params(2)["inputResponses"], json!({ "z": { "action": "accept", "content": {} } }));
    assert!((0..3).all(|n| params(n)["arguments"] == json!({ "a": 1 })));
    assert_eq!(rounds.iter().map(|round| &round.id).collect::<std::collections::BTreeSet<_>>().len(), 3);
}

/// A server that asks for ever is left.
#[tokio::test]
async fn rounds_are_bounded() {
    let again = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;
    let server = serve([on("POST", "tools/call").always().result(again)]).await;
    let mut options = modern().handler(Handlers::new().roots(|| async { Vec::new() }));
    options.max_rounds = 3;
    let client = connect_with(&server, options).await;
    let outcome = call(&client).await;
    assert!(is_unknown(&outcome), "it has worked on the request four times: {outcome:?}");
    assert_eq!(server.count("POST", "tools/call"), 4);
}

/// What a server did before it asked is done, whatever becomes of its question or of a later round.
#[tokio::test]
async fn after_the_first_round_nothing_says_that_nothing_ran() {
    let asks = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;
    let answers = || Handlers::new().roots(|| async { Vec::new() });
    for (second, handlers, said) in [
        (None, Handlers::new(), "an answer to \"roots/list\""),
        (Some(on("POST", "tools/call").answer(422, "", "")), answers(), "status 422"),
        (Some(on("POST", "tools/call").answer(401, "", "")), answers(), "401"),
        (Some(on("POST", "tools/call").answer(503, "", "").always()), answers(), "503"),
        (Some(on("POST", "tools/call").result(r#"{"content":7}"#)), answers(), "cannot be read"),
    ] {
        let steps = [Some(on("POST", "tools/call").result(asks)), second];
        let server = serve(steps.into_iter().flatten()).await;
        let mut options = modern().handler(handlers);
        options.outage = Duration::from_millis(100);
        let client = connect_with(&server, options).await;
        let error = call(&client).await.unwrap_err();
        assert!(error.may_have_run() && error.to_string().contains(said), "{said}: {error}");
        assert!(!error.to_string().contains("did not run"), "{error}");
        let object = error.to_error_object();
        assert!(object.data.unwrap().as_str().contains(r#""outcome":"unknown""#), "{said}");
    }
}

/// A task is polled to its end, at its pace, answered where it asks, and each question once.
#[tokio::test]
async fn tasks_are_followed_to_their_end() {
    let asks = r#"{"resultType":"complete","taskId":"t/1","status":"input_required","pollIntervalMs":60,"inputRequests":{"c":{"method":"elicitation/create","params":{"message":"?"}}}}"#;
    let done = r#"{"resultType":"complete","taskId":"t/1","status":"completed","result":{"content":[{"type":"text","text":"done"}]}}"#;
    let server = serve([
        on("POST", "tools/call")
            .result(r#"{"resultType":"task","taskId":"t/1","status":"working","pollIntervalMs":60}"#),
        on("POST", "tasks/get").times(2).result(asks),
        on("POST", "tasks/get").answer(503, "", ""),
        on("POST", "tasks/get").reset(),
        on("POST", "tasks/get").result(done),
        on("POST", "tasks/update").result(r#"{"resultType":"complete"}"#),
    ])
    .await;
    let handlers = Handlers::new().elicitation(|_| async { Ok(ElicitReply::Decline) });
    let client = connect_with(&server, modern().handler(handlers)).await;
    let token = Arc::new(parking_lot::Mutex::new(String::new()));
    let kept = Arc::clone(&token);
    let options =
        CallOptions::new().on_token(move |token| *kept.lock() = serde_json::to_string(token).unwrap());
    let (result, time) = timed(client.call_tool_with("t", &json!({}), options)).await;
    assert_eq!(text(result), "done");
    assert!(time >= Duration::from_millis(180), "{time:?}");
    assert_eq!(server.count("POST", "tasks/update"), 1);
    assert!(server.of("POST", "tasks/get").iter().all(|get| get.header("mcp-name") == "t/1"));
    assert!(token.lock().contains("t/1"));

    // Another process asks for the same task.
    server.prepend([on("POST", "tasks/get").result(done)]);
    let token = serde_json::from_str(&token.lock()).unwrap();
    assert!(client.resume(&token, CallOptions::new()).await.unwrap().as_str().contains("done"));
}

/// A failed task is an error, and one whose caller leaves is cancelled.
#[tokio::test]
async fn tasks_fail_and_are_cancelled() {
    let working = r#"{"resultType":"task","taskId":"x","status":"working","pollIntervalMs":50}"#;
    let failed = r#"{"taskId":"x","status":"failed","error":{"code":-32000,"message":"broken"}}"#;
    let server = serve([
        on("POST", "tools/call").times(2).result(working),
        on("POST", "tasks/get").result(failed),
        on("POST", "tasks/get").always().result(working),
        on("POST", "tasks/cancel").result("{}"),
    ])
    .await;
    let client = connect_with(&server, modern()).await;
    assert!(matches!(call(&client).await, Err(CallError::Protocol(error)) if error.message == "broken"));
    let options = CallOptions::new().timeout(Some(Duration::from_secs(1)));
    let late = client.call_tool_with("t", &json!({}), options).await;
    assert!(matches!(late, Err(CallError::Timeout { .. })), "{late:?}");
    bowline_testkit::eventually("the cancellation", bowline_testkit::PATIENCE, || {
        server.count("POST", "tasks/cancel") == 1
    })
    .await;
}

/// A task that asks on and on, or what nobody can answer, is given up and cancelled.
#[tokio::test]
async fn a_task_that_never_stops_asking_is_cancelled() {
    let asks = |key: &str| {
        on("POST", "tasks/get").result(&format!(
            r#"{{"taskId":"x","status":"input_required","pollIntervalMs":50,"inputRequests":{{"{key}":{{"method":"elicitation/create","params":{{"message":"?"}}}}}}}}"#
        ))
    };
    let begin = || {
        on("POST", "tools/call")
            .result(r#"{"resultType":"task","taskId":"x","status":"working","pollIntervalMs":50}"#)
    };
    for (most, handlers) in
        [(2, Handlers::new().elicitation(|_| async { Ok(ElicitReply::Decline) })), (16, Handlers::new())]
    {
        let server = serve([
            begin(),
            asks("a"),
            asks("b"),
            asks("c"),
            on("POST", "tasks/update").always().result("{}"),
            on("POST", "tasks/cancel").result("{}"),
        ])
        .await;
        let mut options = modern().handler(handlers);
        options.max_rounds = most;
        let client = connect_with(&server, options).await;
        let outcome = call(&client).await;
        assert!(matches!(outcome, Err(CallError::OutcomeUnknown { .. })), "{outcome:?}");
        // As a program does that ends with its call: the server is told first.
        client.close().await;
        assert_eq!(server.count("POST", "tasks/cancel"), 1);
    }
}

/// A server that was replaced knows no task of the one before it, one that is gone says nothing, one that wants another login refuses:
/// none of that says that the tool did not run.
#[tokio::test]
async fn a_task_that_is_lost_may_have_run() {
    let begin = || {
        on("POST", "tools/call")
            .result(r#"{"resultType":"task","taskId":"x","status":"working","pollIntervalMs":50}"#)
    };
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Task not found"}}"#;
    for lost in [
        on("POST", "tasks/get").json(200, "", unknown),
        on("POST", "tasks/get").answer(401, "", ""),
        on("POST", "tasks/get").always().answer(503, "", ""),
    ] {
        let server = serve([begin(), lost]).await;
        let mut options = modern();
        options.outage = Duration::from_millis(300);
        let client = connect_with(&server, options).await;
        let error = call(&client).await.unwrap_err();
        assert!(error.may_have_run(), "{error:?}");
        let told = error.to_error_object().data.and_then(|data| data.member("outcome")?.string());
        assert_eq!(told.as_deref(), Some("unknown"), "{error:?}");
    }
}

/// The end of the stream says that a call is cancelled: no message does.
#[tokio::test]
async fn a_dropped_call_closes_its_stream_and_posts_nothing() {
    let server = serve([on("POST", "tools/call").then(Act::Hold)]).await;
    let client = connect_with(&server, modern()).await;
    let sent = || server.seen().len() == 2;
    tokio::select! {
        result = call(&client) => panic!("nobody answers: {result:?}"),
        () = bowline_testkit::eventually("the call", bowline_testkit::PATIENCE, sent) => {}
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.seen().len(), 2);
}

/// Headers that the server wants and the client did not know of: the list is read, and the call sent once more.
#[tokio::test]
async fn a_header_mismatch_is_cured_by_reading_the_list() {
    let mismatch =
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32020,"message":"Mcp-Param-Region is missing"}}"#;
    let list = r#"{"resultType":"complete","tools":[{"name":"t","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},{"name":"bad","inputSchema":{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}}]}"#;
    let server = serve([
        on("POST", "tools/call")
            .when(|seen| seen.header("mcp-param-region").is_empty())
            .always()
            .json(400, "", mismatch),
        on("POST", "tools/list").always().result(list),
        call_done(),
    ])
    .await;
    let client = connect_with(&server, modern()).await;
    assert_eq!(text(client.call_tool("t", &json!({ "region": "eu" })).await), "done");
    assert_eq!(server.of("POST", "tools/call")[1].header("mcp-param-region"), "eu");
    let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["t"], "a tool that cannot be called is not shown");
    let Err(CallError::Protocol(error)) = client.call_tool("t", &json!({})).await else { panic!() };
    assert_eq!(error.code, -32020);
    assert_eq!(server.count("POST", "tools/call"), 4, "and once only");
}

/// Fresh pages come from the cache, until their time is over or a change is told; what came before a change is not kept.
#[tokio::test]
async fn lists_are_kept_as_long_as_the_server_says() {
    let page = |tool: &str, next: &str| {
        let next = if next.is_empty() { String::new() } else { format!(r#","nextCursor":"{next}""#) };
        format!(
            r#"{{"resultType":"complete","tools":[{{"name":"{tool}"}}],"ttlMs":1000,"cacheScope":"public"{next}}}"#
        )
    };
    let server = serve([
        on("POST", "tools/list").when(|seen| seen.body.contains("cursor")).always().result(&page("b", "")),
        on("POST", "tools/list").always().result(&page("a", "p2")),
    ])
    .await;
    let client = connect_with(&server, modern()).await;
    for _ in 0..3 {
        let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
    assert_eq!(server.count("POST", "tools/list"), 2);
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    client.list_tools().await.unwrap();
    assert_eq!(server.count("POST", "tools/list"), 4);
}

/// The listen stream is opened again after it ended, with a refresh of the lists, and with what is subscribed to.
#[tokio::test]
async fn listening_goes_on_after_the_stream_ended() {
    let discovered = on("POST", "server/discover").result(
        r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}}"#,
    );
    let note = |method: &str| {
        format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{{\"uri\":\"file:///a\"}}}}\n\n"
        )
    };
    let goodbye = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"resultType\":\"complete\"}}\n\n";
    let steps = [
        discovered,
        on("POST", "subscriptions/listen")
            .stream()
            .raw(note("subscriptions/acknowledged"))
            .raw(note("tools/list_changed"))
            .raw(goodbye)
            .close(),
        on("POST", "subscriptions/listen")
            .when(|seen| !seen.body.contains("file:///a"))
            .stream()
            .then(Act::Hold),
        on("POST", "subscriptions/listen")
            .when(|seen| seen.body.contains("file:///a"))
            .stream()
            .raw(note("resources/updated"))
            .then(Act::Hold),
    ];
    let server = Scripted::start(steps).await;
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (lists, resources) = (Arc::clone(&heard), Arc::clone(&heard));
    let methods = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let all = Arc::clone(&methods);
    let handlers = Handlers::new()
        .on_notification(move |note| all.lock().push(note.method.to_string()))
        .on_list_changed(move |list| lists.lock().push(format!("{list:?}")))
        .on_resource_updated(move |uri| resources.lock().push(uri));
    let mut options = modern().handler(handlers);
    options.standalone = true;
    let client = connect_with(&server, options).await;
    let tools = format!("{:?}", List::Tools);
    bowline_testkit::eventually("both changes", bowline_testkit::PATIENCE, || {
        *heard.lock() == [tools.clone(), tools.clone()]
    })
    .await;
    client.subscribe("file:///a").await.unwrap();
    bowline_testkit::eventually("the update", bowline_testkit::PATIENCE, || {
        heard.lock().contains(&"file:///a".to_owned())
    })
    .await;
    let filter =
        |n: usize| server.of("POST", "subscriptions/listen")[n].json()["params"]["notifications"].clone();
    assert_eq!(filter(0), json!({ "toolsListChanged": true }));
    assert_eq!(filter(2), json!({ "toolsListChanged": true, "resourceSubscriptions": ["file:///a"] }));
    // The server's word that it began comes first, and is the client's own affair.
    assert_eq!(methods.lock()[0], "notifications/tools/list_changed");
}

/// What a legacy server would be asked by its own message goes with every request.
#[tokio::test]
async fn the_log_level_goes_with_each_request() {
    let server = serve([call_done()]).await;
    let client = connect_with(&server, modern()).await;
    client.set_level("warning").await.unwrap();
    assert_eq!(text(call(&client).await), "done");
    let meta = server.of("POST", "tools/call")[0].json()["params"]["_meta"].clone();
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");
}
