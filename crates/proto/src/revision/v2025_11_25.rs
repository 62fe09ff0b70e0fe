//! `2025-11-25`: priming and polling (SEP-1699), icons, URL elicitation.

use super::{Features, v2025_06_18};

pub(super) const FEATURES: Features = Features { priming: true, icons: true, ..v2025_06_18::FEATURES };
