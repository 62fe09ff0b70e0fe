//! Arguments that modern clients repeat in headers (`x-mcp-header`), checked for a server that cannot see headers.

use std::collections::HashMap;
use std::sync::Arc;

use bowline_proto::jsonrpc::{ErrorObject, Raw, code};
use bowline_proto::modern::params::{HeaderParam, check, collect};
use bowline_server::Call;
use parking_lot::Mutex;

/// Tools with annotations that are remembered.
const MAX_TOOLS: usize = 1_000;

/// The annotations of a server's tools, as far as a client has read its list.
#[derive(Default)]
pub(crate) struct Headers(Mutex<HashMap<String, Arc<[HeaderParam]>>>);

impl Headers {
    /// Takes note of a page of tools that goes to a client.
    pub(crate) fn note(&self, child: &str, result: &Raw) {
        let mut known = self.0.lock();
        // Nearly no server has any.
        if known.is_empty() && !result.as_str().contains("x-mcp-header") {
            return;
        }
        let tools: Vec<Raw> = result.member("tools").and_then(|tools| tools.to().ok()).unwrap_or_default();
        for tool in tools {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let schema = tool.member("inputSchema").and_then(|schema| schema.to().ok()).unwrap_or_default();
            match collect(&schema) {
                Ok(params) if !params.is_empty() && known.len() < MAX_TOOLS => {
                    known.insert(name, params.into());
                }
                Ok(_) => drop(known.remove(&name)),
                Err(why) => {
                    known.remove(&name);
                    tracing::warn!(target: "bowline::gateway", child, tool = name, "a header of the tool is not checked: {why}");
                }
            }
        }
    }

    /// Checks the headers of a modern client's call.
    ///
    /// # Errors
    /// -32020 where a header does not say what its argument says.
    pub(crate) fn check(&self, call: &Call) -> Result<(), ErrorObject> {
        if call.method() != "tools/call" {
            return Ok(());
        }
        let member = |name: &str| call.params().and_then(|params| params.member(name));
        let name = member("name").and_then(|name| name.string()).unwrap_or_default();
        let Some(params) = self.0.lock().get(&name).cloned() else { return Ok(()) };
        check(&params, &call.parts().headers, member("arguments").as_ref())
            .map_err(|why| ErrorObject::new(code::HEADER_MISMATCH, format!("Header mismatch: {why}")))
    }
}
