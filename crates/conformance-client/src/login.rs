//! Where the scenarios `auth/*` get their credentials.

use bowline_client::Authorizer;
use std::sync::Arc;

/// The authorizer of a scenario; `context` is what the suite says beside its name. `None`: the scenario needs none, or there is no
/// implementation in this build.
pub(crate) const fn authorizer(_scenario: &str, _context: &serde_json::Value) -> Option<Arc<dyn Authorizer>> {
    None
}
