//! `2025-06-18`: structured content, resource links, titles and elicitation; batches are gone.

use super::{Features, v2025_03_26};

pub(super) const FEATURES: Features =
    Features { batch: false, structured_content: true, ..v2025_03_26::FEATURES };
