//! `2025-11-25`: priming and polling (SEP-1699), icons, URL elicitation, sampling with tools, tasks.

use super::{Features, v2025_06_18};
use crate::{
    jsonrpc::{Raw, code},
    projection::{Fields, Introduced, Kind, Part, array, elements, is_empty, quoted, text},
};

pub(super) const FEATURES: Features = Features { priming: true, icons: true, ..v2025_06_18::FEATURES };

pub(super) const INTRODUCED: Introduced = Introduced {
    fields: &[
        (Part::ServerCapabilities, &["tasks"]),
        (Part::Implementation, &["icons", "description", "websiteUrl"]),
        (Part::Tool, &["icons", "execution"]),
        (Part::Resource, &["icons"]),
        (Part::Template, &["icons"]),
        (Part::Prompt, &["icons"]),
        // A resource link is a resource; the other kinds have no such field.
        (Part::Content, &["icons"]),
        (Part::Sampling, &["tools", "toolChoice", "task"]),
        (Part::SamplingMessage, &["_meta"]),
        (Part::Elicitation, &["mode", "task"]),
        (Part::ElicitationSchema, &["$schema"]),
        (Part::ClientCapabilities, &["tasks"]),
        (Part::SamplingCapability, &["context", "tools"]),
        (Part::ElicitationCapability, &["form", "url"]),
        (Part::CallParams, &["task"]),
    ],
    kinds: &[
        Kind { name: "tool_use", at: &[Part::SamplingContent], as_text: tool_use },
        Kind { name: "tool_result", at: &[Part::SamplingContent], as_text: tool_result },
    ],
    methods: &[
        "tasks/get",
        "tasks/result",
        "tasks/list",
        "tasks/cancel",
        "notifications/tasks/status",
        "notifications/elicitation/complete",
    ],
    refuse,
    remake,
};

fn refuse(method: &str, params: &Raw) -> Option<&'static str> {
    match method {
        "elicitation/create" => {
            if params.member("mode").and_then(|mode| mode.string()).as_deref() == Some("url") {
                return Some("with the mode \"url\"");
            }
            let properties = params.member("requestedSchema")?.member("properties")?.members()?;
            let several =
                properties.iter().any(|(_, property)| type_of(property).as_deref() == Some("array"));
            several.then_some("with a choice of several values")
        }
        "sampling/createMessage" => {
            if !is_empty(params.member("tools").as_ref()) {
                return Some("with tools");
            }
            let mode = params.member("toolChoice")?.member("mode")?.string()?;
            (mode == "required").then_some("with tools that have to be used")
        }
        // Before, the request had to be named; without one, a task was meant.
        "notifications/cancelled" if params.member("requestId").is_none() => Some("without a request"),
        _ => None,
    }
}

fn type_of(value: &Raw) -> Option<String> {
    value.member("type")?.string()
}

fn remake(part: Part, fields: &mut Fields) {
    match part {
        Part::Sampling => fields.update("messages", one_block_each),
        Part::SamplingResult => fields.update("content", single_block),
        Part::ElicitationProperty => plain_property(fields),
        Part::ClientCapabilities => {
            // Before, the capability meant forms, and a client with URLs alone has none.
            let urls_alone =
                |capability: &Raw| capability.member("url").is_some() && capability.member("form").is_none();
            if fields.get("elicitation").is_some_and(urls_alone) {
                fields.remove("elicitation");
            }
        }
        Part::Error => urls_to_message(fields),
        _ => {}
    }
}

/// Messages with several blocks of content become several messages, in the same order.
fn one_block_each(messages: &Raw) -> Option<Raw> {
    let messages = elements(messages)?;
    let mut out = Vec::with_capacity(messages.len());
    let mut changed = false;
    for message in messages {
        let fields = Fields::of(&message);
        let blocks = fields.as_ref().and_then(|fields| elements(fields.get("content")?));
        let (Some(mut fields), Some(blocks)) = (fields, blocks) else {
            out.push(message);
            continue;
        };
        changed = true;
        if blocks.is_empty() {
            fields.set("content", text_block(""));
            out.push(fields.to_raw());
        }
        for block in blocks {
            fields.set("content", as_block(block));
            out.push(fields.to_raw());
        }
    }
    changed.then(|| array(&out))
}

/// An answer has one block: the only one, else the text of all.
fn single_block(content: &Raw) -> Option<Raw> {
    let mut blocks = elements(content)?.into_iter().map(as_block);
    match (blocks.next(), blocks.next()) {
        (None, _) => Some(text_block("")),
        (Some(block), None) => Some(block),
        (Some(first), Some(second)) => {
            let all = [first, second].into_iter().chain(blocks);
            let texts: Vec<String> =
                all.filter_map(|block| Some(text::of_block(&Fields::of(&block)?))).collect();
            Some(text_block(&texts.join("\n")))
        }
    }
}

/// A block is an object; what is none is shown as it is.
fn as_block(block: Raw) -> Raw {
    if block.is_object() { block } else { text_block(block.as_str()) }
}

fn text_block(text: &str) -> Raw {
    Raw::from_members([("type", quoted("text")), ("text", quoted(text))])
}

/// A property of a form: titled choices in the older form, and defaults where the older form has them.
fn plain_property(property: &mut Fields) {
    if let Some(choices) = property.get("oneOf").and_then(elements) {
        let (mut values, mut names) = (Vec::new(), Vec::new());
        for choice in choices {
            let Some(value) = choice.member("const").filter(|value| value.string().is_some()) else {
                continue;
            };
            names.push(
                choice
                    .member("title")
                    .filter(|title| title.string().is_some())
                    .unwrap_or_else(|| value.clone()),
            );
            values.push(value);
        }
        property.remove("oneOf");
        if !values.is_empty() {
            property.set("enum", array(&values));
            property.set("enumNames", array(&names));
        }
    }
    if property.text("type").as_deref() != Some("boolean") {
        property.remove("default");
    }
}

/// What has to be visited, for a person: older clients show the message of an error and skip its data.
fn urls_to_message(error: &mut Fields) {
    let needs_url = |code: &Raw| code.to().ok() == Some(code::URL_ELICITATION_REQUIRED);
    if !error.get("code").is_some_and(needs_url) {
        return;
    }
    let Some(asked) = error.get("data").and_then(|data| elements(&data.member("elicitations")?)) else {
        return;
    };
    let mut message = error.text("message").unwrap_or_default();
    for asked in asked {
        let Some(url) = asked.member("url").and_then(|url| url.string()) else { continue };
        let reason = asked.member("message").and_then(|message| message.string());
        message.push_str(&format!("\n{}: {url}", reason.as_deref().unwrap_or("Open")));
    }
    error.set("message", quoted(&message));
    error.remove("data");
}

/// `[tool use 17: search {"q":1}]`.
fn tool_use(block: &Fields) -> String {
    let name = block.text("name").unwrap_or_default();
    let input = block.get("input").map_or("{}", Raw::as_str);
    text::brackets(&with_id("tool use", block.text("id")), &[format!("{name} {input}")])
}

/// `[tool result 17] ` and what it says.
fn tool_result(block: &Fields) -> String {
    let failed = block.get("isError").is_some_and(|failed| failed.as_str() == "true");
    let what = if failed { "tool error" } else { "tool result" };
    let mut texts = vec![text::brackets(&with_id(what, block.text("toolUseId")), &[])];
    let content = block.get("content").and_then(elements).unwrap_or_default();
    for inner in content.iter().filter_map(Fields::of) {
        // Results do not nest; one that does is shown as it is, so that no depth has to be bounded.
        let nested = inner.text("type").as_deref() == Some("tool_result");
        texts.push(if nested { inner.to_raw().as_str().to_owned() } else { text::of_block(&inner) });
    }
    if content.is_empty() {
        texts.extend(block.get("structuredContent").map(|structured| structured.as_str().to_owned()));
    }
    texts.join(" ")
}

fn with_id(what: &str, id: Option<String>) -> String {
    id.map_or_else(|| what.to_owned(), |id| format!("{what} {id}"))
}
