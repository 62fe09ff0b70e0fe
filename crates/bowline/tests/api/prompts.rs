//! Prompts and their completion.

use bowline::{
    Call, Content, Error, NoInput, Prompt, PromptArgument, PromptMessage, Reference, Server, Typed,
    testing::Client,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Deserialize, JsonSchema)]
struct Trip {
    /// Where to
    city: String,
    days: Option<u8>,
}

fn server() -> Server {
    Server::builder("s", "1")
        .prompt("plain", "Says", |_: Call, _: NoInput| async { "a prompt" })
        .prompt("trip", "Plans", |_: Call, Trip { city, days }: Trip| async move {
            let days = days.unwrap_or(1);
            [
                PromptMessage::user(format!("{days} days in {city}")),
                PromptMessage::assistant(Content::image([1], "image/png")),
            ]
        })
        .add_prompt(
            Prompt::new("by-hand").title("By hand").argument(PromptArgument::new("a").title("A").required()),
            |_: Call, all: BTreeMap<String, String>| async move {
                if all.contains_key("fail") {
                    Err(Error::invalid_params("no"))
                } else {
                    Ok(format!("{all:?}"))
                }
            },
        )
        .completion(Reference::prompt("trip"), "city", |_: Call, typed: Typed| async move {
            (0..150).map(|n| format!("{}{n}", typed.value)).collect::<Vec<_>>()
        })
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn prompts_are_made_of_their_arguments() {
    let client = Client::connect(&server()).await;
    let get = async |params: serde_json::Value| client.request("prompts/get", params).await;
    assert_eq!(
        get(json!({ "name": "plain" })).await.unwrap(),
        json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "a prompt" } }] })
    );
    let trip = get(json!({ "name": "trip", "arguments": { "city": "Rome", "days": "3" } })).await.unwrap();
    assert_eq!(trip["messages"][0]["content"]["text"], "3 days in Rome");
    assert_eq!(trip["messages"][1]["role"], "assistant");
    for bad in [
        json!({ "name": "trip" }),
        json!({ "name": "trip", "arguments": { "city": "Rome", "days": "many" } }),
        json!({ "name": "trip", "arguments": { "city": 7 } }),
        json!({ "name": "none" }),
        json!({ "name": "by-hand", "arguments": { "fail": "" } }),
    ] {
        assert_eq!(get(bad.clone()).await.unwrap_err().code, -32602, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_are_listed_with_their_arguments() {
    let client = Client::connect(&server()).await;
    let list = client.request("prompts/list", json!({})).await.unwrap();
    assert_eq!(
        list["prompts"],
        json!([
            { "name": "plain", "description": "Says", "arguments": [] },
            { "name": "trip", "description": "Plans", "arguments": [
                { "name": "city", "description": "Where to", "required": true }, { "name": "days" },
            ] },
            { "name": "by-hand", "title": "By hand", "arguments": [{ "name": "a", "title": "A", "required": true }] },
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn at_most_a_hundred_proposals_are_sent() {
    let client = Client::connect(&server()).await;
    let complete = async |name: &str| {
        let params = json!({
            "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": "city", "value": "x" },
        });
        client.request("completion/complete", params).await
    };
    let completion = complete("trip").await.unwrap()["completion"].take();
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(150), &json!(true)));
    assert_eq!(complete("none").await.unwrap_err().code, -32602);
}
