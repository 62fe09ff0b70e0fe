//! `2026-07-28`: no handshake, no session; metadata on every request, round trips, listening instead of subscribing.
//!
//! What it changed is the shape of the exchange, which [`modern`](crate::modern) knows; of the messages in it, those of
//! `2025-11-25` are nearly the same. What it added to them is here, and is taken away for a legacy peer by whoever knows that the author
//! is a modern one, so that a message between two legacy peers is not read for it. What has to be put on is
//! [`modern::fit_result`](crate::modern::fit_result)'s.

use super::{Features, v2025_06_18, v2025_11_25};
use crate::{
    modern::tasks::EXTENSION,
    projection::{Fields, Introduced, Part, strip_era},
};

pub(super) const FEATURES: Features = Features { priming: false, ..v2025_11_25::FEATURES };

pub(super) const INTRODUCED: Introduced = Introduced {
    fields: &[
        (Part::InitializeResult, KEPT),
        (Part::CallResult, &["resultType"]),
        (Part::ToolList, KEPT),
        (Part::ResourceList, KEPT),
        (Part::TemplateList, KEPT),
        (Part::PromptList, KEPT),
        (Part::PromptResult, &["resultType"]),
        (Part::ReadResult, KEPT),
        (Part::Result, &["resultType"]),
        (Part::ServerCapabilities, &["extensions"]),
    ],
    remake,
    ..Introduced::NOTHING
};

/// What a result says that may be kept.
const KEPT: &[&str] = &["resultType", "ttlMs", "cacheScope"];

fn remake(part: Part, fields: &mut Fields) {
    if part.is_result() {
        strip_era(fields);
    }
    match part {
        // Before, both were objects: clients fail on the whole list or result.
        Part::CallResult if fields.get("structuredContent").is_some_and(|content| !content.is_object()) => {
            v2025_06_18::structured_to_text(fields);
            fields.remove("structuredContent");
        }
        Part::Tool => {
            let is_object = |schema: &str| schema == "object";
            let kind = |fields: &Fields| fields.get("outputSchema")?.member("type")?.string();
            if !kind(fields).as_deref().is_some_and(is_object) {
                fields.remove("outputSchema");
            }
        }
        Part::ClientCapabilities => {
            fields.update("extensions", |extensions| {
                let mut extensions = Fields::of(extensions)?;
                extensions.remove(EXTENSION);
                extensions.into_changed()
            });
            if fields.get("extensions").and_then(|all| all.members()).is_some_and(|all| all.is_empty()) {
                fields.remove("extensions");
            }
        }
        _ => {}
    }
}
