//! What each scenario wants to see.

use crate::login;
use bowline_client::{
    CallError, CallOptions, Client, ClientOptions, ElicitReply, Era, Handlers, Raw, Target, Tool,
};
use serde_json::{Value, json};
use std::{env, error::Error};

type Done = Result<(), Box<dyn Error>>;

pub(crate) async fn run() -> Done {
    let url = env::args().next_back().ok_or("the address is the last argument")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    let revision = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    let context = env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = context.map(|text| serde_json::from_str(&text)).transpose()?.unwrap_or_default();

    let handlers = Handlers::new()
        .elicitation(|_| async { Ok(ElicitReply::Accept(None)) })
        .sampling(|_| async {
            Ok(Raw::from_value(&json!({
                "role": "assistant", "model": "none", "content": { "type": "text", "text": "Paris" }
            }))
            .unwrap_or_else(|_| Raw::empty_object()))
        })
        .roots(|| async { Vec::new() });
    let mut options =
        ClientOptions::new("bowline-conformance-client", env!("CARGO_PKG_VERSION")).handler(handlers);
    options.era = if revision == "2026-07-28" { Era::Modern } else { Era::Legacy };
    if options.era == Era::Legacy && !revision.is_empty() {
        options.revision = revision;
    }
    options.authorizer = login::authorizer(&url, &scenario, &context)?;

    let client = Client::connect(Target::http(&url)?, options).await?;
    let done = play(&client, &scenario, &context).await;
    client.close().await;
    done
}

async fn play(client: &Client, scenario: &str, context: &Value) -> Done {
    match scenario {
        "tools_call" => {
            client.list_tools().await?;
            client.call_tool("add_numbers", &json!({ "a": 5, "b": 3 })).await?;
        }
        "elicitation-sep1034-client-defaults" => {
            client.list_tools().await?;
            client.call_tool("test_client_elicitation_defaults", &json!({})).await?;
        }
        "sse-retry" => {
            client.list_tools().await?;
            client.call_tool("test_reconnection", &json!({})).await?;
        }
        "http-standard-headers" => standard_headers(client).await?,
        "http-custom-headers" => {
            client.list_tools().await?;
            let calls = context["toolCalls"].as_array().ok_or("no toolCalls in the context")?;
            for call in calls {
                let name = call["name"].as_str().ok_or("a call without a name")?;
                client.call_tool(name, &call["arguments"]).await?;
            }
        }
        "http-invalid-tool-headers" => {
            for tool in client.list_tools().await? {
                client.call_tool(&tool.name, &arguments_for(&tool)).await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let tools = client.list_tools().await?;
            let tool =
                tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool").ok_or("no such tool")?;
            let schema = tool.input_schema().ok_or("no schema")?;
            let echo = Raw::from_members([("schema", schema)]);
            client.call_tool("json_schema_echo", &echo).await?;
        }
        "sep-2322-client-request-state" => {
            for tool in [
                "test_mrtr_echo_state",
                "test_mrtr_no_state",
                "test_mrtr_unrelated",
                "test_mrtr_no_result_type",
            ] {
                client.call_tool(tool, &json!({})).await?;
            }
        }
        // `initialize`, `request-metadata`, `json-schema-ref-no-deref`, and whatever only has to see some traffic.
        _ => whatever_there_is(client).await?,
    }
    Ok(())
}

async fn standard_headers(client: &Client) -> Done {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, &arguments_for(&tool)).await?;
    }
    if client.peer().has("resources") {
        for resource in client.list_resources().await? {
            client.read_resource(&resource.uri).await?;
        }
    }
    if client.peer().has("prompts") {
        for prompt in client.list_prompts().await? {
            client.get_prompt(&prompt.name, &json!({})).await?;
        }
    }
    Ok(())
}

/// Lists the tools and calls the first.
async fn whatever_there_is(client: &Client) -> Done {
    let tools = match client.list_tools().await {
        Ok(tools) => tools,
        // Some servers of the suite know nothing but the handshake.
        Err(CallError::Protocol(error)) => {
            tracing::info!(error.code, "no tools");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(tool) = tools.first()
        && env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|name| name.starts_with("auth/"))
    {
        client.call_tool_with(&tool.name, &arguments_for(tool), CallOptions::new()).await?;
    }
    Ok(())
}

/// Something for every required argument.
fn arguments_for(tool: &Tool) -> Value {
    let schema: Value = tool.input_schema().and_then(|schema| schema.to().ok()).unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("us-west1"),
    };
    required
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), value(name)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
