//! Elicitation: asking the person, by a form or at a URL.

use super::{Question, WireQuestion, raw};
use crate::schema;
use bowline_proto::jsonrpc::Raw;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt, marker::PhantomData};

/// A question to the person (from `2025-06-18` on; by URL from `2025-11-25` on).
///
/// `T` is what an accepted form is read as; a URL has no answer but that the person agreed.
#[derive(Clone)]
pub struct Elicit<T = ()> {
    mode: Mode,
    answer: PhantomData<fn() -> T>,
}

#[derive(Clone, Debug)]
enum Mode {
    Form { message: String, schema: Result<Value, String> },
    Url { message: String, url: String, id: String },
}

/// What the person did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// Agreed, with this.
    Accepted(T),
    /// Said no.
    Declined,
    /// Closed the question without an answer.
    Cancelled,
}

impl<T> Elicited<T> {
    /// What was accepted.
    #[must_use]
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Accepted(_) => "accept",
            Self::Declined => "decline",
            Self::Cancelled => "cancel",
        }
    }
}

impl Elicit {
    /// A form whose fields are those of `F`: texts, numbers, booleans, choices (enums without data) and lists of choices. The doc
    /// comments of the fields are shown to the person. Never ask for secrets by a form.
    pub fn form<F: DeserializeOwned + JsonSchema>(message: impl Into<String>) -> Elicit<F> {
        Elicit {
            mode: Mode::Form { message: message.into(), schema: schema::of_form::<F>() },
            answer: PhantomData,
        }
    }

    /// A form with a schema given by hand, which leaves as it is.
    pub fn form_with_schema(message: impl Into<String>, schema: Value) -> Elicit<Value> {
        Elicit { mode: Mode::Form { message: message.into(), schema: Ok(schema) }, answer: PhantomData }
    }

    /// A page that the person visits: for logins, payments and whatever must not pass through the client. `id` names this question;
    /// [`crate::Call::elicitation_complete`] says that the page was left.
    pub fn url(message: impl Into<String>, url: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            mode: Mode::Url { message: message.into(), url: url.into(), id: id.into() },
            answer: PhantomData,
        }
    }

    /// The parameters, for an error that lists what has to be done first.
    pub(crate) fn into_params(self) -> Value {
        match self.mode {
            Mode::Form { message, schema } => {
                json!({ "mode": "form", "message": message, "requestedSchema": schema.unwrap_or_default() })
            }
            Mode::Url { message, url, id } => {
                json!({ "mode": "url", "message": message, "url": url, "elicitationId": id })
            }
        }
    }
}

#[derive(Deserialize)]
struct WireAnswer {
    action: Action,
    content: Option<Raw>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

impl<T: DeserializeOwned> Question for Elicit<T> {
    type Answer = Elicited<T>;

    fn wire(&self) -> Result<WireQuestion, String> {
        let method = "elicitation/create";
        match &self.mode {
            // `mode` is left out for forms: older clients do not know it, and it is what is meant without it.
            Mode::Form { message, schema } => {
                let schema = schema.as_ref().map_err(Clone::clone)?;
                let params = raw(&json!({ "message": message, "requestedSchema": schema }))?;
                Ok(WireQuestion { method, params, needs: &["elicitation", "form"] })
            }
            Mode::Url { message, url, id } => {
                let params =
                    raw(&json!({ "mode": "url", "message": message, "url": url, "elicitationId": id }))?;
                Ok(WireQuestion { method, params, needs: &["elicitation", "url"] })
            }
        }
    }

    fn read(&self, result: &Raw) -> Result<Elicited<T>, String> {
        let answer: WireAnswer = result.to().map_err(|error| error.to_string())?;
        match (answer.action, &self.mode) {
            (Action::Decline, _) => Ok(Elicited::Declined),
            (Action::Cancel, _) => Ok(Elicited::Cancelled),
            (Action::Accept, Mode::Form { .. }) => {
                let content = answer.content.unwrap_or_else(Raw::empty_object);
                content.to().map(Elicited::Accepted).map_err(|error| format!("the form: {error}"))
            }
            // `T` is `()` here, which is read from `null`.
            (Action::Accept, Mode::Url { .. }) => {
                serde_json::from_str("null").map(Elicited::Accepted).map_err(|error| error.to_string())
            }
        }
    }
}

impl<T> fmt::Debug for Elicit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mode {
            Mode::Form { .. } => f.write_str("Elicit::form"),
            Mode::Url { .. } => f.write_str("Elicit::url"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Form {
        name: String,
    }

    fn answer<Q: Question>(question: &Q, text: &'static str) -> Result<Q::Answer, String> {
        question.read(&Raw::parse(text).unwrap())
    }

    #[test]
    fn forms_are_asked_and_read() {
        let form = Elicit::form::<Form>("Who?");
        let wire = form.wire().unwrap();
        assert_eq!(
            wire.params.to::<Value>().unwrap(),
            json!({ "message": "Who?", "requestedSchema": {
                "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
            } })
        );
        let accepted = answer(&form, r#"{"action":"accept","content":{"name":"x"}}"#).unwrap();
        assert_eq!(accepted, Elicited::Accepted(Form { name: "x".into() }));
        assert_eq!(answer(&form, r#"{"action":"decline"}"#).unwrap().action(), "decline");
        assert_eq!(answer(&form, r#"{"action":"cancel"}"#).unwrap().accepted(), None);
        assert!(answer(&form, r#"{"action":"accept"}"#).unwrap_err().contains("name"));
        assert!(answer(&form, r#"{"action":"maybe"}"#).is_err());
        assert!(Elicit::form::<String>("x").wire().is_err());
    }

    #[test]
    fn urls_have_no_content() {
        let url = Elicit::url("Log in", "https://e.example/login", "7");
        assert_eq!(url.wire().unwrap().needs, ["elicitation", "url"]);
        assert_eq!(answer(&url, r#"{"action":"accept"}"#).unwrap(), Elicited::Accepted(()));
        assert_eq!(url.into_params()["elicitationId"], "7");
    }
}
