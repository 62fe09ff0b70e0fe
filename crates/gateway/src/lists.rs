//! What clients have seen of a server's lists, so that they are told when a new process has others.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use bowline_proto::jsonrpc::{Raw, Reply};

/// Entries of one list that are remembered. A longer list is taken as changed: the client then reads the truth.
const MAX_ENTRIES: usize = 10_000;

/// A kind of list.
#[derive(Debug)]
pub(crate) struct ListKind {
    /// The method that reads it.
    pub(crate) method: &'static str,
    /// The member of the result that has the entries.
    pub(crate) entries: &'static str,
    /// The capability it belongs to, and the middle of its `list_changed`.
    pub(crate) capability: &'static str,
}

/// The lists of MCP.
pub(crate) const KINDS: [ListKind; 4] = [
    ListKind { method: "tools/list", entries: "tools", capability: "tools" },
    ListKind { method: "prompts/list", entries: "prompts", capability: "prompts" },
    ListKind { method: "resources/list", entries: "resources", capability: "resources" },
    ListKind { method: "resources/templates/list", entries: "resourceTemplates", capability: "resources" },
];

/// A list as it was read, page by page: one hash for each entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    entries: Vec<u64>,
    /// The cursor of the page that is still to be read.
    next: Option<String>,
    too_many: bool,
}

impl Pages {
    /// Adds a page; `None` where the result is not a page of this list.
    pub(crate) fn add(&mut self, kind: &ListKind, result: &Raw) -> Option<()> {
        let entries: Vec<serde_json::Value> = result.member(kind.entries)?.to().ok()?;
        self.too_many |= self.entries.len() + entries.len() > MAX_ENTRIES;
        if !self.too_many {
            self.entries.extend(entries.iter().map(hash));
        }
        self.next = result.member("nextCursor").and_then(|cursor| cursor.string());
        Some(())
    }

    /// A text that is the same for a list of the same entries, in whatever order, for backends of one build; a list that is not known to
    /// its end has one that is no list's.
    pub(crate) fn digest(&self) -> String {
        if self.too_many || self.next.is_some() {
            return "unknown".to_owned();
        }
        let mut entries = self.entries.clone();
        entries.sort_unstable();
        let mut hasher = DefaultHasher::new();
        entries.hash(&mut hasher);
        format!("{}:{:016x}", entries.len(), hasher.finish())
    }

    /// The cursor of the page that is still to be read.
    pub(crate) fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Whether somebody who has seen this would be surprised by `now`, a list read to its end. Order does not count; a list
    /// that was not read to its end has to be a part.
    pub(crate) fn differs_from(&self, now: &Self) -> bool {
        if self.too_many || now.too_many {
            return true;
        }
        let sorted = |pages: &Self| {
            let mut entries = pages.entries.clone();
            entries.sort_unstable();
            entries
        };
        let (seen, now) = (sorted(self), sorted(now));
        if self.next.is_none() {
            seen != now
        } else {
            seen.iter().any(|entry| now.binary_search(entry).is_err())
        }
    }
}

/// A hash of the value: whitespace and the order of members do not count, which many servers change from run to run.
fn hash(entry: &serde_json::Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.to_string().hash(&mut hasher);
    hasher.finish()
}

/// What was last seen of each of [`KINDS`].
#[derive(Debug, Default)]
pub(crate) struct Seen([Option<Pages>; KINDS.len()]);

impl Seen {
    /// Takes note of an answer that goes to a client. Returns the list that was read, and the digest of what is known of it then.
    pub(crate) fn note(
        &mut self,
        method: &str,
        params: Option<&Raw>,
        reply: &Reply,
    ) -> Option<(&'static ListKind, String)> {
        let at = KINDS.iter().position(|kind| kind.method == method)?;
        let Reply::Result(result) = reply else { return None };
        let cursor = params.and_then(|params| params.member("cursor")).and_then(|cursor| cursor.string());
        let mut pages = match (cursor, self.0[at].take()) {
            (None, _) => Pages::default(),
            (Some(cursor), Some(pages)) if pages.next.as_deref() == Some(&cursor) => pages,
            // A page out of turn: what came before it stays what was seen.
            (Some(_), pages) => {
                self.0[at] = pages;
                return None;
            }
        };
        pages.add(&KINDS[at], result)?;
        let digest = pages.digest();
        self.0[at] = Some(pages);
        Some((&KINDS[at], digest))
    }

    /// What was seen, list by list.
    pub(crate) fn all(&self) -> Vec<(&'static ListKind, Pages)> {
        KINDS.iter().zip(&self.0).filter_map(|(kind, pages)| Some((kind, pages.clone()?))).collect()
    }

    /// A list was read anew, or is known to have changed.
    pub(crate) fn set(&mut self, kind: &ListKind, pages: Option<Pages>) {
        if let Some(at) = KINDS.iter().position(|other| other.method == kind.method) {
            self.0[at] = pages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str], next: Option<&str>) -> Raw {
        let tools: Vec<_> = names.iter().map(|name| serde_json::json!({ "name": name, "x": 1 })).collect();
        let mut result = serde_json::json!({ "tools": tools });
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        Raw::from_value(&result).unwrap()
    }

    fn read(pages: &[Raw]) -> Pages {
        let mut all = Pages::default();
        for page in pages {
            all.add(&KINDS[0], page).unwrap();
        }
        all
    }

    #[test]
    fn order_does_not_count_and_entries_do() {
        let seen = read(&[page(&["a", "b"], None)]);
        assert!(!seen.differs_from(&read(&[page(&["b"], Some("2")), page(&["a"], None)])));
        assert!(seen.differs_from(&read(&[page(&["a"], None)])));
        assert!(seen.differs_from(&read(&[page(&["a", "b", "c"], None)])));
        let members = Raw::parse(r#"{"tools":[{"x":1, "name":"b"},{"name":"a","x":1}]}"#).unwrap();
        assert!(!seen.differs_from(&read(&[members])));
    }

    #[test]
    fn digests_are_equal_where_the_entries_are() {
        let whole = read(&[page(&["a", "b"], None)]).digest();
        assert_eq!(whole, read(&[page(&["b"], Some("2")), page(&["a"], None)]).digest());
        assert_ne!(whole, read(&[page(&["a"], None)]).digest());
        let half = read(&[page(&["a", "b"], Some("2"))]).digest();
        assert!(half == "unknown" && whole != half);
    }

    #[test]
    fn half_a_list_has_to_be_a_part_of_the_new_one() {
        let seen = read(&[page(&["a"], Some("2"))]);
        assert!(!seen.differs_from(&read(&[page(&["b", "a"], None)])));
        assert!(seen.differs_from(&read(&[page(&["b"], None)])));
    }

    #[test]
    fn pages_are_put_together_as_the_client_turns_them() {
        let mut seen = Seen::default();
        let cursor = |text: &str| Raw::from_value(&serde_json::json!({ "cursor": text })).unwrap();
        let reply = |names: &[&str], next| Reply::Result(page(names, next));
        seen.note("tools/list", None, &reply(&["a"], Some("2")));
        seen.note("tools/list", Some(&cursor("9")), &reply(&["z"], None)); // out of turn
        seen.note("tools/list", Some(&cursor("2")), &reply(&["b"], None));
        seen.note("tools/call", None, &reply(&["c"], None));
        let all = seen.all();
        assert_eq!(all.len(), 1);
        assert!(!all[0].1.differs_from(&read(&[page(&["a", "b"], None)])));
        seen.note("tools/list", None, &reply(&["b"], None));
        assert!(!seen.all()[0].1.differs_from(&read(&[page(&["b"], None)])));
    }

    #[test]
    fn a_list_beyond_the_bound_is_taken_as_changed() {
        let names: Vec<_> = (0..=MAX_ENTRIES).map(|n| n.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let long = read(&[page(&names, None)]);
        assert!(long.differs_from(&long.clone()));
    }
}
