//! The arguments of a tool, read into its handler's type.
//!
//! `serde_json` checks every byte of a string as it reads it. The arguments were checked when their message was parsed, so here only what
//! has to be converted goes through it: the members of structs are found by their structure ([`Members`]), and texts without escapes are
//! taken whole.

use bowline_proto::jsonrpc::{Members, plain_string};
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, Visitor, value::BorrowedStrDeserializer},
};
use serde_json::Error;
use std::borrow::Cow;

/// Reads `text`, which a JSON parser has passed. As `serde_json` does it, but for what an error says: the members on the way to what is
/// wrong, instead of its place in the text.
///
/// # Errors
/// What is wrong with which member.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    T::deserialize(Passed(text)).map_err(|error| without_place(&error))
}

/// A value that a JSON parser has passed.
#[derive(Clone, Copy)]
struct Passed<'de>(&'de str);

/// Hands over to `serde_json`.
macro_rules! parse {
    ($($deserialize:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, Error> {
            serde_json::Deserializer::from_str(self.0).$deserialize($($name,)* visitor)
        })*
    };
}

/// Gives a text without escapes as it is.
macro_rules! text {
    ($($deserialize:ident;)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match plain_string(self.0) {
                Some(text) => visitor.visit_borrowed_str(text),
                None => serde_json::Deserializer::from_str(self.0).$deserialize(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Passed<'de> {
    type Error = Error;

    text! {
        deserialize_any;
        deserialize_str;
        deserialize_string;
        deserialize_identifier;
    }

    parse! {
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0 == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Some(members) = Members::of(self.0) else {
            return serde_json::Deserializer::from_str(self.0).deserialize_struct(name, fields, visitor);
        };
        let mut struct_members = StructMembers { members, value: None };
        let made = visitor.visit_map(&mut struct_members)?;
        match struct_members.members.next() {
            None => Ok(made),
            Some(_) => Err(Error::custom("there are more members than are read")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

/// The members of a struct, and the one whose name was read last.
struct StructMembers<'de> {
    members: Members<'de>,
    value: Option<(&'de str, &'de str)>,
}

impl<'de> MapAccess<'de> for &mut StructMembers<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.members.next();
        let Some((name, _)) = self.value else { return Ok(None) };
        match unescaped(name)? {
            Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(serde::de::value::StringDeserializer::new(name)),
        }
        .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // A visitor asks for a value after a name.
        let Some((name, value)) = self.value.take() else {
            return Err(Error::custom("a value without a name"));
        };
        seed.deserialize(Passed(value)).map_err(|error| in_member(name, &error))
    }
}

/// A name from its text between the quotes.
fn unescaped(name: &str) -> Result<Cow<'_, str>, Error> {
    if name.contains('\\') {
        serde_json::from_str(&format!("\"{name}\"")).map(Cow::Owned)
    } else {
        Ok(Cow::Borrowed(name))
    }
}

/// The error of a value as one of the member `name`.
fn in_member(name: &str, error: &Error) -> Error {
    Error::custom(format_args!("{name}: {}", without_place(error)))
}

/// What is wrong, without the line and the column, which would be those of a part.
fn without_place(error: &Error) -> String {
    let mut said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    if said.ends_with(&place) {
        said.truncate(said.len() - place.len());
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::{Value, value::RawValue};
    use std::{collections::BTreeMap, fmt::Debug};

    /// Reads as `serde_json` does, value and failure.
    fn same<T: DeserializeOwned + PartialEq + Debug>(text: &str) {
        let (ours, theirs) = (read::<T>(text).ok(), serde_json::from_str::<T>(text).ok());
        assert_eq!(ours, theirs, "{text}");
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        s: String,
        #[serde(default)]
        n: Option<u8>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Unit,
        Of(u8),
        With { x: Option<String> },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Many(Vec<Self>),
        Inner(Inner),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        A { s: String },
        B(Inner),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapped(String);

    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        a: Wrapped,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        f: f64,
        u: Option<()>,
        c: Option<char>,
        i: Option<i128>,
        b: Option<bool>,
        k: Option<Kind>,
        e: Option<Either>,
        t: Option<Tagged>,
        m: Option<BTreeMap<u8, Inner>>,
        v: Option<Vec<Inner>>,
        p: Option<(String, u8)>,
        o: Option<Option<Inner>>,
    }

    #[test]
    fn values_and_failures_are_those_of_serde_json() {
        for text in [
            r#"{"s":"a"}"#,
            r#" { "s" : "a\n\u00e4" , "n" : 7 } "#,
            r#"{"\u0073":"a","n":null,"other":[{"s":"}"}]}"#,
            r#"{"s":"a","s":"b"}"#,
            r#"{"s":"\ud800"}"#,
            r#"{"\ud800":1,"s":"a"}"#,
            r#"{"n":300,"s":"a"}"#,
            r#"{"n":1}"#,
            r#"{"s":1}"#,
            r#"["a",1]"#,
            r#"["a"]"#,
            "{}",
            "null",
            "\"a\"",
        ] {
            same::<Inner>(text);
            same::<Option<Inner>>(text);
            same::<Value>(text);
            same::<Either>(text);
            same::<BTreeMap<String, Value>>(text);
        }
        for text in [
            r#"{"a":"x","b":"y","c":{"d":[1.50]}}"#,
            r#"{"a":"x\"","a":"y"}"#,
            r#"{"a":["x"]}"#,
            r#"{"b":1}"#,
        ] {
            same::<Flat>(text);
        }
        for member in [
            r#""u":null"#,
            r#""c":"ä""#,
            r#""c":"ab""#,
            r#""i":170141183460469231731687303715884105727"#,
            r#""b":true"#,
            r#""b":"true""#,
            r#""k":"unit""#,
            r#""k":{"of":3}"#,
            r#""k":{"with":{"x":"y"}}"#,
            r#""k":"other""#,
            r#""e":"text""#,
            r#""e":["a",["b\t"],{"s":"c"}]"#,
            r#""t":{"type":"A","s":"x"}"#,
            r#""t":{"s":"x","type":"B","n":1}"#,
            r#""t":{"s":"x"}"#,
            r#""m":{"1":{"s":"x"},"2":{"s":"y\\"}}"#,
            r#""m":{"x":{"s":"x"}}"#,
            r#""v":[{"s":"x","n":1},{"s":"y"}]"#,
            r#""v":{}"#,
            r#""p":["x",2]"#,
            r#""p":["x"]"#,
            r#""o":{"s":"x"}"#,
            r#""o":null"#,
            r#""unknown":1"#,
            r#""f":2"#,
        ] {
            same::<Strict>(&format!(r#"{{"f":1e-3,{member}}}"#));
        }
    }

    #[test]
    fn raw_values_keep_their_text() {
        #[derive(Deserialize)]
        struct Kept {
            raw: Box<RawValue>,
        }
        let kept: Kept = read(r#"{ "raw" : { "a" : 1.50 } }"#).unwrap();
        assert_eq!(kept.raw.get(), r#"{ "a" : 1.50 }"#);
    }

    #[test]
    fn an_error_names_the_member() {
        #[derive(Debug, Deserialize)]
        struct Outer {
            #[expect(dead_code, reason = "only its errors are looked at")]
            inner: Option<Inner>,
        }
        for (text, said) in [
            (r#"{"inner":{"s":1}}"#, "inner: s: invalid type: integer `1`, expected a string"),
            (r#"{"inner":{"s":"a","n":300}}"#, "inner: n: invalid value: integer `300`, expected u8"),
            (r#"{"inner":{}}"#, "inner: missing field `s`"),
            (r#"{"inner":null,"inner":null}"#, "duplicate field `inner`"),
            ("3", "invalid type: integer `3`, expected struct Outer"),
        ] {
            assert_eq!(read::<Outer>(text).unwrap_err(), said);
        }
    }
}
