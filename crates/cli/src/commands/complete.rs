//! `bowline complete`.

use super::{
    failure::Failure,
    output::{self, Output},
    session::Session,
    words::Words,
};
use bowline_client::{CompleteFor, Raw};

/// An argument, the beginning of its value, and what is known already.
#[derive(Debug)]
pub(super) struct Complete {
    about: CompleteFor,
    argument: (String, String),
    known: Vec<(String, String)>,
}

impl Complete {
    pub(super) fn new(mut words: Words) -> Result<Self, Failure> {
        let about = about(&words.next("the prompt or the template of a resource")?);
        let pair = |word: String| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(Failure::usage(format!("{word:?} is no argument: write name=beginning"))),
        };
        let argument = pair(words.next("the argument with the beginning of its value, name=beginning,")?)?;
        let known = words.rest().into_iter().map(pair).collect::<Result<_, _>>()?;
        Ok(Self { about, argument, known })
    }

    pub(super) async fn run(self, session: &mut Session) -> Result<u8, Failure> {
        let known: Vec<(&str, &str)> = self.known.iter().map(|(name, value)| (&**name, &**value)).collect();
        let (name, value) = &self.argument;
        let found = session.client.complete(&self.about, name, value, &known).await;
        let found = found.map_err(|error| Failure::reading(&error))?;
        match session.output {
            Output::Json => {
                let all = serde_json::json!({ "values": found.values, "total": found.total, "hasMore": found.has_more });
                output::json(&Raw::from_trusted(all.to_string().into()))?;
            }
            Output::Text => {
                for value in &found.values {
                    output::text(value)?;
                }
                if found.has_more {
                    session.screen.line("there are more");
                }
            }
        }
        Ok(0)
    }
}

/// `prompt:NAME`, `resource:TEMPLATE`, or what it looks like.
fn about(word: &str) -> CompleteFor {
    if let Some(name) = word.strip_prefix("prompt:") {
        return CompleteFor::Prompt(name.into());
    }
    match word.strip_prefix("resource:") {
        Some(uri) => CompleteFor::Resource(uri.into()),
        None if word.contains([':', '{']) => CompleteFor::Resource(word.into()),
        None => CompleteFor::Prompt(word.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_and_templates() {
        for (word, prompt) in [
            ("greet", Some("greet")),
            ("prompt:a:b", Some("a:b")),
            ("file:///{p}", None),
            ("resource:x", None),
        ] {
            match about(word) {
                CompleteFor::Prompt(name) => assert_eq!(Some(name.as_str()), prompt, "{word}"),
                _ => assert_eq!(prompt, None, "{word}"),
            }
        }
    }
}
