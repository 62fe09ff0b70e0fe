//! Resources and templates of resources: what is said of one, and what comes out of reading one.

use crate::{
    content::{Annotations, Meta, ResourceContents},
    error::Error,
    icon::Icon,
    tool::Json,
};
use serde::Serialize;
use serde_json::Value;

/// What is said of a resource, or of a template of resources.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Common {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    icons: Vec<Icon>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

impl Common {
    const fn new(name: String) -> Self {
        Self {
            name,
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
        }
    }
}

/// What is said of a resource.
#[derive(Clone, Debug, Serialize)]
#[must_use = "a resource is given to a server with `resource`"]
pub struct Resource {
    pub(crate) uri: String,
    #[serde(flatten)]
    common: Common,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// What is said of a template of resources.
#[derive(Clone, Debug, Serialize)]
#[must_use = "a template is given to a server with `resource_template`"]
pub struct ResourceTemplate {
    #[serde(rename = "uriTemplate")]
    pub(crate) template: String,
    #[serde(flatten)]
    common: Common,
}

impl Resource {
    /// A resource with this URI, used once in a server, and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), common: Common::new(name.into()), size: None }
    }

    /// Its size in bytes.
    pub const fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }
}

impl ResourceTemplate {
    /// A template with a name. `{name}` in it matches up to the next `/`, `{+name}` anything, and `{?a,b}` at the end any of
    /// these query parameters (RFC 6570).
    pub fn new(template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { template: template.into(), common: Common::new(name.into()) }
    }
}

/// The setters that a resource and a template share.
macro_rules! common {
    ($type:ty) => {
        impl $type {
            /// What it is called for people.
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.common.title = Some(title.into());
                self
            }

            /// What it is.
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.common.description = Some(description.into());
                self
            }

            /// The media type of what it holds.
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.common.mime_type = Some(mime_type.into());
                self
            }

            /// How to show it.
            pub fn annotations(mut self, annotations: Annotations) -> Self {
                self.common.annotations = Some(annotations);
                self
            }

            /// An icon; several may be given.
            pub fn icon(mut self, icon: Icon) -> Self {
                self.common.icons.push(icon);
                self
            }

            /// A member of `_meta`.
            pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
                self.common.meta.get_or_insert_default().insert(name.into(), value.into());
                self
            }

            pub(crate) fn its_mime_type(&self) -> Option<&str> {
                self.common.mime_type.as_deref()
            }
        }
    };
}

common!(Resource);
common!(ResourceTemplate);

/// What a resource's handler may return.
pub trait IntoResource {
    /// The contents.
    ///
    /// # Errors
    /// What the handler failed with.
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error>;
}

impl IntoResource for ResourceContents {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        Ok(vec![self])
    }
}

impl IntoResource for Vec<ResourceContents> {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        Ok(self)
    }
}

impl IntoResource for String {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        Ok(vec![ResourceContents::text(self)])
    }
}

impl IntoResource for &str {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        Ok(vec![ResourceContents::text(self)])
    }
}

impl IntoResource for Vec<u8> {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        Ok(vec![ResourceContents::blob(self)])
    }
}

/// JSON text of media type `application/json`.
impl<T: Serialize> IntoResource for Json<T> {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        let text = serde_json::to_string(&self.0)?;
        Ok(vec![ResourceContents::text(text).mime_type("application/json")])
    }
}

impl<T: IntoResource, E: Into<Error>> IntoResource for Result<T, E> {
    fn into_resource(self) -> Result<Vec<ResourceContents>, Error> {
        self.map_err(Into::into)?.into_resource()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_are_written_as_the_protocol_names_them() {
        let resource = Resource::new("x:y", "y").title("Y").description("d").mime_type("text/plain").size(3);
        let resource = resource.icon(Icon::new("https://e/i.png").size("48x48")).meta("k", 1);
        assert_eq!(
            serde_json::to_value(resource).unwrap(),
            json!({
                "uri": "x:y", "name": "y", "title": "Y", "description": "d", "mimeType": "text/plain", "size": 3,
                "icons": [{ "src": "https://e/i.png", "sizes": ["48x48"] }], "_meta": { "k": 1 },
            })
        );
        assert_eq!(
            serde_json::to_value(ResourceTemplate::new("x:{y}", "y")).unwrap(),
            json!({ "uriTemplate": "x:{y}", "name": "y" })
        );
    }

    #[test]
    fn contents_are_what_handlers_return() {
        assert_eq!("a".into_resource().unwrap(), [ResourceContents::text("a")]);
        assert_eq!(vec![1_u8].into_resource().unwrap(), [ResourceContents::blob([1])]);
        let json = Json(json!({ "a": 1 })).into_resource().unwrap();
        assert_eq!(json, [ResourceContents::text("{\"a\":1}").mime_type("application/json")]);
    }
}
