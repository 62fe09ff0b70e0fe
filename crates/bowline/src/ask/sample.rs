//! Sampling: asking the client's model.

use super::{Question, WireQuestion};
use crate::{
    content::{Content, Role},
    schema::Schema,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bowline_proto::jsonrpc::Raw;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A question to the client's model.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    messages: Vec<SampleMessage>,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_preferences: Option<Preferences>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_context: Option<IncludeContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<SampleTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preferences {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<Hint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_priority: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intelligence_priority: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Hint {
    name: String,
}

/// Which context of the client's the model is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// None.
    None,
    /// That of this server.
    ThisServer,
    /// That of every server.
    AllServers,
}

/// Whether the model uses tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// It has to use one.
    Required,
    /// It may not.
    None,
}

/// A tool that the model may use; the server runs it (from `2025-11-25` on).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SampleTool {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    input_schema: Value,
}

impl SampleTool {
    /// A tool whose arguments are read as `T`.
    pub fn new<T: schemars::JsonSchema>(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::with_schema(name, description, Schema::of_input::<T>())
    }

    /// A tool with a schema given by hand.
    pub fn with_schema(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: impl Into<Schema>,
    ) -> Self {
        // A schema that is none becomes the one of any object; the client would refuse the question otherwise.
        let schema = schema.into().into_object_schema().and_then(|raw| raw.to().map_err(|e| e.to_string()));
        Self {
            name: name.into(),
            description: Some(description.into()),
            input_schema: schema.unwrap_or_else(|_| serde_json::json!({ "type": "object" })),
        }
    }
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleMessage {
    role: Role,
    /// A single piece is written alone: older clients know no lists here.
    #[serde(serialize_with = "one_or_many")]
    content: Vec<SampleContent>,
}

fn one_or_many<S: serde::Serializer>(content: &[SampleContent], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [one] => one.serialize(serializer),
        many => many.serialize(serializer),
    }
}

impl SampleMessage {
    /// Said by the user.
    pub fn user(content: impl Into<SampleContent>) -> Self {
        Self { role: Role::User, content: vec![content.into()] }
    }

    /// Said by the model.
    pub fn assistant(content: impl Into<SampleContent>) -> Self {
        Self { role: Role::Assistant, content: vec![content.into()] }
    }

    /// With one more piece of content (from `2025-11-25` on).
    #[must_use]
    pub fn with(mut self, content: impl Into<SampleContent>) -> Self {
        self.content.push(content.into());
        self
    }
}

/// What a model is told or says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SampleContent {
    /// Text.
    #[non_exhaustive]
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Image {
        /// The picture, in base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// Sound.
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Audio {
        /// The sound, in base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// The model wants a tool to be run (from `2025-11-25` on).
    #[non_exhaustive]
    ToolUse {
        /// Names this use.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// What came of a tool (from `2025-11-25` on).
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    ToolResult {
        /// The use that this answers.
        tool_use_id: String,
        /// What came of it.
        content: Vec<Content>,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl SampleContent {
    /// A picture from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// Sound from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio { data: BASE64.encode(bytes), mime_type: mime_type.into() }
    }

    /// What came of the use `id` of a tool.
    pub fn tool_result(id: impl Into<String>, content: impl IntoIterator<Item = Content>) -> Self {
        Self::ToolResult { tool_use_id: id.into(), content: content.into_iter().collect(), is_error: false }
    }

    /// The text, where it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for SampleContent {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for SampleContent {
    fn from(text: String) -> Self {
        Self::Text { text }
    }
}

impl Sample {
    /// A question of at most `max_tokens` tokens in answer.
    #[must_use]
    pub const fn new(max_tokens: u32) -> Self {
        Self {
            messages: Vec::new(),
            max_tokens,
            system_prompt: None,
            temperature: None,
            stop_sequences: Vec::new(),
            model_preferences: None,
            include_context: None,
            metadata: None,
            tools: Vec::new(),
            tool_choice: None,
        }
    }

    /// With a message of the user.
    #[must_use]
    pub fn user(self, content: impl Into<SampleContent>) -> Self {
        self.message(SampleMessage::user(content))
    }

    /// With a message of the model.
    #[must_use]
    pub fn assistant(self, content: impl Into<SampleContent>) -> Self {
        self.message(SampleMessage::assistant(content))
    }

    /// With a message.
    #[must_use]
    pub fn message(mut self, message: SampleMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// What the model is told before the conversation.
    #[must_use]
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// How freely the model chooses its words.
    #[must_use]
    pub const fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// A text that ends the answer; several may be given.
    #[must_use]
    pub fn stop_at(mut self, text: impl Into<String>) -> Self {
        self.stop_sequences.push(text.into());
        self
    }

    /// A model, or a part of its name, that would be good; several may be given, the best first.
    #[must_use]
    pub fn prefer_model(mut self, name: impl Into<String>) -> Self {
        self.model_preferences.get_or_insert_default().hints.push(Hint { name: name.into() });
        self
    }

    /// How much low cost, speed and intelligence matter, each from 0 to 1.
    #[must_use]
    pub fn priorities(mut self, cost: f64, speed: f64, intelligence: f64) -> Self {
        let preferences = self.model_preferences.get_or_insert_default();
        preferences.cost_priority = Some(cost);
        preferences.speed_priority = Some(speed);
        preferences.intelligence_priority = Some(intelligence);
        self
    }

    /// Which context the model is shown.
    #[must_use]
    pub const fn include_context(mut self, context: IncludeContext) -> Self {
        self.include_context = Some(context);
        self
    }

    /// Metadata for the provider of the model.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// A tool that the model may use; several may be given. The client has to declare `sampling.tools`.
    #[must_use]
    pub fn tool(mut self, tool: SampleTool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Whether the model uses tools.
    #[must_use]
    pub const fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }
}

/// What the model said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sampled {
    /// Who says it.
    pub role: Role,
    /// What is said.
    #[serde(deserialize_with = "read_one_or_many")]
    pub content: Vec<SampleContent>,
    /// The model.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse` or another word.
    pub stop_reason: Option<String>,
}

fn read_one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SampleContent>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Array(many) => many
            .into_iter()
            .map(|one| serde_json::from_value(one).map_err(serde::de::Error::custom))
            .collect(),
        one => Ok(vec![serde_json::from_value(one).map_err(serde::de::Error::custom)?]),
    }
}

impl Sampled {
    /// All that is text in it.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(SampleContent::as_text).collect()
    }
}

impl Question for Sample {
    type Answer = Sampled;

    fn wire(&self) -> Result<WireQuestion, String> {
        let needs: &[&str] = if self.tools.is_empty() { &["sampling"] } else { &["sampling", "tools"] };
        let params = Raw::from_value(self).map_err(|error| error.to_string())?;
        Ok(WireQuestion { method: "sampling/createMessage", params, needs })
    }

    fn read(&self, result: &Raw) -> Result<Sampled, String> {
        result.to().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn questions_are_written_as_the_protocol_names_them() {
        let question =
            Sample::new(100).user("hi").system("be brief").prefer_model("small").priorities(1.0, 0.5, 0.0);
        assert_eq!(
            question.wire().unwrap().params.to::<Value>().unwrap(),
            json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }],
                "maxTokens": 100, "systemPrompt": "be brief",
                "modelPreferences": {
                    "hints": [{ "name": "small" }],
                    "costPriority": 1.0, "speedPriority": 0.5, "intelligencePriority": 0.0,
                },
            })
        );
    }

    #[test]
    fn tools_go_out_and_their_use_comes_back() {
        let result = SampleContent::tool_result("1", [Content::text("4")]);
        let question = Sample::new(9)
            .message(SampleMessage::user(result).with("go on"))
            .tool(SampleTool::new::<crate::NoInput>("t", "d"))
            .tool_choice(ToolChoice::Required)
            .include_context(IncludeContext::ThisServer);
        let wire = question.wire().unwrap();
        assert_eq!(wire.needs, ["sampling", "tools"]);
        let params: Value = wire.params.to().unwrap();
        assert_eq!(params["toolChoice"], json!({ "mode": "required" }));
        assert_eq!(params["includeContext"], "thisServer");
        assert_eq!(params["messages"][0]["content"][0]["toolUseId"], "1");
        assert_eq!(params["tools"][0]["inputSchema"]["type"], "object");
        let read = question.read(
            &Raw::parse(r#"{"role":"assistant","model":"m","stopReason":"toolUse","content":[{"type":"tool_use","id":"2","name":"t","input":{}},{"type":"text","text":"x"}]}"#)
                .unwrap(),
        );
        let read = read.unwrap();
        assert_eq!(read.content.len(), 2);
        assert_eq!(read.text(), "x");
        assert!(question.read(&Raw::parse(r#"{"role":"assistant"}"#).unwrap()).is_err());
    }
}
