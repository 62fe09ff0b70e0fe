//! From a tool and its handler to what is served.

use crate::{
    arguments,
    call::Call,
    catalog::{Entry, ToolEntry},
    mistake::BuildError,
    reply,
    schema::{Check, Schema},
    tool::{Hints, IntoToolResult, ListedTool, Tool},
};
use bowline_proto::{
    jsonrpc::{Raw, Reply},
    modern::{
        params::{self, HeaderParam},
        tasks::TaskSupport,
    },
};
use bowline_server::BoxFuture;
use futures_util::FutureExt as _;
use http::HeaderMap;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::{future::ready, sync::Arc};

/// A tool's entry: its schemas made and compiled, its handler boxed.
pub(crate) fn tool_entry<S, In, F, Fut>(tool: Tool, handler: F) -> Result<ToolEntry<S>, BuildError>
where
    S: Send + Sync + 'static,
    In: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Call<S>, In) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoToolResult> + Send + 'static,
{
    let input = tool.input.clone().unwrap_or_else(Schema::of_input::<In>);
    let output = tool.output.clone().or_else(<Fut::Output as IntoToolResult>::output_schema);
    let prepared = Prepared::new(tool, input, output)?;
    let Prepared { name, listed, headers, check_input, check_output, tasks, repeatable } = prepared;
    // One pointer for each call: there may be many that wait.
    let called = Arc::new((name.clone(), check_output));
    let run = move |ctx: Call<S>, arguments: &str| -> BoxFuture<'static, _> {
        if !headers.is_empty()
            && ctx.is_modern()
            && let Some(parts) = ctx.parts()
            && let Some(mismatch) = mismatch(&headers, &parts.headers, arguments)
        {
            return Box::pin(ready(mismatch));
        }
        let read = match check_input.fault(arguments) {
            Some(fault) => Err(fault),
            None => arguments::read::<In>(arguments),
        };
        let input = match read {
            Ok(input) => input,
            Err(why) => return Box::pin(ready(reply::bad_arguments(ctx.revision(), &called.0, &why))),
        };
        let work = handler(ctx, input);
        let called = called.clone();
        // Not an async block: that would hold the handler's future twice, where it was captured and where it is awaited.
        Box::pin(work.map(move |result| reply::tool(result.into_tool_result(), called.1.as_ref(), &called.0)))
    };
    Ok(ToolEntry { tasks, repeatable, entry: Entry { name, listed, run: Box::new(run) } })
}

/// The answer to a call whose headers do not say what its arguments say.
fn mismatch(wanted: &[HeaderParam], headers: &HeaderMap, arguments: &str) -> Option<Reply> {
    let arguments = Raw::from_trusted(arguments.to_owned().into());
    let why = params::check(wanted, headers, Some(&arguments)).err()?;
    Some(reply::header_mismatch(&why))
}

/// What a tool needs to be served, its handler apart: the same code for all types of handlers.
struct Prepared {
    name: String,
    listed: Raw,
    headers: Vec<HeaderParam>,
    check_input: Check,
    check_output: Option<Check>,
    tasks: TaskSupport,
    repeatable: bool,
}

impl Prepared {
    fn new(tool: Tool, input: Schema, output: Option<Schema>) -> Result<Self, BuildError> {
        let name = tool.name;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if name.is_empty() || name.len() > 128 || !name.bytes().all(allowed) {
            return Err(BuildError::ToolName(name));
        }
        let mistake = |which, why| BuildError::Schema { which, name: name.clone(), why };
        let input = input.into_object_schema().map_err(|why| mistake("input", why))?;
        let output =
            output.map(Schema::into_object_schema).transpose().map_err(|why| mistake("output", why))?;
        // Headers are for HTTP alone, but a mistake in them is one in the tool.
        let headers =
            params::collect(&input.to().unwrap_or_default()).map_err(|why| mistake("input", why))?;
        let check_input = Check::new(&input).map_err(|why| mistake("input", why))?;
        let check_output =
            output.as_ref().map(Check::new).transpose().map_err(|why| mistake("output", why))?;
        let no_hints = Hints::default();
        let listed = ListedTool {
            name: &name,
            title: tool.title.as_deref(),
            description: tool.description.as_deref(),
            input_schema: &input,
            output_schema: output.as_ref(),
            annotations: (tool.hints != no_hints).then_some(&tool.hints),
            icons: &tool.icons,
            meta: tool.meta.as_ref(),
        };
        let listed = Raw::from_value(&listed)
            .map_err(|error| BuildError::Definition { name: name.clone(), why: error.to_string() })?;
        let repeatable = tool.hints.read_only_hint == Some(true) || tool.hints.idempotent_hint == Some(true);
        Ok(Self { name, listed, headers, check_input, check_output, tasks: tool.tasks, repeatable })
    }
}
