//! The revision `2026-07-28`, by the same handlers: over HTTP without sockets, and on a pipe beside a legacy client.

#![allow(clippy::needless_pass_by_value, reason = "messages are written with json! where they are sent")]

use bowline::{
    AskError, AskErrorKind, BuildError, Call, Elicit, Elicited, Error, Level, NoInput, PipeOptions, Roots,
    Sample, Server, Tool,
};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Mirrored {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
    #[schemars(extend("x-mcp-header" = "Count"))]
    count: Option<i64>,
}

pub(crate) fn request(id: u64, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Sends one request over HTTP; its status, and the last message of the answer.
pub(crate) async fn send(
    endpoint: &bowline::Endpoint,
    request: &Value,
    more: &[(&str, &str)],
) -> (u16, Value) {
    let method = request["method"].as_str().unwrap();
    let mut post = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    let named = ["name", "uri", "taskId"].iter().find_map(|member| request["params"][member].as_str());
    if let Some(name) = named {
        post = post.header("mcp-name", name);
    }
    for (name, value) in more {
        post = post.header(*name, *value);
    }
    let response = endpoint.handle(post.body(Full::new(Bytes::from(request.to_string()))).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    (status, serde_json::from_str(last).unwrap())
}

async fn call(endpoint: &bowline::Endpoint, tool: &str, params: Value) -> Value {
    let mut params = params;
    params["name"] = json!(tool);
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    send(endpoint, &request(1, "tools/call", params, &capabilities), &[]).await.1
}

pub(crate) fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

pub(crate) fn retry(asked: &Value, answers: Value) -> Value {
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    json!({ "inputResponses": answers, "requestState": asked["requestState"] })
}

fn named(answer: Elicited<Name>) -> String {
    answer.accepted().map_or_else(|| "nobody".to_owned(), |form| form.name)
}

#[tokio::test(start_paused = true)]
async fn one_handler_asks_both_eras() {
    let (ran, reserved) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (ran.clone(), reserved.clone());
    let server = Server::builder("s", "1")
        .tool("book", "Books", move |ctx: Call, _: NoInput| {
            let (ran, reserved) = counts.clone();
            async move {
                ran.fetch_add(1, Ordering::SeqCst);
                let reserve = || async { Ok::<_, Error>(reserved.fetch_add(1, Ordering::SeqCst)) };
                let seat: usize = ctx.state("seat", reserve).await?;
                let name = named(ctx.ask("name", Elicit::form::<Name>("Who?")).await?);
                let (friend, roots) =
                    ctx.ask_many((("friend", Elicit::form::<Name>("With whom?")), ("roots", Roots))).await?;
                ctx.spend_answers().await?;
                Ok::<_, Error>(format!("seat {seat}: {name} and {} ({})", named(friend), roots.len()))
            }
        })
        .build()
        .unwrap();

    let endpoint = server.endpoint().build();
    let asked = call(&endpoint, "book", json!({})).await;
    assert_eq!(asked["result"]["inputRequests"]["name"]["method"], "elicitation/create");
    let asked =
        call(&endpoint, "book", retry(&asked, json!({ "name": accept(json!({ "name": "Ann" })) }))).await;
    let keys: Vec<_> = asked["result"]["inputRequests"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["friend", "roots"]);
    let last = retry(&asked, json!({ "friend": { "action": "decline" }, "roots": { "roots": [] } }));
    let done = call(&endpoint, "book", last.clone()).await;
    assert_eq!(done["result"]["content"][0]["text"], "seat 0: Ann and nobody (0)");
    assert_eq!((ran.load(Ordering::SeqCst), reserved.load(Ordering::SeqCst)), (3, 1));
    assert_eq!(call(&endpoint, "book", last).await["error"]["code"], -32602);

    let legacy = bowline::testing::Client::builder()
        .capabilities(json!({ "elicitation": {}, "roots": {} }))
        .on_request(|method, _| match method {
            "roots/list" => Ok(json!({ "roots": [] })),
            _ => Ok(accept(json!({ "name": "Bob" }))),
        })
        .connect(&server)
        .await;
    let answer = legacy.call_tool("book", json!({})).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "seat 1: Bob and Bob (0)");
}

#[tokio::test(start_paused = true)]
async fn questions_of_tasks_and_prompts_and_resources_end_the_round_too() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let asks = move |ctx: Call| {
        let count = count.clone();
        async move {
            // Asked from a task of its own: the round ends all the same, and the task with it.
            let asking = tokio::spawn(async move {
                let answer = ctx.ask("name", Elicit::form::<Name>("Who?")).await;
                count.fetch_add(1, Ordering::SeqCst);
                answer
            });
            let answer = asking.await.map_err(|error| Error::tool(error.to_string()))??;
            Ok::<_, Error>(named(answer))
        }
    };
    let (asks_too, asks) = (asks.clone(), asks);
    let asks_as_well = asks.clone();
    let server = Server::builder("s", "1")
        .tool("t", "Asks", move |ctx: Call, _: NoInput| asks(ctx))
        .prompt("p", "Asks", move |ctx: Call, _: NoInput| asks_too(ctx))
        .resource(bowline::Resource::new("r:1", "r"), asks_as_well)
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let capabilities = json!({ "elicitation": {} });
    for (method, key, name) in
        [("tools/call", "name", "t"), ("prompts/get", "name", "p"), ("resources/read", "uri", "r:1")]
    {
        let first = request(1, method, json!({ key: name }), &capabilities);
        let (_, asked) = send(&endpoint, &first, &[]).await;
        let mut params = retry(&asked, json!({ "name": accept(json!({ "name": "Ann" })) }));
        params[key] = json!(name);
        let (_, done) = send(&endpoint, &request(2, method, params, &capabilities), &[]).await;
        assert!(done["result"].to_string().contains("Ann"), "{done}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ended.load(Ordering::SeqCst), 6, "two runs of each");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_lacks_is_said_unless_the_handler_deals_with_it() {
    let server = Server::builder("s", "1")
        .tool("must", "Needs a model", |ctx: Call, _: NoInput| async move {
            let answer = ctx.ask("a", Sample::new(10).user("Hello")).await?;
            Ok::<_, AskError>(answer.text())
        })
        .tool("may", "Would like a model", |ctx: Call, _: NoInput| async move {
            match ctx.ask("a", Sample::new(10).user("Hello")).await {
                Err(error) if matches!(error.kind, AskErrorKind::Unsupported(_)) => "without",
                _ => "with",
            }
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let ask = |tool: &str| request(1, "tools/call", json!({ "name": tool }), &json!({}));
    let (status, body) = send(&endpoint, &ask("must"), &[]).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!(-32021)));
    assert_eq!(body["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
    let (status, body) = send(&endpoint, &ask("may"), &[]).await;
    assert_eq!((status, &body["result"]["content"][0]["text"]), (200, &json!("without")));
    // A legacy client's model reads it, as it always did.
    let legacy = bowline::testing::Client::connect(&server).await;
    assert_eq!(legacy.call_tool("must", json!({})).await.unwrap()["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn a_demand_to_visit_urls_is_a_question_and_the_trace_is_at_hand() {
    let visited = Arc::new(AtomicUsize::new(0));
    let count = visited.clone();
    let server = Server::builder("s", "1")
        .tool("t", "Needs a login", move |ctx: Call, _: NoInput| {
            let visited = count.clone();
            async move {
                if visited.load(Ordering::SeqCst) == 0 {
                    let login = Elicit::url("Log in", "https://e.example/login", "7");
                    return Err(Error::url_elicitation_required("Log in first", [login]));
                }
                Ok(ctx.trace().and_then(|trace| trace.trace_id()).unwrap_or("no trace").to_owned())
            }
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let first = request(1, "tools/call", json!({ "name": "t" }), &json!({ "elicitation": { "url": {} } }));
    let (_, asked) = send(&endpoint, &first, &[]).await;
    assert_eq!(
        asked["result"]["inputRequests"]["visit1"]["params"],
        json!({ "mode": "url", "message": "Log in", "url": "https://e.example/login" })
    );
    let answered = |answer: Value| {
        let mut params = retry(&asked, json!({ "visit1": answer }));
        params["name"] = json!("t");
        params["_meta"]["traceparent"] = json!("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
        request(2, "tools/call", params, &json!({ "elicitation": { "url": {} } }))
    };
    let (_, refused) = send(&endpoint, &answered(json!({ "action": "decline" })), &[]).await;
    assert_eq!(refused["error"]["code"], -32603);
    visited.store(1, Ordering::SeqCst);
    let (_, done) = send(&endpoint, &answered(json!({ "action": "accept" })), &[]).await;
    assert_eq!(done["result"]["content"][0]["text"], "0af7651916cd43dd8448eb211c80319c");
    visited.store(0, Ordering::SeqCst);
    // A client that has forms alone reads where to go.
    let (_, told) = send(
        &endpoint,
        &request(3, "tools/call", json!({ "name": "t" }), &json!({ "elicitation": {} })),
        &[],
    )
    .await;
    assert!(told["error"]["message"].as_str().unwrap().contains("https://e.example/login"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_another_shape_is_a_mistake_of_the_request() {
    let server = Server::builder("s", "1")
        .tool("t", "Asks", |ctx: Call, _: NoInput| async move {
            Ok::<_, Error>(named(ctx.ask("name", Elicit::form::<Name>("Who?")).await?))
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let asked = call(&endpoint, "t", json!({})).await;
    let wrong = retry(&asked, json!({ "name": accept(json!({ "name": 5 })) }));
    assert_eq!(call(&endpoint, "t", wrong).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn parameters_that_headers_repeat_are_held_against_them() {
    let server = Server::builder("s", "1")
        .tool("t", "Mirrored", |_: Call, input: Mirrored| async move {
            format!("{} {}", input.region, input.count.unwrap_or_default())
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let ask = |arguments: Value| {
        request(1, "tools/call", json!({ "name": "t", "arguments": arguments }), &json!({}))
    };
    let (region, count) = (("mcp-param-region", "=?base64?w7Y=?="), ("mcp-param-count", "42.0"));
    for (arguments, headers, status) in [
        (json!({ "region": "ö", "count": 42 }), &[region, count][..], 200),
        (json!({ "region": "ö" }), &[region], 200),
        (json!({ "region": "ö" }), &[region, count], 400),
        (json!({ "region": "ö", "count": 42 }), &[region], 400),
        (json!({ "region": "o" }), &[region], 400),
    ] {
        let (found, body) = send(&endpoint, &ask(arguments.clone()), headers).await;
        assert_eq!(found, status, "{arguments} {headers:?} {body}");
        if status == 400 {
            assert_eq!(body["error"]["code"], -32020);
        }
    }
    // A legacy client knows nothing of them.
    let legacy = bowline::testing::Client::connect(&server).await;
    let answer = legacy.call_tool("t", json!({ "region": "ö" })).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "ö 0");
}

#[test]
fn a_wrong_annotation_is_a_mistake_of_the_author() {
    for property in [
        json!({ "type": "number", "x-mcp-header": "A" }),
        json!({ "type": "string", "x-mcp-header": "A B" }),
        json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "A" } }),
    ] {
        let schema = json!({ "type": "object", "properties": { "a": property } });
        let built = Server::builder("s", "1")
            .add_tool(Tool::new("t").input_schema(schema), |_: Call, _: Value| async { "x" })
            .build();
        let Err(BuildError::Schema { which: "input", why, .. }) = built else { panic!("{built:?}") };
        assert!(why.contains("x-mcp-header"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_have_hints_and_one_order_and_resources_have_their_code() {
    let mut builder = Server::builder("s", "1").page_size(2);
    for name in ["c", "a", "b"] {
        builder = builder.tool(name, "Does", |_: Call, _: NoInput| async { "x" });
    }
    let server =
        builder.resource(bowline::Resource::new("r:1", "r"), |_: Call| async { "x" }).build().unwrap();
    let mut options = bowline::Options::default();
    options.cache.tools = bowline::CacheHint { ttl_ms: 7, scope: bowline::CacheScope::Public };
    let endpoint = server.endpoint().options(options).build();
    let list = request(1, "tools/list", json!({}), &json!({}));
    let (_, first) = send(&endpoint, &list, &[]).await;
    for _ in 0..3 {
        assert_eq!(send(&endpoint, &list, &[]).await.1, first);
    }
    assert_eq!((&first["result"]["ttlMs"], &first["result"]["cacheScope"]), (&json!(7), &json!("public")));
    let next = request(1, "tools/list", json!({ "cursor": first["result"]["nextCursor"] }), &json!({}));
    assert_eq!(send(&endpoint, &next, &[]).await.1["result"]["cacheScope"], "public");
    let (_, read) =
        send(&endpoint, &request(1, "resources/read", json!({ "uri": "r:1" }), &json!({})), &[]).await;
    assert_eq!((&read["result"]["ttlMs"], &read["result"]["cacheScope"]), (&json!(0), &json!("private")));
    let (status, lost) =
        send(&endpoint, &request(1, "resources/read", json!({ "uri": "r:2" }), &json!({})), &[]).await;
    assert_eq!(
        (status, &lost["error"]["code"], &lost["error"]["data"]["uri"]),
        (200, &json!(-32602), &json!("r:2"))
    );
}

/// The messages of a pipe, by the id that they belong to.
struct Messages(bowline::PipeReceiver);

impl Messages {
    async fn next(&mut self) -> Value {
        serde_json::from_slice(&self.0.next().await.unwrap()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn both_eras_share_a_pipe() {
    let server = Server::builder("s", "1")
        .tool("hi", "Says hi", |_: Call, _: NoInput| async { "hi" })
        .tool("slow", "Takes its time", |ctx: Call, _: NoInput| async move {
            ctx.log(Level::Info, "beginning");
            ctx.cancelled().await;
            "cancelled"
        })
        .build()
        .unwrap();
    let (mut sender, receiver) = server.pipe(PipeOptions::default()).split();
    let mut messages = Messages(receiver);
    let line = |value: Value| Bytes::from(value.to_string());

    // Modern requests need no handshake, and one that goes on for long holds nothing up.
    sender.send(line(request(1, "server/discover", json!({}), &json!({})))).await;
    assert_eq!(messages.next().await["result"]["supportedVersions"][0], "2026-07-28");
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    sender.send(line(request(2, "subscriptions/listen", listen, &json!({})))).await;
    let acknowledged = messages.next().await;
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);

    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    sender.send(line(json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": hello }))).await;
    assert_eq!(messages.next().await["result"]["protocolVersion"], "2025-11-25");
    sender.send(line(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await;
    sender
        .send(line(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": { "name": "hi" } })))
        .await;
    let answer = messages.next().await;
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(4), &Value::Null));
    sender.send(line(request(5, "tools/call", json!({ "name": "hi" }), &json!({})))).await;
    let answer = messages.next().await;
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(5), &json!("complete")));

    // A change is heard of by the listener and by the session, each in its way.
    server.handle().tools_changed();
    let told = [messages.next().await, messages.next().await];
    let tagged = told.iter().filter(|message| !message["params"]["_meta"].is_null()).count();
    assert!(told.iter().all(|message| message["method"] == "notifications/tools/list_changed"));
    assert_eq!(tagged, 1);

    // A cancel ends the request that it names, without an answer.
    let mut slow = request(6, "tools/call", json!({ "name": "slow" }), &json!({}));
    slow["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    sender.send(line(slow)).await;
    assert_eq!(messages.next().await["method"], "notifications/message");
    for id in [6, 2] {
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        sender.send(line(cancel)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    sender.send(line(request(7, "ping", json!({}), &json!({})))).await;
    let answer = messages.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32601)));

    // A listener does not keep the pipe from ending.
    sender.send(line(request(8, "subscriptions/listen", json!({ "notifications": {} }), &json!({})))).await;
    messages.next().await;
    let before = tokio::time::Instant::now();
    sender.finish(Duration::from_secs(10)).await;
    assert!(tokio::time::Instant::now().duration_since(before) < Duration::from_secs(5));
}
