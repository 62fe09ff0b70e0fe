//! JSON Schemas: of types, or given by hand and kept as they came.

use bowline_proto::jsonrpc::Raw;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// A JSON Schema (2020-12): text that leaves as it came, or what a type says.
#[derive(Clone, Debug)]
pub struct Schema(Result<Raw, String>);

impl Schema {
    /// The schema that `T` is read by.
    #[must_use]
    pub fn of_input<T: JsonSchema>() -> Self {
        Self::of::<T>(SchemaSettings::draft2020_12().for_deserialize())
    }

    /// The schema that `T` is written by.
    #[must_use]
    pub fn of_output<T: JsonSchema>() -> Self {
        Self::of::<T>(SchemaSettings::draft2020_12().for_serialize())
    }

    fn of<T: JsonSchema>(settings: SchemaSettings) -> Self {
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self(Raw::from_value(&schema).map_err(|error| error.to_string()))
    }

    /// Whether it says nothing at all, as that of [`serde_json::Value`] does.
    pub(crate) fn is_open(&self) -> bool {
        let members = self.0.as_ref().ok().map(|raw| raw.members().unwrap_or_default());
        members.is_some_and(|members| members.iter().all(|(name, _)| name == "$schema" || name == "title"))
    }

    /// The text of an object schema.
    ///
    /// # Errors
    /// What is wrong with it, for the author of the server.
    pub(crate) fn into_object_schema(self) -> Result<Raw, String> {
        let raw = self.0?;
        if !raw.is_object() {
            return Err("the schema is not a JSON object".into());
        }
        match raw.member("type").and_then(|kind| kind.string()).as_deref() {
            Some("object") => Ok(raw),
            Some(other) => Err(format!("the schema is for \"type\": {other:?}; it has to be \"object\"")),
            None => Err(
                "the schema has no \"type\": \"object\" at its root; take a struct, or give a schema by hand"
                    .into(),
            ),
        }
    }
}

impl From<&str> for Schema {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Schema {
    fn from(text: String) -> Self {
        Self(Raw::parse(text).map_err(|error| format!("the schema is not JSON: {error}")))
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        value.to_string().into()
    }
}

impl From<Raw> for Schema {
    fn from(raw: Raw) -> Self {
        Self(Ok(raw))
    }
}

/// The schema of a form: flat properties of primitive types, as elicitation defines them.
///
/// # Errors
/// Which property no form can have.
pub(crate) fn of_form<T: JsonSchema>() -> Result<Value, String> {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Some(Value::Object(properties)) = schema.get("properties") else {
        return Err("a form is a struct with named fields".into());
    };
    let mut form = Map::new();
    let mut required: Vec<Value> =
        schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, property) in properties {
        let Value::Object(property) = property else {
            return Err(format!(
                "the field {name:?} of the form can be anything; a form asks for text, numbers, booleans and choices"
            ));
        };
        let property = field(property).ok_or_else(|| {
            format!("the field {name:?} is too deep for a form, which asks for text, numbers, booleans and choices")
        })?;
        if property.optional {
            required.retain(|required| required != name);
        }
        form.insert(name.clone(), Value::Object(property.schema));
    }
    let mut root = Map::new();
    root.insert("type".into(), "object".into());
    root.insert("properties".into(), form.into());
    if !required.is_empty() {
        root.insert("required".into(), required.into());
    }
    Ok(root.into())
}

struct Field {
    schema: Map<String, Value>,
    optional: bool,
}

/// One field of a form, without what the protocol does not define for it.
fn field(property: &Map<String, Value>) -> Option<Field> {
    // What an `Option` says: `type` with "null" beside the real one, or `anyOf` with a null in it.
    let mut property = property.clone();
    let mut optional = false;
    if let Some(Value::Array(branches)) = property.remove("anyOf") {
        let is_null = |branch: &Value| branch.get("type").is_some_and(|kind| kind == "null");
        let mut real = branches.iter().filter(|branch| !is_null(branch));
        let (Some(Value::Object(only)), None) = (real.next(), real.next()) else { return None };
        optional = branches.len() > 1;
        for (name, value) in only {
            property.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    if let Some(Value::Array(kinds)) = property.get("type").cloned() {
        let mut real = kinds.iter().filter(|kind| *kind != "null");
        let (Some(only), None) = (real.next(), real.next()) else { return None };
        optional = kinds.len() > 1;
        property.insert("type".into(), only.clone());
        if let Some(Value::Array(choices)) = property.get_mut("enum") {
            choices.retain(|choice| !choice.is_null());
        }
    }
    if property.get("default").is_some_and(Value::is_null) {
        property.remove("default");
    }
    choices(&mut property)?;
    let kind = property.get("type")?.as_str()?.to_owned();
    let keeps: &[&str] = match kind.as_str() {
        "string" if property.contains_key("oneOf") => &["type", "title", "description", "oneOf", "default"],
        "string" if property.contains_key("enum") => &["type", "title", "description", "enum", "default"],
        "string" => &["type", "title", "description", "minLength", "maxLength", "format", "default"],
        "number" | "integer" => &["type", "title", "description", "minimum", "maximum", "default"],
        "boolean" => &["type", "title", "description", "default"],
        "array" => &["type", "title", "description", "minItems", "maxItems", "items", "default"],
        _ => return None,
    };
    if kind == "array" {
        let Some(Value::Object(items)) = property.get_mut("items") else { return None };
        choices(items)?;
        // A choice of several: the titled form stands under `anyOf` there.
        if let Some(titled) = items.remove("oneOf") {
            items.insert("anyOf".into(), titled);
            items.remove("type");
        } else if items.get("enum").is_none() {
            return None;
        }
        items.retain(|name, _| matches!(name.as_str(), "type" | "enum" | "anyOf"));
    }
    let known_format =
        |format: &Value| matches!(format.as_str(), Some("email" | "uri" | "date" | "date-time"));
    if property.get("format").is_some_and(|format| !known_format(format)) {
        property.remove("format");
    }
    property.retain(|name, _| keeps.contains(&name.as_str()));
    Some(Field { schema: property, optional })
}

/// `oneOf` with constants is a choice whose options have titles: the title, else the description, else the constant.
fn choices(property: &mut Map<String, Value>) -> Option<()> {
    let Some(Value::Array(options)) = property.get("oneOf") else { return Some(()) };
    let mut titled = Vec::new();
    for option in options {
        let constants: Vec<&Value> = match (option.get("const"), option.get("enum")) {
            (Some(constant), _) => vec![constant],
            (None, Some(Value::Array(several))) => several.iter().collect(),
            _ => return None,
        };
        for constant in constants {
            let constant = constant.as_str()?;
            let title = option.get("title").or_else(|| option.get("description")).and_then(Value::as_str);
            titled.push(serde_json::json!({ "const": constant, "title": title.unwrap_or(constant) }));
        }
    }
    property.insert("oneOf".into(), titled.into());
    property.insert("type".into(), "string".into());
    Some(())
}

/// A schema that values are checked against, where the feature `validate` is on.
#[derive(Debug)]
pub(crate) struct Check {
    #[cfg(feature = "validate")]
    validator: jsonschema::Validator,
}

impl Check {
    /// Compiles `schema`.
    ///
    /// # Errors
    /// Why it is no JSON Schema.
    #[cfg(feature = "validate")]
    pub(crate) fn new(schema: &Raw) -> Result<Self, String> {
        let schema: Value = schema.to().map_err(|error| error.to_string())?;
        // References go into the schema itself: nothing is ever fetched.
        let validator = jsonschema::draft202012::new(&schema)
            .map_err(|error| format!("the schema is no JSON Schema 2020-12: {error}"))?;
        Ok(Self { validator })
    }

    /// Without the feature `validate`, any object is taken for a schema.
    #[cfg(not(feature = "validate"))]
    #[expect(clippy::unnecessary_wraps, reason = "the signature is that of the feature")]
    pub(crate) const fn new(_: &Raw) -> Result<Self, String> {
        Ok(Self {})
    }

    /// What is wrong with the JSON text, in a sentence; `None` where nothing is.
    #[cfg(feature = "validate")]
    pub(crate) fn fault(&self, text: &str) -> Option<String> {
        /// How many faults are told: enough to correct a call at once, and bounded.
        const TOLD: usize = 5;
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return Some(error.to_string()),
        };
        let faults: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(TOLD)
            .map(|error| {
                let place = error.instance_path().to_string();
                if place.is_empty() { error.to_string() } else { format!("{place}: {error}") }
            })
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Without the feature `validate` nothing is found wrong here; the types of the handler say the rest.
    #[cfg(not(feature = "validate"))]
    pub(crate) const fn fault(&self, _: &str) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_leaves_as_it_came() {
        let text = r#"{ "type" : "object", "b": 1.50, "a": 1e3 }"#;
        assert_eq!(Schema::from(text).into_object_schema().unwrap().as_str(), text);
    }

    #[test]
    fn what_is_no_object_schema_is_refused() {
        for (text, why) in [
            ("{", "not JSON"),
            ("true", "not a JSON object"),
            ("{}", "no \"type\""),
            (r#"{"type":"string"}"#, "\"string\""),
        ] {
            let error = Schema::from(text).into_object_schema().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let error = Schema::of_input::<String>().into_object_schema().unwrap_err();
        assert!(error.contains("object"), "{error}");
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Form {
        /// Who
        name: String,
        age: Option<u8>,
        #[serde(default = "pi")]
        score: f64,
        #[serde(default)]
        sure: bool,
        size: Size,
        colour: Option<Colour>,
        all: Vec<Size>,
        titled: Vec<Colour>,
    }

    fn pi() -> f64 {
        3.5
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    enum Colour {
        /// Like blood
        Red,
        /// Like the sky
        Blue,
    }

    #[test]
    fn forms_are_flat_and_hold_only_what_the_protocol_defines() {
        let titled =
            json!([{ "const": "Red", "title": "Like blood" }, { "const": "Blue", "title": "Like the sky" }]);
        assert_eq!(
            of_form::<Form>().unwrap(),
            json!({
                "type": "object",
                "properties": {
                    "name": { "type": "string", "description": "Who" },
                    "age": { "type": "integer", "minimum": 0, "maximum": 255 },
                    "score": { "type": "number", "default": 3.5 },
                    "sure": { "type": "boolean", "default": false },
                    "size": { "type": "string", "enum": ["small", "large"] },
                    "colour": { "type": "string", "oneOf": titled },
                    "all": { "type": "array", "items": { "type": "string", "enum": ["small", "large"] } },
                    "titled": { "type": "array", "items": { "anyOf": titled } },
                },
                "required": ["name", "size", "all", "titled"],
            })
        );
    }

    #[test]
    fn what_is_no_form_is_refused() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Deep {
            inner: Inner,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Inner {
            x: u8,
        }
        assert!(of_form::<Deep>().unwrap_err().contains("inner"));
        assert!(of_form::<String>().unwrap_err().contains("struct"));
    }

    #[cfg(feature = "validate")]
    #[test]
    fn the_check_names_the_place() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"additionalProperties":false}"#;
        let check = Check::new(&Raw::parse(schema).unwrap()).unwrap();
        assert_eq!(check.fault(r#"{"n":3}"#), None);
        assert!(check.fault(r#"{"n":2}"#).unwrap().contains("/n"));
        assert!(check.fault(r#"{"m":2}"#).unwrap().contains("'m'"));
        let bad = Raw::parse(r#"{"type":"object","properties":{"n":{"type":"nonsense"}}}"#).unwrap();
        assert!(Check::new(&bad).unwrap_err().contains("nonsense"));
    }
}
