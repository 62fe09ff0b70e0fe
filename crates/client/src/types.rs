//! What typed calls return. Everything keeps the server's own text beside the fields that most programs want.

use bowline_proto::jsonrpc::Raw;
use serde::Deserialize;

/// A tool of the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Its name, for [`call_tool`](crate::Client::call_tool).
    pub name: String,
    /// What to show to a person.
    #[serde(default)]
    pub title: Option<String>,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// What the server says about it. Only hints.
    #[serde(default)]
    pub annotations: ToolAnnotations,
    /// The whole definition as it came; schemas are in it unchanged.
    #[serde(skip, default = "Raw::empty_object")]
    pub raw: Raw,
}

impl Tool {
    /// The JSON Schema of its arguments, as it came.
    #[must_use]
    pub fn input_schema(&self) -> Option<Raw> {
        self.raw.member("inputSchema")
    }
}

/// What a server says about a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// It changes nothing.
    pub read_only_hint: Option<bool>,
    /// What it changes may be lost.
    pub destructive_hint: Option<bool>,
    /// Running it twice is the same as once.
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    pub open_world_hint: Option<bool>,
}

/// What a tool returned, its own errors included.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolOutput {
    /// `isError`: the tool itself failed, and says so in its content.
    #[serde(default)]
    pub is_error: bool,
    /// The content, each block as JSON.
    #[serde(default)]
    pub content: Vec<serde_json::Value>,
    /// The whole result as it came.
    #[serde(skip, default = "Raw::empty_object")]
    pub raw: Raw,
}

impl ToolOutput {
    /// `structuredContent`, as it came.
    #[must_use]
    pub fn structured(&self) -> Option<Raw> {
        self.raw.member("structuredContent")
    }

    /// The text of all text blocks, one a line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter(|block| block["type"] == "text");
        texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
    }
}

/// A resource.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Its URI, for [`read_resource`](crate::Client::read_resource).
    pub uri: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// Its type.
    #[serde(default)]
    pub mime_type: Option<String>,
    /// The whole definition as it came.
    #[serde(skip, default = "Raw::empty_object")]
    pub raw: Raw,
}

/// A template for URIs of resources.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// RFC 6570.
    pub uri_template: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// The whole definition as it came.
    #[serde(skip, default = "Raw::empty_object")]
    pub raw: Raw,
}

/// A prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// Its name, for [`get_prompt`](crate::Client::get_prompt).
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// The whole definition as it came.
    #[serde(skip, default = "Raw::empty_object")]
    pub raw: Raw,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether the prompt needs it.
    #[serde(default)]
    pub required: bool,
}

/// What [`complete`](crate::Client::complete) is about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CompleteFor {
    /// An argument of the prompt of that name.
    Prompt(String),
    /// A variable of the URI template.
    Resource(String),
}

/// Values that an argument could have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Completion {
    /// At most 100.
    pub values: Vec<String>,
    /// How many there are.
    pub total: Option<u64>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A type that keeps the text it was read from.
pub(crate) trait Keep {
    /// What it is called in messages for people.
    const WHAT: &str;

    fn keep(&mut self, raw: Raw);
}

macro_rules! keep {
    ($($type:ty: $what:literal),*) => { $(impl Keep for $type {
        const WHAT: &str = $what;
        fn keep(&mut self, raw: Raw) { self.raw = raw; }
    })* };
}
keep!(
    Tool: "tool",
    ToolOutput: "tool result",
    Resource: "resource",
    ResourceTemplate: "resource template",
    Prompt: "prompt"
);
