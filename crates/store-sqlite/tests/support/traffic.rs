//! What the writing process writes and says, and how its reader understands that.

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

impl Ack {
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Created(id) => format!("created {id:?}"),
            Self::Appended(id, offset) => format!("appended {id:?} {offset}"),
            Self::Sealed(id, offset) => format!("sealed {id:?} {offset}"),
            Self::Letter(id) => format!("letter {id:?}"),
            Self::Session(id, version) => format!("session {id} {version}"),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (what, name) = (words.next()?, words.next()?);
        let mut number = || words.next()?.parse().ok();
        Some(match what {
            "created" => Self::Created(stream(name)?),
            "appended" => Self::Appended(stream(name)?, number()?),
            "sealed" => Self::Sealed(stream(name)?, number()?),
            "letter" => Self::Letter(stream(name)?),
            "session" => Self::Session(name.to_owned(), number()?),
            _ => return None,
        })
    }
}

fn stream(hex: &str) -> Option<StreamId> {
    u128::from_str_radix(hex, 16).ok().map(|id| StreamId::from_bytes(id.to_be_bytes()))
}

/// The payload of an event: nobody else writes the same.
pub(crate) fn payload(id: StreamId, offset: u64) -> Bytes {
    let pad = usize::try_from(offset * 37 % 900).unwrap_or(0);
    Bytes::from(format!(r#"{{"stream":"{id:?}","offset":{offset},"pad":"{}"}}"#, "x".repeat(pad)))
}
