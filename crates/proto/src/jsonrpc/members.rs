//! The members of an object, found in its text without making a value of it.

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// The text of the member `name` of the object `text`: of the first one, should it stand twice.
pub(super) fn find_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    visit_members(text, |key, value| {
        if found.is_none() && key == name {
            found = Some(value);
        }
    })?;
    found
}

/// A member that the object `text` has more than once; `None` also where this is no object.
pub(super) fn repeated_member(text: &str) -> Option<String> {
    let (mut seen, mut repeated) = (std::collections::BTreeSet::new(), None);
    visit_members(text, |key, _| {
        if repeated.is_none() && !seen.insert(key.to_owned()) {
            repeated = Some(key.to_owned());
        }
    })?;
    repeated
}

/// The members of the object `text`, in their order.
pub(super) fn all_members(text: &str) -> Option<Vec<(String, &str)>> {
    let mut members = Vec::new();
    visit_members(text, |key, value| members.push((key.to_owned(), value)))?;
    Some(members)
}

/// Shows `see` every member of the object `text`; `None` where it is no object. Keys without escapes are borrowed.
fn visit_members<'a>(text: &'a str, see: impl FnMut(&str, &'a str)) -> Option<()> {
    struct Members<F>(F);
    impl<'de, F: FnMut(&str, &'de str)> Visitor<'de> for Members<F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<&'de RawValue>()? {
                let value = map.next_value::<&'de RawValue>()?;
                match key.get().strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
                    Some(key) if !key.contains('\\') => (self.0)(key, value.get()),
                    _ => (self.0)(&unescaped(key.get()), value.get()),
                }
            }
            Ok(())
        }
    }
    if !text.trim_ascii_start().starts_with('{') {
        return None;
    }
    serde_json::Deserializer::from_str(text).deserialize_map(Members(see)).ok()
}

/// The text of a JSON string. Halves of surrogate pairs, which JSON can write and text cannot hold (Python writes them for
/// names of files, say), become U+FFFD: the name stays one of its own.
fn unescaped(json: &str) -> String {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, text: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(text).into_owned())
        }
    }
    // The parser that found the string has checked its escapes.
    serde_json::Deserializer::from_str(json).deserialize_bytes(Text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_half_a_surrogate_pair_is_not_the_empty_name() {
        let text = r#"{"a\ud800":1,"\udfff":2,"\u0062\ud83d\ude00":3,"":4}"#;
        let names: Vec<_> = all_members(text).unwrap().into_iter().map(|(name, _)| name).collect();
        assert!(names[0].starts_with("a\u{fffd}") && names[1].starts_with('\u{fffd}'), "{names:?}");
        assert_eq!(names[2..], ["b\u{1f600}", ""]);
        assert_eq!(find_member(text, ""), Some("4"));
    }
}
