//! What the writing process writes and says.

use bowline_proto::cursor::StreamId;

/// Something that was acknowledged, as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Created(StreamId),
    Appended(StreamId, u64),
    Sealed(StreamId, u64),
    Letter(StreamId),
    Session(String, u64),
}
