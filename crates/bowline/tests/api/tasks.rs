//! Tasks of the revision `2026-07-28`, by the same handlers.

#![allow(clippy::needless_pass_by_value, reason = "messages are written with json! where they are sent")]

use crate::modern::{accept, request, retry, send};
use bowline::{
    Call, Elicit, Elicited, Endpoint, Error, NoInput, PipeOptions, Roots, Server, TaskSupport, Tool,
};
use bytes::Bytes;
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

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn named(answer: Elicited<Name>) -> String {
    answer.accepted().map_or_else(|| "nobody".to_owned(), |form| form.name)
}

fn able() -> Value {
    json!({ "elicitation": {}, "roots": {}, "extensions": { EXTENSION: {} } })
}

async fn ask(endpoint: &Endpoint, method: &str, params: Value) -> Value {
    send(endpoint, &request(1, method, params, &able()), &[]).await.1
}

async fn call(endpoint: &Endpoint, tool: &str, mut params: Value) -> Value {
    params["name"] = json!(tool);
    ask(endpoint, "tools/call", params).await
}

/// The id of the task that a call became.
fn id_of(created: &Value) -> String {
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    created["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn get(endpoint: &Endpoint, id: &str) -> Value {
    ask(endpoint, "tasks/get", json!({ "taskId": id })).await["result"].clone()
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_asks_first_by_rounds_and_then_as_a_task() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let server = Server::builder("s", "1")
        .add_tool(Tool::new("book").tasks(TaskSupport::Required), move |ctx: Call, _: NoInput| {
            let count = count.clone();
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                let name = named(ctx.ask("name", Elicit::form::<Name>("Who?")).await?);
                let before = ctx.is_task();
                tokio::time::sleep(Duration::from_secs(3)).await;
                // Answered already, whatever the call has become.
                assert_eq!(named(ctx.ask("name", Elicit::form::<Name>("Who?")).await?), name);
                let asked = (("friend", Elicit::form::<Name>("With whom?")), ("roots", Roots));
                let (friend, roots) = ctx.ask_many(asked).await?;
                Ok::<_, Error>(format!(
                    "{name} and {}: {} ({before}, {})",
                    named(friend),
                    roots.len(),
                    ctx.is_task()
                ))
            }
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let asked = call(&endpoint, "book", json!({})).await;
    assert!(asked["result"].get("taskId").is_none(), "{asked}");
    let round = retry(&asked, json!({ "name": accept(json!({ "name": "Ann" })) }));
    let created = call(&endpoint, "book", round).await;
    let id = id_of(&created);
    for member in ["requestState", "inputRequests"] {
        assert!(created["result"].get(member).is_none(), "{created}");
    }
    assert_eq!(get(&endpoint, &id).await["status"], "working");
    pause(4).await;
    let asking = get(&endpoint, &id).await;
    assert_eq!(asking["status"], "input_required", "{asking}");
    let questions = asking["inputRequests"].as_object().unwrap();
    let mut answers = json!({});
    for (key, question) in questions {
        answers[key] = match question["method"].as_str().unwrap() {
            "roots/list" => json!({ "roots": [{ "uri": "file:///a" }] }),
            _ => accept(json!({ "name": "Bob" })),
        };
    }
    assert_eq!(questions.len(), 2);
    let update = ask(&endpoint, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    assert_eq!(update["result"]["resultType"], "complete");
    pause(1).await;
    let done = get(&endpoint, &id).await;
    assert_eq!(done["result"]["content"][0]["text"], "Ann and Bob: 1 (false, true)", "{done}");
    assert_eq!(ran.load(Ordering::SeqCst), 2, "once for each round, and not for what the task asks");
}

#[tokio::test(start_paused = true)]
async fn each_tool_says_what_it_allows_and_slow_calls_become_tasks_unasked() {
    let slow = |_: Call, _: NoInput| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        "done"
    };
    let server = Server::builder("s", "1")
        .tool("by_itself", "Is slow", slow)
        .add_tool(Tool::new("never").tasks(TaskSupport::Never), slow)
        .add_tool(Tool::new("required").tasks(TaskSupport::Required), slow)
        .tool("lets_go", "Lets go of its connection", |ctx: Call, _: NoInput| async move {
            ctx.close_connection();
            tokio::time::sleep(Duration::from_millis(500)).await;
            "done"
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let mut tasks = Vec::new();
    for tool in ["by_itself", "required", "lets_go"] {
        tasks.push(id_of(&call(&endpoint, tool, json!({})).await));
    }
    assert_eq!(call(&endpoint, "never", json!({})).await["result"]["content"][0]["text"], "done");
    pause(5).await;
    for id in tasks {
        assert_eq!(get(&endpoint, &id).await["result"]["content"][0]["text"], "done");
    }
    let without = async |tool: &str| {
        let request = request(1, "tools/call", json!({ "name": tool }), &json!({}));
        send(&endpoint, &request, &[]).await
    };
    for tool in ["by_itself", "lets_go", "never"] {
        assert_eq!(without(tool).await.1["result"]["content"][0]["text"], "done", "{tool}");
    }
    let (status, refused) = without("required").await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)));
    // Clients of older revisions know nothing of it.
    let legacy = bowline::testing::Client::connect(&server).await;
    assert_eq!(legacy.call_tool("required", json!({})).await.unwrap()["content"][0]["text"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_tools_allow_none_has_no_tasks() {
    let server = |support| {
        let tool = Tool::new("t").tasks(support);
        let server = Server::builder("s", "1").add_tool(tool, |_: Call, _: NoInput| async { "t" });
        server.build().unwrap().endpoint().build()
    };
    let (with, without) = (server(TaskSupport::Optional), server(TaskSupport::Never));
    let discover = async |endpoint| ask(endpoint, "server/discover", json!({})).await;
    assert_eq!(discover(&with).await["result"]["capabilities"]["extensions"], json!({ EXTENSION: {} }));
    assert!(discover(&without).await["result"]["capabilities"].get("extensions").is_none());
    assert_eq!(ask(&with, "tasks/get", json!({ "taskId": "t" })).await["error"]["code"], -32602);
    assert_eq!(ask(&without, "tasks/get", json!({ "taskId": "t" })).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_in_a_task_is_told_as_in_a_call() {
    let server = Server::builder("s", "1")
        .tool("tool_error", "Fails", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            Err::<String, _>(Error::tool("no"))
        })
        .tool("protocol_error", "Fails", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            Err::<String, _>(Error::protocol(-7, "no"))
        })
        .tool("visit", "Wants a visit", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            let visit = Elicit::url("Log in", "https://e.example/login", "1");
            Err::<String, _>(Error::url_elicitation_required("First", [visit]))
        })
        .tool("answer", "Asks", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            Ok::<_, Error>(named(ctx.ask("name", Elicit::form::<Name>("Who?")).await?))
        })
        .tool("panic", "Panics", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            assert!(!ctx.is_task(), "secret");
            "never"
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let ended = async |tool: &str| {
        let id = id_of(&call(&endpoint, tool, json!({})).await);
        pause(1).await;
        (id.clone(), get(&endpoint, &id).await)
    };
    let (_, task) = ended("tool_error").await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
    for (tool, code) in [("protocol_error", -7), ("visit", -32603), ("panic", -32603)] {
        let (_, task) = ended(tool).await;
        assert_eq!((&task["status"], &task["error"]["code"]), (&json!("failed"), &json!(code)), "{task}");
        assert!(!task.to_string().contains("secret"));
    }
    // An answer of another shape is a mistake of who answered.
    let (id, asking) = ended("answer").await;
    let key = asking["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: { "action": "maybe" } });
    ask(&endpoint, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    pause(1).await;
    let failed = get(&endpoint, &id).await;
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(-32602)), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_the_status_whether_or_not_the_client_asked_for_it() {
    let server = Server::builder("s", "1")
        .tool("work", "Works", |ctx: Call, _: NoInput| async move {
            ctx.become_task().await;
            let seen = ctx.progress(1.0, 4.0);
            tokio::time::sleep(Duration::from_secs(2)).await;
            ctx.progress_with_message(2.0, 4.0, "Halfway");
            tokio::time::sleep(Duration::from_secs(2)).await;
            if seen { "seen" } else { "unseen" }
        })
        .build()
        .unwrap();
    let endpoint = server.endpoint().build();
    let id = id_of(&call(&endpoint, "work", json!({})).await);
    pause(1).await;
    assert_eq!(get(&endpoint, &id).await["statusMessage"], "1 of 4");
    pause(2).await;
    assert_eq!(get(&endpoint, &id).await["statusMessage"], "Halfway");
    pause(2).await;
    assert_eq!(get(&endpoint, &id).await["result"]["content"][0]["text"], "seen");
}

#[tokio::test(start_paused = true)]
async fn a_task_on_a_pipe_is_as_good() {
    let server = Server::builder("s", "1")
        .tool("slow", "Is slow", |_: Call, _: NoInput| async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            "done"
        })
        .build()
        .unwrap();
    let (mut sender, mut receiver) = server.pipe(PipeOptions::default()).split();
    let line = |id, method: &str, params| Bytes::from(request(id, method, params, &able()).to_string());
    let mut next = async || -> Value { serde_json::from_slice(&receiver.next().await.unwrap()).unwrap() };
    sender.send(line(1, "tools/call", json!({ "name": "slow" }))).await;
    let id = id_of(&next().await);
    sender.send(line(2, "subscriptions/listen", json!({ "notifications": { "taskIds": [id] } }))).await;
    assert_eq!(next().await["params"]["notifications"]["taskIds"], json!([id]));
    assert_eq!(next().await["params"]["status"], "working");
    let last = next().await;
    assert_eq!(last["params"]["result"]["content"][0]["text"], "done", "{last}");
    sender.send(line(3, "tasks/get", json!({ "taskId": id }))).await;
    assert_eq!(next().await["result"]["status"], "completed");
}
