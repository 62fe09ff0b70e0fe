//! The one parse of an incoming body (SEMANTICS 1.7).

use super::{ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, Response, code};
use bytes::Bytes;
use bytestring::ByteString;
use serde::{
    Deserializer as _,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The deepest nesting of arrays and objects that is taken.
pub const MAX_DEPTH: usize = 128;

/// What a body holds.
#[derive(Debug)]
pub enum Body {
    /// One message.
    Single(Message),
    /// A JSON array, each member read on its own; never empty.
    Batch(Vec<Result<Message, ParseError>>),
}

/// Why a body, or one member of a batch, is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What kind of fault.
    pub kind: ParseErrorKind,
    /// What is wrong, for the sender.
    pub message: Cow<'static, str>,
    /// The id of the request, where it could be read.
    pub id: Option<RequestId>,
}

/// The kinds of fault in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// Not UTF-8 or not JSON: -32700.
    NotJson,
    /// JSON, but not a JSON-RPC message that MCP allows: -32600.
    NotMessage,
    /// An empty array: -32600.
    EmptyBatch,
}

impl ParseError {
    fn not_message(message: impl Into<Cow<'static, str>>, id: Option<RequestId>) -> Self {
        Self { kind: ParseErrorKind::NotMessage, message: message.into(), id }
    }

    /// The JSON-RPC error that says so.
    #[must_use]
    pub fn to_error(&self) -> ErrorObject {
        match self.kind {
            ParseErrorKind::NotJson => {
                ErrorObject::new(code::PARSE_ERROR, format!("Parse error: {}", self.message))
            }
            ParseErrorKind::NotMessage | ParseErrorKind::EmptyBatch => {
                ErrorObject::new(code::INVALID_REQUEST, format!("Invalid request: {}", self.message))
            }
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads a body: one message or a batch.
///
/// The result shares the body's buffer. Costs one pass, plus one vectorised count of brackets.
///
/// # Errors
/// When the body is no UTF-8, no JSON, nested deeper than [`MAX_DEPTH`], an empty array, or one value that is not a message.
pub fn parse(body: Bytes) -> Result<Body, ParseError> {
    let text = text_of(body)?;
    if text.trim_ascii_start().starts_with('[') {
        parse_batch(&text).map(Body::Batch)
    } else {
        parse_one(&text).map(Body::Single)
    }
}

/// Reads a body that holds exactly one message: a line of a stdio transport, the data of an event.
///
/// # Errors
/// As [`parse`]; an array is refused too.
pub fn parse_message(body: Bytes) -> Result<Message, ParseError> {
    let text = text_of(body)?;
    if text.trim_ascii_start().starts_with('[') {
        return Err(ParseError::not_message("a JSON array, but a single message is expected here", None));
    }
    parse_one(&text)
}

fn text_of(body: Bytes) -> Result<ByteString, ParseError> {
    let not_json =
        |message: Cow<'static, str>| ParseError { kind: ParseErrorKind::NotJson, message, id: None };
    let text = ByteString::try_from(body).map_err(|_| not_json("the body is not UTF-8".into()))?;
    if too_deep(text.as_bytes()) {
        return Err(ParseError::not_message(format!("nested deeper than {MAX_DEPTH} levels"), None));
    }
    Ok(text)
}

fn parse_batch(text: &ByteString) -> Result<Vec<Result<Message, ParseError>>, ParseError> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of JSON-RPC messages")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = seq.next_element()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let members = json
        .deserialize_seq(Members)
        .and_then(|members| json.end().map(|()| members))
        .map_err(|e| not_json(&e))?;
    if members.is_empty() {
        return Err(ParseError {
            kind: ParseErrorKind::EmptyBatch,
            message: "an empty batch".into(),
            id: None,
        });
    }
    Ok(members.into_iter().map(|member| parse_one(&text.slice_ref(member.get()))).collect())
}

fn not_json(error: &serde_json::Error) -> ParseError {
    ParseError {
        kind: ParseErrorKind::NotJson,
        message: format!("not JSON at line {} column {}", error.line(), error.column()).into(),
        id: None,
    }
}

/// The members of an envelope as they stand, before anything is demanded of them.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    twice: Option<&'static str>,
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Option<Envelope<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Envelope::default();
        while let Some(key) = map.next_key::<Key>()? {
            let (slot, name) = match key {
                Key::Jsonrpc => (&mut found.jsonrpc, "jsonrpc"),
                Key::Id => (&mut found.id, "id"),
                Key::Method => (&mut found.method, "method"),
                Key::Params => (&mut found.params, "params"),
                Key::Result => (&mut found.result, "result"),
                Key::Error => (&mut found.error, "error"),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                found.twice = Some(name);
            }
        }
        Ok(Some(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A key of the envelope, told apart without keeping its text.
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Key, E> {
                Ok(match key {
                    "jsonrpc" => Key::Jsonrpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

fn parse_one(text: &ByteString) -> Result<Message, ParseError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let envelope = json
        .deserialize_any(EnvelopeVisitor)
        .and_then(|found| json.end().map(|()| found))
        .map_err(|e| not_json(&e))?;
    let Some(envelope) = envelope else {
        return Err(ParseError::not_message("a JSON-RPC message is an object", None));
    };
    envelope.into_message(text)
}

impl Envelope<'_> {
    fn into_message(self, text: &ByteString) -> Result<Message, ParseError> {
        let read = if self.method.is_some() { RequestId::from_json } else { RequestId::of_response };
        let id = self.id.map(|id| read(id.get()));
        let known_id = id.as_ref().and_then(|id| id.as_ref().ok()).cloned();
        let refuse = |message: Cow<'static, str>| Err(ParseError::not_message(message, known_id.clone()));

        if let Some(name) = self.twice {
            // Which of the two ids is meant cannot be known.
            let id = if name == "id" { None } else { known_id };
            return Err(ParseError::not_message(format!("the member \"{name}\" stands twice"), id));
        }
        if self.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
            return refuse("\"jsonrpc\" is not \"2.0\"".into());
        }
        let id = match id {
            Some(Err(message)) => return refuse(message.into()),
            Some(Ok(id)) => Some(id),
            None => None,
        };
        let raw = |value: &RawValue| Raw::from_trusted(text.slice_ref(value.get()));

        if let Some(method) = self.method {
            if self.result.is_some() || self.error.is_some() {
                return refuse("a \"method\" together with a \"result\" or an \"error\"".into());
            }
            let Some(method) = method_text(text, method) else {
                return refuse("\"method\" is not a string".into());
            };
            let params = self.params.filter(|params| params.get() != "null").map(raw);
            if params.as_ref().is_some_and(|params| !params.is_object()) {
                return refuse("\"params\" is not an object".into());
            }
            return Ok(match id {
                Some(id) => Message::Request(Request { id, method, params }),
                None => Message::Notification(Notification { method, params }),
            });
        }
        let Some(id) = id else {
            return refuse("no \"method\", and no \"id\" that a response would have".into());
        };
        // JSON-RPC 1.0 has both members, one of them null; there are servers that still write them so.
        let is_null = |value: &&RawValue| value.get() == "null";
        let (result, error) = match (self.result, self.error) {
            (Some(result), Some(error)) if is_null(&error) => (Some(result), None),
            (Some(result), Some(error)) if is_null(&result) => (None, Some(error)),
            both => both,
        };
        let reply = match (result, error) {
            (Some(result), None) => Reply::Result(raw(result)),
            (None, Some(error)) if error.get().starts_with('{') => Reply::Error(raw(error)),
            (None, Some(_)) => return refuse("\"error\" is not an object".into()),
            (Some(_), Some(_)) => return refuse("a \"result\" and an \"error\" together".into()),
            (None, None) => return refuse("none of \"method\", \"result\" and \"error\"".into()),
        };
        Ok(Message::Response(Response { id, reply }))
    }
}

/// The text of a JSON string: a slice of the body, or a new string where it has escapes.
fn method_text(text: &ByteString, value: &RawValue) -> Option<ByteString> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str::<String>(value.get()).ok().map(Into::into)
    } else {
        Some(text.slice_ref(inner))
    }
}

/// Whether arrays and objects nest deeper than [`MAX_DEPTH`]. Text with fewer brackets than that, which is nearly all of
/// it, is only counted.
fn too_deep(text: &[u8]) -> bool {
    if memchr::memchr2_iter(b'[', b'{', text).nth(MAX_DEPTH).is_none() {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

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

    fn one(text: &str) -> Result<Message, ParseError> {
        match parse(Bytes::copy_from_slice(text.as_bytes()))? {
            Body::Single(message) => Ok(message),
            Body::Batch(_) => panic!("a batch"),
        }
    }

    #[test]
    fn reads_the_three_kinds() {
        let Message::Request(request) =
            one(r#" {"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1},"extra":[1]} "#).unwrap()
        else {
            panic!()
        };
        assert_eq!((request.id, &*request.method), (1.into(), "a"));
        assert_eq!(request.params.unwrap().as_str(), r#"{"x":1}"#);
        assert!(
            matches!(one(r#"{"jsonrpc":"2.0","method":"a","params":null}"#), Ok(Message::Notification(n)) if n.params.is_none())
        );
        assert!(matches!(one(r#"{"jsonrpc":"2.0","id":"x","result":null}"#), Ok(Message::Response(_))));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":7.0,"result":{},"error":null}"#),
            Ok(Message::Response(Response { id: RequestId::Number(7), reply: Reply::Result(result) })) if result.as_str() == "{}"
        ));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1}}"#),
            Ok(Message::Response(Response { reply: Reply::Error(_), .. }))
        ));
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}"#),
            Ok(Message::Response(_))
        ));
        assert!(
            matches!(one(r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"a\/b"}"#), Ok(Message::Request(r)) if &*r.method == "a/b")
        );
    }

    #[test]
    fn parameters_share_the_buffer() {
        let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}"#);
        let Body::Single(Message::Request(request)) = parse(body.clone()).unwrap() else { panic!() };
        let params = request.params.unwrap().into_bytes();
        assert!(body.as_ptr_range().contains(&params.as_ptr()));
    }

    #[test]
    fn refuses_with_the_right_code_and_id() {
        let cases: &[(&str, i64, Option<RequestId>)] = &[
            ("", -32700, None),
            ("{", -32700, None),
            ("{} x", -32700, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"} {}"#, -32700, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":tru}}"#, -32700, None),
            ("1", -32600, None),
            ("null", -32600, None),
            (r#""x""#, -32600, None),
            ("{}", -32600, None),
            (r#"{"id":1,"method":"a"}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1.0,"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":3}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, -32600, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, -32600, Some(1.into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"p\u0061rams":{}}"#, -32600, Some(1.into())),
        ];
        for (text, code, id) in cases {
            let error = one(text).expect_err(text);
            assert_eq!((error.to_error().code, &error.id), (*code, id), "{text}");
        }
        assert_eq!(parse(Bytes::from_static(b"{\"\xff\":1}")).unwrap_err().kind, ParseErrorKind::NotJson);
        assert_eq!(parse(Bytes::from_static(b"[]")).unwrap_err().kind, ParseErrorKind::EmptyBatch);
    }

    #[test]
    fn nesting_is_bounded_and_brackets_in_strings_do_not_count() {
        let nested = |depth: usize| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{}{}}}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        assert!(one(&nested(126)).is_ok());
        assert_eq!(one(&nested(127)).unwrap_err().kind, ParseErrorKind::NotMessage);
        assert!(one(&nested(1_000_000)).is_err());
        let brackets = "[\\\"{".repeat(1000);
        assert!(
            one(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":"{brackets}"}}}}"#)).is_ok()
        );
        let wide = "[],".repeat(1000);
        assert!(
            one(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":[{wide}1]}}}}"#)).is_ok()
        );
    }

    #[test]
    fn a_batch_is_read_member_by_member() {
        let Body::Batch(members) = parse(Bytes::from_static(
            br#"[{"jsonrpc":"2.0","id":1,"method":"a"}, 1, {"jsonrpc":"2.0","method":"b"}]"#,
        ))
        .unwrap() else {
            panic!()
        };
        assert!(matches!(&members[..], [Ok(Message::Request(_)), Err(_), Ok(Message::Notification(_))]));
        assert!(parse_message(Bytes::from_static(b"[]")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = parse(bytes.into());
        }

        #[test]
        fn what_we_write_we_read(id in "\\PC{0,40}", method in "\\PC{1,40}", text in "\\PC{0,80}") {
            let params = Raw::from_value(&serde_json::json!({ "text": text })).unwrap();
            let request = Request { id: RequestId::String(id.into()), method: method.into(), params: Some(params) };
            let Message::Request(read) = parse_message(request.to_bytes()).unwrap() else { panic!() };
            proptest::prop_assert_eq!(read, request);
        }
    }
}
