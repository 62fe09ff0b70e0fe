//! `bowline list`.

use super::{
    failure::Failure,
    output::{self, Output},
    session::Session,
    text::{indented, short},
    words::Words,
};
use bowline_client::{Prompt, Raw, Resource, ResourceTemplate, Tool};
use serde_json::Value;

/// Lines of a description that are shown.
const LINES: usize = 4;

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "templates",
            Self::Prompts => "prompts",
        }
    }

    const fn capability(self) -> &'static str {
        match self {
            Self::Templates => "resources",
            other => other.name(),
        }
    }

    /// The member of the server's own answer.
    const fn member(self) -> &'static str {
        match self {
            Self::Templates => "resourceTemplates",
            other => other.name(),
        }
    }
}

/// The kinds that were asked for; none: all that the server has.
#[derive(Debug)]
pub(super) struct Kinds(Vec<Kind>);

impl Kinds {
    pub(super) fn new(words: Words) -> Result<Self, Failure> {
        let kind = |word: String| {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == word);
            kind.ok_or_else(|| {
                Failure::usage(format!("{word:?} cannot be listed: tools, resources, templates or prompts"))
            })
        };
        words.rest().into_iter().map(kind).collect::<Result<_, _>>().map(Self)
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        let peer = session.client.peer();
        let all = self.0.is_empty();
        let kinds = if all {
            Kind::ALL.into_iter().filter(|kind| peer.has(kind.capability())).collect()
        } else {
            self.0
        };
        let mut members = Vec::new();
        for kind in &kinds {
            let (texts, raws) = items(session, *kind).await?;
            match session.output {
                Output::Json => {
                    let list = raws.iter().map(Raw::as_str).collect::<Vec<_>>().join(",");
                    members.push((kind.member(), Raw::from_trusted(format!("[{list}]").into())));
                }
                Output::Text => {
                    // A headline tells lists apart where there are several.
                    if kinds.len() > 1 && !texts.is_empty() {
                        output::text(&format!("# {}", kind.name()))?;
                    }
                    for text in texts {
                        output::text(&text)?;
                    }
                }
            }
        }
        if session.output == Output::Json {
            output::json(&Raw::from_members(members))?;
        }
        Ok(0)
    }
}

/// The items of a list, for people and as they came.
async fn items(session: &Session, kind: Kind) -> Result<(Vec<String>, Vec<Raw>), Failure> {
    let client = &session.client;
    let failed = |error| Failure::reading(&error);
    Ok(match kind {
        Kind::Tools => {
            client.list_tools().await.map_err(failed)?.into_iter().map(|item| (tool(&item), item.raw)).unzip()
        }
        Kind::Resources => client
            .list_resources()
            .await
            .map_err(failed)?
            .into_iter()
            .map(|item| (resource(&item), item.raw))
            .unzip(),
        Kind::Templates => {
            let templates = client.list_resource_templates().await.map_err(failed)?;
            templates.into_iter().map(|item| (template(&item), item.raw)).unzip()
        }
        Kind::Prompts => client
            .list_prompts()
            .await
            .map_err(failed)?
            .into_iter()
            .map(|item| (prompt(&item), item.raw))
            .unzip(),
    })
}

fn with_description(line: String, description: Option<&str>) -> String {
    let about: Vec<String> =
        description.unwrap_or_default().trim().lines().take(LINES).map(|line| short(line, 200)).collect();
    if about.is_empty() { line } else { format!("{line}\n{}", indented(&about.join("\n"), 4)) }
}

fn tool(tool: &Tool) -> String {
    let parameters = tool.input_schema().map(|schema| parameters(&schema)).unwrap_or_default();
    with_description(format!("{}({parameters})", short(&tool.name, 100)), tool.description.as_deref())
}

/// The arguments that a schema names: `text: string, n?: integer`.
fn parameters(schema: &Raw) -> String {
    let properties =
        schema.member("properties").and_then(|properties| properties.members()).unwrap_or_default();
    let required =
        schema.member("required").and_then(|names| names.to::<Vec<String>>().ok()).unwrap_or_default();
    let one = |(name, property): (String, Raw)| {
        let property = property.to::<Value>().unwrap_or_default();
        let mark = if required.contains(&name) { "" } else { "?" };
        let kind = match &property["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
            _ if property["enum"].is_array() => "enum".into(),
            _ => "any".into(),
        };
        (mark, format!("{}{mark}: {}", short(&name, 60), short(&kind, 40)))
    };
    let mut parts: Vec<_> = properties.into_iter().map(one).collect();
    // What is needed comes first.
    parts.sort_by_key(|(mark, _)| *mark);
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

fn resource(resource: &Resource) -> String {
    let mut line = short(&resource.uri, 300);
    if !resource.name.is_empty() {
        line.push_str(&format!("  {}", short(&resource.name, 100)));
    }
    if let Some(mime) = &resource.mime_type {
        line.push_str(&format!("  ({})", short(mime, 60)));
    }
    with_description(line, resource.description.as_deref())
}

fn template(template: &ResourceTemplate) -> String {
    let line = format!("{}  {}", short(&template.uri_template, 300), short(&template.name, 100));
    with_description(line.trim_end().to_owned(), template.description.as_deref())
}

fn prompt(prompt: &Prompt) -> String {
    let arguments: Vec<String> = prompt
        .arguments
        .iter()
        .map(|argument| format!("{}{}", short(&argument.name, 60), if argument.required { "" } else { "?" }))
        .collect();
    with_description(
        format!("{}({})", short(&prompt.name, 100), arguments.join(", ")),
        prompt.description.as_deref(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_at_a_glance() {
        let schema = r#"{ "required": ["y"], "properties": {
            "z": { "type": "integer" }, "b": { "type": ["string", "null"] }, "c": {}, "d": { "enum": ["x"] }, "y": { "type": "string" }
        } }"#;
        let shown = |schema: &str| parameters(&Raw::parse(schema.to_owned()).unwrap());
        assert_eq!(shown(schema), "y: string, z?: integer, b?: string|null, c?: any, d?: enum");
        assert_eq!(shown("true"), "");
        assert_eq!(
            with_description("a".into(), Some(" one\ntwo\n3\n4\n5")),
            "a\n    one\n    two\n    3\n    4"
        );
        assert_eq!(with_description("a".into(), Some(" ")), "a");
    }
}
