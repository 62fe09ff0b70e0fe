//! A form that a person fills in, line by line.

use super::text::{clean, short};
use bowline_client::Raw;
use serde_json::{Map, Value};

/// Somebody at a terminal.
pub(super) trait Person: Send {
    fn tell(&mut self, text: &str);
    /// What they type after `prompt`; none when they have had enough (Ctrl-D).
    fn ask(&mut self, prompt: &str) -> impl Future<Output = Option<String>> + Send;
}

/// What they said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// The content of the form; what has a default and was left empty is not in it.
    Yes(Map<String, Value>),
    No,
    /// Neither.
    Nothing,
}

/// Asks whether to answer at all, then each field of `schema`, in its order.
pub(super) async fn fill(person: &mut impl Person, message: &str, schema: &Raw) -> Said {
    person.tell(&format!("The server asks: {}", clean(message)));
    let fields = schema.member("properties").and_then(|fields| fields.members()).unwrap_or_default();
    let required =
        schema.member("required").and_then(|names| names.to::<Vec<String>>().ok()).unwrap_or_default();
    let question = if fields.is_empty() { "Agree? [y/n] " } else { "Answer? [y/n] " };
    match agrees(person, question).await {
        Some(true) => {}
        Some(false) => return Said::No,
        None => return Said::Nothing,
    }
    let mut content = Map::new();
    for (name, field) in fields {
        let field = field.to::<Value>().unwrap_or_default();
        match ask_field(person, &name, &field, required.contains(&name)).await {
            Some(Some(value)) => drop(content.insert(name, value)),
            Some(None) => {}
            None => return Said::Nothing,
        }
    }
    Said::Yes(content)
}

/// Yes or no; none: neither.
pub(super) async fn agrees(person: &mut impl Person, question: &str) -> Option<bool> {
    loop {
        match person.ask(question).await?.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Some(true),
            "n" | "no" => return Some(false),
            _ => person.tell("y or n; Ctrl-D cancels"),
        }
    }
}

/// The value of one field: `Some(None)`: left empty. None: they have had enough.
async fn ask_field(
    person: &mut impl Person,
    name: &str,
    field: &Value,
    required: bool,
) -> Option<Option<Value>> {
    let title = field["title"].as_str().unwrap_or(name);
    if let Some(about) = field["description"].as_str() {
        person.tell(&format!("  {}", clean(about)));
    }
    let kind = Kind::of(field);
    if let Kind::One(choices) | Kind::Some(choices) = &kind {
        for (at, (value, label)) in choices.iter().enumerate() {
            let label = if label == value { String::new() } else { format!(" ({})", short(label, 60)) };
            person.tell(&format!("  {}. {}{label}", at + 1, short(value, 60)));
        }
    }
    let default = field.get("default");
    let hint = match (default, required) {
        (Some(default), _) => format!(" [{}]", short(&shown(default), 40)),
        (None, true) => String::new(),
        (None, false) => " (may be left empty)".into(),
    };
    let prompt = format!("{} ({}){hint}: ", short(title, 60), kind.name());
    loop {
        let text = person.ask(&prompt).await?;
        let text = text.trim();
        if text.is_empty() {
            // The default is filled in later, as the schema has it.
            if default.is_some() || !required {
                return Some(None);
            }
            person.tell("  it is needed; Ctrl-D cancels");
            continue;
        }
        match kind.read(text) {
            Some(value) => return Some(Some(value)),
            None => person.tell(&format!("  that is not {}", kind.name())),
        }
    }
}

/// What a field takes.
enum Kind {
    Text,
    Whole,
    Number,
    Truth,
    /// One of these: values and what to call them.
    One(Vec<(String, String)>),
    /// Any of these, separated by commas.
    Some(Vec<(String, String)>),
}

impl Kind {
    fn of(field: &Value) -> Self {
        if let Some(choices) = choices(field) {
            return Self::One(choices);
        }
        match field["type"].as_str() {
            Some("integer") => Self::Whole,
            Some("number") => Self::Number,
            Some("boolean") => Self::Truth,
            Some("array") => choices(&field["items"]).map_or(Self::Text, Self::Some),
            _ => Self::Text,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Whole => "a whole number",
            Self::Number => "a number",
            Self::Truth => "yes or no",
            Self::One(_) => "one of these, or its number",
            Self::Some(_) => "some of these, with commas",
        }
    }

    fn read(&self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(text.into()),
            Self::Whole => text.parse::<i64>().ok().map(Value::from),
            Self::Number => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
            Self::Truth => match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Some(true.into()),
                "n" | "no" | "false" => Some(false.into()),
                _ => None,
            },
            Self::One(choices) => pick(choices, text),
            Self::Some(choices) => {
                let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                parts.map(|part| pick(choices, part)).collect::<Option<Vec<_>>>().map(Value::from)
            }
        }
    }
}

/// The values of `enum` (with `enumNames`), or of `oneOf` and `anyOf` with `const` and `title`.
fn choices(field: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = field["enum"].as_array() {
        let names = field["enumNames"].as_array();
        let named = values.iter().enumerate().map(|(at, value)| {
            let value = value.as_str()?;
            let name = names.and_then(|names| names.get(at)?.as_str()).unwrap_or(value);
            Some((value.to_owned(), name.to_owned()))
        });
        return named.collect();
    }
    let values = field["oneOf"].as_array().or_else(|| field["anyOf"].as_array())?;
    let named = values.iter().map(|choice| {
        let value = choice["const"].as_str()?;
        Some((value.to_owned(), choice["title"].as_str().unwrap_or(value).to_owned()))
    });
    named.collect()
}

fn pick(choices: &[(String, String)], text: &str) -> Option<Value> {
    let named = choices.iter().find(|(value, label)| value == text || label == text);
    let numbered = || text.parse::<usize>().ok().and_then(|at| choices.get(at.checked_sub(1)?));
    named.or_else(numbered).map(|(value, _)| value.as_str().into())
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Script {
        answers: Vec<&'static str>,
        said: String,
    }

    impl Person for Script {
        fn tell(&mut self, text: &str) {
            self.said.push_str(text);
            self.said.push('\n');
        }

        fn ask(&mut self, prompt: &str) -> impl Future<Output = Option<String>> + Send {
            self.tell(prompt);
            std::future::ready((!self.answers.is_empty()).then(|| self.answers.remove(0).to_owned()))
        }
    }

    async fn filled(schema: &str, answers: &[&'static str]) -> (Said, String) {
        let mut person = Script { answers: answers.to_vec(), said: String::new() };
        let said = fill(&mut person, "Who\u{1b}?", &Raw::parse(schema.to_owned()).unwrap()).await;
        (said, person.said)
    }

    #[tokio::test]
    async fn every_kind_of_field() {
        let schema = r#"{ "required": ["name", "age"], "properties": {
            "name": { "type": "string", "title": "Name", "description": "Yours" },
            "age": { "type": "integer" },
            "size": { "type": "number" },
            "sure": { "type": "boolean", "default": true },
            "color": { "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
            "pets": { "type": "array", "items": { "anyOf": [{ "const": "cat", "title": "Cat" }, { "const": "dog" }] } },
            "more": { "type": "string" }
        } }"#;
        let answers = ["y", "", "Ann", "old", "41", "1.5", "", "Green", "1,dog", ""];
        let (said, text) = filled(schema, &answers).await;
        let wanted = json!({ "name": "Ann", "age": 41, "size": 1.5, "color": "g", "pets": ["cat", "dog"] });
        // What has a default and was left empty is the library's to fill in.
        assert_eq!(said, Said::Yes(wanted.as_object().unwrap().clone()), "{text}");
        for part in
            ["The server asks: Who?", "Yours", "it is needed", "not a whole number", "2. g (Green)", "[true]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn answers_are_read_by_their_kind() {
        let kind = |field: Value, text: &str| Kind::of(&field).read(text);
        assert_eq!(kind(json!({ "type": "integer" }), "41"), Some(json!(41)));
        assert_eq!(kind(json!({ "type": "integer" }), "1.5"), None);
        assert_eq!(kind(json!({ "type": "number" }), "1.5"), Some(json!(1.5)));
        assert_eq!(kind(json!({ "type": "number" }), "NaN"), None);
        assert_eq!(kind(json!({ "type": "boolean" }), "Yes"), Some(json!(true)));
        assert_eq!(
            kind(json!({ "enum": ["r", "g"], "enumNames": ["Red", "Green"] }), "Green"),
            Some(json!("g"))
        );
        assert_eq!(kind(json!({ "enum": ["r", "g"] }), "1"), Some(json!("r")));
        assert_eq!(kind(json!({ "enum": ["r", "g"] }), "0"), None);
        assert_eq!(kind(json!({ "oneOf": [{ "const": "r", "title": "Red" }] }), "Red"), Some(json!("r")));
        let pets = json!({ "type": "array", "items": { "enum": ["cat", "dog"] } });
        assert_eq!(kind(pets.clone(), "dog, 1"), Some(json!(["dog", "cat"])));
        assert_eq!(kind(pets, "dog, cow"), None);
    }

    #[tokio::test]
    async fn no_and_nothing() {
        let schema = r#"{ "properties": { "a": { "type": "string" } }, "required": ["a"] }"#;
        assert_eq!(filled(schema, &["n"]).await.0, Said::No);
        assert_eq!(filled(schema, &["what?", "no"]).await.0, Said::No);
        assert_eq!(filled(schema, &[]).await.0, Said::Nothing);
        assert_eq!(filled(schema, &["y", ""]).await.0, Said::Nothing);
        assert_eq!(filled("{}", &["y"]).await.0, Said::Yes(Map::new()));
    }
}
