//! Progress tokens of calls that share a process with other clients' calls.

use std::fmt;

use bowline_proto::jsonrpc::{ErrorObject, Raw, code};
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// `params` with the progress token replaced by `token`, where there is one.
///
/// # Errors
/// When `_meta` or the token stands twice: a server might take the one that was not replaced, and with it the progress
/// of another client's call.
pub(crate) fn with_token(params: Option<&Raw>, token: u64) -> Result<Option<Raw>, ErrorObject> {
    let Some(params) = params else { return Ok(None) };
    let once = |object: &Raw, name: &'static str| match count(object.as_str(), name) {
        0 => Ok(None),
        1 => Ok(object.member(name)),
        _ => Err(ErrorObject::new(
            code::INVALID_PARAMS,
            format!("the member \"{name}\" of params stands twice"),
        )),
    };
    let Some(meta) = once(params, "_meta")?.filter(Raw::is_object) else { return Ok(Some(params.clone())) };
    if once(&meta, "progressToken")?.is_none() {
        return Ok(Some(params.clone()));
    }
    let token = Raw::from_trusted(token.to_string().into());
    let replaced =
        meta.with_member("progressToken", &token).and_then(|meta| params.with_member("_meta", &meta));
    Ok(Some(replaced.unwrap_or_else(|| params.clone())))
}

/// How often a member stands in an object.
fn count(object: &str, name: &str) -> usize {
    struct Count<'a>(&'a str);
    impl<'de> Visitor<'de> for Count<'_> {
        type Value = usize;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
            let mut found = 0;
            while let Some(key) = map.next_key::<String>()? {
                found += usize::from(key == self.0);
                map.next_value::<IgnoredAny>()?;
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(object).deserialize_map(Count(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(params: &str) -> Result<String, i64> {
        let params = Raw::parse(params.to_owned()).unwrap();
        with_token(Some(&params), 42)
            .map(|params| params.unwrap().as_str().to_owned())
            .map_err(|error| error.code)
    }

    #[test]
    fn only_the_token_is_touched() {
        for (before, after) in [
            (r#"{"a": 1.50}"#, r#"{"a": 1.50}"#),
            (r#"{"_meta":{"x":1},"a":1}"#, r#"{"_meta":{"x":1},"a":1}"#),
            (
                r#"{"_meta":{"progressToken":"t","x":1},"a":1}"#,
                r#"{"_meta":{"progressToken":42,"x":1},"a":1}"#,
            ),
            // What is no token may become one on the way through a server's numbers.
            (r#"{"_meta":{"progressToken":7.0}}"#, r#"{"_meta":{"progressToken":42}}"#),
            (r#"{"_met\u0061":{"progressToken":7}}"#, r#"{"_met\u0061":{"progressToken":42}}"#),
            (r#"{"_meta":7}"#, r#"{"_meta":7}"#),
        ] {
            assert_eq!(replaced(before).unwrap(), after, "{before}");
        }
        assert_eq!(with_token(None, 42).unwrap(), None);
    }

    #[test]
    fn twins_are_refused() {
        assert_eq!(replaced(r#"{"_meta":{},"_meta":{"progressToken":7}}"#), Err(-32602));
        assert_eq!(replaced(r#"{"_meta":{"progressToken":1,"progressToken":7}}"#), Err(-32602));
        assert_eq!(replaced(r#"{"_meta":{},"_met\u0061":{"progressToken":7}}"#), Err(-32602));
    }
}
