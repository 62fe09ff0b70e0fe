//! The one parse of an incoming body (SEMANTICS 1.7).

use super::{ErrorObject, Message, RequestId, code, envelope::parse_one};
use bytes::Bytes;
use bytestring::ByteString;
use serde::{
    Deserializer as _,
    de::{SeqAccess, Visitor},
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
    pub(super) fn not_message(message: impl Into<Cow<'static, str>>, id: Option<RequestId>) -> Self {
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
/// The result shares the body's buffer. Costs one pass, over texts many bytes at a time.
///
/// # Errors
/// When the body is no UTF-8, no JSON, nested deeper than [`MAX_DEPTH`], an empty array, or one value that is not a message.
pub fn parse(body: Bytes) -> Result<Body, ParseError> {
    let text = text_of(body)?;
    if text.trim_ascii_start().starts_with('[') {
        if too_deep(text.as_bytes()) {
            return Err(nested_too_deep());
        }
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

pub(super) fn nested_too_deep() -> ParseError {
    ParseError::not_message(format!("nested deeper than {MAX_DEPTH} levels"), None)
}

fn text_of(body: Bytes) -> Result<ByteString, ParseError> {
    let not_json =
        |message: Cow<'static, str>| ParseError { kind: ParseErrorKind::NotJson, message, id: None };
    let text = ByteString::try_from(body).map_err(|_| not_json("the body is not UTF-8".into()))?;
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

pub(super) fn not_json(error: &serde_json::Error) -> ParseError {
    ParseError {
        kind: ParseErrorKind::NotJson,
        message: format!("not JSON at line {} column {}", error.line(), error.column()).into(),
        id: None,
    }
}

/// Whether arrays and objects nest deeper than [`MAX_DEPTH`]; for text that may be no JSON.
pub(super) fn too_deep(text: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Raw, Reply, Request, Response};

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
