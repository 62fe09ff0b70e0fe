//! An object taken apart, and put together again only where something was changed.

use crate::jsonrpc::Raw;
use bytestring::ByteString;
use serde_json::value::RawValue;

/// The members of one object. Names that stand twice are read at their last place, as most parsers do.
#[derive(Debug)]
pub(crate) struct Fields {
    members: Vec<(String, Raw)>,
    changed: bool,
}

impl Fields {
    /// The members of `value`; `None` where it is no object.
    pub(crate) fn of(value: &Raw) -> Option<Self> {
        Some(Self { members: value.members()?, changed: false })
    }

    /// The member `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Raw> {
        self.members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The member `name` as text, where it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.string()
    }

    /// Takes every member `name` away.
    pub(crate) fn remove(&mut self, name: &str) {
        self.retain(|known| known != name);
    }

    /// Takes every member away whose name `keep` does not want.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let before = self.members.len();
        self.members.retain(|(name, _)| keep(name));
        self.changed |= self.members.len() != before;
    }

    /// Gives the member `name` the value: in its place, or behind the others.
    pub(crate) fn set(&mut self, name: &str, value: Raw) {
        self.changed = true;
        match self.members.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.members.push((name.to_owned(), value)),
        }
    }

    /// Puts what `change` makes of the member `name` in its place.
    pub(crate) fn update(&mut self, name: &str, change: impl Fn(&Raw) -> Option<Raw>) {
        self.update_where(|known| known == name, change);
    }

    /// As [`Self::update`], for every member whose name `which` wants.
    pub(crate) fn update_where(
        &mut self,
        which: impl Fn(&str) -> bool,
        change: impl Fn(&Raw) -> Option<Raw>,
    ) {
        for (name, value) in &mut self.members {
            if which(name)
                && let Some(new) = change(value)
            {
                *value = new;
                self.changed = true;
            }
        }
    }

    /// Makes a text block of a content block. Whom it is for, and the metadata, stay.
    pub(crate) fn become_text(&mut self, text: &str) {
        self.retain(|name| matches!(name, "annotations" | "_meta"));
        self.changed = true;
        self.members.splice(0..0, [("type".to_owned(), quoted("text")), ("text".to_owned(), quoted(text))]);
    }

    /// The object as it is now.
    pub(crate) fn to_raw(&self) -> Raw {
        Raw::from_members(self.members.iter().map(|(name, value)| (name, value.clone())))
    }

    /// The object, where it differs from the one that was taken apart.
    pub(crate) fn into_changed(self) -> Option<Raw> {
        self.changed.then(|| Raw::from_members(self.members))
    }
}

/// The elements of an array, sharing its buffer; `None` where it is no array.
pub(crate) fn elements(value: &Raw) -> Option<Vec<Raw>> {
    if !value.as_str().trim_ascii_start().starts_with('[') {
        return None;
    }
    let bytes = value.clone().into_bytes();
    let found: Vec<&RawValue> = serde_json::from_slice(&bytes).ok()?;
    let slice = |found: &&RawValue| ByteString::try_from(bytes.slice_ref(found.get().as_bytes())).ok();
    found.iter().map(|found| slice(found).map(Raw::from_trusted)).collect()
}

/// The array of these elements.
pub(crate) fn array(elements: &[Raw]) -> Raw {
    let mut out = String::with_capacity(elements.iter().map(|raw| raw.as_str().len() + 1).sum::<usize>() + 2);
    out.push('[');
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(element.as_str());
    }
    out.push(']');
    Raw::from_trusted(out.into())
}

/// What `change` makes of the elements of an array; `None` where nothing changes.
pub(crate) fn change_each(value: &Raw, change: impl Fn(&Raw) -> Option<Raw>) -> Option<Raw> {
    let mut elements = elements(value)?;
    let mut changed = false;
    for element in &mut elements {
        if let Some(new) = change(element) {
            *element = new;
            changed = true;
        }
    }
    changed.then(|| array(&elements))
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> Raw {
    Raw::from_trusted(serde_json::Value::from(text).to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn an_untouched_object_is_not_written_again() {
        let mut fields = Fields::of(&raw(r#"{ "a": 1.0 }"#)).unwrap();
        fields.remove("b");
        fields.update("a", |_| None);
        assert_eq!(fields.into_changed(), None);
    }

    #[test]
    fn the_last_of_two_members_counts_and_both_go() {
        let mut fields = Fields::of(&raw(r#"{"a":1,"b":2.50,"a":3}"#)).unwrap();
        assert_eq!(fields.get("a").unwrap().as_str(), "3");
        fields.remove("a");
        assert_eq!(fields.into_changed().unwrap().as_str(), r#"{"b":2.50}"#);
    }

    #[test]
    fn arrays_keep_their_elements() {
        assert_eq!(elements(&raw(r#"{"a":[]}"#)), None);
        assert_eq!(array(&elements(&raw(" [ 1.0 , {\"a\" :2} ] ")).unwrap()).as_str(), r#"[1.0,{"a" :2}]"#);
        assert_eq!(array(&[]).as_str(), "[]");
        assert_eq!(change_each(&raw("[1,2]"), |_| None), None);
        let two = |value: &Raw| (value.as_str() == "1").then(|| raw("7"));
        assert_eq!(change_each(&raw("[1,2]"), two).unwrap().as_str(), "[7,2]");
    }
}
