//! `bowline prompt`.

use super::{
    arguments::{Arguments, Named},
    content,
    failure::Failure,
    options::PromptCommand,
    output::{self, Output},
    save::Saver,
    session::Session,
    words::Words,
};
use bowline_client::Raw;
use serde_json::Value;

/// A prompt with its arguments.
#[derive(Debug)]
pub(super) struct Prompt {
    name: String,
    arguments: Arguments,
    saver: Option<Saver>,
}

impl Prompt {
    pub(super) fn new(command: &PromptCommand, mut words: Words) -> Result<Self, Failure> {
        let name = words.next("the name of the prompt")?;
        Ok(Self {
            arguments: Arguments::new(words.rest(), command.json.as_deref())?,
            saver: command.save.as_deref().map(|dir| Saver::new(dir, &name)),
            name,
        })
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        let arguments = as_texts(self.arguments.read()?);
        let got = session.client.get_prompt(&self.name, &arguments).await;
        let result = got.map_err(|error| Failure::reading(&error))?;
        let messages = result.member("messages").and_then(|messages| messages.to::<Vec<Value>>().ok());
        let messages = messages.ok_or_else(|| Failure::answer("the answer has no list of messages"))?;
        if session.output == Output::Json {
            output::json(&result)?;
        }
        for message in messages {
            let text = content::shown(&message["content"], self.saver.as_ref())?;
            match session.output {
                Output::Text => {
                    output::text(&format!("{}: {text}", message["role"].as_str().unwrap_or("?")))?;
                }
                Output::Json if message["content"]["type"] != "text" && self.saver.is_some() => {
                    session.screen.line(&text);
                }
                Output::Json => {}
            }
        }
        Ok(0)
    }
}

/// Arguments of prompts are texts; other JSON is written as one.
fn as_texts(arguments: Named) -> Named {
    let text = |value: Raw| match value.string() {
        Some(_) => value,
        None => Raw::from_trusted(Value::from(value.as_str()).to_string().into()),
    };
    arguments.into_iter().map(|(name, value)| (name, text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_texts() {
        let given = serde_json::from_str(r#"{"a":"x","b":1.0,"c":[true]}"#).unwrap();
        let texts = serde_json::to_value(as_texts(given)).unwrap();
        assert_eq!(texts, json!({ "a": "x", "b": "1.0", "c": "[true]" }));
    }
}
