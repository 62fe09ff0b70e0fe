//! Frames as text, and the text as events: as little of SSE as the harness needs. Ids are the position as plain text.

use crate::legacy::{Frame, Position};

pub(super) fn id(position: Position) -> String {
    format!("{}.{}", position.offset, position.poll)
}

/// The offset and poll counter of an id.
pub(super) fn position(id: &str) -> Position {
    let (offset, poll) = id.split_once('.').expect("the harness made the id");
    Position { offset: offset.parse().unwrap(), poll: poll.parse().unwrap() }
}

pub(super) fn encode(frame: &Frame) -> String {
    match frame {
        Frame::Priming { id: at, retry_ms } | Frame::Parting { id: at, retry_ms } => {
            format!("id: {}\nretry: {retry_ms}\ndata: \n\n", id(*at))
        }
        Frame::Message { id: at, payload } => {
            let data = str::from_utf8(payload).unwrap();
            at.map_or_else(String::new, |at| format!("id: {}\n", id(at))) + &format!("data: {data}\n\n")
        }
        Frame::KeepAlive => ":\n\n".to_owned(),
        Frame::RetryOnly { retry_ms } => format!("retry: {retry_ms}\n\n"),
    }
}

#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) id: Option<String>,
    pub(super) data: Option<String>,
    pub(super) retry: Option<u64>,
}

/// Takes the whole events off the front of `buffer`; what is cut off in the middle stays and is never read.
pub(super) fn decode(buffer: &mut String) -> Vec<Fields> {
    let mut events = Vec::new();
    while let Some(end) = buffer.find("\n\n") {
        let mut fields = Fields::default();
        for line in buffer[..end].lines() {
            match line.split_once(": ") {
                Some(("id", value)) => fields.id = Some(value.to_owned()),
                Some(("data", value)) => fields.data = Some(value.to_owned()),
                Some(("retry", value)) => fields.retry = Some(value.parse().unwrap()),
                _ => assert_eq!(line, ":"),
            }
        }
        events.push(fields);
        buffer.drain(..end + 2);
    }
    events
}
