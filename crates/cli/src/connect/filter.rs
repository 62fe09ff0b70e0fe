//! Tools that the host is not to see.

use bowline_client::{ErrorObject, Message, Raw, RequestId, code};
use bowline_proto::jsonrpc::{Reply, Request, Response};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Patterns of names, and the lists that are on their way.
#[derive(Debug, Default)]
pub(super) struct Filter {
    patterns: Vec<String>,
    lists: Mutex<BTreeSet<String>>,
}

impl Filter {
    pub(super) fn new(patterns: &[String]) -> Self {
        Self { patterns: patterns.to_vec(), lists: Mutex::default() }
    }

    fn hides(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// Looks at a request of the host. An error: it is the answer.
    pub(super) fn on_request(&self, request: &Request) -> Result<(), ErrorObject> {
        if self.patterns.is_empty() {
            return Ok(());
        }
        match &*request.method {
            "tools/list" => {
                self.lists.lock().insert(request.id.to_json());
                Ok(())
            }
            "tools/call" => {
                // All of that name: where it stands twice, nobody knows which one the server takes.
                let members = request.params.as_ref().and_then(Raw::members).unwrap_or_default();
                let mut names =
                    members.iter().filter(|(key, _)| key == "name").filter_map(|(_, name)| name.string());
                match names.find(|name| self.hides(name)) {
                    Some(name) => Err(ErrorObject::new(
                        code::INVALID_PARAMS,
                        format!("Unknown tool: {name} (hidden by --ignore-tool)"),
                    )),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The message as the host is to get it.
    pub(super) fn on_message(&self, message: Message) -> Message {
        match message {
            Message::Response(response) if !self.patterns.is_empty() => {
                let is_list = self.lists.lock().remove(&response.id.to_json());
                let reply = match response.reply {
                    Reply::Result(list) if is_list => Reply::Result(self.without_hidden(list)),
                    reply => reply,
                };
                Message::Response(Response { id: response.id, reply })
            }
            message => message,
        }
    }

    /// A request is over without an answer.
    pub(super) fn forget(&self, id: &RequestId) {
        if !self.patterns.is_empty() {
            self.lists.lock().remove(&id.to_json());
        }
    }

    fn without_hidden(&self, list: Raw) -> Raw {
        let tools = list.member("tools").and_then(|tools| tools.to::<Vec<Box<RawValue>>>().ok());
        let Some(tools) = tools else { return list };
        let kept: Vec<&str> = tools
            .iter()
            .map(|tool| tool.get())
            .filter(|tool| {
                let name = Raw::parse((*tool).to_owned()).ok().and_then(|tool| tool.member("name")?.string());
                !name.is_some_and(|name| self.hides(&name))
            })
            .collect();
        let kept = Raw::from_trusted(format!("[{}]", kept.join(",")).into());
        list.with_member("tools", &kept).unwrap_or(list)
    }
}

/// Whether `pattern`, in which `*` stands for any characters, is all of `name`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        // The earliest place leaves the most for the parts that follow.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("delete*", &["delete", "deleteTask"][..], &["xdelete", "Delete"][..]),
            ("*account", &["account", "getAccount account"], &["accounts"]),
            ("exact", &["exact"], &["exactly", "inexact", ""]),
            ("*", &["", "a"], &[]),
            ("a*b*c", &["abc", "a--b--c", "abcbc"], &["ab", "acb", "xabc"]),
            ("a*a", &["aa", "aba"], &["a"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    fn message(text: &'static str) -> Message {
        bowline_proto::jsonrpc::parse_message(Bytes::from_static(text.as_bytes())).unwrap()
    }

    fn request(text: &'static str) -> Request {
        let Message::Request(request) = message(text) else { panic!("{text}") };
        request
    }

    #[test]
    fn hidden_tools_are_neither_shown_nor_called() {
        let filter = Filter::new(&["del*".into()]);
        let list = request(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list"}"#);
        filter.on_request(&list).unwrap();
        let answer = r#"{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"delete"},{"name":"x","n":1.0}],"nextCursor":"c"}}"#;
        let shown = String::from_utf8(filter.on_message(message(answer)).to_bytes().to_vec()).unwrap();
        assert!(shown.contains(r#"{"name":"x","n":1.0}"#) && shown.contains("nextCursor"), "{shown}");
        assert!(!shown.contains("delete"), "{shown}");
        // Only the answer to a list is looked into.
        let shown = String::from_utf8(filter.on_message(message(answer)).to_bytes().to_vec()).unwrap();
        assert!(shown.contains("delete"), "{shown}");

        let call = |name| request(name);
        let refused = filter.on_request(&call(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete"}}"#,
        ));
        assert_eq!(refused.unwrap_err().code, code::INVALID_PARAMS);
        assert_eq!(
            filter
                .on_request(&call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#)),
            Ok(())
        );
    }
}
