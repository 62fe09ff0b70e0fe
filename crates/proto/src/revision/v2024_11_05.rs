//! `2024-11-05`: the base that the later revisions add to.

use super::Features;
use crate::projection::{Fields, Introduced, Kind, Part, text};

pub(super) const FEATURES: Features =
    Features { priming: false, batch: false, audio: false, structured_content: false, icons: false };

/// Nobody speaks an older revision, so only the kinds of content count: the ones that everybody knows.
pub(super) const INTRODUCED: Introduced = Introduced {
    kinds: &[
        Kind { name: "text", at: &[Part::Content, Part::SamplingContent], as_text: text::of_foreign },
        Kind {
            name: "image",
            at: &[Part::Content, Part::SamplingContent],
            as_text: |block| text::of_media("image", block),
        },
        Kind { name: "resource", at: &[Part::Content], as_text: resource },
    ],
    ..Introduced::NOTHING
};

/// The text of an embedded resource, else `[resource: file:///a.bin, application/zip, 123 bytes]`.
fn resource(block: &Fields) -> String {
    let Some(resource) = block.get("resource").and_then(Fields::of) else { return text::of_foreign(block) };
    if let Some(text) = resource.text("text") {
        return text;
    }
    let mut facts = Vec::new();
    facts.extend(resource.text("uri"));
    facts.extend(resource.text("mimeType"));
    facts.extend(resource.get("blob").and_then(text::decoded_size).map(text::bytes));
    text::brackets("resource", &facts)
}
