//! Questions to the client in the middle of a call.

use bowline::{
    AskError, AskErrorKind, Call, Elicit, Elicited, Error, ErrorObject, NoInput, PipeOptions, Roots, Sample,
    SampleContent, SampleTool, Server, SessionMode, StaleSession,
    testing::{Client, ClientBuilder},
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
struct Who {
    name: String,
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool("who", "Asks", |ctx: Call, _: NoInput| async move {
            let answer = ctx.ask("who", Elicit::form::<Who>("Who?")).await?;
            Ok::<_, AskError>(match answer {
                Elicited::Accepted(Who { name }) => name,
                other => other.action().to_owned(),
            })
        })
        .tool("login", "Sends somewhere", |ctx: Call, _: NoInput| async move {
            let answer = ctx.ask("login", Elicit::url("Log in", "https://e.example/login", "7")).await?;
            ctx.elicitation_complete("7");
            Ok::<_, AskError>(answer.action())
        })
        .tool("sample", "Asks the model", |ctx: Call, _: NoInput| async move {
            let question = Sample::new(10).user("2+2?").tool(SampleTool::new::<NoInput>("add", "Adds"));
            let answer = ctx.ask("sum", question).await?;
            Ok::<_, AskError>(match answer.content.first() {
                Some(SampleContent::ToolUse { name, .. }) => format!("uses {name}"),
                _ => answer.text(),
            })
        })
        .tool("all", "Asks everything at once", |ctx: Call, _: NoInput| async move {
            let sample = Sample::new(10).user("2+2?");
            let questions = (("who", Elicit::form::<Who>("Who?")), ("sum", sample), ("roots", Roots));
            let (who, sum, roots) = ctx.ask_many(questions).await?;
            let name = who.accepted().map_or_else(String::new, |who| who.name);
            Ok::<_, AskError>(format!("{name}, {}, {}", sum.text(), roots[0].uri))
        })
        .tool("two", "Asks twice at once", |ctx: Call, _: NoInput| async move {
            let ask = |text: &str| Elicit::form::<Who>(text);
            let answers = ctx.ask_many([("a", ask("a?")), ("b", ask("b?"))]).await?;
            let names: Vec<_> =
                answers.into_iter().filter_map(Elicited::accepted).map(|who| who.name).collect();
            Ok::<_, AskError>(names.join(" and "))
        })
        .tool("reason", "Says why there is no answer", |ctx: Call, _: NoInput| async move {
            match ctx.ask("who", Elicit::form::<Who>("Who?")).await {
                Ok(_) => "answered".to_owned(),
                Err(error) => match &error.kind {
                    AskErrorKind::Unsupported(what) => format!("unsupported {what}"),
                    AskErrorKind::Malformed(_) => "malformed".into(),
                    _ => error.reason().unwrap_or_else(|| error.to_string()),
                },
            }
        })
        .tool("first", "Has to be done elsewhere first", |_: Call, _: NoInput| async {
            let url = Elicit::url("Log in", "https://e.example/login", "7");
            Err::<String, _>(Error::url_elicitation_required("Log in first", [url]))
        })
        .build()
        .unwrap()
}

fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

/// Methods and parameters.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A client that answers `answers[method]`, and what it was asked.
fn answering(answers: Value) -> (ClientBuilder, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let builder = Client::builder().capabilities(everything()).on_request(move |method, params| {
        noted.lock().push((method.to_owned(), params));
        answers.get(method).cloned().ok_or_else(|| ErrorObject::new(-1, "the person is out"))
    });
    (builder, asked)
}

fn accepted(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

async fn text(client: &Client, tool: &str) -> String {
    let result = client.call_tool(tool, json!({})).await.unwrap();
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn forms_are_asked_in_every_revision_that_has_them() {
    for revision in crate::revisions() {
        let (client, asked) = answering(json!({ "elicitation/create": accepted("Ann") }));
        let client = client.revision(revision).connect(&server()).await;
        if matches!(revision, "2024-11-05" | "2025-03-26") {
            let said = text(&client, "who").await;
            assert!(said.contains("cannot be asked of a peer that speaks"), "{said}");
            assert!(asked.lock().is_empty());
            continue;
        }
        assert_eq!(text(&client, "who").await, "Ann", "{revision}");
        let (method, params) = asked.lock()[0].clone();
        assert_eq!(method, "elicitation/create");
        assert_eq!(params["requestedSchema"]["properties"]["name"]["type"], "string");
        assert_eq!(text(&client, "two").await, "Ann and Ann");
    }
    let (client, _) = answering(json!({ "elicitation/create": { "action": "decline" } }));
    assert_eq!(text(&client.connect(&server()).await, "who").await, "decline");
}

#[tokio::test(start_paused = true)]
async fn urls_are_asked_and_their_end_is_told() {
    let (client, asked) = answering(json!({ "elicitation/create": { "action": "accept" } }));
    let client = client.connect(&server()).await;
    assert_eq!(text(&client, "login").await, "accept");
    assert_eq!(asked.lock()[0].1["mode"], "url");
    assert_eq!(
        client.notification().await.unwrap(),
        json!({ "method": "notifications/elicitation/complete", "params": { "elicitationId": "7" } })
    );
    let error = client.call_tool("first", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32042);
    let data: Value = error.data.unwrap().to().unwrap();
    assert_eq!(data["elicitations"][0]["elicitationId"], "7");
}

#[tokio::test(start_paused = true)]
async fn the_model_is_asked_and_may_use_tools() {
    let answer = |content: Value| json!({ "sampling/createMessage": { "role": "assistant", "model": "m", "content": content } });
    let (client, asked) = answering(answer(json!({ "type": "text", "text": "4" })));
    assert_eq!(text(&client.connect(&server()).await, "sample").await, "4");
    assert_eq!(asked.lock()[0].1["tools"][0]["name"], "add");
    let use_ = json!([{ "type": "tool_use", "id": "1", "name": "add", "input": {} }]);
    let (client, _) = answering(answer(use_));
    assert_eq!(text(&client.connect(&server()).await, "sample").await, "uses add");
}

#[tokio::test(start_paused = true)]
async fn several_questions_are_asked_at_once() {
    let (client, asked) = answering(json!({
        "elicitation/create": accepted("Ann"),
        "sampling/createMessage": { "role": "assistant", "model": "m", "content": { "type": "text", "text": "4" } },
        "roots/list": { "roots": [{ "uri": "file:///a" }] },
    }));
    assert_eq!(text(&client.connect(&server()).await, "all").await, "Ann, 4, file:///a");
    assert_eq!(asked.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_an_error_with_a_reason() {
    // The client's own error, and an answer of another shape.
    let (client, _) = answering(json!({}));
    assert_eq!(text(&client.connect(&server()).await, "reason").await, "who: the person is out (-1)");
    let (client, _) = answering(json!({ "elicitation/create": { "action": "accept", "content": {} } }));
    assert_eq!(text(&client.connect(&server()).await, "reason").await, "malformed");
    // By `?` it is an error that the model reads.
    let (client, _) = answering(json!({}));
    let result = client.connect(&server()).await.call_tool("who", json!({})).await.unwrap();
    assert_eq!(result["isError"], true);
    // A client that did not declare it is not asked.
    let silent = Client::builder().on_request(|_, _| panic!("asked")).connect(&server()).await;
    assert_eq!(text(&silent, "reason").await, "unsupported elicitation");
    // Without a session nothing can be asked, and that is said at once.
    let stateless = SessionMode::Stateless { resumable: false, stale_session: StaleSession::default() };
    let (client, asked) = answering(json!({}));
    let client = client.pipe_options(PipeOptions::default().session_mode(stateless)).connect(&server()).await;
    assert_eq!(text(&client, "reason").await, "stateless");
    assert!(asked.lock().is_empty());
}
