//! Completion: proposals for an argument while a person types it.

use crate::error::Error;
use bowline_proto::jsonrpc::{ErrorObject, Raw};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

/// The most values that one answer holds.
const MAX_VALUES: usize = 100;

/// What is completed: an argument of a prompt, or a variable of a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum Reference {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    #[non_exhaustive]
    Prompt {
        /// Its name.
        name: String,
    },
    /// A template of resources.
    #[serde(rename = "ref/resource")]
    #[non_exhaustive]
    Resource {
        /// The template, as it is listed.
        uri: String,
    },
}

impl Reference {
    /// A prompt.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt { name: name.into() }
    }

    /// A template of resources.
    pub fn resource(template: impl Into<String>) -> Self {
        Self::Resource { uri: template.into() }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Prompt { name } => write!(f, "the prompt {name:?}"),
            Self::Resource { uri } => write!(f, "the resource template {uri:?}"),
        }
    }
}

/// What has been typed so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Typed {
    /// The text in the argument that is being completed.
    pub value: String,
    /// The arguments that are already there (from `2025-06-18` on).
    pub others: BTreeMap<String, String>,
}

/// Proposals. Made from anything that yields texts; the protocol takes 100 of them, and how many there were is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    values: Vec<String>,
    total: usize,
}

impl<T: Into<String>> FromIterator<T> for Completions {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut texts = texts.into_iter();
        let values: Vec<String> = texts.by_ref().take(MAX_VALUES).map(Into::into).collect();
        let total = values.len() + texts.count();
        Self { values, total }
    }
}

impl Completions {
    pub(crate) fn into_raw(self) -> Result<Raw, ErrorObject> {
        let more = self.total > self.values.len();
        let completion =
            json!({ "completion": { "values": self.values, "total": self.total, "hasMore": more } });
        Raw::from_value(&completion).map_err(|error| ErrorObject::internal("failed", error.to_string()))
    }
}

/// What a completion's handler may return.
pub trait IntoCompletions {
    /// The proposals.
    ///
    /// # Errors
    /// What the handler failed with.
    fn into_completions(self) -> Result<Completions, Error>;
}

impl IntoCompletions for Completions {
    fn into_completions(self) -> Result<Completions, Error> {
        Ok(self)
    }
}

impl<T: Into<String>> IntoCompletions for Vec<T> {
    fn into_completions(self) -> Result<Completions, Error> {
        Ok(self.into_iter().collect())
    }
}

impl<T: IntoCompletions, E: Into<Error>> IntoCompletions for Result<T, E> {
    fn into_completions(self) -> Result<Completions, Error> {
        self.map_err(Into::into)?.into_completions()
    }
}

/// The parameters of `completion/complete`.
#[derive(Deserialize)]
pub(crate) struct CompleteParams {
    #[serde(rename = "ref")]
    pub(crate) reference: Reference,
    pub(crate) argument: CompleteArgument,
    #[serde(default)]
    context: CompleteContext,
}

#[derive(Deserialize)]
pub(crate) struct CompleteArgument {
    pub(crate) name: String,
    value: String,
}

#[derive(Default, Deserialize)]
struct CompleteContext {
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

impl CompleteParams {
    pub(crate) fn typed(self) -> Typed {
        Typed { value: self.argument.value, others: self.context.arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_are_sent_and_all_are_counted() {
        let many: Completions = (0..250).map(|n: u32| n.to_string()).collect();
        let raw: serde_json::Value = many.into_raw().unwrap().to().unwrap();
        assert_eq!(raw["completion"]["values"].as_array().unwrap().len(), 100);
        assert_eq!((&raw["completion"]["total"], &raw["completion"]["hasMore"]), (&250.into(), &true.into()));
        let none = Vec::<String>::new().into_completions().unwrap().into_raw().unwrap();
        assert_eq!(none.as_str(), r#"{"completion":{"hasMore":false,"total":0,"values":[]}}"#);
    }
}
