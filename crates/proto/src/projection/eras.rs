//! Between a peer that has no handshake (`2026-07-28` on) and one that has: SEMANTICS 3 and 4.
//!
//! The other functions of this module take messages for written in the words of the newest legacy revision, as handlers and legacy
//! peers write them, and do not even read what is for such a peer. These are for whoever knows that the author is a modern one, or the
//! receiver.
//!
//! | what | modern to legacy | legacy to modern |
//! |---|---|---|
//! | `resultType`, `ttlMs`, `cacheScope` of a result | removed; a result that is no end (`input_required`, `task`) is an error | put on by [`fit_result`](crate::modern::fit_result) |
//! | `_meta` of the era (`io.modelcontextprotocol/protocolVersion`, `clientInfo`, `clientCapabilities`, `logLevel`, `serverInfo`, `subscriptionId`) | removed; what extensions put there stays | put on by the endpoint or the client |
//! | `inputResponses`, `requestState` | removed | |
//! | `capabilities.extensions` of a server | removed | stays |
//! | `capabilities.extensions` of a client | without tasks, which a legacy server has in another form; the others stay: servers of `2025-11-25` look for them there | stays |
//! | `tasks`, `roots.listChanged` capabilities | | removed |
//! | `task` of a request, `execution` of a tool | | removed |
//! | `structuredContent` that is no object | removed, its JSON is the text where there is none | stays |
//! | `outputSchema` of another type than `object` | removed | stays |
//! | `elicitationId` of a page to visit | added | removed by [`InputRequest::to_raw`](crate::modern::InputRequest::to_raw) |
//! | `notifications/subscriptions/acknowledged` | dropped | |

use super::{Fields, Part, Unsupported, fields::change_each, project_request, quoted, walk};
use crate::{
    jsonrpc::{ErrorObject, Notification, Raw},
    revision::Revision,
};

/// The author of what comes from the modern era.
const MODERN: Revision = Revision::NEWEST_MODERN;

/// The result of a modern server, made fit for a legacy receiver that speaks `revision`.
///
/// # Errors
/// Where the result is not the end of its request (`resultType` says something else than `complete`): there is nothing that a legacy
/// client could be told.
pub fn result_for_legacy(revision: Revision, method: &str, result: Raw) -> Result<Raw, ErrorObject> {
    let kind = result.member("resultType").and_then(|kind| kind.string());
    if let Some(kind) = kind.filter(|kind| kind != "complete") {
        return Err(ErrorObject::outcome_unknown(
            "unsupported_by_revision",
            format!(
                "the server answered with a result of the kind {kind:?}, which a client of a legacy revision cannot have"
            ),
        ));
    }
    Ok(walk::fit_from(MODERN, revision, Part::of_result(method).unwrap_or(Part::Result), result))
}

/// A notification of a modern server, made fit for a legacy receiver that speaks `revision`; `None` where it cannot be said there.
#[must_use]
pub fn notification_for_legacy(revision: Revision, notification: Notification) -> Option<Notification> {
    if &*notification.method == "notifications/subscriptions/acknowledged" {
        return None;
    }
    super::project_notification(revision, untagged(notification))
}

/// A notification of a modern server without the listening request that it belongs to.
#[must_use]
pub fn untagged(notification: Notification) -> Notification {
    let Notification { method, params } = notification;
    Notification { method, params: params.map(without_era) }
}

/// The parameters of a modern client's request, in the words of the newest legacy revision.
#[must_use]
pub fn request_for_legacy(params: Raw) -> Raw {
    let Some(mut fields) = Fields::of(&params) else { return params };
    for name in ["inputResponses", "requestState"] {
        fields.remove(name);
    }
    strip_era(&mut fields);
    fields.into_changed().unwrap_or(params)
}

/// What a modern client says of itself, as the parameters of an `initialize` of the newest legacy revision.
#[must_use]
pub fn introduction_for_legacy(params: Raw) -> Raw {
    walk::fit_from(MODERN, Revision::NEWEST_LEGACY, Part::InitializeParams, params)
}

/// The parameters of a question of a modern server (one of its `inputRequests`), made fit for a legacy client that speaks `revision`.
/// `id` names the page, if it is about one: the client is not asked about it again by that name, but has to be given one.
///
/// # Errors
/// The client's revision has no such question.
pub fn question_for_legacy(
    revision: Revision,
    method: &str,
    params: Option<Raw>,
    id: &str,
) -> Result<Option<Raw>, Unsupported> {
    let named = params.as_ref().filter(|_| method == "elicitation/create").filter(|params| {
        params.member("mode").and_then(|mode| mode.string()).as_deref() == Some("url")
            && params.member("elicitationId").is_none()
    });
    let named = named.and_then(|params| params.with_member("elicitationId", &quoted(id)));
    project_request(revision, method, named.or(params))
}

/// The parameters of a legacy client's request, for a modern server.
#[must_use]
pub fn request_for_modern(method: &str, params: Raw) -> Raw {
    if method != "tools/call" {
        return params;
    }
    let Some(mut fields) = Fields::of(&params) else { return params };
    fields.remove("task");
    fields.into_changed().unwrap_or(params)
}

/// The capabilities of a legacy client, for a modern server.
#[must_use]
pub fn capabilities_for_modern(capabilities: Raw) -> Raw {
    let Some(mut fields) = Fields::of(&capabilities) else { return capabilities };
    fields.remove("tasks");
    fields.update("roots", |roots| {
        let mut roots = Fields::of(roots)?;
        roots.remove("listChanged");
        roots.into_changed()
    });
    fields.into_changed().unwrap_or(capabilities)
}

/// The result of a legacy server's or a handler's, for a modern client: without what that era has in another form. What it has beside
/// is for [`fit_result`](crate::modern::fit_result) to put on.
#[must_use]
pub fn result_for_modern(method: &str, result: Raw) -> Raw {
    // Few servers have it, and lists are long.
    if method != "tools/list" || memchr::memmem::find(result.as_str().as_bytes(), b"\"execution\"").is_none()
    {
        return result;
    }
    let Some(mut fields) = Fields::of(&result) else { return result };
    fields.update("tools", |tools| {
        change_each(tools, |tool| {
            let mut tool = Fields::of(tool)?;
            tool.remove("execution");
            tool.into_changed()
        })
    });
    fields.into_changed().unwrap_or(result)
}

fn without_era(params: Raw) -> Raw {
    let Some(mut fields) = Fields::of(&params) else { return params };
    strip_era(&mut fields);
    fields.into_changed().unwrap_or(params)
}

/// Takes the metadata of the modern era away, and `_meta` with it where nothing else is in it.
pub(crate) fn strip_era(fields: &mut Fields) {
    let mut left = true;
    if let Some(mut meta) = fields.get("_meta").and_then(Fields::of) {
        for name in crate::modern::meta::ALL {
            meta.remove(name);
        }
        if let Some(meta) = meta.into_changed() {
            left = meta.members().is_none_or(|members| !members.is_empty());
            fields.update("_meta", |_| Some(meta.clone()));
        }
    }
    if !left {
        fields.remove("_meta");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modern::meta::{
        CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID,
    };
    use serde_json::{Value, json};

    fn raw(value: &Value) -> Raw {
        Raw::from_value(value).unwrap()
    }

    fn value(raw: &Raw) -> Value {
        raw.to().unwrap()
    }

    fn result(revision: Revision, method: &str, result: &Value) -> Value {
        value(&result_for_legacy(revision, method, raw(result)).unwrap())
    }

    #[test]
    fn a_legacy_client_gets_results_that_it_knows() {
        let era = json!({ SERVER_INFO: { "name": "s" }, SUBSCRIPTION_ID: 1 });
        for revision in Revision::LEGACY {
            for (method, name) in [
                ("tools/list", "tools"),
                ("resources/list", "resources"),
                ("resources/templates/list", "resourceTemplates"),
                ("prompts/list", "prompts"),
                ("resources/read", "contents"),
            ] {
                let modern = json!({
                    "resultType": "complete", "ttlMs": 1, "cacheScope": "public", name: [], "nextCursor": "c", "_meta": era,
                });
                assert_eq!(result(revision, method, &modern), json!({ name: [], "nextCursor": "c" }));
            }
            for method in ["tools/call", "prompts/get", "completion/complete", "initialize", "x/other"] {
                let modern =
                    json!({ "resultType": "complete", "x": 1.5, "_meta": { SERVER_INFO: {}, "own/x": 1 } });
                let legacy = json!({ "x": 1.5, "_meta": { "own/x": 1 } });
                assert_eq!(result(revision, method, &modern), legacy, "{revision} {method}");
            }
            // An empty `_meta` that was there stays.
            assert_eq!(result(revision, "x/y", &json!({ "_meta": {} })), json!({ "_meta": {} }));
        }
        for kind in ["task", "input_required", "other"] {
            let error =
                result_for_legacy(Revision::V2025_11_25, "tools/call", raw(&json!({ "resultType": kind })));
            assert!(error.unwrap_err().message.contains(kind));
        }
    }

    #[test]
    fn every_revision_takes_its_own_away_too() {
        let modern = json!({ "resultType": "complete", "tools": [{
            "name": "t", "title": "T", "icons": [{ "src": "x" }], "inputSchema": {},
            "outputSchema": { "type": "object", "properties": {} },
        }] });
        let list = |revision| result(revision, "tools/list", &modern)["tools"][0].clone();
        assert_eq!(list(Revision::V2025_11_25), modern["tools"][0]);
        let mut older = modern["tools"][0].clone();
        older.as_object_mut().unwrap().remove("icons");
        assert_eq!(list(Revision::V2025_06_18), older);
        assert_eq!(list(Revision::V2024_11_05), json!({ "name": "t", "inputSchema": {} }),);
    }

    #[test]
    fn structured_content_of_any_kind_is_an_object_or_text() {
        let call = |revision, modern: Value| result(revision, "tools/call", &modern);
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
            let object = json!({ "content": [], "structuredContent": { "a": 1 } });
            assert_eq!(call(revision, object.clone()), object);
            assert_eq!(
                call(revision, json!({ "structuredContent": [1, 2.50], "content": [] })),
                json!({ "content": [{ "type": "text", "text": "[1,2.5]" }] })
            );
            let said = json!([{ "type": "text", "text": "three" }]);
            assert_eq!(
                call(revision, json!({ "structuredContent": 3, "content": said })),
                json!({ "content": said })
            );
        }
        let tools = json!({ "tools": [
            { "name": "a", "inputSchema": {}, "outputSchema": { "type": "array" } },
            { "name": "b", "inputSchema": {}, "outputSchema": { "anyOf": [] } },
            { "name": "c", "inputSchema": {}, "outputSchema": { "type": "object" } },
        ] });
        let list = result(Revision::V2025_11_25, "tools/list", &tools)["tools"].clone();
        let has: Vec<_> =
            list.as_array().unwrap().iter().map(|tool| tool["outputSchema"].is_object()).collect();
        assert_eq!(has, [false, false, true]);
    }

    #[test]
    fn what_each_says_of_itself() {
        let hello = json!({
            "protocolVersion": "2025-11-25", "serverInfo": { "name": "s" },
            "capabilities": { "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
        assert_eq!(
            result(Revision::V2025_11_25, "initialize", &hello)["capabilities"],
            json!({ "tools": {} })
        );
        let client = |extensions: Value| {
            let params =
                json!({ "protocolVersion": "x", "capabilities": { "roots": {}, "extensions": extensions } });
            value(&introduction_for_legacy(raw(&params)))["capabilities"].clone()
        };
        assert_eq!(client(json!({ "io.modelcontextprotocol/tasks": {} })), json!({ "roots": {} }));
        assert_eq!(
            client(json!({ "io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": { "a": 1 } })),
            json!({ "roots": {}, "extensions": { "io.modelcontextprotocol/ui": { "a": 1 } } })
        );
        let legacy =
            json!({ "tasks": {}, "roots": { "listChanged": true }, "extensions": {}, "sampling": {} });
        assert_eq!(
            value(&capabilities_for_modern(raw(&legacy))),
            json!({ "roots": {}, "extensions": {}, "sampling": {} })
        );
    }

    #[test]
    fn requests_cross_without_the_words_of_the_other_era() {
        let modern = json!({
            "name": "x", "arguments": { "requestState": 1 }, "requestState": "s", "inputResponses": {},
            "_meta": {
                PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}, CLIENT_INFO: {}, LOG_LEVEL: "info",
                "progressToken": 1, "traceparent": "00-a-b-01", "io.modelcontextprotocol/related-task": {},
            },
        });
        assert_eq!(
            value(&request_for_legacy(raw(&modern))),
            json!({
                "name": "x", "arguments": { "requestState": 1 },
                "_meta": { "progressToken": 1, "traceparent": "00-a-b-01", "io.modelcontextprotocol/related-task": {} },
            })
        );
        assert_eq!(
            value(&request_for_legacy(raw(&json!({ "_meta": { PROTOCOL_VERSION: "x" } })))),
            json!({})
        );
        let augmented = json!({ "name": "x", "arguments": { "task": 1 }, "task": { "ttl": 1 } });
        assert_eq!(
            value(&request_for_modern("tools/call", raw(&augmented))),
            json!({ "name": "x", "arguments": { "task": 1 } })
        );
        assert_eq!(value(&request_for_modern("x/y", raw(&augmented))), augmented);
        let tools = json!({ "tools": [{ "name": "a", "execution": { "taskSupport": "required" }, "inputSchema": {} }, 7] });
        assert_eq!(
            value(&result_for_modern("tools/list", raw(&tools))),
            json!({ "tools": [{ "name": "a", "inputSchema": {} }, 7] })
        );
    }

    #[test]
    fn notifications_lose_their_tag() {
        let said = |method: &str, params: Value| {
            let note = Notification::new(method, Some(raw(&params)));
            notification_for_legacy(Revision::V2024_11_05, note)
                .and_then(|note| note.params)
                .map(|params| value(&params))
        };
        let updated = "notifications/resources/updated";
        assert_eq!(
            said(updated, json!({ "uri": "a", "_meta": { SUBSCRIPTION_ID: 7 } })),
            Some(json!({ "uri": "a" }))
        );
        assert_eq!(
            said(updated, json!({ "_meta": { SUBSCRIPTION_ID: 7, "x": 1 } })),
            Some(json!({ "_meta": { "x": 1 } }))
        );
        assert_eq!(
            said("notifications/progress", json!({ "progressToken": 1, "progress": 1, "message": "m" })),
            Some(json!({ "progressToken": 1, "progress": 1 }))
        );
        assert_eq!(said("notifications/subscriptions/acknowledged", json!({})), None);
        assert!(untagged(Notification::new("n", None)).params.is_none());
    }

    #[test]
    fn questions_are_asked_in_the_words_of_the_client() {
        let page = json!({ "mode": "url", "url": "https://e", "message": "m" });
        let asked = |revision, method: &str, params: &Value| {
            question_for_legacy(revision, method, Some(raw(params)), "q-1")
                .map(|params| value(&params.unwrap()))
        };
        let mut named = page.clone();
        named["elicitationId"] = "q-1".into();
        assert_eq!(asked(Revision::V2025_11_25, "elicitation/create", &page), Ok(named.clone()));
        assert_eq!(asked(Revision::V2025_11_25, "elicitation/create", &named), Ok(named));
        assert!(asked(Revision::V2025_06_18, "elicitation/create", &page).is_err());
        let form = json!({ "mode": "form", "message": "m", "requestedSchema": {} });
        assert_eq!(
            asked(Revision::V2025_06_18, "elicitation/create", &form),
            Ok(json!({ "message": "m", "requestedSchema": {} }))
        );
        assert!(asked(Revision::V2025_03_26, "elicitation/create", &form).is_err());
    }
}
