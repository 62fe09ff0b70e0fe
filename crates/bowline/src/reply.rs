//! From what handlers return to what goes out.

use crate::{
    completion::Completions, content::ResourceContents, error::Error, prompt::PromptResult, schema::Check,
    tool::ToolResult,
};
use bowline_proto::{
    jsonrpc::{ErrorObject, Raw, Reply, code},
    revision::Revision,
};
use serde::Serialize;

/// A tool's result, or what its handler failed with.
pub(crate) fn tool(result: Result<ToolResult, Error>, output: Option<&Check>, name: &str) -> Reply {
    let result = match result {
        Ok(result) => result,
        Err(error) => match error.for_tool() {
            Ok(message) => ToolResult::error(message),
            Err(error) => return error.into(),
        },
    };
    // An error need not be of the schema.
    if let Some(check) = output
        && !result.is_error()
    {
        let fault = match result.structured_value() {
            Some(value) => check.fault(value.as_str()),
            None => Some("there is no structured result, but the tool has an output schema".to_owned()),
        };
        if let Some(fault) = fault {
            tracing::error!(tool = name, fault, "a tool's result does not keep to its output schema");
            return ErrorObject::outcome_unknown(
                "invalid_output",
                format!("the result of the tool {name:?} does not keep to its output schema: {fault}"),
            )
            .into();
        }
    }
    Reply::Result(result.into_raw())
}

/// Arguments that a tool cannot be called with: from `2025-11-25` on a result that the model reads, before it an error
/// (SEMANTICS 2).
pub(crate) fn bad_arguments(revision: Revision, tool: &str, why: &str) -> Reply {
    if revision.features().icons {
        let text = format!("The arguments of the tool {tool:?} are not valid: {why}");
        Reply::Result(ToolResult::error(text).into_raw())
    } else {
        bad_params(&format!("the arguments of the tool {tool:?}"), why)
    }
}

/// Parameters that are wrong (-32602).
pub(crate) fn bad_params(what: &str, why: &str) -> Reply {
    ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {what}: {why}")).into()
}

/// A header of a modern request that does not say what its body says (-32020).
pub(crate) fn header_mismatch(why: &str) -> Reply {
    ErrorObject::new(code::HEADER_MISMATCH, format!("Header mismatch: {why}")).into()
}

/// What was read, with the URI and the media type where the handler left them out.
pub(crate) fn resource(
    contents: Result<Vec<ResourceContents>, Error>,
    uri: &str,
    mime_type: Option<&str>,
) -> Reply {
    #[derive(Serialize)]
    struct Read {
        contents: Vec<ResourceContents>,
    }
    let mut contents = match contents {
        Ok(contents) => contents,
        Err(error) => return error.into_object().into(),
    };
    for part in &mut contents {
        if part.uri.is_empty() {
            uri.clone_into(&mut part.uri);
            if part.mime_type.is_none() {
                part.mime_type = mime_type.map(str::to_owned);
            }
        }
    }
    written(Raw::from_value(&Read { contents }))
}

pub(crate) fn prompt(result: Result<PromptResult, Error>) -> Reply {
    result.and_then(PromptResult::into_raw).map_err(Error::into_object).into()
}

pub(crate) fn completions(result: Result<Completions, Error>) -> Reply {
    result.map_err(Error::into_object).and_then(Completions::into_raw).into()
}

fn written(raw: Result<Raw, serde_json::Error>) -> Reply {
    raw.map_err(|error| ErrorObject::internal("failed", error.to_string())).into()
}
