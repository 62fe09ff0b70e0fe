//! What the writing process writes and says.

use bowline_proto::cursor::StreamId;
use bytes::Bytes;

/// Something that was acknowledged, as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Created(StreamId),
    Appended(StreamId, u64),
    Sealed(StreamId, u64),
    Letter(StreamId),
    Session(String, u64),
}

/// The payload of an event: nobody else writes the same.
pub(crate) fn payload(id: StreamId, offset: u64) -> Bytes {
    let pad = usize::try_from(offset * 37 % 900).unwrap_or(0);
    Bytes::from(format!(r#"{{"stream":"{id:?}","offset":{offset},"pad":"{}"}}"#, "x".repeat(pad)))
}
