//! Request ids: echoed with their type and every digit.

use crate::decimal::Decimal;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest string id that is taken, in bytes of its decoded text. An id travels inside every event id, which has to
/// fit into a header.
pub const MAX_ID_BYTES: usize = 200;

/// The id of a JSON-RPC request: a string or an integer. `null`, fractions and everything else are not ids in MCP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// An integer above `i64::MAX`.
    Large(u64),
    /// A string of at most [`MAX_ID_BYTES`] bytes.
    String(Box<str>),
}

impl RequestId {
    /// Reads the JSON text of an id.
    ///
    /// # Errors
    /// A sentence for the sender, when the text is no string or integer, or is out of bounds.
    pub fn from_json(text: &str) -> Result<Self, &'static str> {
        let text = text.trim_ascii();
        match text.as_bytes().first() {
            Some(b'"') => {
                let id: Box<str> = serde_json::from_str(text).map_err(|_| "the id is not a valid string")?;
                if id.len() > MAX_ID_BYTES {
                    return Err("the id is longer than 200 bytes");
                }
                Ok(Self::String(id))
            }
            Some(b'-' | b'0'..=b'9') => {
                if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
                    return Err(
                        "the id is a number with a fraction or an exponent; use an integer or a string",
                    );
                }
                let too_large = "the id is a number that does not fit into 64 bits";
                text.parse()
                    .map(Self::Number)
                    .or_else(|_| text.parse().map(Self::Large))
                    .map_err(|_| too_large)
            }
            Some(b'n') => Err("the id is null; a request has a string or an integer as its id"),
            _ => Err("the id is neither a string nor an integer"),
        }
    }

    /// Reads the id of a response: as [`RequestId::from_json`], but an integer that was made a float on its way (`7.0`, by a peer that
    /// knows no other numbers) is that integer.
    ///
    /// # Errors
    /// As [`RequestId::from_json`].
    pub fn of_response(text: &str) -> Result<Self, &'static str> {
        let text = text.trim_ascii();
        match text.split_once('.') {
            Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|digit| digit == b'0') => {
                Self::from_json(whole)
            }
            _ => Self::from_json(text),
        }
    }

    /// The JSON text of this id.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Number(number) => Decimal::of_signed(*number).as_str().to_owned(),
            Self::Large(number) => Decimal::of(*number).as_str().to_owned(),
            Self::String(text) => serde_json::Value::from(&**text).to_string(),
        }
    }

    /// Appends the JSON text of this id.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => out.extend_from_slice(Decimal::of_signed(*number).as_bytes()),
            Self::Large(number) => out.extend_from_slice(Decimal::of(*number).as_bytes()),
            // Writing into a vector cannot fail.
            Self::String(text) => drop(serde_json::to_writer(out, &**text)),
        }
    }

    /// How many bytes [`RequestId::write_json`] appends, unless this is a text with escapes: then it is more.
    pub(super) fn json_len(&self) -> usize {
        match self {
            Self::Number(number) => usize::from(*number < 0) + count_digits(number.unsigned_abs()),
            Self::Large(number) => count_digits(*number),
            Self::String(text) => text.len() + 2,
        }
    }
}

const fn count_digits(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl From<u64> for RequestId {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Large(number), Self::Number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Large(number) => serializer.serialize_u64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_to_the_letter() {
        for text in [
            "0",
            "9",
            "10",
            "-1",
            "-9223372036854775808",
            "9223372036854775807",
            "\"0\"",
            "\"init-1\"",
            "\"\"",
            "9007199254740993",
            "18446744073709551615",
        ] {
            assert_eq!(RequestId::from_json(text).unwrap().to_json(), text);
            let mut out = Vec::new();
            RequestId::from_json(text).unwrap().write_json(&mut out);
            assert_eq!(out, text.as_bytes());
            assert_eq!(RequestId::from_json(text).unwrap().json_len(), text.len());
        }
    }

    #[test]
    fn a_response_may_have_made_a_float_of_it() {
        for (text, id) in [
            ("7.0", 7.into()),
            (" 7.000 ", 7.into()),
            ("-7.0", RequestId::Number(-7)),
            ("\"7.0\"", "7.0".into()),
        ] {
            assert_eq!(RequestId::of_response(text), Ok(id));
        }
        for text in ["7.5", "7.", "7.0e1", "null"] {
            assert!(RequestId::of_response(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_id() {
        for text in
            ["null", "1.5", "1e3", "true", "{}", "[1]", "18446744073709551616", "-9223372036854775809"]
        {
            assert!(RequestId::from_json(text).is_err(), "{text}");
        }
        let long = format!("\"{}\"", "a".repeat(201));
        assert!(RequestId::from_json(&long).is_err());
    }
}
