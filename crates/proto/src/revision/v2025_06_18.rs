//! `2025-06-18`: structured content, resource links, titles and elicitation; batches are gone.

use super::{Features, v2025_03_26};
use crate::{
    jsonrpc::Raw,
    projection::{Fields, Introduced, Kind, Part, array, is_empty, quoted, text},
};

pub(super) const FEATURES: Features =
    Features { batch: false, structured_content: true, ..v2025_03_26::FEATURES };

pub(super) const INTRODUCED: Introduced = Introduced {
    fields: &[
        (Part::CallResult, &["structuredContent"]),
        (Part::Implementation, &["title"]),
        (Part::Tool, &["title", "outputSchema", "_meta"]),
        (Part::Resource, &["title", "_meta"]),
        (Part::Template, &["title", "_meta"]),
        (Part::ResourceContents, &["_meta"]),
        (Part::Prompt, &["title", "_meta"]),
        (Part::PromptArgument, &["title"]),
        (Part::Content, &["_meta"]),
        (Part::SamplingContent, &["_meta"]),
        (Part::Annotations, &["lastModified"]),
        (Part::ClientCapabilities, &["elicitation"]),
        (Part::CompleteParams, &["context"]),
        (Part::PromptReference, &["title"]),
        (Part::Root, &["_meta"]),
    ],
    kinds: &[Kind { name: "resource_link", at: &[Part::Content], as_text: resource_link }],
    methods: &["elicitation/create"],
    remake,
    ..Introduced::NOTHING
};

fn remake(part: Part, fields: &mut Fields) {
    match part {
        Part::CallResult => structured_to_text(fields),
        Part::Tool => title_to_annotations(fields),
        Part::Resource | Part::Template | Part::Prompt | Part::PromptArgument => {
            if let Some(title) = fields.text("title")
                && fields.get("description").is_none()
            {
                fields.set("description", quoted(&title));
            }
        }
        _ => {}
    }
}

/// A result that is nothing but structured gets the JSON as text; servers are told to send both, not all do.
pub(super) fn structured_to_text(result: &mut Fields) {
    let Some(structured) = result.get("structuredContent").filter(|value| !is_empty_value(value)) else {
        return;
    };
    if !is_empty(result.get("content")) {
        return;
    }
    let block = [("type", quoted("text")), ("text", quoted(structured.as_str()))];
    result.set("content", array(&[Raw::from_members(block)]));
}

fn is_empty_value(value: &Raw) -> bool {
    value.as_str() == "null"
}

/// Tools had a title before this revision too, among their annotations.
fn title_to_annotations(tool: &mut Fields) {
    let Some(title) = tool.text("title") else { return };
    match tool.get("annotations").cloned() {
        None => tool.set("annotations", Raw::from_members([("title", quoted(&title))])),
        Some(annotations) => {
            if let Some(mut annotations) = Fields::of(&annotations)
                && annotations.get("title").is_none()
            {
                annotations.set("title", quoted(&title));
                tool.set("annotations", annotations.to_raw());
            }
        }
    }
}

/// `[resource link: Report, file:///report.pdf, application/pdf, 123 bytes] What it says`.
fn resource_link(link: &Fields) -> String {
    let mut facts = Vec::new();
    facts.extend(link.text("title").or_else(|| link.text("name")));
    facts.extend(link.text("uri"));
    facts.extend(link.text("mimeType"));
    facts.extend(link.get("size").and_then(|size| size.to().ok()).map(text::bytes));
    let link_text = text::brackets("resource link", &facts);
    match link.text("description") {
        Some(description) => format!("{link_text} {description}"),
        None => link_text,
    }
}
