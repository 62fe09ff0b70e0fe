//! `2026-07-28`: no handshake, no session; metadata on every request, round trips, listening instead of subscribing.
//!
//! What it changed is the shape of the exchange, which [`modern`](crate::modern) knows; of the messages in it, those of
//! `2025-11-25` are nearly the same. What a result has to have or must not have in it is put on and taken off at the edge, by
//! [`modern::fit_result`](crate::modern::fit_result) and [`modern::to_legacy`](crate::modern::to_legacy), so that a message between
//! two legacy peers is not read for it.

use super::{Features, v2025_11_25};
use crate::projection::Introduced;

pub(super) const FEATURES: Features = Features { priming: false, ..v2025_11_25::FEATURES };

pub(super) const INTRODUCED: Introduced = Introduced::NOTHING;
