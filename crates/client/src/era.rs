//! What is known of each origin's era (SEMANTICS 7.6), for as long as this process lives.

use http::Uri;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// More origins than one process talks to; beyond that it just asks again.
const MAX_ORIGINS: usize = 1_024;

static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Scheme, host, port and path: several servers may share a host.
pub(crate) fn origin(uri: &Uri) -> String {
    format!(
        "{}://{}{}",
        uri.scheme_str().unwrap_or(""),
        uri.authority().map_or("", |a| a.as_str()),
        uri.path()
    )
}

/// Whether the origin is known to be modern.
pub(crate) fn known(origin: &str) -> Option<bool> {
    KNOWN.lock().get(origin).copied()
}

pub(crate) fn learned(origin: &str, modern: bool) {
    let mut known = KNOWN.lock();
    if known.len() < MAX_ORIGINS || known.contains_key(origin) {
        known.insert(origin.to_owned(), modern);
    }
}
