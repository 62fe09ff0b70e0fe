//! Messages as lines, and the ids of ours in them.

use bowline_proto::jsonrpc::RequestId;
use bytes::Bytes;

/// The message on one line. In JSON a line end can only stand between tokens, where a space means the same; clients
/// that write their JSON over many lines are passed on raw, so it does come.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
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
    fn our_ids_are_known_as_numbers_and_as_strings() {
        assert_eq!(our_id(&7.into()), Some(7));
        assert_eq!(our_id(&"7".into()), Some(7));
        assert_eq!(our_id(&RequestId::Number(-7)), None);
        assert_eq!(our_id(&"fixture-7".into()), None);
    }
}
