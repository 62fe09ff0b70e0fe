//! Parameters of a tool that are repeated in headers: `x-mcp-header` in its input schema, `Mcp-Param-*` on its calls.

use super::{request::single, sentinel};
use crate::jsonrpc::Raw;
use http::{HeaderMap, HeaderName};
use serde_json::Value;

/// The keyword of an input schema that names the header of a property.
pub const X_MCP_HEADER: &str = "x-mcp-header";

const PREFIX: &str = "Mcp-Param-";

/// The largest integer that every client can say exactly: 2^53 - 1.
const MAX_SAFE: i64 = (1 << 53) - 1;

/// How deep a schema is looked into.
const MAX_DEPTH: usize = 128;

/// A property of a tool's input that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderParam {
    header: HeaderName,
    said: Box<str>,
    path: Box<[Box<str>]>,
}

impl HeaderParam {
    /// The name of the header as the tool's author wrote it.
    #[must_use]
    pub fn header(&self) -> &str {
        &self.said
    }

    /// Whether something on the way to the argument stands twice: the tool may take the other one.
    fn is_ambiguous(&self, arguments: Option<&Raw>) -> bool {
        let mut found = arguments.cloned();
        for step in &self.path {
            let Some(members) = found.and_then(|object| object.members()) else { return false };
            let mut those = members.into_iter().filter(|(name, _)| **name == **step);
            found = those.next().map(|(_, value)| value);
            if those.next().is_some() {
                return true;
            }
        }
        false
    }

    fn value(&self, arguments: Option<&Raw>) -> Option<Value> {
        let mut found = arguments?.clone();
        for step in &self.path {
            found = found.member(step)?;
        }
        found.to().ok().filter(|value| *value != Value::Null)
    }
}

/// The annotated properties of an input schema, in the order of the schema.
///
/// # Errors
/// What is wrong with an annotation, for the tool's author: the name of a header that is none or is used twice, a property that is
/// no string, integer or boolean, or one that is not reached by `properties` alone.
pub fn collect(schema: &Value) -> Result<Vec<HeaderParam>, String> {
    let mut found: Vec<HeaderParam> = Vec::new();
    if schema.get(X_MCP_HEADER).is_some() {
        return Err(format!("{X_MCP_HEADER} belongs on a property, not on the schema itself"));
    }
    walk(schema, &mut Vec::new(), true, 0, &mut found)?;
    Ok(found)
}

fn walk(
    schema: &Value,
    path: &mut Vec<Box<str>>,
    reachable: bool,
    depth: usize,
    found: &mut Vec<HeaderParam>,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("the schema is nested deeper than {MAX_DEPTH} levels"));
    }
    match schema {
        Value::Array(schemas) => {
            schemas.iter().try_for_each(|inner| walk(inner, path, false, depth + 1, found))
        }
        Value::Object(members) => {
            if let Some(name) = members.get(X_MCP_HEADER).filter(|_| !path.is_empty() || !reachable) {
                if !reachable {
                    return Err(format!(
                        "{X_MCP_HEADER} {name} is on something that is not reached by \"properties\" alone"
                    ));
                }
                annotate(name, members.get("type"), path, found)?;
            }
            for (keyword, inner) in members {
                match keyword.as_str() {
                    // Values, not schemas.
                    "const" | "default" | "enum" | "examples" | X_MCP_HEADER => {}
                    // The names in these maps are no keywords.
                    "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                        let reachable = reachable && keyword == "properties";
                        for (name, inner) in inner.as_object().into_iter().flatten() {
                            path.push(name.as_str().into());
                            walk(inner, path, reachable, depth + 1, found)?;
                            path.pop();
                        }
                    }
                    _ => walk(inner, path, false, depth + 1, found)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn annotate(
    name: &Value,
    kind: Option<&Value>,
    path: &[Box<str>],
    found: &mut Vec<HeaderParam>,
) -> Result<(), String> {
    let property = path.join(".");
    let Some(said) = name.as_str() else {
        return Err(format!("{X_MCP_HEADER} of {property:?} has to be a string"));
    };
    // What is a token is also the rest of a header's name; what is none (a blank, a colon, nothing at all) is not.
    let name = Some(said).filter(|said| !said.is_empty()).map(|said| format!("{PREFIX}{said}"));
    let header = name
        .and_then(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .ok_or_else(|| format!("{X_MCP_HEADER} {said:?} of {property:?} is no name of a header"))?;
    if found.iter().any(|other| other.header == header) {
        return Err(format!("{X_MCP_HEADER} {said:?} is used twice (names differ not only by case)"));
    }
    let primitive = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    let allowed = match kind {
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter(|kind| kind.as_str() != Some("null"));
            kinds.next().is_some_and(primitive) && kinds.next().is_none()
        }
        Some(kind) => primitive(kind),
        None => false,
    };
    if !allowed {
        return Err(format!(
            "{X_MCP_HEADER} {said:?}: {property:?} has to be a string, an integer or a boolean"
        ));
    }
    found.push(HeaderParam { header, said: said.into(), path: path.into() });
    Ok(())
}

/// Checks the headers of a call against its arguments. Headers that no property is repeated in are not looked at.
///
/// # Errors
/// What does not agree, for the sender (-32020).
pub fn check(params: &[HeaderParam], headers: &HeaderMap, arguments: Option<&Raw>) -> Result<(), String> {
    for param in params {
        let name = &param.said;
        let said = single(headers, &param.header)?;
        let said = said.map(sentinel::decode).transpose().map_err(|why| format!("{PREFIX}{name}: {why}"))?;
        if param.is_ambiguous(arguments) {
            return Err(format!("{PREFIX}{name}: its argument stands twice"));
        }
        let value = param.value(arguments);
        let agrees = match (&said, &value) {
            (None, None) => true,
            (Some(said), Some(value)) => says(said, value),
            // What cannot be repeated is refused by the schema.
            (None, Some(value)) => value.is_array() || value.is_object(),
            (Some(_), None) => false,
        };
        if !agrees {
            let what = match (said, value) {
                (None, _) => "is missing, but its argument is there",
                (Some(_), None) => "is there, but its argument is not",
                (Some(_), Some(_)) => "is not its argument",
            };
            return Err(format!("{PREFIX}{name} {what}"));
        }
    }
    Ok(())
}

/// The headers that repeat `arguments`: for whoever sends a call.
#[must_use]
pub fn headers_for(params: &[HeaderParam], arguments: Option<&Raw>) -> Vec<(String, String)> {
    let header = |param: &HeaderParam| {
        let text = match param.value(arguments)? {
            Value::String(text) => text,
            Value::Bool(flag) => flag.to_string(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((format!("{PREFIX}{}", param.said), sentinel::encode(&text).into_owned()))
    };
    params.iter().filter_map(header).collect()
}

fn says(said: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => said == text,
        Value::Bool(flag) => said == if *flag { "true" } else { "false" },
        Value::Number(number) => {
            let text = number.to_string();
            said == text || integer(said).is_some_and(|said| Some(said) == integer(&text))
        }
        _ => false,
    }
}

/// The integer that a decimal text stands for: `42`, `-7`, `42.0`, `4.2e1`; only where it is exact.
fn integer(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')) {
        return None;
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(number);
    }
    let number: f64 = text.parse().ok()?;
    // Below 2^53 every integer is exact, and the conversion is too.
    (number.fract() == 0.0 && number.abs() <= MAX_SAFE as f64).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde_json::json;

    fn names(schema: &Value) -> Result<Vec<String>, String> {
        collect(schema).map(|found| found.iter().map(|param| param.said.to_string()).collect())
    }

    #[allow(clippy::needless_pass_by_value, reason = "tables are written with json!")]
    fn with(kind: Value, header: Value) -> Value {
        json!({ "type": "object", "properties": { "a": { "type": kind, X_MCP_HEADER: header } } })
    }

    #[test]
    fn annotations_are_found_along_properties() {
        let schema = json!({
            "type": "object",
            "properties": {
                "region": { "type": "string", X_MCP_HEADER: "Region" },
                "query": { "type": "string" },
                "where": { "type": "object", "properties": { "id": { "type": "integer", X_MCP_HEADER: "Id" } } },
                // A property of that name is none of ours.
                X_MCP_HEADER: { "type": "string", "default": { X_MCP_HEADER: "x" } },
            },
        });
        assert_eq!(names(&schema).unwrap(), ["Region", "Id"]);
        assert!(names(&json!({ "type": "object" })).unwrap().is_empty());
        assert!(names(&json!(true)).unwrap().is_empty());
        assert_eq!(names(&with(json!(["string", "null"]), json!("A"))).unwrap(), ["A"]);
    }

    #[test]
    fn wrong_annotations_are_mistakes_of_the_author() {
        let text = || json!("string");
        for (schema, why) in [
            (with(text(), json!("")), "no name"),
            (with(text(), json!("My Region")), "no name"),
            (with(text(), json!("Region:Primary")), "no name"),
            (with(text(), json!("Région")), "no name"),
            (with(text(), json!("a\r\nb")), "no name"),
            (with(text(), json!(7)), "has to be a string"),
            (with(json!("number"), json!("A")), "has to be a string, an integer"),
            (with(json!("object"), json!("A")), "has to be a string, an integer"),
            (with(json!("array"), json!("A")), "has to be a string, an integer"),
            (with(json!("null"), json!("A")), "has to be a string, an integer"),
            (with(json!(["string", "integer"]), json!("A")), "has to be a string, an integer"),
            (json!({ "properties": { "a": { X_MCP_HEADER: "A" } } }), "has to be a string, an integer"),
            (
                json!({ "properties": {
                    "a": { "type": "string", X_MCP_HEADER: "Same" },
                    "b": { "type": "string", X_MCP_HEADER: "sAME" },
                } }),
                "used twice",
            ),
            (json!({ "type": "object", X_MCP_HEADER: "A" }), "not on the schema itself"),
            (
                json!({ "properties": { "l": { "type": "array", "items": { "type": "string", X_MCP_HEADER: "A" } } } }),
                "not reached",
            ),
            (
                json!({ "anyOf": [{ "properties": { "a": { "type": "string", X_MCP_HEADER: "A" } } }] }),
                "not reached",
            ),
            (
                json!({ "if": { "properties": { "a": { "type": "string", X_MCP_HEADER: "A" } } } }),
                "not reached",
            ),
            (json!({ "$defs": { "d": { "type": "string", X_MCP_HEADER: "A" } } }), "not reached"),
            (
                json!({ "properties": { "a": { "not": { "type": "string", X_MCP_HEADER: "A" } } } }),
                "not reached",
            ),
            (
                json!({ "$defs": { "d": { "properties": { "a": { "type": "string", X_MCP_HEADER: "A" } } } } }),
                "not reached",
            ),
        ] {
            let error = names(&schema).unwrap_err();
            assert!(error.contains(why), "{schema}: {error}");
        }
    }

    fn params() -> Vec<HeaderParam> {
        collect(&json!({ "properties": {
            "s": { "type": "string", X_MCP_HEADER: "Value" },
            "i": { "type": "integer", X_MCP_HEADER: "Count" },
            "b": { "type": "boolean", X_MCP_HEADER: "Flag" },
            "o": { "properties": { "d": { "type": "string", X_MCP_HEADER: "Deep" } } },
        } }))
        .unwrap()
    }

    fn agrees(lines: &[(&'static str, &str)], arguments: &Value) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        check(&params(), &headers, Some(&Raw::from_value(arguments).unwrap())).is_ok()
    }

    #[test]
    fn headers_say_what_the_arguments_say() {
        let (s, i, b, d) = ("mcp-param-value", "mcp-param-count", "mcp-param-flag", "mcp-param-deep");
        for (lines, arguments, expected) in [
            (&[][..], json!({}), true),
            (&[("mcp-param-other", "x")], json!({}), true),
            (&[(s, "x")], json!({ "s": "x" }), true),
            (&[(s, "Hello")], json!({ "s": "hello" }), false),
            (&[(s, "=?base64?SGVsbG8=?=")], json!({ "s": "Hello" }), true),
            (&[(s, "SGVsbG8=")], json!({ "s": "SGVsbG8=" }), true),
            (&[(s, "=?base64?SGVsbG8=")], json!({ "s": "=?base64?SGVsbG8=" }), true),
            (&[(s, "=?base64?SGVsbG8?=")], json!({ "s": "Hello" }), false),
            (&[(s, "=?base64?SGVs!!!bG8=?=")], json!({ "s": "Hello" }), false),
            (&[(s, "ö")], json!({ "s": "ö" }), false),
            (&[(s, "")], json!({ "s": "" }), true),
            (&[], json!({ "s": "x" }), false),
            (&[], json!({ "s": null }), true),
            (&[(s, "x")], json!({ "s": null }), false),
            (&[(s, "x")], json!({}), false),
            (&[(s, "x"), (s, "x")], json!({ "s": "x" }), true),
            (&[(s, "x"), (s, "y")], json!({ "s": "x" }), false),
            (&[(i, "42")], json!({ "i": 42 }), true),
            (&[(i, "42.0")], json!({ "i": 42 }), true),
            (&[(i, "42")], json!({ "i": 42.0 }), true),
            (&[(i, "-7")], json!({ "i": -7 }), true),
            (&[(i, "042")], json!({ "i": 42 }), true),
            (&[(i, "42.5")], json!({ "i": 42 }), false),
            (&[(i, "43")], json!({ "i": 42 }), false),
            (&[(i, "inf")], json!({ "i": 42 }), false),
            (&[(i, "9007199254740993")], json!({ "i": 9_007_199_254_740_993_i64 }), true),
            (&[(i, "9007199254740992.0")], json!({ "i": 9_007_199_254_740_993_i64 }), false),
            (&[(b, "true")], json!({ "b": true }), true),
            (&[(b, "True")], json!({ "b": true }), false),
            (&[(b, "false")], json!({ "b": true }), false),
            (&[(d, "x")], json!({ "o": { "d": "x" } }), true),
            (&[], json!({ "o": { "d": "x" } }), false),
            (&[], json!({ "o": 7 }), true),
            (&[], json!({ "s": ["of another kind"] }), true),
        ] {
            assert_eq!(agrees(lines, &arguments), expected, "{lines:?} {arguments}");
        }
    }

    #[test]
    fn an_argument_that_stands_twice_is_refused() {
        let told = |name: &'static str, arguments: &'static str| {
            let mut headers = HeaderMap::new();
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
            check(&params(), &headers, Some(&Raw::parse(arguments).unwrap())).is_ok()
        };
        assert!(told("mcp-param-value", r#"{"s":"x"}"#));
        assert!(!told("mcp-param-value", r#"{"s":"x","s":"y"}"#));
        assert!(told("mcp-param-deep", r#"{"o":{"d":"x"}}"#));
        assert!(!told("mcp-param-deep", r#"{"o":{"d":"x"},"o":{"d":"y"}}"#));
        assert!(!told("mcp-param-deep", r#"{"o":{"d":"x","d":"y"}}"#));
        // What no header repeats is the tool's own matter.
        assert!(told("mcp-param-deep", r#"{"a":1,"a":2,"o":{"d":"x","e":1,"e":2}}"#));
    }

    #[test]
    fn what_is_sent_is_what_is_taken() {
        for arguments in [
            json!({ "s": " padded ", "i": -3, "b": false, "o": { "d": "größe" } }),
            json!({ "s": "=?base64?literal?=", "i": null }),
            json!({}),
        ] {
            let raw = Raw::from_value(&arguments).unwrap();
            let mut headers = HeaderMap::new();
            for (name, value) in headers_for(&params(), Some(&raw)) {
                headers.append(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_str(&value).unwrap(),
                );
            }
            check(&params(), &headers, Some(&raw)).unwrap();
        }
    }
}
