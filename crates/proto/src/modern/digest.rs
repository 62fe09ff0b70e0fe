//! Which request a request is, its id apart: what `requestState` is bound to.

use super::header_name_of;
use crate::jsonrpc::Raw;
use blake3::Hasher;
use serde_json::Value;

/// The method, the name (or URI) and the arguments of a request. Two requests that differ in the order of members, in blanks or in
/// escapes only are the same; so are arguments that are absent, `null` or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// The digest of a request.
    #[must_use]
    pub fn of(method: &str, params: Option<&Raw>) -> Self {
        let mut hasher = Hasher::new_derive_key("bowline 2026-07 request digest");
        text(&mut hasher, b'm', method);
        let member = |name: &str| params.and_then(|params| params.member(name));
        if let Some(name) = header_name_of(method).and_then(member) {
            value(&mut hasher, &name.to().unwrap_or_default());
        }
        let arguments: Value = member("arguments").and_then(|raw| raw.to().ok()).unwrap_or_default();
        match &arguments {
            Value::Object(members) if members.is_empty() => value(&mut hasher, &Value::Null),
            arguments => value(&mut hasher, arguments),
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The bytes of the digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Length before bytes, a letter before each kind: no two values give the same input.
fn text(hasher: &mut Hasher, kind: u8, text: &str) {
    hasher.update(&[kind]);
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

/// Nesting is bounded by the parser ([`crate::jsonrpc::MAX_DEPTH`]).
fn value(hasher: &mut Hasher, found: &Value) {
    match found {
        Value::Null => drop(hasher.update(b"0")),
        Value::Bool(flag) => drop(hasher.update(if *flag { b"t" } else { b"f" })),
        Value::Number(number) => text(hasher, b'n', &number.to_string()),
        Value::String(string) => text(hasher, b's', string),
        Value::Array(items) => {
            hasher.update(b"[");
            hasher.update(&(items.len() as u64).to_le_bytes());
            items.iter().for_each(|item| value(hasher, item));
        }
        Value::Object(members) => {
            hasher.update(b"{");
            hasher.update(&(members.len() as u64).to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            for (name, inner) in members {
                text(hasher, b'k', name);
                value(hasher, inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, params: &str) -> RequestDigest {
        RequestDigest::of(method, Some(&Raw::parse(params.to_owned()).unwrap()))
    }

    #[test]
    fn the_same_request_has_the_same_digest() {
        let digest = of("tools/call", r#"{"name":"t","arguments":{"a":1,"b":[true,"x"]}}"#);
        for same in [
            r#"{"arguments":{"b":[true,"\u0078"],"a":1},"name":"t"}"#,
            r#"{ "name" : "t", "arguments" : { "a" : 1, "b" : [ true, "x" ] }, "_meta": {}, "inputResponses": {} }"#,
        ] {
            assert_eq!(of("tools/call", same), digest, "{same}");
        }
        for none in [r#"{"name":"t"}"#, r#"{"name":"t","arguments":null}"#, r#"{"name":"t","arguments":{}}"#]
        {
            assert_eq!(of("tools/call", none), of("tools/call", r#"{"name":"t"}"#));
        }
    }

    #[test]
    fn another_request_has_another() {
        let all = [
            of("tools/call", r#"{"name":"t"}"#),
            of("prompts/get", r#"{"name":"t"}"#),
            of("tools/call", r#"{"name":"u"}"#),
            of("tools/call", r#"{"name":"t","arguments":{"a":1}}"#),
            of("tools/call", r#"{"name":"t","arguments":{"a":"1"}}"#),
            of("tools/call", r#"{"name":"t","arguments":{"a":[1]}}"#),
            of("tools/call", r#"{"name":"t","arguments":{"a":{"b":1}}}"#),
            of("tools/call", r#"{"name":"t","arguments":{"a":null}}"#),
            of("resources/read", r#"{"uri":"t"}"#),
            of("resources/read", r#"{"uri":"u"}"#),
            RequestDigest::of("tools/call", None),
        ];
        for (at, digest) in all.iter().enumerate() {
            assert!(!all[..at].contains(digest), "{at}");
        }
    }
}
