//! A JSON value kept as the text it came in.

use bytes::Bytes;
use bytestring::ByteString;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::fmt;

/// A JSON value as text, known to be well-formed. Cloning shares the buffer.
///
/// What Bowline does not have to understand (tool arguments, results, unknown fields) travels in this form, so that it
/// leaves as it came: numbers keep their digits, objects keep their order.
#[derive(Clone, PartialEq, Eq)]
pub struct Raw(ByteString);

impl Raw {
    /// The empty object, `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// When `text` is not exactly one JSON value.
    pub fn parse(text: impl Into<ByteString>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Self(text))
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// When `value` cannot be expressed as JSON (a map with keys that are not strings, say).
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    /// Takes text that a JSON writer or a JSON parser produced, and that therefore is one JSON value.
    #[must_use]
    pub const fn from_trusted(text: ByteString) -> Self {
        Self(text)
    }

    /// The same value in a buffer of its own: what is kept for long must not keep the whole body that it came in.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(ByteString::from(self.as_str()))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The JSON text, shared.
    #[must_use]
    pub fn into_text(self) -> ByteString {
        self.0
    }

    /// The JSON text as shared bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0.into_bytes()
    }

    /// Reads the value into a type. Halves of characters (`\ud83d` alone), of which no text can be made, are read as U+FFFD.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read(&self.0)
    }

    /// The member `name` of this object, raw; `None` where this is no object or has no such member.
    ///
    /// Costs one pass over the text. Members that stand twice are taken at their first place.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let found = super::members::find_member(&self.0, name)?;
        Some(Self(self.0.slice_ref(found)))
    }

    /// This object with the member `name` set to `value`: in its place where it stands, else in front. Everything else
    /// stays as it was. `None` where this is no object.
    #[must_use]
    pub fn with_member(&self, name: &str, value: &Self) -> Option<Self> {
        let text = &*self.0;
        let inner = text.strip_prefix('{')?;
        let out = match super::members::find_member(text, name) {
            Some(found) => {
                // `found` is a slice of `text`: its place is the distance of their starts.
                let start = found.as_ptr().addr() - text.as_ptr().addr();
                format!("{}{}{}", &text[..start], value.as_str(), &text[start + found.len()..])
            }
            None => {
                let key = serde_json::Value::from(name);
                let comma = if inner.trim_ascii_start().starts_with('}') { "" } else { "," };
                format!("{{{key}:{}{comma}{inner}", value.as_str())
            }
        };
        Some(Self(out.into()))
    }

    /// A member that this object has more than once. Whoever reads it may take either, so what was checked may not be what is
    /// used.
    #[must_use]
    pub fn repeated_member(&self) -> Option<String> {
        super::members::repeated_member(&self.0)
    }

    /// The members of this object in their order, the values raw; `None` where this is no object.
    #[must_use]
    pub fn members(&self) -> Option<Vec<(String, Self)>> {
        let members = super::members::all_members(&self.0)?;
        Some(members.into_iter().map(|(name, value)| (name, Self(self.0.slice_ref(value)))).collect())
    }

    /// The object of these members, in this order.
    #[must_use]
    pub fn from_members<N: AsRef<str>>(members: impl IntoIterator<Item = (N, Self)>) -> Self {
        let mut out = String::from("{");
        for (name, value) in members {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&serde_json::Value::from(name.as_ref()).to_string());
            out.push(':');
            out.push_str(value.as_str());
        }
        out.push('}');
        Self(out.into())
    }

    /// The value as a string, where it is a JSON string. Halves of characters are read as U+FFFD.
    #[must_use]
    pub fn string(&self) -> Option<String> {
        if self.0.starts_with('"') { read(&self.0).ok() } else { None }
    }

    /// Whether this is a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.starts_with('{')
    }
}

/// Reads well-formed JSON: where that fails for its form, it is for halves of characters.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    match serde_json::from_str(text) {
        Err(error) if error.is_syntax() => match super::surrogates::whole_characters(text) {
            Some(text) => serde_json::from_str(&text),
            None => Err(error),
        },
        read => read,
    }
}

impl fmt::Debug for Raw {
    /// The size alone: payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The text is well-formed by construction, so this only borrows it.
        serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let boxed = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(String::from(Box::<str>::from(boxed)).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_text_as_it_came() {
        let raw = Raw::parse(r#"{"b":1.50,"a":[1e3]}"#).unwrap();
        assert_eq!(raw.as_str(), r#"{"b":1.50,"a":[1e3]}"#);
        assert_eq!(serde_json::to_string(&raw).unwrap(), raw.as_str());
        assert!(Raw::parse("{").is_err());
        assert!(Raw::parse("{} {}").is_err());
    }

    #[test]
    fn finds_members_without_reading_the_rest() {
        let raw = Raw::parse(r#"{"x":{"_meta":1},"_meta":{"progressToken":"t"},"s":"a\"b"}"#).unwrap();
        assert_eq!(raw.member("_meta").unwrap().member("progressToken").unwrap().string().unwrap(), "t");
        assert_eq!(raw.member("s").unwrap().string().unwrap(), "a\"b");
        assert!(raw.member("y").is_none());
        assert!(Raw::parse("[1]").unwrap().member("x").is_none());
    }

    #[test]
    fn sets_members_in_place() {
        let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
        let set = |text: &str| raw(text).with_member("a", &raw("7")).map(|raw| raw.as_str().to_owned());
        assert_eq!(set(r#"{"b":[1.0], "a" : {"x":1} ,"c":2}"#).unwrap(), r#"{"b":[1.0], "a" : 7 ,"c":2}"#);
        assert_eq!(set(r#"{"b":1}"#).unwrap(), r#"{"a":7,"b":1}"#);
        assert_eq!(set("{ }").unwrap(), r#"{"a":7 }"#);
        assert_eq!(set("[]"), None);
    }

    #[test]
    fn takes_objects_apart_and_puts_them_together() {
        let raw = Raw::parse(r#"{ "b" : 1.50, "a\"" : [ 1 ] }"#).unwrap();
        let members = raw.members().unwrap();
        assert_eq!(members.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["b", "a\""]);
        assert_eq!(Raw::from_members(members).as_str(), r#"{"b":1.50,"a\"":[ 1 ]}"#);
        assert_eq!(Raw::parse("[]").unwrap().members(), None);
        assert_eq!(Raw::empty_object().members(), Some(Vec::new()));
    }

    #[test]
    fn debug_hides_the_payload() {
        assert_eq!(format!("{:?}", Raw::parse(r#""secret""#).unwrap()), "Raw(8 bytes)");
    }
}
