//! What is kept with a call's stream so that another backend can run the call again.
//!
//! The request as it came, who sent it, and by which revision: no header of the HTTP request, so no credentials. The session, and the
//! request's id, are kept with the stream anyway.

use bowline_proto::{
    jsonrpc::{Message, Request, parse_message},
    revision::Revision,
};
use bytes::Bytes;
use serde_json::{Value, json};

/// Another number means: written by a version that says it otherwise.
const VERSION: u32 = 1;

/// A call that may be run again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) principal: Option<String>,
    pub(crate) revision: Revision,
    pub(crate) request: Request,
    /// When it became a task, in milliseconds since 1970, where it is one.
    pub(crate) task: Option<u64>,
}

/// The text of it; `None` where that would be longer than `limit` bytes.
pub(crate) fn encode(
    principal: Option<&str>,
    revision: Revision,
    request: &Request,
    task: Option<u64>,
    limit: usize,
) -> Option<Bytes> {
    // Nothing large is copied in vain.
    if request.params.as_ref().is_some_and(|params| params.as_str().len() > limit) {
        return None;
    }
    // The first line says how to read the rest.
    let mut head = json!({ "v": VERSION, "principal": principal, "revision": revision.as_str() });
    if let Some(created) = task {
        head["task"] = created.into();
    }
    let mut text = head.to_string().into_bytes();
    text.push(b'\n');
    text.extend_from_slice(&request.to_bytes());
    (text.len() <= limit).then(|| text.into())
}

/// Reads it; `None` where another version wrote it.
pub(crate) fn decode(text: &Bytes) -> Option<Record> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let head: Value = serde_json::from_slice(&text[..end]).ok()?;
    if head["v"] != VERSION {
        return None;
    }
    let principal = match &head["principal"] {
        Value::Null => None,
        Value::String(principal) => Some(principal.clone()),
        _ => return None,
    };
    let revision = Revision::from_wire(head["revision"].as_str()?)?;
    let task = match &head["task"] {
        Value::Null => None,
        created => Some(created.as_u64()?),
    };
    match parse_message(text.slice(end + 1..)) {
        Ok(Message::Request(request)) => Some(Record { principal, revision, request, task }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(params: &str) -> Request {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"a\n1","method":"tools/call","params":{params}}}"#);
        match parse_message(text.into()) {
            Ok(Message::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_kept_comes_back_as_it_was() {
        let params = r#"{"name":"t","arguments":{"x":1.50,"y":"\n"},"_meta":{"progressToken":7}}"#;
        for (principal, made) in [(None, None), (Some("al\"ice\n"), None), (None, Some(1_800_000_000_000))] {
            let kept = encode(principal, Revision::NEWEST_LEGACY, &request(params), made, 1_000).unwrap();
            let Record { principal: who, revision, request, task } = decode(&kept).unwrap();
            assert_eq!((who.as_deref(), revision, task), (principal, Revision::NEWEST_LEGACY, made));
            assert_eq!(request.params.unwrap().as_str(), params);
            assert_eq!((request.id.to_json().as_str(), &*request.method), (r#""a\n1""#, "tools/call"));
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let request = request(r#"{"name":"t"}"#);
        let kept = encode(None, Revision::NEWEST_LEGACY, &request, None, 1_000).unwrap();
        assert_eq!(encode(None, Revision::NEWEST_LEGACY, &request, None, kept.len()), Some(kept.clone()));
        assert_eq!(encode(None, Revision::NEWEST_LEGACY, &request, None, kept.len() - 1), None);
        assert_eq!(encode(None, Revision::NEWEST_LEGACY, &request, None, 5), None);
    }

    #[test]
    fn what_another_version_wrote_is_none() {
        let kept = encode(None, Revision::NEWEST_LEGACY, &request("{}"), None, 1_000).unwrap();
        let text = String::from_utf8(kept.to_vec()).unwrap();
        for other in [
            text.replace("\"v\":1", "\"v\":2"),
            text.replace("2025-11-25", "2025-11-26"),
            text.replace("\"v\":1", "\"v\":1,\"task\":\"then\""),
            text.replace('\n', " "),
            text.replace("\"id\"", "\"xx\""),
            String::new(),
        ] {
            assert_eq!(decode(&other.clone().into()), None, "{other}");
        }
    }
}
