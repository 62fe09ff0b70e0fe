//! Messages as lines, and what can be read off a line that is no message.

use bowline_proto::jsonrpc::{Raw, RequestId};
use bytes::Bytes;

/// The message on one line. In JSON a line end can only stand between tokens, where a space means the same; clients
/// that write their JSON over many lines are passed on raw, so it does come.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// A response that cannot be taken as one (nested too deeply, not UTF-8, a result and an error together, no id).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// To the request of that id.
    Response(u64),
    /// An error without an id: the server could not read a request, and says so.
    NoId(Raw),
}

/// What can be made of a line that is no message, so that its caller is told instead of waiting for ever.
pub(crate) fn broken_response(line: &[u8]) -> Option<Broken> {
    let object = Raw::parse(String::from_utf8_lossy(line).trim().to_owned()).ok()?;
    let error = object.member("error");
    if object.member("method").is_some() || (error.is_none() && object.member("result").is_none()) {
        return None;
    }
    match object.member("id") {
        Some(id) if id.as_str() != "null" => {
            our_id(&RequestId::from_json(id.as_str()).ok()?).map(Broken::Response)
        }
        _ => error.filter(Raw::is_object).map(Broken::NoId),
    }
}

/// Our id, as a server gives it back. Some make a string of it.
pub(crate) fn our_id(id: &RequestId) -> Option<u64> {
    match id {
        RequestId::Number(number) => u64::try_from(*number).ok(),
        RequestId::Large(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_between_tokens_become_spaces() {
        let pretty = Bytes::from_static(b"{\r\n  \"a\": \"x\\ny\"\n}");
        let line = one_line(pretty.clone());
        assert_eq!(&line[..], b"{    \"a\": \"x\\ny\" }");
        let value = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&line), value(&pretty));
    }

    #[test]
    fn the_caller_of_a_broken_response_is_found() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        let error = || Broken::NoId(Raw::parse(r#"{"code":-32700}"#).unwrap());
        for (line, expected) in [
            (deep.as_bytes(), Some(Broken::Response(7))),
            (b"{\"id\":7,\"result\":\"\xff\"}", Some(Broken::Response(7))),
            (br#"{"jsonrpc":"2.0","id":7,"result":1,"error":{}}"#, Some(Broken::Response(7))),
            (br#"{"jsonrpc":"2.0","id":"7","result":1,"error":{}}"#, Some(Broken::Response(7))),
            (br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, Some(error())),
            (br#"{"jsonrpc":"2.0","error":{"code":-32700}}"#, Some(error())),
            (br#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None),
            (br#"{"jsonrpc":"2.0","id":7,"method":1}"#, None),
            (br#"{"jsonrpc":"2.0","id":7,"res"#, None),
            (br#"{"hello":"world"}"#, None),
            (b"42", None),
            (b"*** Server 1.0 ***", None),
        ] {
            assert_eq!(broken_response(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn our_ids_are_known_as_numbers_and_as_strings() {
        assert_eq!(our_id(&7.into()), Some(7));
        assert_eq!(our_id(&"7".into()), Some(7));
        assert_eq!(our_id(&RequestId::Number(-7)), None);
        assert_eq!(our_id(&"fixture-7".into()), None);
    }
}
