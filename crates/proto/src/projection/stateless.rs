//! What a server without sessions may promise (SEMANTICS 3).

use super::Fields;
use crate::jsonrpc::Raw;

/// The result of `initialize` without what no channel can deliver in the session mode `stateless`: `logging`, `tasks`
/// (nothing is kept between requests), and every capability's `listChanged` and `subscribe`. `experimental` is its
/// author's own and stays.
#[must_use]
pub fn strip_stateless(result_of_initialize: Raw) -> Raw {
    stripped(&result_of_initialize).unwrap_or(result_of_initialize)
}

fn stripped(result: &Raw) -> Option<Raw> {
    let mut result = Fields::of(result)?;
    result.update("capabilities", |capabilities| {
        let mut capabilities = Fields::of(capabilities)?;
        capabilities.retain(|name| !matches!(name, "logging" | "tasks"));
        capabilities.update_where(
            |name| name != "experimental",
            |capability| {
                let mut capability = Fields::of(capability)?;
                capability.retain(|name| !matches!(name, "listChanged" | "subscribe"));
                capability.into_changed()
            },
        );
        capabilities.into_changed()
    });
    result.into_changed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(text: &str) -> String {
        strip_stateless(Raw::parse(text.to_owned()).unwrap()).as_str().to_owned()
    }

    #[test]
    fn nothing_is_promised_that_no_channel_can_deliver() {
        let full = r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":false},"tools":{"listChanged":true,"x":1.0},"tasks":{"list":{}},"experimental":{"y":{"listChanged":true}}},"serverInfo":{"name":"s","version":"1"}}"#;
        assert_eq!(
            strip(full),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"completions":{},"prompts":{},"resources":{},"tools":{"x":1.0},"experimental":{"y":{"listChanged":true}}},"serverInfo":{"name":"s","version":"1"}}"#
        );
        assert_eq!(strip(&strip(full)), strip(full));
    }

    #[test]
    fn what_promises_nothing_passes_as_it_is() {
        for text in [r#"{ "capabilities" : { "tools" : {} } }"#, "{}", "[]", "7", r#"{"capabilities":7}"#] {
            assert_eq!(strip(text), text);
        }
    }
}
