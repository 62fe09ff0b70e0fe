//! Prompts: what is said of one, and what comes out of one.

use crate::{
    content::{Content, Meta, Role},
    error::Error,
    icon::Icon,
};
use bowline_proto::jsonrpc::Raw;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is said of a prompt.
#[derive(Clone, Debug, Serialize)]
#[must_use = "a prompt is given to a server with `add_prompt`"]
pub struct Prompt {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Vec<PromptArgument>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    icons: Vec<Icon>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

impl Prompt {
    /// A prompt of this name, used once in a server. Its arguments are the fields of the handler's input, unless they are given here.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            arguments: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    /// What it is called for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// An argument, instead of those that the handler's type has; several may be given.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        self.arguments.get_or_insert_default().push(argument);
        self
    }

    /// An icon; several may be given.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// A member of `_meta`.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.get_or_insert_default().insert(name.into(), value.into());
        self
    }
}

/// An argument of a prompt; its value is always a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptArgument {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
}

impl PromptArgument {
    /// An argument that may be left out.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, description: None, required: false }
    }

    /// What it is called for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Has to be given.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// The arguments that a type has: its fields.
///
/// # Errors
/// When it has none because it is no struct.
pub(crate) fn arguments_of<T: JsonSchema>() -> Result<Vec<PromptArgument>, String> {
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<T>();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the input of a prompt is a struct with named fields, which are its arguments".into());
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(Vec::new()) };
    let argument = |(name, property): (&String, &Value)| {
        let text = |key: &str| property.get(key).and_then(Value::as_str).map(str::to_owned);
        PromptArgument {
            name: name.clone(),
            title: text("title"),
            description: text("description"),
            required: required.contains(&&**name),
        }
    };
    Ok(properties.iter().map(argument).collect())
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl PromptMessage {
    /// Said by the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Said by the assistant.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// What a prompt comes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PromptResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    messages: Vec<PromptMessage>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

impl PromptResult {
    /// These messages.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { description: None, messages: messages.into_iter().collect(), meta: None }
    }

    /// What it is for, now that the arguments are known.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// With a member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    pub(crate) fn into_raw(self) -> Result<Raw, Error> {
        Ok(Raw::from_value(&self)?)
    }
}

/// What a prompt's handler may return.
pub trait IntoPrompt {
    /// The messages.
    ///
    /// # Errors
    /// What the handler failed with.
    fn into_prompt(self) -> Result<PromptResult, Error>;
}

impl IntoPrompt for PromptResult {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(self)
    }
}

/// One message of the user.
impl IntoPrompt for String {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new([PromptMessage::user(self)]))
    }
}

/// One message of the user.
impl IntoPrompt for &str {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new([PromptMessage::user(self)]))
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new(self))
    }
}

impl<const N: usize> IntoPrompt for [PromptMessage; N] {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        Ok(PromptResult::new(self))
    }
}

impl<T: IntoPrompt, E: Into<Error>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<PromptResult, Error> {
        self.map_err(Into::into)?.into_prompt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_the_fields_of_a_type() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Input {
            /// Where
            city: String,
            days: Option<u8>,
        }
        assert_eq!(
            serde_json::to_value(arguments_of::<Input>().unwrap()).unwrap(),
            json!([{ "name": "city", "description": "Where", "required": true }, { "name": "days" }])
        );
        assert!(arguments_of::<String>().is_err());
        assert!(arguments_of::<crate::NoInput>().unwrap().is_empty());
    }

    #[test]
    fn messages_are_what_handlers_return() {
        let raw = ["a"; 1]
            .map(PromptMessage::assistant)
            .into_prompt()
            .unwrap()
            .description("d")
            .into_raw()
            .unwrap();
        assert_eq!(
            raw.to::<Value>().unwrap(),
            json!({ "description": "d", "messages": [{ "role": "assistant", "content": { "type": "text", "text": "a" } }] })
        );
    }
}
