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

/// The id of a response that cannot be taken as one (nested too deeply, not UTF-8, a result and an error together), so
/// that its caller is told instead of waiting for ever.
pub(crate) fn broken_response_id(line: &[u8]) -> Option<RequestId> {
    let object = Raw::parse(String::from_utf8_lossy(line).trim().to_owned()).ok()?;
    let is_response = object.member("method").is_none()
        && (object.member("result").is_some() || object.member("error").is_some());
    if is_response { RequestId::from_json(object.member("id")?.as_str()).ok() } else { None }
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
        for (line, id) in [
            (deep.as_bytes(), Some(7)),
            (b"{\"id\":7,\"result\":\"\xff\"}", Some(7)),
            (br#"{"jsonrpc":"2.0","id":7,"result":1,"error":{}}"#, Some(7)),
            (br#"{"jsonrpc":"2.0","id":7,"method":1}"#, None),
            (br#"{"jsonrpc":"2.0","id":7,"res"#, None),
            (br#"{"hello":"world"}"#, None),
            (b"42", None),
            (b"*** Server 1.0 ***", None),
        ] {
            assert_eq!(broken_response_id(line), id.map(u64::into), "{}", String::from_utf8_lossy(line));
        }
    }
}
