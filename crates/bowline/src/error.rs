//! What goes wrong in a handler, and who is told.

use crate::ask::{AskError, Elicit};
use bowline_proto::jsonrpc::{ErrorObject, code};
use serde::Serialize;
use std::fmt;

/// Why a handler failed. Made from any error by `?`.
///
/// There are two kinds, and who reads them differs:
///
/// - A *tool error* is a result with `isError`: the model reads it and may do better. Every error that comes in by `?` is one.
/// - A *protocol error* is a JSON-RPC error: the client's code reads it. [`ResultExt::or_protocol_error`] and the
///   constructors here make them.
///
/// What resources, prompts and completions return has no `isError`: a tool error becomes -32603 there.
///
/// The text of an error goes to the client. What must stay in the server belongs into its log.
pub struct Error(Kind);

enum Kind {
    Tool(String),
    Protocol(ErrorObject),
}

impl Error {
    /// An error that the model reads: a result with `isError`.
    pub fn tool(message: impl Into<String>) -> Self {
        Self(Kind::Tool(message.into()))
    }

    /// A JSON-RPC error with a code of your own. Codes from -32768 to -32000 belong to JSON-RPC and MCP.
    pub fn protocol(code: i64, message: impl Into<String>) -> Self {
        Self(Kind::Protocol(ErrorObject::new(code, message)))
    }

    /// The parameters are wrong in a way that no schema says (-32602).
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::protocol(code::INVALID_PARAMS, message)
    }

    /// The resource does not exist (-32002), with its URI as data.
    #[must_use]
    pub fn resource_not_found(uri: &str) -> Self {
        Self(Kind::Protocol(resource_not_found(uri)))
    }

    /// Something has to be done at these URLs first, such as a login (-32042 in `2025-11-25`; a client of `2026-07-28` is asked to visit
    /// them). The client calls again when it is done.
    pub fn url_elicitation_required(
        message: impl Into<String>,
        urls: impl IntoIterator<Item = Elicit>,
    ) -> Self {
        let elicitations: Vec<_> = urls.into_iter().map(|elicit| elicit.into_params()).collect();
        Self::protocol(code::URL_ELICITATION_REQUIRED, message)
            .with_data(&serde_json::json!({ "elicitations": elicitations }))
    }

    /// With `data` for a program; a tool error becomes a protocol error (-32603) by it.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(self, data: &T) -> Self {
        Self(Kind::Protocol(self.into_object().with_data(data)))
    }

    pub(crate) const fn from_object(error: ErrorObject) -> Self {
        Self(Kind::Protocol(error))
    }

    /// Whether it is a protocol error.
    #[must_use]
    pub const fn is_protocol(&self) -> bool {
        matches!(self.0, Kind::Protocol(_))
    }

    /// The text.
    #[must_use]
    pub fn message(&self) -> &str {
        match &self.0 {
            Kind::Tool(message) => message,
            Kind::Protocol(error) => &error.message,
        }
    }

    /// As a JSON-RPC error: a tool error is an internal one (-32603, `data.reason` is `failed`).
    pub(crate) fn into_object(self) -> ErrorObject {
        match self.0 {
            Kind::Tool(message) => ErrorObject::internal("failed", message),
            Kind::Protocol(error) => error,
        }
    }

    /// The text of a tool error, or the JSON-RPC error.
    pub(crate) fn for_tool(self) -> Result<String, ErrorObject> {
        match self.0 {
            Kind::Tool(message) => Ok(message),
            Kind::Protocol(error) => Err(error),
        }
    }
}

pub(crate) fn resource_not_found(uri: &str) -> ErrorObject {
    ErrorObject::new(code::RESOURCE_NOT_FOUND, format!("Resource not found: {uri}"))
        .with_data(&serde_json::json!({ "uri": uri }))
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tool(message) => f.debug_tuple("Error::tool").field(message).finish(),
            Kind::Protocol(error) => {
                f.debug_tuple("Error::protocol").field(&error.code).field(&error.message).finish()
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Like `anyhow`'s, this error is no [`std::error::Error`] itself, so that `?` can make it of every one that is.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        // What a modern client has to be told in one certain way is told so, however far the error has travelled.
        let any: &(dyn std::error::Error + 'static) = &error;
        if let Some(protocol) = any.downcast_ref::<AskError>().and_then(AskError::for_client) {
            return Self(Kind::Protocol(protocol));
        }
        // The causes are what tells a model, or a person, what to do about it.
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let next_text = next.to_string();
            if !text.ends_with(&next_text) {
                text.push_str(": ");
                text.push_str(&next_text);
            }
            cause = next.source();
        }
        Self::tool(text)
    }
}

/// Chooses what an error becomes, where `?` alone would make it a tool error.
pub trait ResultExt<T> {
    /// A protocol error with this code and the error's text.
    ///
    /// # Errors
    /// The error of `self`, as a protocol error.
    fn or_protocol_error(self, code: i64) -> Result<T, Error>;

    /// A tool error that says in front of the error's text what was being done.
    ///
    /// # Errors
    /// The error of `self`, as a tool error.
    fn or_tool_error(self, doing: &str) -> Result<T, Error>;
}

impl<T, E: Into<Error>> ResultExt<T> for Result<T, E> {
    fn or_protocol_error(self, code: i64) -> Result<T, Error> {
        self.map_err(|error| Error::protocol(code, error.into().message()))
    }

    fn or_tool_error(self, doing: &str) -> Result<T, Error> {
        self.map_err(|error| Error::tool(format!("{doing}: {}", error.into().message())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the lookup failed")]
    struct Lookup(#[source] std::num::ParseIntError);

    fn parse(text: &str) -> Result<u8, Lookup> {
        text.parse().map_err(Lookup)
    }

    #[test]
    fn any_error_becomes_a_tool_error_with_its_causes() {
        let failing = || -> Result<u8, Error> { Ok(parse("x")?) };
        let error = failing().unwrap_err();
        assert!(!error.is_protocol());
        assert_eq!(error.message(), "the lookup failed: invalid digit found in string");
        assert_eq!(error.for_tool().unwrap(), "the lookup failed: invalid digit found in string");
    }

    #[test]
    fn the_kind_can_be_chosen() {
        let error = parse("x").or_protocol_error(7).unwrap_err();
        assert_eq!(error.for_tool().unwrap_err().code, 7);
        let error = parse("x").or_tool_error("reading the port").unwrap_err();
        assert!(error.message().starts_with("reading the port: the lookup failed"), "{error}");
        assert_eq!(Error::tool("x").into_object().code, -32603);
        let error = Error::tool("x").with_data(&1);
        assert!(error.is_protocol());
    }
}
