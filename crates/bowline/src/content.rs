//! What tools and prompts are made of: text, images, sound, resources.

use crate::escape::push_string;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Metadata of the protocol's `_meta` members: anything that both sides know of.
pub type Meta = Map<String, Value>;

/// Who may read or say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, or the client on their behalf.
    User,
    /// The model.
    Assistant,
}

/// What a client may know about a piece of content to show it well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// For whom it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// How important it is, from 0 (may be left out) to 1 (must be shown).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it last changed, in ISO 8601 (from `2025-06-18` on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Annotations {
    /// Nothing known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For whom it is.
    #[must_use]
    pub fn audience(mut self, audience: impl IntoIterator<Item = Role>) -> Self {
        self.audience = audience.into_iter().collect();
        self
    }

    /// How important it is, from 0 to 1; what is outside is moved to the nearer end.
    #[must_use]
    pub const fn priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority.clamp(0.0, 1.0));
        self
    }

    /// When it last changed, in ISO 8601.
    #[must_use]
    pub fn last_modified(mut self, at: impl Into<String>) -> Self {
        self.last_modified = Some(at.into());
        self
    }
}

/// The bytes that a piece of plain text takes, with a few escapes, and with what ends a result.
pub(crate) const fn room_for_text(len: usize) -> usize {
    len + len / 32 + 64
}

/// Appends a piece of plain text: in one go, and into room for all of it and for what ends a result.
pub(crate) fn write_text(out: &mut String, text: &str) {
    out.reserve(room_for_text(text.len()));
    out.push_str(r#"{"type":"text","text":"#);
    push_string(out, text);
    out.push('}');
}

/// One piece of content. Older clients get what their revision does not know in the nearest text form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    #[non_exhaustive]
    Text {
        /// The text.
        text: String,
        /// How to show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Metadata.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Meta>,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Image {
        /// The picture, in base64.
        data: String,
        /// Its media type.
        mime_type: String,
        /// How to show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Metadata.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Meta>,
    },
    /// Sound (from `2025-03-26` on).
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    Audio {
        /// The sound, in base64.
        data: String,
        /// Its media type.
        mime_type: String,
        /// How to show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Metadata.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Meta>,
    },
    /// A resource with what is in it.
    #[non_exhaustive]
    Resource {
        /// The resource.
        resource: ResourceContents,
        /// How to show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Metadata.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Meta>,
    },
    /// A resource to be read if it is wanted (from `2025-06-18` on).
    #[serde(rename_all = "camelCase")]
    #[non_exhaustive]
    ResourceLink {
        /// Its URI.
        uri: String,
        /// Its name.
        name: String,
        /// What it is called for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its media type.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its size in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// How to show it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        annotations: Option<Annotations>,
        /// Metadata.
        #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
        meta: Option<Meta>,
    },
}

impl Content {
    /// Appends this piece as JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            // Nearly all pieces are plain text, which may be long.
            Self::Text { text, annotations: None, meta: None } => write_text(out, text),
            // Text, strings and maps with text keys are always expressible.
            _ => out.push_str(&serde_json::to_string(self).unwrap_or_default()),
        }
    }

    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), annotations: None, meta: None }
    }

    /// A picture from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: BASE64.encode(bytes), mime_type: mime_type.into(), annotations: None, meta: None }
    }

    /// Sound from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio { data: BASE64.encode(bytes), mime_type: mime_type.into(), annotations: None, meta: None }
    }

    /// A resource with what is in it.
    #[must_use]
    pub const fn resource(resource: ResourceContents) -> Self {
        Self::Resource { resource, annotations: None, meta: None }
    }

    /// A link to a resource.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::ResourceLink {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            meta: None,
        }
    }

    /// With annotations.
    #[must_use]
    pub fn annotated(mut self, with: Annotations) -> Self {
        let (Self::Text { annotations, .. }
        | Self::Image { annotations, .. }
        | Self::Audio { annotations, .. }
        | Self::Resource { annotations, .. }
        | Self::ResourceLink { annotations, .. }) = &mut self;
        *annotations = Some(with);
        self
    }

    /// With a member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let (Self::Text { meta, .. }
        | Self::Image { meta, .. }
        | Self::Audio { meta, .. }
        | Self::Resource { meta, .. }
        | Self::ResourceLink { meta, .. }) = &mut self;
        meta.get_or_insert_default().insert(name.into(), value.into());
        self
    }

    /// The text, where it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text, .. } => Some(text),
            _ => None,
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<ResourceContents> for Content {
    fn from(resource: ResourceContents) -> Self {
        Self::resource(resource)
    }
}

/// What is in a resource: text or bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// Its URI. Empty in what a resource's own handler returns: the URI that was asked for is put in.
    pub uri: String,
    /// Its media type; of the definition, where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ResourceContents {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { uri: String::new(), mime_type: None, text: Some(text.into()), blob: None, meta: None }
    }

    /// Bytes.
    pub fn blob(bytes: impl AsRef<[u8]>) -> Self {
        let blob = Some(BASE64.encode(bytes));
        Self { uri: String::new(), mime_type: None, text: None, blob, meta: None }
    }

    /// Under another URI than the one that was asked for (one part of several, say, or embedded into a tool's result).
    #[must_use]
    pub fn uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = uri.into();
        self
    }

    /// With a media type.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// With a member of `_meta`.
    #[must_use]
    pub fn with_meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.get_or_insert_default().insert(name.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_written_as_everything_else_is() {
        let text = Content::text("a \"b\"\n");
        let mut out = String::new();
        text.write(&mut out);
        assert_eq!(out, serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn each_kind_is_written_as_the_protocol_names_it() {
        let written = |content: Content| serde_json::to_value(content).unwrap();
        assert_eq!(written(Content::text("a")), json!({ "type": "text", "text": "a" }));
        assert_eq!(
            written(Content::image([1, 2, 3], "image/png")),
            json!({ "type": "image", "data": "AQID", "mimeType": "image/png" })
        );
        assert_eq!(
            written(Content::audio([], "audio/wav").with_meta("a/b", 1)),
            json!({ "type": "audio", "data": "", "mimeType": "audio/wav", "_meta": { "a/b": 1 } })
        );
        assert_eq!(
            written(Content::resource(
                ResourceContents::blob([0]).uri("x:y").mime_type("a/b").with_meta("k", true)
            )),
            json!({ "type": "resource", "resource": { "uri": "x:y", "mimeType": "a/b", "blob": "AA==", "_meta": { "k": true } } })
        );
        let notes =
            Annotations::new().audience([Role::User]).priority(3.0).last_modified("2026-01-01T00:00:00Z");
        assert_eq!(
            written(Content::link("x:y", "y").annotated(notes)),
            json!({
                "type": "resource_link", "uri": "x:y", "name": "y",
                "annotations": { "audience": ["user"], "priority": 1.0, "lastModified": "2026-01-01T00:00:00Z" },
            })
        );
    }

    #[test]
    fn what_is_written_can_be_read() {
        for content in [
            Content::text("a").annotated(Annotations::new()),
            Content::image([1], "image/png"),
            Content::resource(ResourceContents::text("t").uri("x:y")),
            Content::link("x:y", "y"),
        ] {
            let text = serde_json::to_string(&content).unwrap();
            assert_eq!(serde_json::from_str::<Content>(&text).unwrap(), content);
        }
    }
}
