//! Values of headers that mirror a body: as they are, or in base64 between `=?base64?` and `?=`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::borrow::Cow;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// What a header's value stands for. A value that is not between the two marks is what it is.
///
/// # Errors
/// What is wrong: base64 that is none, bytes that are no UTF-8, characters that a header cannot have.
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, &'static str> {
    let value = value.trim_ascii();
    if !value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return Err("it has characters other than visible ASCII, spaces and tabs");
    }
    let text = std::str::from_utf8(value).map_err(|_| "it is no text")?;
    let Some(encoded) = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Ok(Cow::Borrowed(text));
    };
    let bytes = STANDARD.decode(encoded).map_err(|_| "its base64 cannot be read")?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| "its base64 holds no UTF-8")
}

/// The header's value that stands for `text`: itself where that is safe, else in base64.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_ascii() == text
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX));
    if plain { Cow::Borrowed(text) } else { Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_specification() {
        for (text, value) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
            ("a b", "a b"),
        ] {
            assert_eq!(encode(text), value);
            assert_eq!(decode(value.as_bytes()).unwrap(), text);
        }
    }

    #[test]
    fn what_is_no_sentinel_is_literal_and_what_is_broken_is_refused() {
        for (value, found) in [
            ("SGVsbG8=", Some("SGVsbG8=")),
            ("=?base64?SGVsbG8=", Some("=?base64?SGVsbG8=")),
            ("=?BASE64?SGVsbG8=?=", Some("=?BASE64?SGVsbG8=?=")),
            ("  =?base64?SGVsbG8=?= ", Some("Hello")),
            ("=?base64??=", Some("")),
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGVs!!!bG8=?=", None),
            ("=?base64?/w==?=", None),
            ("caf\u{e9}", None),
            ("a\u{7f}", None),
        ] {
            assert_eq!(decode(value.as_bytes()).ok().as_deref(), found, "{value}");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            let value = encode(&text);
            prop_assert!(http::HeaderValue::from_str(&value).is_ok());
            prop_assert_eq!(decode(value.as_bytes()).unwrap(), text.as_str());
        }

        #[test]
        fn no_value_panics(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&value);
        }
    }
}
