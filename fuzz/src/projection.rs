//! Any JSON as the parameters or the result of any method, for any revision: valid JSON comes out, twice is once, nothing of
//! a kind that the receiver does not know is left, and what is its author's own survives.

use crate::json;
use arbitrary::{Result, Unstructured};
use bowline_proto::{
    jsonrpc::{Body, Message, Notification, Raw, Reply, parse},
    projection::{
        project_error, project_notification, project_reply, project_request, project_result, strip_stateless,
    },
    revision::Revision,
};
use bytes::Bytes;
use serde_json::Value;

const METHODS: &[&str] = &[
    "initialize",
    "tools/call",
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "notifications/progress",
    "notifications/cancelled",
    "notifications/message",
    "tasks/get",
    "x/unknown",
];

#[rustfmt::skip]
const NAMES: &[&str] = &[
    "content", "type", "text", "data", "mimeType", "tools", "title", "icons", "_meta", "annotations", "messages",
    "resource", "structuredContent", "properties", "requestedSchema", "oneOf", "anyOf", "items", "enum", "const", "default",
    "capabilities", "serverInfo", "clientInfo", "message", "code", "elicitation", "sampling", "tasks", "url", "uri", "input",
    "toolUseId", "outputSchema", "execution", "task", "context", "name", "arguments", "mode", "toolChoice", "requestId",
    "elicitations", "lastModified", "ref", "prompts", "resources", "resourceTemplates", "contents", "roots", "description",
];

const STRINGS: &[&str] = &[
    "text",
    "image",
    "audio",
    "resource",
    "resource_link",
    "tool_use",
    "tool_result",
    "video",
    "object",
    "array",
    "boolean",
    "string",
    "required",
    "QUJD",
    "form",
    "url",
    "",
];

pub fn run(data: &[u8]) {
    let _ = checked(&mut Unstructured::new(data));
}

fn checked(u: &mut Unstructured<'_>) -> Result<()> {
    let revision = *u.choose(&Revision::ALL)?;
    let method = *u.choose(METHODS)?;
    let text = if u.ratio(1, 4)? {
        // As it stands, where the envelope would let it through.
        match u.bytes(u.len()).map(std::str::from_utf8) {
            Ok(Ok(text)) => text.to_owned(),
            _ => return Ok(()),
        }
    } else {
        json::text(u, NAMES, STRINGS)?
    };
    let around = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#);
    let Ok(Body::Single(Message::Response(response))) = parse(Bytes::from(around)) else { return Ok(()) };
    let Reply::Result(raw) = response.reply else { return Ok(()) };

    result(revision, method, &raw);
    request(revision, method, &raw);
    let error = project_error(revision, raw.clone());
    assert_json(&error, &raw);
    assert_eq!(project_error(revision, error.clone()), error, "an error twice");
    let stripped = strip_stateless(raw.clone());
    assert_json(&stripped, &raw);
    assert_eq!(strip_stateless(stripped.clone()), stripped, "stripped twice");
    own_members_stay(revision, method, &raw);
    Ok(())
}

fn result(revision: Revision, method: &str, raw: &Raw) {
    let once = project_result(revision, method, raw.clone());
    assert_json(&once, raw);
    assert_eq!(project_result(revision, method, once.clone()), once, "{method} for {revision} twice");
    assert_eq!(project_reply(revision, method, Reply::Result(raw.clone())), Reply::Result(once.clone()));
    if revision == Revision::NEWEST_LEGACY {
        assert_eq!(&once, raw, "the newest legacy revision has everything");
    }
    for newer in Revision::ALL.into_iter().filter(|newer| *newer > revision) {
        assert_eq!(project_result(newer, method, once.clone()), once, "{method}: {revision}, then {newer}");
    }
    // Numbers that do not fit and halves of surrogates are no `Value`: only their author's own parser judges those.
    let Ok(value) = once.to::<Value>() else { return };
    match method {
        "tools/call" => no_foreign_content(value.get("content"), kinds(revision, false)),
        "sampling/createMessage" => no_foreign_content(value.get("content"), kinds(revision, true)),
        "prompts/get" => no_foreign_messages(&value, kinds(revision, false)),
        _ => {}
    }
}

fn request(revision: Revision, method: &str, raw: &Raw) {
    let notification = Notification::new(method, Some(raw.clone()));
    let once = project_request(revision, method, Some(raw.clone()));
    let said = project_notification(revision, notification);
    assert_eq!(said.map(|said| said.params), once.clone().ok());
    let once = match once {
        Ok(params) => params,
        Err(unsupported) => {
            assert_ne!(revision, Revision::NEWEST_LEGACY);
            assert!(unsupported.to_error().data.is_some());
            return;
        }
    };
    let params = once.clone().expect("parameters stay");
    assert_json(&params, raw);
    assert_eq!(
        project_request(revision, method, Some(params.clone())),
        Ok(once),
        "{method} for {revision} twice"
    );
    if revision == Revision::NEWEST_LEGACY {
        assert_eq!(&params, raw, "the newest legacy revision has everything");
    }
    if method == "sampling/createMessage"
        && let Ok(value) = params.to::<Value>()
    {
        no_foreign_messages(&value, kinds(revision, true));
    }
}

/// A member that no revision knows stays, whatever its name and value, and whatever changes beside it.
fn own_members_stay(revision: Revision, method: &str, raw: &Raw) {
    if !raw.is_object() {
        return;
    }
    let own = r#""x-\u0000 é": 1.50"#;
    let comma = if raw.members().is_some_and(|members| members.is_empty()) { "" } else { "," };
    let with = Raw::from_trusted(format!("{{{own}{comma}{}", &raw.as_str()[1..]).into());
    let has_it = |out: &Raw| {
        let value = out.member("x-\0 é");
        assert_eq!(
            value.as_ref().map(Raw::as_str),
            Some("1.50"),
            "{method} for {revision}: {}",
            out.as_str()
        );
    };
    has_it(&project_result(revision, method, with.clone()));
    if let Ok(Some(params)) = project_request(revision, method, Some(with)) {
        has_it(&params);
    }
}

fn assert_json(out: &Raw, of: &Raw) {
    let text = out.as_str();
    assert!(Raw::parse(text.to_owned()).is_ok(), "{text} of {}", of.as_str());
    // What a peer's own parser took before, it takes after.
    if of.to::<Value>().is_ok() {
        assert!(out.to::<Value>().is_ok(), "{text} of {}", of.as_str());
    }
}

/// The kinds of content that `revision` has, written down once more and by hand.
fn kinds(revision: Revision, sampling: bool) -> &'static [&'static str] {
    match (revision, sampling) {
        (Revision::V2024_11_05, false) => &["text", "image", "resource"],
        (Revision::V2025_03_26, false) => &["text", "image", "resource", "audio"],
        (Revision::V2025_06_18, false) => &["text", "image", "resource", "audio", "resource_link"],
        (Revision::V2024_11_05, true) => &["text", "image"],
        (Revision::V2025_03_26 | Revision::V2025_06_18, true) => &["text", "image", "audio"],
        // For the newest one nothing is even read.
        _ => &[],
    }
}

fn no_foreign_messages(value: &Value, allowed: &[&str]) {
    for message in value.get("messages").and_then(Value::as_array).into_iter().flatten() {
        no_foreign_content(message.get("content"), allowed);
    }
}

fn no_foreign_content(content: Option<&Value>, allowed: &[&str]) {
    if allowed.is_empty() {
        return;
    }
    let blocks = match content {
        Some(Value::Array(blocks)) => &**blocks,
        Some(block) => std::slice::from_ref(block),
        None => &[],
    };
    for block in blocks.iter().filter(|block| block.is_object()) {
        let kind = block.get("type").and_then(Value::as_str);
        assert!(kind.is_some_and(|kind| allowed.contains(&kind)), "{kind:?} in {block}");
    }
}
