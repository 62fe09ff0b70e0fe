//! Small texts by name.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, fmt::Write as _};

/// Small texts by name, in the order of their names. Written as a JSON object.
///
/// There are none or few of them, in each of many sessions: all lie in one allocation, and are looked for from its start. (A map of the
/// standard library would take 544 bytes for the first one.)
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct Notes(
    /// Each with the length of its name and of its text before it: `5:3:lists1,2`.
    Option<Box<str>>,
);

impl Notes {
    /// No notes.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// What was noted under `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(known, text)| (known == name).then_some(text))
    }

    /// Notes `text` under `name`, in place of what was there.
    pub fn insert(&mut self, name: impl AsRef<str>, text: impl AsRef<str>) {
        let (name, text) = (name.as_ref(), text.as_ref());
        let before = self.iter().filter(|(known, _)| *known < name);
        let behind = self.iter().filter(|(known, _)| *known > name);
        *self = before.chain([(name, text)]).chain(behind).collect();
    }

    /// Takes away what was noted under `name`.
    pub fn remove(&mut self, name: &str) {
        *self = self.iter().filter(|(known, _)| *known != name).collect();
    }

    /// Each name with its text, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.0.as_deref().unwrap_or_default();
        std::iter::from_fn(move || {
            let (name_len, behind) = rest.split_once(':')?;
            let (text_len, behind) = behind.split_once(':')?;
            let (name, behind) = behind.split_at_checked(name_len.parse().ok()?)?;
            let (text, behind) = behind.split_at_checked(text_len.parse().ok()?)?;
            rest = behind;
            Some((name, text))
        })
    }
}

impl<N: AsRef<str>, T: AsRef<str>> FromIterator<(N, T)> for Notes {
    /// Takes notes in the order of their names, each name once.
    fn from_iter<I: IntoIterator<Item = (N, T)>>(notes: I) -> Self {
        let mut all = String::new();
        for (name, text) in notes {
            let (name, text) = (name.as_ref(), text.as_ref());
            // Writing into a string cannot fail.
            let _ = write!(all, "{}:{}:{name}{text}", name.len(), text.len());
        }
        Self((!all.is_empty()).then(|| all.into()))
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl From<BTreeMap<String, String>> for Notes {
    fn from(notes: BTreeMap<String, String>) -> Self {
        notes.into_iter().collect()
    }
}

impl From<Notes> for BTreeMap<String, String> {
    fn from(notes: Notes) -> Self {
        notes.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
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
        notes.insert("", "3:");
        notes.insert("ä:1", "");
        assert_eq!(notes.iter().collect::<Vec<_>>(), [("", "3:"), ("a", "4"), ("c", "3"), ("ä:1", "")]);
        assert_eq!(format!("{notes:?}"), r#"{"": "3:", "a": "4", "c": "3", "ä:1": ""}"#);
        for name in ["", "a", "c", "ä:1"] {
            notes.remove(name);
        }
        assert_eq!(notes, Notes::new());
        assert!(notes.is_empty());
    }
}
