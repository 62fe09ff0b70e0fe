//! Tools: what is said of one, and what comes out of one.

use crate::{
    content::{Content, Meta, ResourceContents, room_for_text, write_text},
    error::Error,
    icon::Icon,
    schema::Schema,
};
use bowline_proto::{jsonrpc::Raw, modern::tasks::TaskSupport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is said of a tool. [`crate::ServerBuilder::tool`] is enough where a name and a description are.
#[derive(Clone, Debug)]
#[must_use = "a tool is given to a server with `add_tool`"]
pub struct Tool {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) hints: Hints,
    pub(crate) icons: Vec<Icon>,
    pub(crate) meta: Option<Meta>,
    pub(crate) input: Option<Schema>,
    pub(crate) output: Option<Schema>,
    pub(crate) tasks: TaskSupport,
}

/// The annotations of a tool: hints to a client, which trusts them as far as it trusts the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hints {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_only_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) destructive_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idempotent_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) open_world_hint: Option<bool>,
}

impl Tool {
    /// A tool of this name: 1 to 128 characters of `A-Z`, `a-z`, `0-9`, `_`, `.` and `-`, used once in a server.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            hints: Hints::default(),
            icons: Vec::new(),
            meta: None,
            input: None,
            output: None,
            tasks: TaskSupport::Optional,
        }
    }

    /// What it is called for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it does, for the model.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Hint: whether it changes nothing. Clients assume `false`. A call of such a tool may be run again where its backend dies
    /// ([`Takeover::Rerun`](crate::Takeover)).
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.hints.read_only_hint = Some(read_only);
        self
    }

    /// Hint: whether it may destroy something. Clients assume `true`.
    pub const fn destructive(mut self, destructive: bool) -> Self {
        self.hints.destructive_hint = Some(destructive);
        self
    }

    /// Hint: whether the same call a second time changes nothing more. Clients assume `false`. A call of such a tool may be run again where
    /// its backend dies ([`Takeover::Rerun`](crate::Takeover)).
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.hints.idempotent_hint = Some(idempotent);
        self
    }

    /// Hint: whether it reaches things outside, such as the web. Clients assume `true`.
    pub const fn open_world(mut self, open_world: bool) -> Self {
        self.hints.open_world_hint = Some(open_world);
        self
    }

    /// Whether its calls may become tasks, for clients of the revision `2026-07-28` that can have them
    /// ([guide](crate::guide::tasks)). Default: [`TaskSupport::Optional`], those that take longer than
    /// [`Options::json_hold`](crate::Options::json_hold).
    pub const fn tasks(mut self, support: TaskSupport) -> Self {
        self.tasks = support;
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

    /// The schema of the arguments, instead of the one of the handler's type. It is listed as it came.
    pub fn input_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.input = Some(schema.into());
        self
    }

    /// The schema of the structured result, instead of the one of the handler's type. It is listed as it came.
    pub fn output_schema(mut self, schema: impl Into<Schema>) -> Self {
        self.output = Some(schema.into());
        self
    }
}

/// The entry of a tool in `tools/list`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTool<'a> {
    pub(crate) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<&'a str>,
    pub(crate) input_schema: &'a Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<&'a Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<&'a Hints>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) icons: &'a [Icon],
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<&'a Meta>,
}

/// The input of a tool that takes none: an object without members. Members that come all the same are not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoInput {}

/// What every result begins with.
const BEFORE_CONTENT: &str = r#"{"content":["#;

/// What a tool's call results in. Most handlers return something simpler that becomes one: see [`IntoToolResult`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The result as it will leave, up to the end of its last piece of content; empty where there is none. Written once: results may be
    /// long.
    written: String,
    structured: Option<Raw>,
    is_error: bool,
    meta: Option<Raw>,
}

impl ToolResult {
    /// A result without content.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A result of this content.
    pub fn of(content: impl IntoIterator<Item = impl Into<Content>>) -> Self {
        content.into_iter().fold(Self::new(), Self::with)
    }

    /// An error that the model reads.
    pub fn error(content: impl Into<Content>) -> Self {
        let mut result = Self::new().with(content);
        result.is_error = true;
        result
    }

    /// With one more piece of content.
    #[must_use]
    pub fn with(mut self, content: impl Into<Content>) -> Self {
        content.into().write(self.next_piece(0));
        self
    }

    /// With one more piece of plain text.
    fn with_text(mut self, text: &str) -> Self {
        write_text(self.next_piece(text.len()), text);
        self
    }

    /// Where the next piece of content is written to, of about `size` bytes.
    fn next_piece(&mut self, size: usize) -> &mut String {
        if self.written.is_empty() {
            self.written.reserve(BEFORE_CONTENT.len() + room_for_text(size));
            self.written.push_str(BEFORE_CONTENT);
        } else {
            self.written.push(',');
        }
        &mut self.written
    }

    /// With a structured value, an object (from `2025-06-18` on). It is not put into the content: [`Json`] does that too.
    ///
    /// # Errors
    /// When `value` is not expressible as a JSON object.
    pub fn structured<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, Error> {
        let raw = Raw::from_value(value)?;
        if !raw.is_object() {
            return Err(Error::protocol(
                bowline_proto::jsonrpc::code::INTERNAL_ERROR,
                "the structured result of a tool is not a JSON object",
            ));
        }
        self.structured = Some(raw);
        Ok(self)
    }

    /// Marks the result as an error, or not.
    #[must_use]
    pub const fn failed(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }

    /// With metadata.
    #[must_use]
    pub fn meta(mut self, meta: &Meta) -> Self {
        self.meta = Raw::from_value(meta).ok();
        self
    }

    /// The structured value.
    pub(crate) const fn structured_value(&self) -> Option<&Raw> {
        self.structured.as_ref()
    }

    pub(crate) const fn is_error(&self) -> bool {
        self.is_error
    }

    /// The `result` member of the response.
    pub(crate) fn into_raw(self) -> Raw {
        let mut out = self.written;
        if out.is_empty() {
            out.push_str(BEFORE_CONTENT);
        }
        out.push(']');
        if let Some(structured) = &self.structured {
            out.reserve(structured.as_str().len() + 64);
            out.push_str(r#","structuredContent":"#);
            out.push_str(structured.as_str());
        }
        if self.is_error {
            out.push_str(r#","isError":true"#);
        }
        if let Some(meta) = &self.meta {
            out.push_str(r#","_meta":"#);
            out.push_str(meta.as_str());
        }
        out.push('}');
        Raw::from_trusted(out.into())
    }
}

/// A typed, structured result: `structuredContent`, the same as text for clients that know no structure, and the type's schema as
/// the tool's output schema. The type is written as a JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// What a tool's handler may return.
pub trait IntoToolResult {
    /// The schema of the structured result, where every result has one.
    fn output_schema() -> Option<Schema> {
        None
    }

    /// The result.
    ///
    /// # Errors
    /// What the handler failed with.
    fn into_tool_result(self) -> Result<ToolResult, Error>;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        Ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        Ok(ToolResult::new())
    }
}

/// One piece of content: each of these is a result by itself.
macro_rules! one_piece {
    ($($type:ty),*) => {
        $(impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<ToolResult, Error> {
                Ok(ToolResult::new().with(self))
            }
        })*
    };
}

one_piece!(Content, ResourceContents);

/// A text: a result by itself too.
macro_rules! one_text {
    ($($type:ty),*) => {
        $(impl IntoToolResult for $type {
            fn into_tool_result(self) -> Result<ToolResult, Error> {
                Ok(ToolResult::new().with_text(&self))
            }
        })*
    };
}

one_text!(String, &str);

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        Ok(ToolResult::of(self))
    }
}

impl<const N: usize> IntoToolResult for [Content; N] {
    fn into_tool_result(self) -> Result<ToolResult, Error> {
        Ok(ToolResult::of(self))
    }
}

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn output_schema() -> Option<Schema> {
        // A value of no particular type is structured all the same; there is only nothing to say of it beforehand.
        Some(Schema::of_output::<T>()).filter(|schema| !schema.is_open())
    }

    fn into_tool_result(self) -> Result<ToolResult, Error> {
        let mut result = ToolResult::new().structured(&self.0)?;
        if let Some(structured) = &result.structured {
            let text = structured.clone();
            result = result.with_text(text.as_str());
        }
        Ok(result)
    }
}

impl<T: IntoToolResult, E: Into<Error>> IntoToolResult for Result<T, E> {
    fn output_schema() -> Option<Schema> {
        T::output_schema()
    }

    fn into_tool_result(self) -> Result<ToolResult, Error> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(result: impl IntoToolResult) -> Value {
        result.into_tool_result().unwrap().into_raw().to().unwrap()
    }

    #[test]
    fn results_are_what_handlers_return() {
        assert_eq!(written(()), json!({ "content": [] }));
        assert_eq!(written("a"), json!({ "content": [{ "type": "text", "text": "a" }] }));
        assert_eq!(
            written([Content::text("a"), Content::text("b")]),
            json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] })
        );
        assert_eq!(
            written(Ok::<_, Error>(ToolResult::error("no").meta(&Meta::new()))),
            json!({ "content": [{ "type": "text", "text": "no" }], "isError": true, "_meta": {} })
        );
    }

    #[test]
    fn typed_results_are_structured_and_text() {
        #[derive(Serialize, JsonSchema)]
        struct Out {
            n: u8,
        }
        assert_eq!(
            written(Json(Out { n: 1 })),
            json!({ "content": [{ "type": "text", "text": "{\"n\":1}" }], "structuredContent": { "n": 1 } })
        );
        assert!(Result::<Json<Out>, Error>::output_schema().is_some());
        assert!(Json::<Value>::output_schema().is_none());
        assert!(Json(7).into_tool_result().unwrap_err().is_protocol());
    }
}
