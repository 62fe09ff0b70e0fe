//! Tools: what goes in, what comes out, how they are listed.

use crate::revisions;
use bowline::{
    Call, Content, Error, Icon, Json, NoInput, ResultExt as _, Server, Tool, ToolResult, testing::Client,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first one
    a: i64,
    #[serde(default)]
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool("add", "Adds", |_: Call, Add { a, b }: Add| async move { Json(Sum { sum: a + b }) })
        .tool("text", "Says", |_: Call, _: NoInput| async { "a \"text\"" })
        .tool("nothing", "Says nothing", |_: Call, _: NoInput| async {})
        .tool("parse", "Reads a number", |_: Call, Text { text }: Text| async move {
            Ok::<_, Error>(text.parse::<u8>()?.to_string())
        })
        .tool("strict", "Reads a number", |_: Call, Text { text }: Text| async move {
            Ok::<_, Error>(text.parse::<u8>().or_protocol_error(7)?.to_string())
        })
        .tool("several", "Says several things", |_: Call, _: NoInput| async {
            ToolResult::of([Content::text("a"), Content::image([1], "image/png"), Content::link("x:y", "y")])
        })
        .tool("panics", "Fails", |_: Call, _: NoInput| async {
            if true {
                panic!("secret")
            }
        })
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn input_is_typed_and_output_is_what_the_handler_returns() {
    let client = Client::connect(&server()).await;
    let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "sum": 5 }));
    assert_eq!(result["content"], json!([{ "type": "text", "text": "{\"sum\":5}" }]));
    // Arguments may be left out altogether.
    let result = client.request("tools/call", json!({ "name": "text" })).await.unwrap();
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "a \"text\"" }] }));
    assert_eq!(client.call_tool("nothing", json!({})).await.unwrap(), json!({ "content": [] }));
    let kinds: Vec<Value> = client.call_tool("several", json!({})).await.unwrap()["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["type"].clone())
        .collect();
    assert_eq!(kinds, ["text", "image", "resource_link"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_for_the_model_or_for_the_client() {
    let client = Client::connect(&server()).await;
    let result = client.call_tool("parse", json!({ "text": "x" })).await.unwrap();
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "invalid digit found in string");
    let error = client.call_tool("strict", json!({ "text": "x" })).await.unwrap_err();
    assert_eq!((error.code, &*error.message), (7, "invalid digit found in string"));
    let error = client.call_tool("panics", json!({})).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(!error.message.contains("secret"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_said_as_the_revision_says_them() {
    for revision in revisions() {
        let client = Client::builder().revision(revision).connect(&server()).await;
        for arguments in [json!({}), json!({ "a": "two" })] {
            let outcome = client.call_tool("add", arguments).await;
            if revision == "2025-11-25" {
                let result = outcome.unwrap();
                assert_eq!(result["isError"], true, "{revision}");
                let text = result["content"][0]["text"].as_str().unwrap();
                assert!(text.contains("\"add\""), "{text}");
            } else {
                let error = outcome.unwrap_err();
                assert_eq!(error.code, -32602, "{revision}");
                assert!(error.message.contains("\"add\""), "{}", error.message);
            }
        }
        let error = client.call_tool("missing", json!({})).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32602, "Unknown tool: missing"), "{revision}");
        let error = client.request("tools/call", json!({})).await.unwrap_err();
        assert_eq!(error.code, -32602, "{revision}");
        assert_eq!(client.request("tools/none", json!({})).await.unwrap_err().code, -32601, "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_tool_is_listed() {
    let schema = r#"{"type":"object","properties":{"z":{},"a":{"minimum":1.50}}}"#;
    let tool = Tool::new("hand-made")
        .title("Hand-made")
        .description("d")
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false)
        .icon(Icon::new("https://e.example/i.png"))
        .meta("k", 1)
        .input_schema(schema)
        .output_schema(json!({ "type": "object" }));
    let server = Server::builder("s", "1")
        .add_tool(tool, |_: Call, _: Value| async { ToolResult::new().structured(&json!({ "a": 1 })) })
        .tool("add", "Adds", |_: Call, Add { a, b }: Add| async move { Json(Sum { sum: a + b }) })
        .build()
        .unwrap();
    let client = Client::connect(&server).await;
    let list = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(
        list["tools"][0],
        json!({
            "name": "hand-made", "title": "Hand-made", "description": "d",
            "inputSchema": serde_json::from_str::<Value>(schema).unwrap(), "outputSchema": { "type": "object" },
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
            "icons": [{ "src": "https://e.example/i.png" }], "_meta": { "k": 1 },
        })
    );
    let add = &list["tools"][1];
    assert_eq!(add["inputSchema"]["properties"]["a"]["description"], "The first one");
    assert_eq!(add["inputSchema"]["required"], json!(["a"]));
    assert_eq!(add["outputSchema"]["required"], json!(["sum"]));
    let result = client.call_tool("hand-made", json!({ "a": 2 })).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "a": 1 }));
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages() {
    let mut builder = Server::builder("s", "1").page_size(2);
    for n in 0..5 {
        builder = builder.tool(format!("t{n}"), "d", |_: Call, _: NoInput| async {});
    }
    let client = Client::connect(&builder.build().unwrap()).await;
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.request("tools/list", params).await.unwrap();
        names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
        let Some(cursor) = page.get("nextCursor") else { break };
        params = json!({ "cursor": cursor });
    }
    assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
    let error = client.request("tools/list", json!({ "cursor": "x" })).await.unwrap_err();
    assert_eq!(error.code, -32602);
}

#[cfg(feature = "validate")]
#[tokio::test(start_paused = true)]
async fn arguments_and_results_are_checked_against_their_schemas() {
    let input = json!({
        "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } }, "additionalProperties": false,
    });
    let output = json!({ "type": "object", "properties": { "n": { "maximum": 5 } }, "required": ["n"] });
    let tool = Tool::new("echo").input_schema(input).output_schema(output);
    let server = Server::builder("s", "1")
        .add_tool(tool, |_: Call, input: Value| async move { ToolResult::new().structured(&input) })
        .build()
        .unwrap();
    let client = Client::connect(&server).await;
    assert_eq!(
        client.call_tool("echo", json!({ "n": 3 })).await.unwrap()["structuredContent"],
        json!({ "n": 3 })
    );
    for bad in [json!({ "n": 0 }), json!({ "n": 1, "m": 1 })] {
        assert_eq!(client.call_tool("echo", bad).await.unwrap()["isError"], true);
    }
    // What breaks the output's schema is the server's fault: a client must not take it for a result.
    for bad in [json!({ "n": 9 }), json!({})] {
        let error = client.call_tool("echo", bad).await.unwrap_err();
        assert_eq!(error.data.unwrap().member("reason").unwrap().string().unwrap(), "invalid_output");
    }
}
