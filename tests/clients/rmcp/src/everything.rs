//! Scenario `everything`: what a client can do, against `@modelcontextprotocol/server-everything`.

use crate::report::{Report, expect};
use crate::session::{Session, model};
use serde_json::{Value, json};
use std::time::Duration;

const LONG: &str = "trigger-long-running-operation";
const TEXT: &str = "demo://resource/dynamic/text/1";

pub async fn everything(session: &Session, report: &Report) {
    let client = &session.client;
    // It has no session and no log level for all, and listens to what it would subscribe to.
    let modern = session.wire.seen().session_id.is_none();

    report
        .check("list-tools", async {
            let tools = client.list_all_tools().await?;
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
            // The last three are there only if the server saw our capabilities.
            for wanted in [
                "echo",
                "get-sum",
                LONG,
                "trigger-elicitation-request",
                "trigger-sampling-request",
                "get-roots-list",
            ] {
                expect(names.contains(&wanted), format!("no tool {wanted}"), &json!({ "names": names }))?;
            }
            Ok(json!({ "tools": names.len() }))
        })
        .await;

    report
        .check("echo", async {
            let text = session.text("echo", json!({ "message": "héllo\nworld ✓" })).await?;
            expect(text == "Echo: héllo\nworld ✓", "not what was sent", &json!({ "text": text }))?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("sum", async {
            let text = session.text("get-sum", json!({ "a": 2, "b": 40 })).await?;
            expect(text.contains("42"), "wrong sum", &json!({ "text": text }))?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("structured-content", async {
            let result = session.call("get-structured-content", json!({ "location": "Chicago" })).await?;
            let result = serde_json::to_value(result)?;
            let temperature = &result["structuredContent"]["temperature"];
            expect(temperature.is_number(), "no structured content", &json!({ "result": result }))?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("progress", async {
            session.progress();
            let text = session.text(LONG, json!({ "duration": 1, "steps": 5 })).await?;
            let seen = session.progress();
            expect(text.contains("completed"), "not the result of the operation", &json!({ "text": text }))?;
            expect(seen == [1.0, 2.0, 3.0, 4.0, 5.0], "wrong progress", &json!({ "seen": seen }))?;
            Ok(json!({ "received": seen.len() }))
        })
        .await;

    report
        .check("unknown-tool", async {
            let answer = match session.call("no-such-tool", json!({})).await {
                Ok(result) => {
                    let result = serde_json::to_value(result)?;
                    expect(result["isError"] == true, "a tool that does not exist answered", &result)?;
                    "isError"
                }
                Err(error) => {
                    let text = error.to_string();
                    expect(
                        text.contains("-32602"),
                        format!("neither isError nor -32602: {text}"),
                        &Value::Null,
                    )?;
                    "error"
                }
            };
            Ok(json!({ "answer": answer }))
        })
        .await;

    report
        .check("resources", async {
            let resources = client.list_all_resources().await?;
            expect(!resources.is_empty(), "no resources", &Value::Null)?;
            for uri in [resources[0].uri.as_str(), TEXT] {
                let read = client.read_resource(model(json!({ "uri": uri }))?).await?;
                let read = serde_json::to_value(read)?;
                let text = read["contents"][0]["text"].as_str().unwrap_or_default();
                expect(!text.is_empty(), "an empty resource", &json!({ "uri": uri }))?;
                expect(
                    uri != TEXT || text.starts_with("Resource 1:"),
                    "not resource 1",
                    &json!({ "text": text }),
                )?;
            }
            let templates = client.list_all_resource_templates().await?;
            expect(templates.len() == 2, "not two templates", &json!({ "templates": templates.len() }))?;
            Ok(json!({ "resources": resources.len() }))
        })
        .await;

    report
        .check("subscribe", async {
            let mut listening = None;
            if modern {
                let wanted = model(json!({ "resourceSubscriptions": [TEXT] }))?;
                listening = Some(client.listen(wanted).await?);
            } else {
                client.subscribe(model(json!({ "uri": TEXT }))?).await?;
            }
            let text = session.text("toggle-subscriber-updates", json!({})).await?;
            expect(text.starts_with("Started"), "updates were not started", &json!({ "text": text }))?;
            // The server sends one update at once and one every 5 s; the first may find no standalone stream yet.
            came(session, "notifications/resources/updated").await?;
            session.text("toggle-subscriber-updates", json!({})).await?;
            if listening.is_none() {
                client.unsubscribe(model(json!({ "uri": TEXT }))?).await?;
            }
            drop(listening);
            Ok(Value::Null)
        })
        .await;

    report
        .check("prompts", async {
            let prompts = client.list_all_prompts().await?;
            let params = model(json!({ "name": "args-prompt", "arguments": { "city": "Ulm" } }))?;
            let prompt = serde_json::to_value(client.get_prompt(params).await?)?;
            let text = prompt["messages"][0]["content"]["text"].as_str().unwrap_or_default();
            expect(text.contains("Ulm"), "the argument is not in the prompt", &prompt)?;
            Ok(json!({ "prompts": prompts.len() }))
        })
        .await;

    report
        .check("completion", async {
            let params = json!({
                "ref": { "type": "ref/prompt", "name": "completable-prompt" },
                "argument": { "name": "name", "value": "" },
                "context": { "arguments": { "department": "Sales" } },
            });
            let completion = serde_json::to_value(client.complete(model(params)?).await?)?;
            let values = &completion["completion"]["values"];
            expect(*values == json!(["David", "Eve", "Frank"]), "the context was not used", &completion)?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("elicitation", async {
            let result = session.call("trigger-elicitation-request", json!({})).await?;
            let result = serde_json::to_value(result)?;
            let text = result.to_string();
            expect(text.contains("Name: Ann Example"), "the answer did not reach the server", &result)?;
            let asked = session.asked.lock().map(|asked| asked.elicitation).unwrap_or_default();
            expect(asked == 1, format!("asked {asked} times instead of once"), &Value::Null)?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("sampling", async {
            let arguments = json!({ "prompt": "a question", "maxTokens": 10 });
            let text = session.text("trigger-sampling-request", arguments).await?;
            expect(
                text.contains("sampled: Resource trigger-sampling-request context: a question"),
                &*text,
                &Value::Null,
            )?;
            let asked = session.asked.lock().map(|asked| asked.sampling).unwrap_or_default();
            expect(asked == 1, format!("asked {asked} times instead of once"), &Value::Null)?;
            Ok(Value::Null)
        })
        .await;

    report
        .check("roots", async {
            let text = session.text("get-roots-list", json!({})).await?;
            expect(
                text.contains("file:///srv/example"),
                "our root did not reach the server",
                &json!({ "text": text }),
            )?;
            Ok(Value::Null)
        })
        .await;

    if modern {
        return;
    }
    report
        .check("logging", async {
            client.set_level(model(json!({ "level": "debug" }))?).await?;
            let text = session.text("toggle-simulated-logging", json!({})).await?;
            expect(text.starts_with("Started"), "logging was not started", &json!({ "text": text }))?;
            came(session, "notifications/message").await?;
            session.text("toggle-simulated-logging", json!({})).await?;
            Ok(Value::Null)
        })
        .await;
}

/// Waits until a notification has come.
pub async fn came(session: &Session, method: &str) -> Result<(), crate::report::Failed> {
    for _ in 0..2_000 {
        if session.wire.seen().notifications.contains_key(method) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    expect(false, format!("no {method} within 20 s"), &session.wire.summary())
}
