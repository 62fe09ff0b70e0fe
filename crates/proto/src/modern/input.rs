//! What a client can be asked in a round: elicitation, sampling, roots.

use crate::jsonrpc::{ErrorObject, Raw, code};
use bytestring::ByteString;
use serde_json::{Value, json};

/// A question to the client, under the key by which its answer is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// Unique among the questions of one request.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: ByteString,
    /// The parameters.
    pub params: Option<Raw>,
}

impl InputRequest {
    /// The question as it stands among the `inputRequests`, in the vocabulary of this revision.
    #[must_use]
    pub fn to_raw(&self) -> Raw {
        let params = self.params.as_ref().map_or_else(Raw::empty_object, |params| fit(&self.method, params));
        let method = Raw::from_trusted(Value::from(&*self.method).to_string().into());
        Raw::from_members([("method", method), ("params", params)])
    }
}

/// A question without what this revision does not have: the id of a URL elicitation, tasks of the older kind.
fn fit(method: &str, params: &Raw) -> Raw {
    let gone: &[&str] = match method {
        "elicitation/create" => &["elicitationId", "task"],
        "sampling/createMessage" => &["task"],
        _ => return params.clone(),
    };
    match params.members() {
        Some(members) if members.iter().any(|(name, _)| gone.contains(&name.as_str())) => {
            Raw::from_members(members.into_iter().filter(|(name, _)| !gone.contains(&name.as_str())))
        }
        _ => params.clone(),
    }
}

/// The capability without which this question must not be asked, where the client does not declare it; `None` where it does, and for a
/// method that is none of the three, which no capability forbids. Holds in every revision: what a capability says beside that it is
/// there is left to the two sides.
#[must_use]
pub fn undeclared(capabilities: Option<&Raw>, method: &str) -> Option<&'static str> {
    let name = capability_of(method)?;
    let declared = capabilities.and_then(|all| all.member(name)).is_some_and(|held| held.is_object());
    (!declared).then_some(name)
}

/// The capability that a client has which can be asked this; `None` where no client can be.
#[must_use]
pub fn capability_of(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// The capabilities that a client would have to declare for this question beside those that it has; `None` where it can be asked.
///
/// A method that is none of the three can never be asked, whatever a client declares: it is asked for by its own name below
/// `experimental`, which no client has.
#[must_use]
pub fn missing_capabilities(capabilities: &Raw, method: &str, params: Option<&Raw>) -> Option<Value> {
    let text = |name: &str| params.and_then(|params| params.member(name)).and_then(|value| value.string());
    match method {
        "roots/list" => lacking(capabilities, "roots", None),
        "sampling/createMessage" => {
            let tools = params.is_some_and(|params| {
                !crate::projection::is_empty(params.member("tools").as_ref())
                    || params.member("toolChoice").is_some()
            });
            lacking(capabilities, "sampling", tools.then_some("tools"))
        }
        "elicitation/create" if text("mode").as_deref() == Some("url") => {
            lacking(capabilities, "elicitation", Some("url"))
        }
        "elicitation/create" => {
            // `elicitation: {}` says what it said before there were two modes: forms.
            let urls_alone = capabilities
                .member("elicitation")
                .is_some_and(|held| held.member("url").is_some() && held.member("form").is_none());
            lacking(capabilities, "elicitation", urls_alone.then_some("form"))
        }
        other => Some(json!({ "experimental": { other: {} } })),
    }
}

fn lacking(capabilities: &Raw, name: &str, inner: Option<&str>) -> Option<Value> {
    let held = capabilities.member(name).filter(Raw::is_object);
    let there = match inner {
        None => held.is_some(),
        Some(inner) => held.is_some_and(|held| held.member(inner).is_some_and(|inner| inner.is_object())),
    };
    if there {
        return None;
    }
    Some(match inner {
        None => json!({ name: {} }),
        Some(inner) => json!({ name: { inner: {} } }),
    })
}

/// -32021: the request needs a client that can do more; `required` has the form of client capabilities.
#[must_use]
pub fn missing_capability(required: &Value) -> ErrorObject {
    let mut paths = Vec::new();
    for (name, inner) in required.as_object().into_iter().flatten() {
        let below: Vec<_> =
            inner.as_object().into_iter().flatten().map(|(below, _)| below.as_str()).collect();
        paths.push(if below.is_empty() { name.clone() } else { format!("{name}.{}", below.join(", ")) });
    }
    let message = format!("The client does not declare a capability that this needs: {}", paths.join(", "));
    ErrorObject::new(code::MISSING_CAPABILITY, message)
        .with_data(&json!({ "requiredCapabilities": required }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_only_what_it_declares() {
        let url = json!({ "mode": "url" });
        let form = json!({ "mode": "form" });
        let tools = json!({ "tools": [{ "name": "x" }] });
        for (held, method, params, missing) in [
            (json!({}), "roots/list", json!({}), Some(json!({ "roots": {} }))),
            (json!({ "roots": {} }), "roots/list", json!({}), None),
            (json!({ "roots": null }), "roots/list", json!({}), Some(json!({ "roots": {} }))),
            (json!({}), "sampling/createMessage", json!({}), Some(json!({ "sampling": {} }))),
            (json!({ "sampling": {} }), "sampling/createMessage", json!({ "tools": [] }), None),
            (
                json!({ "sampling": {} }),
                "sampling/createMessage",
                tools.clone(),
                Some(json!({ "sampling": { "tools": {} } })),
            ),
            (json!({ "sampling": { "tools": {} } }), "sampling/createMessage", tools, None),
            (json!({}), "elicitation/create", json!({}), Some(json!({ "elicitation": {} }))),
            (json!({ "elicitation": {} }), "elicitation/create", form.clone(), None),
            (json!({ "elicitation": { "form": {} } }), "elicitation/create", json!({}), None),
            (
                json!({ "elicitation": { "url": {} } }),
                "elicitation/create",
                form,
                Some(json!({ "elicitation": { "form": {} } })),
            ),
            (
                json!({ "elicitation": {} }),
                "elicitation/create",
                url.clone(),
                Some(json!({ "elicitation": { "url": {} } })),
            ),
            (json!({ "elicitation": { "url": {} } }), "elicitation/create", url, None),
            (json!({}), "x/y", json!({}), Some(json!({ "experimental": { "x/y": {} } }))),
        ] {
            let params = Raw::from_value(&params).unwrap();
            let found = missing_capabilities(&Raw::from_value(&held).unwrap(), method, Some(&params));
            assert_eq!(found, missing, "{held} {method} {params:?}");
        }
    }

    #[test]
    fn what_was_not_declared_is_known_by_its_capability() {
        let held = Raw::parse(r#"{"sampling":{},"roots":null}"#.to_owned()).unwrap();
        for (method, missing) in [
            ("sampling/createMessage", None),
            ("roots/list", Some("roots")),
            ("elicitation/create", Some("elicitation")),
            ("x/y", None),
        ] {
            assert_eq!(undeclared(Some(&held), method), missing, "{method}");
        }
        assert_eq!(undeclared(None, "sampling/createMessage"), Some("sampling"));
    }

    #[test]
    fn what_is_missing_is_said_for_people_and_programs() {
        let error = missing_capability(&json!({ "sampling": { "tools": {} } }));
        assert_eq!(error.code, -32021);
        assert!(error.message.ends_with("sampling.tools"), "{}", error.message);
        let data: Value = error.data.unwrap().to().unwrap();
        assert_eq!(data, json!({ "requiredCapabilities": { "sampling": { "tools": {} } } }));
    }

    #[test]
    fn questions_are_said_in_this_revision() {
        let question = |method: &'static str, params: Value| {
            let params = Some(Raw::from_value(&params).unwrap());
            InputRequest { key: "k".into(), method: method.into(), params }.to_raw().to::<Value>().unwrap()
        };
        assert_eq!(
            question(
                "elicitation/create",
                json!({ "mode": "url", "url": "https://e", "elicitationId": "1" })
            ),
            json!({ "method": "elicitation/create", "params": { "mode": "url", "url": "https://e" } })
        );
        assert_eq!(
            question("sampling/createMessage", json!({ "maxTokens": 1, "task": {} })),
            json!({ "method": "sampling/createMessage", "params": { "maxTokens": 1 } })
        );
        let bare = InputRequest { key: "k".into(), method: "roots/list".into(), params: None };
        assert_eq!(bare.to_raw().as_str(), r#"{"method":"roots/list","params":{}}"#);
    }
}
