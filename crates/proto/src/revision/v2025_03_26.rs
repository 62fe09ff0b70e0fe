//! `2025-03-26`: batches (this revision only), audio content, annotations of tools.

use super::{Features, v2024_11_05};
use crate::projection::{Introduced, Kind, Part, text};

pub(super) const FEATURES: Features = Features { batch: true, audio: true, ..v2024_11_05::FEATURES };

pub(super) const INTRODUCED: Introduced = Introduced {
    fields: &[
        (Part::ServerCapabilities, &["completions"]),
        (Part::Tool, &["annotations"]),
        (Part::Progress, &["message"]),
    ],
    kinds: &[Kind {
        name: "audio",
        at: &[Part::Content, Part::SamplingContent],
        as_text: |block| text::of_media("audio", block),
    }],
    ..Introduced::NOTHING
};
