//! What can be made of a line of a process that is no message (SEMANTICS 6: a call always ends for its caller).

use super::outline::{MAX_STARTS, Outline, starts};
use super::{Message, Raw, RequestId, parse_message};
use bytes::Bytes;
use serde_json::value::RawValue;

/// Something that a line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Salvaged {
    /// A message with something before or after it: text, another message.
    Message(Message),
    /// A response to the request of that id that cannot be read as one.
    Unreadable(RequestId),
    /// An error without an id: the process could not read a request, and says so.
    NoId(Raw),
}

/// Looks for messages in a line that [`super::parse`] refused, or of which it refused a member. Returns what was found, in its order,
/// and whether there was anything else.
///
/// A message is taken from the first bracket on at which one can be read. What a process logs of what it was sent (a request or a
/// notification that only clients have) is not taken for its own words, nor what it logs of its answers and cuts short: behind text, a
/// response without its end is nothing. The search ends at the first few places where there is nothing, so its cost is bounded.
#[must_use]
pub fn salvage(line: &Bytes) -> (Vec<Salvaged>, bool) {
    let (mut found, mut noise, mut failures, mut at) = (Vec::new(), false, 0, 0);
    while failures < MAX_STARTS
        && let Some(start) = starts(&line[at..]).next()
    {
        let start = at + start;
        noise |= !is_between(&line[at..start]);
        let rest = line.slice(start..);
        let (what, length) = read(&rest, start == 0);
        match what {
            Some(what) => found.push(what),
            None => {
                noise = true;
                failures += 1;
            }
        }
        at = start + length;
    }
    noise |= found.is_empty() || !is_between(&line[at..]);
    (found, noise)
}

/// Reads what begins here, and how far it goes.
fn read(text: &Bytes, is_start: bool) -> (Option<Salvaged>, usize) {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    if let Some(Ok(value)) = values.next() {
        let object = text.slice_ref(value.get().as_bytes());
        let length = object.len();
        let what = match parse_message(object.clone()) {
            Ok(message) => (!is_of_client(&message)).then_some(Salvaged::Message(message)),
            Err(_) => unreadable(&Outline::of(&object), value),
        };
        return (what, length);
    }
    let outline = Outline::of(text);
    match outline.end {
        // No object at all: perhaps there is one inside.
        _ if !outline.is_response() => (None, 1),
        Some(end) => (outline.id.map(Salvaged::Unreadable), end),
        None if is_start => (outline.id.map(Salvaged::Unreadable), text.len()),
        None => (None, 1),
    }
}

fn unreadable(outline: &Outline, value: &RawValue) -> Option<Salvaged> {
    if !outline.is_response() {
        return None;
    }
    if let Some(id) = &outline.id {
        return Some(Salvaged::Unreadable(id.clone()));
    }
    let object = Raw::from_trusted(value.get().into());
    let named = object.member("id").is_some_and(|id| id.as_str() != "null");
    let error = object.member("error").filter(|error| !named && error.is_object());
    error.map(Salvaged::NoId)
}

/// Whether nothing is lost where this stands between messages.
fn is_between(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, b',' | b'[' | b']'))
}

/// Whether only clients say this.
fn is_of_client(message: &Message) -> bool {
    match message {
        Message::Request(request) => {
            matches!(
                request.method.split('/').next(),
                Some(
                    "initialize"
                        | "tools"
                        | "prompts"
                        | "resources"
                        | "completion"
                        | "logging"
                        | "server"
                        | "subscriptions"
                )
            )
        }
        Message::Notification(said) => {
            matches!(&*said.method, "notifications/initialized" | "notifications/roots/list_changed")
        }
        Message::Response(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> (Vec<String>, bool) {
        said_bytes(line.as_bytes())
    }

    fn said_bytes(line: &[u8]) -> (Vec<String>, bool) {
        let (found, noise) = salvage(&Bytes::copy_from_slice(line));
        let found = found.into_iter().map(|what| match what {
            Salvaged::Message(Message::Request(request)) => format!("? {}", request.method),
            Salvaged::Message(Message::Notification(said)) => format!("! {}", said.method),
            Salvaged::Message(Message::Response(response)) => format!("= {}", response.id),
            Salvaged::Unreadable(id) => format!("x {id}"),
            Salvaged::NoId(error) => error.as_str().to_owned(),
        });
        (found.collect(), noise)
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_that_of_its_request() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        for line in [
            r#"{"jsonrpc": "2.0", "id": 7, "result": {"a": NaN}}"#,
            r#"{"jsonrpc": "2.0", "id": 7, "result": {"a": -Infinity}}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"t\":\"a\tb\"}}",
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"1.0","id":7.0,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"te"#,
            &deep,
        ] {
            assert_eq!(said(line).0, ["x 7"], "{line}");
        }
        assert_eq!(said_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xed\xa0\xbd\"}").0, ["x 7"]);
        assert_eq!(said(r#"{"jsonrpc":"1.0","id":"7","result":{}}"#).0, [r#"x "7""#]);
        assert_eq!(said(r#"log: {"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#), (vec!["x 7".into()], true));
    }

    #[test]
    fn messages_are_found_behind_text_and_behind_one_another() {
        let message = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let note = r#"{"jsonrpc":"2.0","method":"x/y"}"#;
        for (line, expected, noise) in [
            (format!("Loading model...{message}"), vec!["= 7"], true),
            (format!("\x1b[32mok\x1b[0m {message}\0"), vec!["= 7"], true),
            (format!("{{x}} {{\"a\":1}} {{\"a\": {message}"), vec!["= 7"], true),
            (format!("{note}{message}{note}"), vec!["! x/y", "= 7", "! x/y"], false),
            (
                format!("[{note}, {message},\t{{\"jsonrpc\":\"2.0\",\"id\":8}}]"),
                vec!["! x/y", "= 7", "x 8"],
                false,
            ),
            (format!("{{\"wrapped\":{message}}}"), vec![], true),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(said(&line), (expected, noise), "{line}");
        }
        assert_eq!(said_bytes(&[b"\xff\xfe", message.as_bytes()].concat()).0, ["= 7"]);
    }

    #[test]
    fn what_a_process_logs_of_others_is_not_its_own_word() {
        for line in [
            r#"received {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}"#,
            r#"received {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"na"#,
            r#"received {"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"sending {"jsonrpc":"2.0","id":7,"result":{"content":[{"ty... (2000 more)"#,
            r#"{"id":7,"level":"info"}"#,
            r#"{"id":7,"level":NaN}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7"#,
            "42",
            "[]",
            "*** Server {1.0} ***",
        ] {
            assert_eq!(said(line), (vec![], true), "{line}");
        }
    }

    #[test]
    fn an_error_without_an_id_is_kept() {
        for line in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#,
        ] {
            assert_eq!(said(line).0, [r#"{"code":-32700}"#], "{line}");
        }
    }

    #[test]
    fn the_search_is_bounded() {
        let line = format!("{}{}", r#"{"a":"#.repeat(1000), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(said(&line), (vec![], true));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(line: Vec<u8>) {
            let _ = salvage(&line.into());
        }
    }
}
