//! What a message of the server says.

use crate::trace::Said;
use serde_json::Value;

/// Reads a message.
pub(crate) fn read(text: &str) -> Said {
    let strange = || Said::Strange(text.chars().take(300).collect());
    let Ok(message) = serde_json::from_str::<Value>(text) else { return strange() };
    said(&message).unwrap_or_else(strange)
}

fn said(message: &Value) -> Option<Said> {
    let params = &message["params"];
    match message["method"].as_str() {
        Some("notifications/progress") => Some(Said::Progress {
            call: params["progressToken"].as_u64()?,
            step: params["progress"].as_u64()?,
            hash: params["message"].as_str()?.parse().ok()?,
            run: params["_meta"]["bowline/run"].as_u64().unwrap_or(1),
        }),
        Some("notifications/resources/updated") => {
            let (call, step) = params["uri"].as_str()?.strip_prefix("sim:")?.split_once('/')?;
            Some(Said::Shout { call: call.parse().ok()?, step: step.parse().ok()? })
        }
        Some("elicitation/create") => {
            Some(Said::Question { call: params["message"].as_str()?.parse().ok()? })
        }
        Some("notifications/cancelled") => Some(Said::Aside),
        Some(method) => method.ends_with("/list_changed").then_some(Said::Aside),
        None => answer(message),
    }
}

fn answer(message: &Value) -> Option<Said> {
    let request = message["id"].as_u64()?;
    if let Some(error) = message.get("error") {
        let reason = error["data"]["reason"].as_str();
        let reason = reason.map_or_else(|| error["code"].to_string(), str::to_owned);
        return Some(Said::Error { request, reason });
    }
    let text = message["result"]["content"][0]["text"].as_str()?;
    let mut parts = text.split('/').map(|part| part.parse().ok());
    Some(Said::Result { request, call: parts.next()??, steps: parts.next()??, hash: parts.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_passed_over() {
        let result = r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"7/2/9"}]}}"#;
        assert_eq!(read(result), Said::Result { request: 3, call: 7, steps: 2, hash: 9 });
        let error =
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"","data":{"reason":"expired"}}}"#;
        assert_eq!(read(error), Said::Error { request: 3, reason: "expired".into() });
        for strange in ["{}", "no JSON", r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, r#"{"method":"other"}"#] {
            assert_eq!(read(strange), Said::Strange(strange.into()));
        }
    }
}
