//! Tools that ask the client something.

use bowline::{AskError, Call, Elicit, NoInput, Sample, ServerBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Prompted {
    /// What the model is asked
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Asked {
    /// What the person is asked
    message: String,
}

/// Who the person is.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Account {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// A form whose fields have defaults.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Profile {
    /// User name
    #[serde(default = "Profile::name")]
    name: String,
    /// User age
    #[serde(default = "Profile::age")]
    age: i64,
    /// User score
    #[serde(default = "Profile::score")]
    score: f64,
    /// User status
    #[serde(default)]
    status: Status,
    /// Verification status
    #[serde(default = "Profile::verified")]
    verified: bool,
}

impl Profile {
    fn name() -> String {
        "John Doe".into()
    }

    const fn age() -> i64 {
        30
    }

    const fn score() -> f64 {
        95.5
    }

    const fn verified() -> bool {
        true
    }
}

#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Active,
    Inactive,
    Pending,
}

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            "test_sampling",
            "Asks the client's model",
            |ctx: Call, Prompted { prompt }: Prompted| async move {
                let answer = ctx.ask("answer", Sample::new(100).user(prompt)).await?;
                Ok::<_, AskError>(format!("LLM response: {}", answer.text()))
            },
        )
        .tool("test_elicitation", "Asks the person", |ctx: Call, Asked { message }: Asked| async move {
            let answer = ctx.ask("account", Elicit::form::<Account>(message)).await?;
            let action = answer.action();
            let content = serde_json::to_value(answer.accepted()).unwrap_or_default();
            Ok::<_, AskError>(format!("User response: action={action}, content={content}"))
        })
        .tool(
            "test_elicitation_sep1034_defaults",
            "Asks by a form whose fields have defaults",
            |ctx: Call, _: NoInput| async move {
                let form = Elicit::form::<Profile>("Please review and update the form fields with defaults");
                let answer = ctx.ask("profile", form).await?;
                let action = answer.action();
                let content = serde_json::to_value(answer.accepted()).unwrap_or_default();
                Ok::<_, AskError>(format!("Elicitation completed: action={action}, content={content}"))
            },
        )
        .tool(
            "test_elicitation_sep1330_enums",
            "Asks by a form with every kind of choice",
            |ctx: Call, _: NoInput| async move {
                let answer =
                    ctx.ask("choices", Elicit::form_with_schema("Please select options", choices())).await?;
                let action = answer.action();
                let content = answer.accepted().unwrap_or_default();
                Ok::<_, AskError>(format!("Elicitation completed: action={action}, content={content}"))
            },
        )
}

/// Every kind of choice, `enumNames` of the older revisions among them, which no type derives.
fn choices() -> Value {
    let titled = |options: &[(&str, &str)]| -> Value {
        options.iter().map(|(name, title)| json!({ "const": name, "title": title })).collect()
    };
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
            "titledSingle": {
                "type": "string",
                "oneOf": titled(&[("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")]),
            },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {
                "type": "array",
                "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
            },
            "titledMulti": {
                "type": "array",
                "items": {
                    "anyOf": titled(&[("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")]),
                },
            },
        },
        "required": [],
    })
}
