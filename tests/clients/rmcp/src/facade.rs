//! Scenario `facade`: what a modern client can do against the server of the conformance suite.

use crate::everything::came;
use crate::report::{Report, expect};
use crate::session::{Session, model};
use serde_json::{Value, json};

pub async fn facade(session: &Session, report: &Report) {
    for (step, tool, wanted) in [
        ("text", "test_simple_text", ""),
        ("elicitation", "test_input_required_result_elicitation", "Hello, Ann Example!"),
        ("sampling", "test_input_required_result_sampling", "sampled: "),
    ] {
        report
            .check(step, async {
                let text = session.text(tool, json!({})).await?;
                expect(text.contains(wanted), "not the answer", &json!({ "text": text }))?;
                Ok(Value::Null)
            })
            .await;
    }
    report
        .check("listen", async {
            let wanted = model(json!({ "toolsListChanged": true }))?;
            let listening = session.client.listen(wanted).await?;
            session.text("test_trigger_tool_change", json!({})).await?;
            came(session, "notifications/tools/list_changed").await?;
            drop(listening);
            Ok(Value::Null)
        })
        .await;
}
