//! The two eras, as the gateway translates between them: a modern client in front of a legacy server, and the other way round. Pure.
//!
//! What a modern answer has beside a legacy one is the endpoint's to add, and what of a message the other era may see is
//! [`bowline_proto::projection`]'s.

use bowline_proto::jsonrpc::{Notification, Raw, Request};
use bowline_proto::modern::meta::{SERVER_INFO, SUBSCRIPTION_ID};
use bowline_proto::projection::result_for_legacy;
use bowline_proto::revision::Revision;

/// The parameters of a request without what belongs to a round, for a server that has rounds of its own.
pub(crate) fn without_round(params: Option<Raw>) -> Option<Raw> {
    params.map(|params| without(&params, &["inputResponses", "requestState"]))
}

/// What a modern server says of itself (`server/discover`), in the words of a legacy one; `None` where it does not speak our revision.
pub(crate) fn discovered(result: &Raw) -> Option<Raw> {
    let versions: Vec<String> = result.member("supportedVersions")?.to().ok()?;
    if !versions.iter().any(|version| version == Revision::NEWEST_MODERN.as_str()) {
        return None;
    }
    let info = result.member("_meta").and_then(|meta| meta.member(SERVER_INFO));
    let unnamed = || Raw::from_trusted(r#"{"name":"unnamed","version":"0"}"#.into());
    let version = Raw::from_trusted(format!("\"{}\"", Revision::NEWEST_MODERN).into());
    let mut members = vec![
        ("protocolVersion", version),
        ("capabilities", result.member("capabilities").unwrap_or_else(Raw::empty_object)),
        ("serverInfo", info.filter(Raw::is_object).unwrap_or_else(unnamed)),
    ];
    members.extend(result.member("instructions").map(|text| ("instructions", text)));
    Some(Raw::from_members(members))
}

/// What a process says of itself, for a legacy client: without what only a modern one has.
pub(crate) fn hello_for_legacy(hello: Raw) -> Raw {
    let modern = hello.member("protocolVersion").and_then(|version| version.string());
    if modern.as_deref() != Some(Revision::NEWEST_MODERN.as_str()) {
        return hello;
    }
    // What it is made of (`discovered`) has no kind, so that it is an end.
    result_for_legacy(Revision::NEWEST_LEGACY, "initialize", hello.clone()).unwrap_or(hello)
}

/// The listening request that a notification belongs to, by the id that it was sent under.
pub(crate) fn subscription_of(notification: &Notification) -> Option<u64> {
    let id = notification.params.as_ref()?.member("_meta")?.member(SUBSCRIPTION_ID)?;
    id.string().map_or_else(|| id.to().ok(), |text| text.parse().ok())
}

/// The questions that a modern server's answer asks before the request can be completed, and what it leaves for the next round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// By key.
    pub(crate) questions: Vec<(String, Request)>,
    pub(crate) state: Option<Raw>,
}

impl Asked {
    /// Reads a result; `None` where it asks nothing.
    pub(crate) fn of(result: &Raw) -> Option<Self> {
        if result.member("resultType")?.string()? != "input_required" {
            return None;
        }
        let asked = result.member("inputRequests").and_then(|asked| asked.members()).unwrap_or_default();
        let question = |(key, asked): (String, Raw)| {
            let method = asked.member("method")?.string()?;
            let params = asked.member("params");
            Some((key, Request { id: 0.into(), method: method.into(), params }))
        };
        Some(Self {
            questions: asked.into_iter().filter_map(question).collect(),
            state: result.member("requestState"),
        })
    }

    /// The parameters of the next round.
    pub(crate) fn next(params: Option<Raw>, answers: &[(String, Raw)], state: Option<&Raw>) -> Option<Raw> {
        let mut params =
            without(&params.unwrap_or_else(Raw::empty_object), &["inputResponses", "requestState"]);
        if !answers.is_empty() {
            let answers = Raw::from_members(answers.iter().map(|(key, answer)| (key, answer.clone())));
            params = params.with_member("inputResponses", &answers)?;
        }
        match state {
            Some(state) => params.with_member("requestState", state),
            None => Some(params),
        }
    }
}

fn without(object: &Raw, names: &[&str]) -> Raw {
    match object.members() {
        Some(members) if members.iter().any(|(name, _)| names.contains(&name.as_str())) => {
            Raw::from_members(members.into_iter().filter(|(name, _)| !names.contains(&name.as_str())))
        }
        _ => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
    }

    #[test]
    fn what_a_modern_server_is_is_said_as_a_legacy_one_would() {
        let result = json!({
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "instructions": "i",
            "_meta": { SERVER_INFO: { "name": "s", "version": "1" } },
        });
        assert_eq!(
            discovered(&raw(&result)).unwrap().to::<Value>().unwrap(),
            json!({
                "protocolVersion": "2026-07-28", "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" }, "instructions": "i",
            })
        );
        let mut extended = result.clone();
        extended["capabilities"]["extensions"] = json!({ "x/y": {} });
        let hello = discovered(&raw(&extended)).unwrap();
        assert_eq!(hello.member("capabilities").unwrap().to::<Value>().unwrap(), extended["capabilities"]);
        let told = hello_for_legacy(hello).member("capabilities").unwrap();
        assert_eq!(told.to::<Value>().unwrap(), json!({ "tools": {} }));
        let own = raw(&json!({ "protocolVersion": "2025-11-25", "capabilities": extended["capabilities"] }));
        assert_eq!(hello_for_legacy(own.clone()), own, "a legacy server and its client know each other");
        assert_eq!(discovered(&raw(&json!({ "supportedVersions": ["2031-01-01"] }))), None);
        assert_eq!(discovered(&raw(&json!({}))), None);
    }

    #[test]
    fn the_tag_of_a_listening_stream_is_read() {
        let tagged = |params: Value| Notification::new("n", Some(raw(&params)));
        assert_eq!(subscription_of(&tagged(json!({ "_meta": { SUBSCRIPTION_ID: 7 } }))), Some(7));
        assert_eq!(subscription_of(&tagged(json!({ "_meta": { SUBSCRIPTION_ID: "7" } }))), Some(7));
        assert_eq!(subscription_of(&Notification::new("n", None)), None);
    }

    #[test]
    fn questions_are_read_and_the_next_round_carries_their_answers() {
        let result = json!({
            "resultType": "input_required", "requestState": "s",
            "inputRequests": { "a": { "method": "roots/list", "params": {} }, "b": 7 },
        });
        let asked = Asked::of(&raw(&result)).unwrap();
        assert_eq!(asked.questions.len(), 1);
        assert_eq!(&*asked.questions[0].1.method, "roots/list");
        let answers = [("a".to_owned(), raw(&json!({ "roots": [] })))];
        let before = raw(&json!({ "name": "t", "requestState": "old", "inputResponses": { "z": {} } }));
        let next = Asked::next(Some(before), &answers, asked.state.as_ref()).unwrap();
        assert_eq!(
            next.to::<Value>().unwrap(),
            json!({ "name": "t", "inputResponses": { "a": { "roots": [] } }, "requestState": "s" })
        );
        assert_eq!(Asked::of(&raw(&json!({ "resultType": "complete" }))), None);
        assert_eq!(Asked::of(&raw(&json!({}))), None);
    }
}
