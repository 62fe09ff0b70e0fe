//! Questions to the client: elicitation, sampling, roots.

mod elicit;
mod many;
mod roots;
mod sample;

pub use elicit::{Elicit, Elicited};
pub use many::Questions;
pub use roots::{Root, Roots};
pub use sample::{IncludeContext, Sample, SampleContent, SampleMessage, SampleTool, Sampled, ToolChoice};

use bowline_proto::jsonrpc::{ErrorObject, Raw};
use serde_json::Value;

/// A question that can be asked of a client, and how its answer is read.
pub trait Question: Send {
    /// What the answer is read as.
    type Answer;

    /// What goes to the client.
    ///
    /// # Errors
    /// Why it cannot be asked: a form of a type that no form can have, say.
    fn wire(&self) -> Result<WireQuestion, String>;

    /// Reads the `result` of the client's response.
    ///
    /// # Errors
    /// Why it is no answer to this question.
    fn read(&self, result: &Raw) -> Result<Self::Answer, String>;
}

/// A question as it goes to the client.
#[derive(Clone, Debug)]
pub struct WireQuestion {
    /// The method.
    pub method: &'static str,
    /// The parameters.
    pub params: Raw,
    /// The members of the client's capabilities that it has to have declared, outermost first: `["sampling", "tools"]`.
    pub needs: &'static [&'static str],
}

/// Why there is no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {kind}")]
#[non_exhaustive]
pub struct AskError {
    /// The key under which was asked.
    pub key: String,
    /// What went wrong.
    pub kind: AskErrorKind,
    /// What a modern client is told where a handler does not deal with it.
    for_client: Option<Box<ErrorObject>>,
}

/// What went wrong with a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskErrorKind {
    /// The client did not declare the capability. Nothing was sent.
    #[error("the client does not declare the capability {0:?}")]
    Unsupported(String),
    /// The question cannot be asked. Nothing was sent.
    #[error("the question cannot be asked: {0}")]
    Unaskable(String),
    /// An error came instead of an answer: the client's, or ours with `data.reason` (`stateless`, `timeout`, `cancelled`,
    /// `session_ended`, `undeliverable`).
    #[error("{} ({})", .0.message, .0.code)]
    Failed(ErrorObject),
    /// The client answered with something else.
    #[error("the client's answer cannot be read: {0}")]
    Malformed(String),
}

impl AskError {
    pub(crate) fn new(key: &str, kind: AskErrorKind) -> Self {
        Self { key: key.into(), kind, for_client: None }
    }

    /// This error, which a modern client has to be told as `error` unless the handler deals with it.
    pub(crate) fn told_as(mut self, error: ErrorObject) -> Self {
        self.for_client = Some(Box::new(error));
        self
    }

    pub(crate) fn for_client(&self) -> Option<ErrorObject> {
        self.for_client.as_deref().cloned()
    }

    /// `data.reason` of the error that came: one word that programs can act on.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match &self.kind {
            AskErrorKind::Failed(error) => error.data.as_ref()?.member("reason")?.string(),
            _ => None,
        }
    }
}

pub(crate) fn read<Q: Question>(key: &str, question: &Q, raw: &Raw) -> Result<Q::Answer, AskError> {
    question.read(raw).map_err(|why| AskError::new(key, AskErrorKind::Malformed(why)))
}

/// The capability that `capabilities` lacks, written as a path.
pub(crate) fn missing(capabilities: Option<&Raw>, needs: &[&str]) -> Option<String> {
    let mut held = capabilities.cloned();
    for (depth, name) in needs.iter().enumerate() {
        let inner = held.as_ref().and_then(|held| held.member(name));
        // `elicitation: {}` says what it said before there were two modes: forms.
        let plain_form = *name == "form" && held.as_ref().is_some_and(|held| held.member("url").is_none());
        match inner {
            Some(inner) => held = Some(inner),
            None if plain_form && depth > 0 => return None,
            None => return Some(needs[..=depth].join(".")),
        }
    }
    None
}

pub(crate) fn raw(value: &Value) -> Result<Raw, String> {
    Raw::from_value(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn capabilities_are_looked_up_by_path() {
        let lacks = |held: Value, needs: &[&str]| missing(Some(&Raw::from_value(&held).unwrap()), needs);
        assert_eq!(lacks(json!({ "sampling": {} }), &["sampling"]), None);
        assert_eq!(lacks(json!({ "sampling": {} }), &["sampling", "tools"]), Some("sampling.tools".into()));
        assert_eq!(lacks(json!({}), &["roots"]), Some("roots".into()));
        assert_eq!(lacks(json!({ "elicitation": {} }), &["elicitation", "form"]), None);
        assert_eq!(lacks(json!({ "elicitation": { "form": {} } }), &["elicitation", "form"]), None);
        assert_eq!(
            lacks(json!({ "elicitation": { "url": {} } }), &["elicitation", "form"]),
            Some("elicitation.form".into())
        );
        assert_eq!(
            lacks(json!({ "elicitation": {} }), &["elicitation", "url"]),
            Some("elicitation.url".into())
        );
        assert_eq!(lacks(json!({}), &["elicitation", "form"]), Some("elicitation".into()));
        assert_eq!(missing(None, &["roots"]), Some("roots".into()));
    }
}
