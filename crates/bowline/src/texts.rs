//! Types read from named texts: the variables of a URI template, the arguments of a prompt.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IntoDeserializer, Visitor, value::MapDeserializer},
    forward_to_deserialize_any,
};
use std::{borrow::Cow, fmt};

/// Reads `T` from named texts. A field that is a number or a boolean is read from its text.
///
/// # Errors
/// Which field is missing or cannot be read.
pub(crate) fn read<T: DeserializeOwned>(texts: Vec<(Cow<'_, str>, Cow<'_, str>)>) -> Result<T, TextError> {
    let texts = texts.into_iter().map(|(name, text)| (name.into_owned(), Text(text.into_owned())));
    T::deserialize(MapDeserializer::new(texts))
}

/// Why texts are not what was expected, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TextError(String);

impl serde::de::Error for TextError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct Text(String);

impl<'de> IntoDeserializer<'de, TextError> for Text {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// The methods that read a number or a boolean from its text.
macro_rules! parsed {
    ($($deserialize:ident, $visit:ident, $type:ty;)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
            match self.0.parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                // The visitor says what it expected.
                Err(_) => visitor.visit_string(self.0),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Text {
    type Error = TextError;

    parsed! {
        deserialize_bool, visit_bool, bool;
        deserialize_i8, visit_i8, i8;
        deserialize_i16, visit_i16, i16;
        deserialize_i32, visit_i32, i32;
        deserialize_i64, visit_i64, i64;
        deserialize_u8, visit_u8, u8;
        deserialize_u16, visit_u16, u16;
        deserialize_u32, visit_u32, u32;
        deserialize_u64, visit_u64, u64;
        deserialize_f32, visit_f32, f32;
        deserialize_f64, visit_f64, f64;
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TextError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TextError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TextError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The `arguments` of a prompt: an object of texts, in their order.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a>(pub(crate) Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Arguments<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object whose values are texts")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry::<String, String>()? {
                    pairs.push((Cow::Owned(pair.0), Cow::Owned(pair.1)));
                }
                Ok(Arguments(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn texts<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        pairs.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect()
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Typed {
        id: u32,
        ratio: Option<f64>,
        name: String,
        yes: bool,
        kind: Kind,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Big,
    }

    #[test]
    fn numbers_and_choices_are_read_from_their_text() {
        let all = [("id", "7"), ("ratio", "0.5"), ("name", "7"), ("yes", "true"), ("kind", "big")];
        let typed: Typed = read(texts(&all)).unwrap();
        assert_eq!(typed, Typed { id: 7, ratio: Some(0.5), name: "7".into(), yes: true, kind: Kind::Big });
        let map: BTreeMap<String, String> = read(texts(&[("a", "1")])).unwrap();
        assert_eq!(map["a"], "1");
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = read::<Typed>(texts(&[("id", "x")])).unwrap_err().to_string();
        assert!(error.contains("expected u32"), "{error}");
        let error = read::<Typed>(texts(&[("id", "1")])).unwrap_err().to_string();
        assert!(error.contains("missing field `name`"), "{error}");
    }
}
