//! Which tools of a server may run a second time where the first run was lost, by what the server says of them in its list.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bowline_proto::jsonrpc::Raw;
use bowline_server::Call;
use parking_lot::Mutex;

/// Tools that are remembered, and the longest of their names, in bytes. What does not fit does not run twice.
const MAX_TOOLS: usize = 10_000;
const MAX_NAME: usize = 256;

/// What the lists that were read say. A tool that one list says so of and another does not is none: servers may list other tools for other
/// clients.
#[derive(Default)]
pub(crate) struct Repeatable {
    tools: Mutex<HashMap<String, bool>>,
    known: AtomicBool,
}

impl Repeatable {
    /// Takes note of a page of the list of tools.
    pub(crate) fn note(&self, result: &Raw) {
        let Some(tools) = result.member("tools").and_then(|tools| tools.to::<Vec<Raw>>().ok()) else {
            return;
        };
        let mut known = self.tools.lock();
        for tool in tools {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let annotations = tool.member("annotations");
            let says = |hint| {
                let said = annotations.as_ref().and_then(|annotations| annotations.member(hint));
                said.is_some_and(|said| said.as_str() == "true")
            };
            let repeatable = says("readOnlyHint") || says("idempotentHint");
            if let Some(held) = known.get_mut(&name) {
                *held &= repeatable;
            } else if name.len() <= MAX_NAME && known.len() < MAX_TOOLS {
                known.insert(name, repeatable);
            }
        }
        self.known.store(true, Ordering::Release);
    }

    /// Whether any list was read.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Whether a call may run a second time.
    pub(crate) fn is(&self, call: &Call) -> bool {
        if call.method() != "tools/call" {
            return false;
        }
        let name = call.params().and_then(|params| params.member("name")?.string());
        name.is_some_and(|name| self.has(&name))
    }

    fn has(&self, name: &str) -> bool {
        self.tools.lock().get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(name: &str, annotations: &serde_json::Value) -> Raw {
        Raw::from_value(&json!({ "tools": [{ "name": name, "annotations": annotations }, 7] })).unwrap()
    }

    #[test]
    fn a_tool_may_run_twice_where_the_server_says_so() {
        let known = Repeatable::default();
        assert!(!known.is_known());
        for (name, annotations, expected) in [
            ("reads", json!({ "readOnlyHint": true }), true),
            ("sets", json!({ "readOnlyHint": false, "idempotentHint": true }), true),
            ("adds", json!({ "idempotentHint": false }), false),
            ("odd", json!({ "idempotentHint": "true" }), false),
            ("silent", json!(null), false),
        ] {
            known.note(&page(name, &annotations));
            assert_eq!(known.has(name), expected, "{name}");
        }
        assert!(known.is_known() && !known.has("unknown"));
    }

    #[test]
    fn where_lists_differ_it_may_not() {
        let known = Repeatable::default();
        for hint in [true, false, true] {
            known.note(&page("t", &json!({ "idempotentHint": hint })));
        }
        assert!(!known.has("t"));
    }

    #[test]
    fn there_is_a_bound() {
        let known = Repeatable::default();
        let long = "x".repeat(MAX_NAME + 1);
        known.note(&page(&long, &json!({ "readOnlyHint": true })));
        let tool = |n: usize| json!({ "name": n.to_string(), "annotations": { "readOnlyHint": true } });
        let tools: Vec<_> = (0..=MAX_TOOLS).map(tool).collect();
        known.note(&Raw::from_value(&json!({ "tools": tools })).unwrap());
        let count = known.tools.lock().len();
        assert_eq!((count, known.has(&long), known.has("0")), (MAX_TOOLS, false, true));
    }
}
