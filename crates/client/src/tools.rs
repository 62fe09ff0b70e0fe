//! What is kept of each tool: which arguments are mirrored into headers, and whether it may run twice.

use crate::{
    CallError, ToolAnnotations,
    core::{Core, ToolFacts},
};
use bowline_proto::{client::HeaderPlan, jsonrpc::Raw};
use std::sync::Arc;

/// Tools that are remembered, at most. Beyond that they are called like tools that nobody has listed.
const MAX_TOOLS: usize = 10_000;

/// Keeps what a page of `tools/list` says, and takes the tools out whose definitions break the rules for headers: over HTTP
/// they cannot be called, and must not be shown.
pub(crate) fn note(core: &Core, page: Raw, over_modern_http: bool) -> Raw {
    let Some(tools) =
        page.member("tools").and_then(|tools| tools.to::<Vec<Box<serde_json::value::RawValue>>>().ok())
    else {
        return page;
    };
    let mut facts = core.tools.lock();
    let mut kept = Vec::with_capacity(tools.len());
    let total = tools.len();
    for tool in tools {
        let tool = Raw::from_trusted(String::from(Box::<str>::from(tool)).into());
        let Some(name) = tool.member("name").and_then(|name| name.string()) else {
            kept.push(tool);
            continue;
        };
        let plan = tool
            .member("inputSchema")
            .map_or_else(|| Ok(HeaderPlan::default()), |s| HeaderPlan::of_schema(&s));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) if over_modern_http => {
                tracing::warn!(tool = name, %error, "tool left out of the list");
                facts.remove(&name);
                continue;
            }
            Err(_) => HeaderPlan::default(),
        };
        let annotations: ToolAnnotations =
            tool.member("annotations").and_then(|annotations| annotations.to().ok()).unwrap_or_default();
        let repeatable =
            annotations.read_only_hint == Some(true) || annotations.idempotent_hint == Some(true);
        if facts.len() < MAX_TOOLS || facts.contains_key(&name) {
            facts.insert(name, ToolFacts { plan, repeatable });
        }
        kept.push(tool);
    }
    drop(facts);
    if kept.len() == total {
        return page;
    }
    let list = kept.iter().map(Raw::as_str).collect::<Vec<_>>().join(",");
    let list = Raw::from_trusted(format!("[{list}]").into());
    page.with_member("tools", &list).unwrap_or(page)
}

/// Reads the list of tools for what it says about headers.
pub(crate) async fn learn(core: &Arc<Core>) -> Result<(), CallError> {
    let ctx = core.quiet_ctx("tools/list");
    let mut cursor: Option<Raw> = None;
    for _ in 0..core.options.max_pages {
        let params = cursor.take().map(|cursor| Raw::from_members([("cursor", cursor)]));
        let page = core.exchange(&ctx, params.as_ref()).await?;
        let next = page.member("nextCursor").filter(|cursor| cursor.as_str() != "null");
        note(core, page, core.peer().is_some_and(|peer| peer.modern));
        let Some(next) = next else { break };
        cursor = Some(next);
    }
    Ok(())
}
