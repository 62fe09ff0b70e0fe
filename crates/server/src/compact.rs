//! Messages in as few bytes as they take.
//!
//! What comes out of a body shares its buffer, and that is the 8 KiB that the connection read it into. A call that runs on would keep all
//! of it, for its method and its parameters.

use bowline_proto::jsonrpc::{Message, Notification, Raw, Reply, Request, Response};
use bytes::Bytes;
use bytestring::ByteString;

/// What is longer stays where it is: it takes much of that buffer, or a buffer of its own.
const SMALL: usize = 256;

/// What nearly all messages call for.
const METHODS: [&str; 10] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "prompts/get",
    "ping",
    "notifications/initialized",
    "notifications/cancelled",
    "resources/list",
    "prompts/list",
    "completion/complete",
];

/// A message that shares no buffer with others, if it is small.
pub(crate) fn message(message: Message) -> Message {
    match message {
        Message::Request(asked) => Message::Request(request(asked)),
        Message::Notification(Notification { method, params }) => {
            let (method, params) = parts(method, params);
            Message::Notification(Notification { method, params })
        }
        Message::Response(Response { id, reply }) => {
            let reply = match reply {
                Reply::Result(result) => Reply::Result(raw(result)),
                Reply::Error(error) => Reply::Error(raw(error)),
            };
            Message::Response(Response { id, reply })
        }
    }
}

/// The same for a request.
pub(crate) fn request(request: Request) -> Request {
    let Request { id, method, params } = request;
    let (method, params) = parts(method, params);
    Request { id, method, params }
}

/// A value that is kept for long, without the body that it came in.
pub(crate) fn detached(value: &Raw) -> Raw {
    match value.as_str().len() {
        0..=SMALL => raw(value.clone()),
        _ => value.detached(),
    }
}

fn parts(method: ByteString, params: Option<Raw>) -> (ByteString, Option<Raw>) {
    if params.as_ref().is_some_and(|params| params.as_str().len() > SMALL) {
        return (method, params);
    }
    let method = match METHODS.iter().find(|known| **known == &*method) {
        Some(known) => ByteString::from_static(known),
        None => text(method),
    };
    (method, params.map(raw))
}

fn raw(raw: Raw) -> Raw {
    match raw.as_str().len() {
        0..=SMALL => Raw::from_trusted(text(raw.into_text())),
        _ => raw,
    }
}

fn text(text: ByteString) -> ByteString {
    let small = match text.len() {
        0..=32 => Small::<32>::of(&text),
        33..=64 => Small::<64>::of(&text),
        65..=96 => Small::<96>::of(&text),
        97..=160 => Small::<160>::of(&text),
        161..=SMALL => Small::<SMALL>::of(&text),
        _ => return text,
    };
    // It is the same text.
    ByteString::try_from(small).unwrap_or(text)
}

/// A small text and its count of owners, in one allocation.
struct Small<const N: usize> {
    len: u16,
    bytes: [u8; N],
}

impl<const N: usize> Small<N> {
    fn of(text: &str) -> Bytes {
        let mut bytes = [0; N];
        let len = text.len().min(N);
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        // `N` is at most 256.
        Bytes::from_owner(Self { len: len as u16, bytes })
    }
}

impl<const N: usize> AsRef<[u8]> for Small<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_proto::jsonrpc::parse_message;

    #[test]
    fn a_message_stays_what_it_is_and_lets_go_of_its_buffer_where_it_is_small() {
        for size in [0, 1, 31, 64, 65, 96, 97, 160, 161, 230, 300] {
            let text = "\u{e9}".repeat(size / 2);
            for body in [
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":"{text}"}}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":"1","method":"x/{text}"}}"#),
                format!(r#"{{"jsonrpc":"2.0","method":"x/y","params":{{"a":"{text}"}}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{text}"}}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"{text}"}}}}"#),
            ] {
                let body = Bytes::from(body);
                let read = parse_message(body.clone()).unwrap();
                let compact = message(read.clone());
                assert_eq!(compact, read);
                drop(read);
                assert_eq!(body.is_unique(), size <= 230, "{size}");
            }
        }
    }
}
