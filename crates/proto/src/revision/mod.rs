//! The dated protocol revisions: one table of what each has, one file for what each one changed.
//!
//! After a revision was negotiated, no code asks "which revision is this?": it asks [`Features`] whether something is there,
//! and hands messages to [`projection`](crate::projection), which knows what each revision introduced.

mod v2024_11_05;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

use crate::projection::Introduced;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A dated revision of the protocol that Bowline knows, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Revision {
    /// The first one; HTTP+SSE was its own HTTP transport, it is served over Streamable HTTP here.
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// Streamable HTTP, batches, audio, annotations.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// Structured content, elicitation, resource links, titles; no batches.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// Priming and polling of streams (SEP-1699), icons, URL elicitation, sampling with tools.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// The modern one: no handshake and no session, metadata on every request, round trips instead of requests of the server.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// What a revision has. Each field says what it is for; the values stand in one file per revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Features {
    /// A stream starts with a priming event, and its connection may be closed before the response (SEP-1699).
    pub priming: bool,
    /// A body may be an array of messages.
    pub batch: bool,
    /// `audio` content.
    pub audio: bool,
    /// `structuredContent`, `outputSchema`, `resource_link` content, `title`, elicitation.
    pub structured_content: bool,
    /// `icons`; arguments that fail the input schema are a result with `isError`.
    pub icons: bool,
}

impl Revision {
    /// Every revision, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The revisions with an `initialize` handshake, oldest first.
    pub const LEGACY: [Self; 4] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    /// The newest revision with an `initialize` handshake: the answer to a revision that is not served.
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest revision with metadata on every request.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// What a request without `MCP-Protocol-Version` is taken to speak where no session says otherwise.
    pub const WITHOUT_HEADER: Self = Self::V2025_03_26;

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision of that name. Membership in the list decides, never a comparison of strings.
    #[must_use]
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == name)
    }

    /// What this revision has.
    #[must_use]
    pub const fn features(self) -> Features {
        match self {
            Self::V2024_11_05 => v2024_11_05::FEATURES,
            Self::V2025_03_26 => v2025_03_26::FEATURES,
            Self::V2025_06_18 => v2025_06_18::FEATURES,
            Self::V2025_11_25 => v2025_11_25::FEATURES,
            Self::V2026_07_28 => v2026_07_28::FEATURES,
        }
    }

    /// What this revision added to the one before it, and how that is taken away again.
    pub(crate) const fn introduced(self) -> &'static Introduced {
        match self {
            Self::V2024_11_05 => &v2024_11_05::INTRODUCED,
            Self::V2025_03_26 => &v2025_03_26::INTRODUCED,
            Self::V2025_06_18 => &v2025_06_18::INTRODUCED,
            Self::V2025_11_25 => &v2025_11_25::INTRODUCED,
            Self::V2026_07_28 => &v2026_07_28::INTRODUCED,
        }
    }

    /// Whether it has no handshake: every request says what it speaks (SEMANTICS 4).
    #[must_use]
    pub const fn is_modern(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// What `initialize` answers to a client that asks for `requested`: that revision where it has a handshake and is served,
    /// else the newest legacy one.
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        Self::from_wire(requested).filter(|revision| !revision.is_modern()).unwrap_or(Self::NEWEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_order_is_by_date() {
        for revision in Revision::ALL {
            assert_eq!(Revision::from_wire(revision.as_str()), Some(revision));
            assert_eq!(serde_json::to_value(revision).unwrap(), revision.as_str());
        }
        assert!(Revision::ALL.is_sorted());
        assert_eq!(Revision::LEGACY, Revision::ALL[..4]);
        assert!(
            Revision::ALL.iter().all(|revision| revision.is_modern() != Revision::LEGACY.contains(revision))
        );
        assert_eq!(Revision::from_wire("2025-11-26"), None);
    }

    #[test]
    fn negotiation_answers_what_is_asked_or_the_newest() {
        assert_eq!(Revision::negotiate("2024-11-05"), Revision::V2024_11_05);
        assert_eq!(Revision::negotiate("2999-01-01"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::V2025_11_25);
    }

    #[test]
    fn only_the_newest_legacy_revision_is_primed_and_only_one_has_batches() {
        let with = |has: fn(Features) -> bool| {
            Revision::ALL.into_iter().filter(|r| has(r.features())).collect::<Vec<_>>()
        };
        assert_eq!(with(|f| f.priming), [Revision::V2025_11_25]);
        assert_eq!(with(|f| f.batch), [Revision::V2025_03_26]);
    }
}
