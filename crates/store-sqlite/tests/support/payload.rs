//! What the writing process says in an event.

use bowline_proto::cursor::StreamId;
use bytes::Bytes;

/// The payload of an event: nobody else writes the same.
pub(crate) fn payload(id: StreamId, offset: u64) -> Bytes {
    let pad = usize::try_from(offset * 37 % 900).unwrap_or(0);
    Bytes::from(format!(r#"{{"stream":"{id:?}","offset":{offset},"pad":"{}"}}"#, "x".repeat(pad)))
}
