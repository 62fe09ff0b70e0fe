//! Small texts by name.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Small texts by name, in the order of their names. Written as a JSON object.
///
/// There are none or few of them, in each of many sessions: a map of the standard library would take 544 bytes for the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Notes(Vec<(String, String)>);

impl Notes {
    /// No notes.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was noted under `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).ok().map(|at| &*self.0[at].1)
    }

    /// Notes `text` under `name`, in place of what was there.
    pub fn insert(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let name = name.into();
        match self.find(&name) {
            Ok(at) => self.0[at].1 = text.into(),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, text.into()));
            }
        }
    }

    /// Takes away what was noted under `name`.
    pub fn remove(&mut self, name: &str) {
        if let Ok(at) = self.find(name) {
            self.0.remove(at);
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }
}

impl From<BTreeMap<String, String>> for Notes {
    fn from(notes: BTreeMap<String, String>) -> Self {
        Self(notes.into_iter().collect())
    }
}

impl From<Notes> for BTreeMap<String, String> {
    fn from(notes: Notes) -> Self {
        notes.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_replaced_and_taken_away() {
        let mut notes = Notes::new();
        for (name, text) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")] {
            notes.insert(name, text);
        }
        assert_eq!(
            (notes.len(), notes.get("a"), notes.get("b"), notes.get("d")),
            (3, Some("4"), Some("1"), None)
        );
        assert_eq!(serde_json::to_string(&notes).unwrap(), r#"{"a":"4","b":"1","c":"3"}"#);
        assert_eq!(serde_json::from_str::<Notes>(r#"{"c":"3","b":"1","a":"4"}"#).unwrap(), notes);
        notes.remove("b");
        notes.remove("b");
        assert_eq!((notes.len(), notes.is_empty(), notes.get("b")), (2, false, None));
    }
}
