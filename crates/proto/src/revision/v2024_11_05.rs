//! `2024-11-05`: the base that the later revisions add to.

use super::Features;

pub(super) const FEATURES: Features =
    Features { priming: false, batch: false, audio: false, structured_content: false, icons: false };
