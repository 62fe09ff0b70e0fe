//! One envelope: its members found in one pass, then what JSON-RPC and MCP demand of them (SEMANTICS 1.7).

use super::{
    Message, Notification, Raw, Reply, Request, RequestId, Response,
    check::is_json,
    parse::{ParseError, nested_too_deep, not_json, too_deep},
};
use bytestring::ByteString;
use serde::{
    Deserializer as _,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The members of an envelope as they stand, before anything is demanded of them.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    twice: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    /// That of text which is a JSON object; `None` where it is none, or has to be read more closely.
    fn of_object(text: &'a str) -> Option<Self> {
        let (mut found, mut escaped) = (Self::default(), false);
        let is_object = text.trim_ascii_start().starts_with('{');
        let is_json = is_object
            && is_json(text, |name, value| {
                // A name with escapes may be one of those that are looked for.
                escaped |= name.contains('\\');
                found.take(Key::of(name), value);
            });
        (is_json && !escaped).then_some(found)
    }

    fn take(&mut self, key: Key, value: &'a str) {
        let (slot, name) = match key {
            Key::Jsonrpc => (&mut self.jsonrpc, "jsonrpc"),
            Key::Id => (&mut self.id, "id"),
            Key::Method => (&mut self.method, "method"),
            Key::Params => (&mut self.params, "params"),
            Key::Result => (&mut self.result, "result"),
            Key::Error => (&mut self.error, "error"),
            Key::Other => return,
        };
        if slot.replace(value).is_some() {
            self.twice = Some(name);
        }
    }
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
            found.take(key, map.next_value::<&RawValue>()?.get());
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
#[derive(Clone, Copy)]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Key {
    fn of(name: &str) -> Self {
        match name {
            "jsonrpc" => Self::Jsonrpc,
            "id" => Self::Id,
            "method" => Self::Method,
            "params" => Self::Params,
            "result" => Self::Result,
            "error" => Self::Error,
            _ => Self::Other,
        }
    }
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
                Ok(Key::of(key))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// Reads the text of one message: the usual one by a quick check that finds the members of its envelope, any other, and whatever is no
/// message, by the parser that says what is wrong with it.
pub(super) fn parse_one(text: &ByteString) -> Result<Message, ParseError> {
    if let Some(envelope) = Envelope::of_object(text) {
        return envelope.into_message(text);
    }
    if too_deep(text.as_bytes()) {
        return Err(nested_too_deep());
    }
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
        let id = self.id.map(read);
        let known_id = id.as_ref().and_then(|id| id.as_ref().ok()).cloned();
        let refuse = |message: Cow<'static, str>| Err(ParseError::not_message(message, known_id.clone()));

        if let Some(name) = self.twice {
            // Which of the two ids is meant cannot be known.
            let id = if name == "id" { None } else { known_id };
            return Err(ParseError::not_message(format!("the member \"{name}\" stands twice"), id));
        }
        if self.jsonrpc.is_none_or(|version| version != r#""2.0""#) {
            return refuse("\"jsonrpc\" is not \"2.0\"".into());
        }
        let id = match id {
            Some(Err(message)) => return refuse(message.into()),
            Some(Ok(id)) => Some(id),
            None => None,
        };
        let raw = |value: &str| Raw::from_trusted(text.slice_ref(value));

        if let Some(method) = self.method {
            if self.result.is_some() || self.error.is_some() {
                return refuse("a \"method\" together with a \"result\" or an \"error\"".into());
            }
            let Some(method) = method_text(text, method) else {
                return refuse("\"method\" is not a string".into());
            };
            let params = self.params.filter(|params| *params != "null").map(raw);
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
        let is_null = |value: &str| value == "null";
        let (result, error) = match (self.result, self.error) {
            (Some(result), Some(error)) if is_null(error) => (Some(result), None),
            (Some(result), Some(error)) if is_null(result) => (None, Some(error)),
            both => both,
        };
        let reply = match (result, error) {
            (Some(result), None) => Reply::Result(raw(result)),
            (None, Some(error)) if error.starts_with('{') => Reply::Error(raw(error)),
            (None, Some(_)) => return refuse("\"error\" is not an object".into()),
            (Some(_), Some(_)) => return refuse("a \"result\" and an \"error\" together".into()),
            (None, None) => return refuse("none of \"method\", \"result\" and \"error\"".into()),
        };
        Ok(Message::Response(Response { id, reply }))
    }
}

/// The text of a JSON string: a slice of the body, or a new string where it has escapes.
fn method_text(text: &ByteString, value: &str) -> Option<ByteString> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str::<String>(value).ok().map(Into::into)
    } else {
        Some(text.slice_ref(inner))
    }
}
