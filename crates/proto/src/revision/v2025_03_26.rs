//! `2025-03-26`: batches (this revision only) and audio content.

use super::{Features, v2024_11_05};

pub(super) const FEATURES: Features = Features { batch: true, audio: true, ..v2024_11_05::FEATURES };
