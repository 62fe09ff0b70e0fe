//! What is mirrored from a request's body into its headers, and into its `_meta`: `2026-07-28` on.

use crate::jsonrpc::Raw;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use thiserror::Error;

const ANNOTATION: &str = "x-mcp-header";
const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";
/// Integers that every JSON reader keeps exactly.
const SAFE: i64 = (1 << 53) - 1;

/// Which arguments of a tool are mirrored into headers: its `x-mcp-header` annotations, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderPlan {
    params: Vec<(Vec<String>, HeaderName)>,
}

/// Why a tool cannot be used over HTTP: its `x-mcp-header` annotations break the rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The name is empty, or no part of a header's name.
    #[error("x-mcp-header {name:?} is no name of a header")]
    BadName {
        /// The annotation.
        name: String,
    },
    /// The annotation is no string.
    #[error("x-mcp-header is not a string")]
    NoString,
    /// Two parameters have the same name, whatever the case.
    #[error("x-mcp-header {name:?} stands twice")]
    Twice {
        /// The annotation.
        name: String,
    },
    /// The parameter is no string, integer or boolean.
    #[error("x-mcp-header {name:?} is on a parameter that is no string, integer or boolean")]
    BadType {
        /// The annotation.
        name: String,
    },
    /// The annotation stands where no chain of `properties` leads.
    #[error("x-mcp-header stands where it cannot be reached through `properties` alone")]
    Unreachable,
}

impl HeaderPlan {
    /// Reads the annotations of a tool's `inputSchema`. Nothing is fetched, whatever `$ref` says.
    ///
    /// # Errors
    /// When an annotation breaks a rule: such a tool is left out of the list.
    pub fn of_schema(schema: &Raw) -> Result<Self, PlanError> {
        if !schema.as_str().contains(ANNOTATION) && !schema.as_str().contains("\\u") {
            return Ok(Self::default());
        }
        let schema: Value = schema.to().unwrap_or_default();
        let mut plan = Self::default();
        let mut seen = BTreeSet::new();
        plan.walk(&schema, Some(&mut Vec::new()), &mut seen)?;
        Ok(plan)
    }

    /// Whether nothing is mirrored.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// The headers for these arguments: none for what is absent or null.
    #[must_use]
    pub fn headers(&self, arguments: Option<&Raw>) -> Vec<(HeaderName, HeaderValue)> {
        let Some(arguments) = arguments.filter(|_| !self.is_empty()) else { return Vec::new() };
        let arguments: Value = arguments.to().unwrap_or_default();
        let value_of = |path: &[String]| path.iter().try_fold(&arguments, |value, step| value.get(step));
        self.params
            .iter()
            .filter_map(|(path, name)| {
                let text = match value_of(path)? {
                    Value::String(text) => text.clone(),
                    Value::Bool(flag) => flag.to_string(),
                    Value::Number(number) => decimal(number),
                    _ => return None,
                };
                Some((name.clone(), encode_value(&text)))
            })
            .collect()
    }

    /// `path`: the chain of `properties` that leads here; `None` where there is none.
    fn walk(
        &mut self,
        schema: &Value,
        mut path: Option<&mut Vec<String>>,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), PlanError> {
        let Value::Object(members) = schema else { return Ok(()) };
        if let Some(annotation) = members.get(ANNOTATION) {
            let Some(path) = path.as_deref().filter(|path| !path.is_empty()) else {
                return Err(PlanError::Unreachable);
            };
            self.add(annotation, members, path, seen)?;
        }
        for (key, value) in members {
            match (&**key, value) {
                // Data, not schemas.
                ("default" | "const" | "enum" | "examples" | ANNOTATION, _) => {}
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        match path.as_deref_mut() {
                            Some(path) => {
                                path.push(name.clone());
                                self.walk(property, Some(path), seen)?;
                                path.pop();
                            }
                            None => self.walk(property, None, seen)?,
                        }
                    }
                }
                (
                    "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                    Value::Object(schemas),
                ) => {
                    for schema in schemas.values() {
                        self.walk(schema, None, seen)?;
                    }
                }
                (_, Value::Array(schemas)) => {
                    for schema in schemas {
                        self.walk(schema, None, seen)?;
                    }
                }
                (_, schema) => self.walk(schema, None, seen)?,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        path: &[String],
        seen: &mut BTreeSet<String>,
    ) -> Result<(), PlanError> {
        let Value::String(name) = annotation else { return Err(PlanError::NoString) };
        if name.is_empty() {
            return Err(PlanError::BadName { name: name.clone() });
        }
        let Ok(header) = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()) else {
            return Err(PlanError::BadName { name: name.clone() });
        };
        if !is_primitive(schema.get("type")) {
            return Err(PlanError::BadType { name: name.clone() });
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(PlanError::Twice { name: name.clone() });
        }
        self.params.push((path.to_vec(), header));
        Ok(())
    }
}

/// A string, an integer or a boolean; or null beside one of them.
fn is_primitive(kind: Option<&Value>) -> bool {
    let primitive = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let others: Vec<_> = kinds.iter().filter(|kind| kind.as_str() != Some("null")).collect();
            matches!(&*others, [one] if primitive(one))
        }
        Some(kind) => primitive(kind),
        None => false,
    }
}

/// The decimal text of a number: `42` for `42.0`, since the parameter is an integer.
fn decimal(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.as_i64().is_none() && float.fract() == 0.0 && float.abs() <= SAFE as f64 => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

/// A value as a header can carry it: plain where it is printable ASCII without blanks at its ends, else Base64 between
/// `=?base64?` and `?=`, which plain text that looks like that gets too.
#[must_use]
pub fn encode_value(text: &str) -> HeaderValue {
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7E)) && !is_padded && !looks_encoded;
    let encoded = if plain { text.to_owned() } else { format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)) };
    // Printable ASCII either way.
    HeaderValue::from_str(&encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The value of `Mcp-Name` for a request, before it is encoded.
#[must_use]
pub fn mirrored_name(method: &str, params: Option<&Raw>) -> Option<String> {
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    params?.member(member)?.string()
}

/// Parameters with the `_meta` that every modern request has; members of `_meta` that are there already stay.
#[must_use]
pub fn request_meta(
    params: Option<&Raw>,
    revision: &str,
    client_info: &Raw,
    capabilities: &Raw,
    log_level: Option<&str>,
) -> Raw {
    let params = params.cloned().unwrap_or_else(Raw::empty_object);
    let text = |text: &str| Raw::from_trusted(Value::from(text).to_string().into());
    let mut meta = params.member("_meta").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    let mut set = |name: &str, value: &Raw| {
        if let Some(changed) = meta.with_member(name, value) {
            meta = changed;
        }
    };
    if let Some(level) = log_level {
        set("io.modelcontextprotocol/logLevel", &text(level));
    }
    set("io.modelcontextprotocol/clientCapabilities", capabilities);
    set("io.modelcontextprotocol/clientInfo", client_info);
    set("io.modelcontextprotocol/protocolVersion", &text(revision));
    params.with_member("_meta", &meta).unwrap_or(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn plan(properties: &Value) -> Result<HeaderPlan, PlanError> {
        HeaderPlan::of_schema(
            &Raw::from_value(&json!({ "type": "object", "properties": properties })).unwrap(),
        )
    }

    #[test]
    fn values_are_mirrored_as_the_table_of_the_specification_says() {
        for (value, expected) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("a b", "a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\tb", "=?base64?YQli?="),
        ] {
            assert_eq!(encode_value(value), expected, "{value:?}");
        }
    }

    #[test]
    fn annotated_arguments_and_no_others() {
        let plan = plan(&json!({
            "region": { "type": "string", "x-mcp-header": "Region" },
            "n": { "type": "integer", "x-mcp-header": "N" },
            "flag": { "type": ["boolean", "null"], "x-mcp-header": "Flag" },
            "deep": { "type": "object", "properties": { "er": { "type": "string", "x-mcp-header": "Deeper" } } },
            "query": { "type": "string", "default": { "x-mcp-header": "data" } },
            "x-mcp-header": { "type": "string" },
        }))
        .unwrap();
        let arguments =
            json!({ "region": "x", "n": 42.0, "flag": null, "deep": { "er": "y" }, "query": "q" });
        let headers = plan.headers(Some(&Raw::from_value(&arguments).unwrap()));
        let mut headers: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        headers.sort();
        assert_eq!(headers, ["mcp-param-deeper: y", "mcp-param-n: 42", "mcp-param-region: x"]);
    }

    #[test]
    fn bad_definitions_are_refused() {
        let with = |kind: Value, name: Value| plan(&json!({ "p": { "type": kind, "x-mcp-header": name } }));
        for name in ["", "a b", "a:b", "é", "a\r\nb", "a\u{1}"] {
            assert_eq!(with(json!("string"), json!(name)), Err(PlanError::BadName { name: name.into() }));
        }
        for kind in [
            json!("number"),
            json!("object"),
            json!("array"),
            json!("null"),
            json!(null),
            json!(["string", "integer"]),
        ] {
            assert_eq!(with(kind, json!("A")), Err(PlanError::BadType { name: "A".into() }));
        }
        assert_eq!(with(json!("string"), json!(1)), Err(PlanError::NoString));
        let twice = plan(&json!({
            "a": { "type": "string", "x-mcp-header": "Same" },
            "b": { "type": "string", "x-mcp-header": "sAME" },
        }));
        assert!(matches!(twice, Err(PlanError::Twice { .. })));
        let annotated = json!({ "type": "string", "x-mcp-header": "A" });
        for unreachable in [
            json!({ "a": { "type": "array", "items": annotated } }),
            json!({ "a": { "anyOf": [annotated] } }),
            json!({ "a": { "not": { "properties": { "b": annotated } } } }),
        ] {
            assert_eq!(plan(&unreachable), Err(PlanError::Unreachable));
        }
        let root = Raw::from_value(&json!({ "type": "object", "x-mcp-header": "A" })).unwrap();
        assert_eq!(HeaderPlan::of_schema(&root), Err(PlanError::Unreachable));
    }

    #[test]
    fn meta_is_added_and_what_was_there_stays() {
        let params = Raw::from_value(&json!({ "name": "x", "_meta": { "progressToken": 1 } })).unwrap();
        let info = Raw::from_value(&json!({ "name": "c", "version": "1" })).unwrap();
        let params = request_meta(Some(&params), "2026-07-28", &info, &Raw::empty_object(), Some("info"));
        let meta: Value = params.member("_meta").unwrap().to().unwrap();
        assert_eq!(
            meta,
            json!({
                "progressToken": 1,
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/logLevel": "info",
            })
        );
        assert_eq!(mirrored_name("tools/call", Some(&params)).as_deref(), Some("x"));
        assert_eq!(mirrored_name("tools/list", Some(&params)), None);
    }

    proptest! {
        #[test]
        fn every_value_comes_back(text in ".*") {
            let value = encode_value(&text);
            let sent = value.to_str().unwrap();
            let inner = sent.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
            let back = inner.map_or_else(|| sent.as_bytes().to_vec(), |inner| STANDARD.decode(inner).unwrap());
            prop_assert_eq!(back, text.as_bytes());
        }
    }
}
