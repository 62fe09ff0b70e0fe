//! JSON-RPC errors and the codes that Bowline uses (SEMANTICS 9).

use super::Raw;
use serde::{Deserialize, Serialize};

/// The error codes that Bowline says of its own accord. An upstream's codes pass unchanged.
pub mod code {
    /// The body is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The message is JSON, but not an acceptable request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A failure of ours; `data.reason` says which.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The session is unknown, expired or ended (legacy revisions). Clients look for this code.
    pub const SESSION_NOT_FOUND: i64 = -32001;
    /// The resource does not exist (legacy revisions).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// A URL elicitation has to be completed first (`2025-11-25` only).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The protocol revision is not served.
    pub const UNSUPPORTED_REVISION: i64 = -32022;
}

/// The `error` member of a JSON-RPC response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// One of [`code`], or an upstream's own.
    pub code: i64,
    /// What happened and what to do, for a person.
    pub message: String,
    /// More for a program, any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// A failure of ours (-32603) with `data.reason`, one word that programs can act on.
    pub fn internal(reason: &str, message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message).with_data(&serde_json::json!({ "reason": reason }))
    }

    /// A call that ran, or that may have run, and whose result cannot be had (-32603, `data.outcome` is `unknown`): whoever repeats it may have
    /// its effects twice.
    pub fn outcome_unknown(reason: &str, message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
            .with_data(&serde_json::json!({ "reason": reason, "outcome": "unknown" }))
    }

    /// Whether it says that nobody knows whether the request ran: `data.outcome` is `unknown`.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        let outcome = self.data.as_ref().and_then(|data| data.member("outcome"));
        outcome.and_then(|outcome| outcome.string()).as_deref() == Some("unknown")
    }

    /// The method does not exist (-32601).
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    /// This error with `data`. A value that is no JSON leaves the error as it was.
    #[must_use]
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Self {
        self.data = Raw::from_value(data).ok().or(self.data);
        self
    }
}
