//! What a handler answers, made an answer of this revision, and back.
//!
//! Handlers and legacy upstreams speak the vocabulary of the newest legacy revision; what differs is listed here.
//!
//! | what | modern |
//! |---|---|
//! | every result | `resultType`, `"complete"` unless it says something else; `_meta` with the server's name and version |
//! | results that may be kept | `ttlMs` and `cacheScope`, unless they are there |
//! | `serverInfo` of `initialize` | in the metadata of each result |
//! | `tasks` capability | gone: tasks are an extension |
//! | error -32002 (no such resource) | -32602 |
//! | error -32042 (a URL has to be visited) | -32603; the URLs are in its message |
//! | other errors in -32020 to -32099 that the revision does not define | -32603 |
//! | `notifications/elicitation/complete`, `notifications/tasks/status`, lists and resources that changed, cancels | not on the stream of a request |

use super::{cache::CacheHint, input::InputRequest, meta::SERVER_INFO};
use crate::{
    jsonrpc::{Notification, Raw, code},
    projection::{Fields, elements, quoted},
    revision::Revision,
};

/// A result of `method` as this revision has it. `server` is the server's name and version; `cache` the hint for results of this
/// method. A result that is no object passes as it is.
#[must_use]
pub fn fit_result(result: Raw, server: Option<&Raw>, cache: Option<CacheHint>) -> Raw {
    let Some(mut members) = result.members() else { return result };
    let has = |members: &[(String, Raw)], name: &str| members.iter().any(|(known, _)| known == name);
    let mut front: Vec<(String, Raw)> = Vec::with_capacity(members.len() + 4);
    let complete = match members.iter().find(|(name, _)| name == "resultType") {
        Some((_, kind)) => kind.string().as_deref() == Some("complete"),
        None => {
            front.push(("resultType".into(), quoted("complete")));
            true
        }
    };
    if let Some(hint) = cache.filter(|_| complete) {
        if !has(&members, "ttlMs") {
            front.push(("ttlMs".into(), Raw::from_trusted(hint.ttl_ms.to_string().into())));
        }
        if !has(&members, "cacheScope") {
            front.push(("cacheScope".into(), quoted(hint.scope.as_str())));
        }
    }
    if let Some(server) = server {
        match members.iter_mut().find(|(name, _)| name == "_meta") {
            Some((_, meta)) => {
                if meta.member(SERVER_INFO).is_none()
                    && let Some(with) = meta.with_member(SERVER_INFO, server)
                {
                    *meta = with;
                }
            }
            None => front.push(("_meta".into(), Raw::from_members([(SERVER_INFO, server.clone())]))),
        }
    }
    front.append(&mut members);
    Raw::from_members(front)
}

/// The result of `server/discover`, from what the server answers to `initialize`: its capabilities and instructions, and the revisions
/// that are served.
#[must_use]
pub fn discover_result(initialize: &Raw, revisions: impl IntoIterator<Item = Revision>) -> Raw {
    let names: Vec<_> = revisions.into_iter().map(Revision::as_str).collect();
    let supported = Raw::from_value(&names).unwrap_or_else(|_| Raw::from_trusted("[]".into()));
    let capabilities = initialize.member("capabilities").unwrap_or_else(Raw::empty_object);
    let capabilities = match Fields::of(&capabilities) {
        Some(mut fields) => {
            fields.remove("tasks");
            fields.to_raw()
        }
        None => Raw::empty_object(),
    };
    let mut members = vec![("supportedVersions", supported), ("capabilities", capabilities)];
    members.extend(initialize.member("instructions").map(|text| ("instructions", text)));
    Raw::from_members(members)
}

/// An error as this revision has it.
#[must_use]
pub fn fit_error(error: Raw) -> Raw {
    let code_of = error.member("code").and_then(|code| code.to::<i64>().ok());
    let new = match code_of {
        Some(code::RESOURCE_NOT_FOUND) => code::INVALID_PARAMS,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_REVISION) => return error,
        Some(-32099..=-32020) => code::INTERNAL_ERROR,
        _ => return error,
    };
    let Some(mut fields) = Fields::of(&error) else { return error };
    if code_of == Some(code::URL_ELICITATION_REQUIRED) {
        let mut message = fields.text("message").unwrap_or_default();
        let asked = fields.get("data").and_then(|data| elements(&data.member("elicitations")?));
        for asked in asked.unwrap_or_default() {
            let Some(url) = asked.member("url").and_then(|url| url.string()) else { continue };
            let reason = asked.member("message").and_then(|reason| reason.string());
            message.push_str(&format!("\n{}: {url}", reason.as_deref().unwrap_or("Open")));
        }
        fields.set("message", quoted(&message));
    }
    fields.set("code", Raw::from_trusted(new.to_string().into()));
    fields.to_raw()
}

/// A notification that may go on the stream of a request; `None` where it may not.
#[must_use]
pub fn fit_notification(notification: Notification) -> Option<Notification> {
    let gone = matches!(
        &*notification.method,
        "notifications/elicitation/complete"
            | "notifications/tasks/status"
            | "notifications/cancelled"
            | "notifications/resources/updated"
            | "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
    );
    (!gone).then_some(notification)
}

/// The result that asks the client something before the request can be completed. `questions` may be empty where the client only has to
/// come back.
#[must_use]
pub fn input_required(questions: &[InputRequest], state: &str) -> Raw {
    let mut members = vec![("resultType", quoted("input_required"))];
    if !questions.is_empty() {
        let asked = Raw::from_members(questions.iter().map(|question| (&question.key, question.to_raw())));
        members.push(("inputRequests", asked));
    }
    members.push(("requestState", quoted(state)));
    Raw::from_members(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modern::cache::CacheScope;
    use serde_json::{Value, json};

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
    }

    fn value(raw: &Raw) -> Value {
        raw.to().unwrap()
    }

    #[test]
    fn a_result_says_what_it_is_who_gave_it_and_how_long_it_holds() {
        let server = raw(&json!({ "name": "s", "version": "1" }));
        let hint = CacheHint { ttl_ms: 5, scope: CacheScope::Public };
        let fit = |result: Value, cache| value(&fit_result(raw(&result), Some(&server), cache));
        let meta = json!({ SERVER_INFO: { "name": "s", "version": "1" } });
        assert_eq!(fit(json!({}), None), json!({ "resultType": "complete", "_meta": meta }));
        assert_eq!(
            fit(json!({ "tools": [] }), Some(hint)),
            json!({ "resultType": "complete", "ttlMs": 5, "cacheScope": "public", "_meta": meta, "tools": [] })
        );
        // What the server says itself stands.
        let own = json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "_meta": { SERVER_INFO: { "name": "up" }, "x": 1 },
        });
        assert_eq!(fit(own.clone(), Some(hint)), own);
        assert_eq!(
            fit(json!({ "_meta": { "x": 1 } }), None)["_meta"],
            json!({ "x": 1, SERVER_INFO: { "name": "s", "version": "1" } })
        );
        // A question is no result to keep.
        let asked = fit(json!({ "resultType": "input_required", "requestState": "s" }), Some(hint));
        assert_eq!((&asked["ttlMs"], &asked["resultType"]), (&Value::Null, &json!("input_required")));
        assert_eq!(value(&fit_result(raw(&json!(7)), Some(&server), None)), json!(7));
    }

    #[test]
    fn numbers_keep_their_digits() {
        let result = Raw::parse(r#"{"structuredContent":{"x":1.50}}"#).unwrap();
        assert_eq!(
            fit_result(result, None, None).as_str(),
            r#"{"resultType":"complete","structuredContent":{"x":1.50}}"#
        );
    }

    #[test]
    fn what_a_server_says_of_itself() {
        let initialize = raw(&json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": "s" }, "instructions": "Use it",
            "capabilities": { "tools": { "listChanged": true }, "tasks": {} },
        }));
        assert_eq!(
            value(&discover_result(&initialize, [Revision::V2026_07_28, Revision::V2025_11_25])),
            json!({
                "supportedVersions": ["2026-07-28", "2025-11-25"],
                "capabilities": { "tools": { "listChanged": true } },
                "instructions": "Use it",
            })
        );
        let nothing = discover_result(&raw(&json!({})), []);
        assert_eq!(value(&nothing), json!({ "supportedVersions": [], "capabilities": {} }));
    }

    #[test]
    fn codes_of_this_revision() {
        for (code, expected) in [
            (-32002, -32602),
            (-32042, -32603),
            (-32050, -32603),
            (-32099, -32603),
            (-32020, -32020),
            (-32021, -32021),
            (-32022, -32022),
            (-32000, -32000),
            (-32019, -32019),
            (-32601, -32601),
            (7, 7),
        ] {
            let fitted = fit_error(raw(&json!({ "code": code, "message": "m", "data": { "uri": "x" } })));
            assert_eq!(value(&fitted), json!({ "code": expected, "message": "m", "data": { "uri": "x" } }));
        }
        let urls = json!({ "code": -32042, "message": "First", "data": { "elicitations": [{ "url": "https://e", "message": "Log in" }] } });
        assert_eq!(value(&fit_error(raw(&urls)))["message"], "First\nLog in: https://e");
    }

    #[test]
    fn what_goes_on_the_stream_of_a_request() {
        for (method, goes) in [
            ("notifications/progress", true),
            ("notifications/message", true),
            ("notifications/own", true),
            ("notifications/cancelled", false),
            ("notifications/tools/list_changed", false),
            ("notifications/resources/updated", false),
            ("notifications/elicitation/complete", false),
        ] {
            assert_eq!(fit_notification(Notification::new(method, None)).is_some(), goes, "{method}");
        }
    }
}
