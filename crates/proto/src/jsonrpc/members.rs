//! The members of an object, each as the text that it is.

use super::{Members, raw::read};

/// The text of the member `name` of the object `text`: of the first one, should it stand twice.
pub(super) fn find_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut members = Members::of(text)?;
    let is_named = |key: &str| if key.contains('\\') { unescaped(key) == name } else { key == name };
    members.find_map(|(key, value)| is_named(key).then_some(value))
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
fn visit_members<'a>(text: &'a str, mut see: impl FnMut(&str, &'a str)) -> Option<()> {
    let mut members = Members::of(text)?;
    for (key, value) in members.by_ref() {
        if key.contains('\\') {
            see(&unescaped(key), value);
        } else {
            see(key, value);
        }
    }
    members.is_whole().then_some(())
}

/// What a JSON string means, from its text between the quotes. Halves of surrogate pairs, which JSON can write and text cannot hold (Python writes them for
/// names of files, say), become U+FFFD: the name stays one of its own.
fn unescaped(inner: &str) -> String {
    // The parser that found the string has checked its escapes.
    read(&format!("\"{inner}\"")).unwrap_or_default()
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
