//! A tiny reader of server-sent events. It shares no code with the product's: a mistake there must not be made here again.
//!
//! It reads the form that a server of ours writes: lines that end with LF, blocks that end with an empty line. Anything else
//! is shown as it is, in [`Block::unknown`].

use serde_json::Value;
use tokio::time::Instant;

/// One block of a stream: the lines up to an empty one.
#[derive(Clone, Debug)]
pub struct Block {
    /// The bytes, the empty line left out.
    pub text: String,
    /// When its last byte was read.
    pub at: Instant,
    /// What `id` said.
    pub id: Option<String>,
    /// What `retry` said, in milliseconds.
    pub retry: Option<u64>,
    /// What `event` said.
    pub event: Option<String>,
    /// The lines of `data`, joined; `None` where there was none.
    pub data: Option<String>,
    /// Comments, without their colon.
    pub comments: Vec<String>,
    /// Lines that are none of these.
    pub unknown: Vec<String>,
}

impl Block {
    pub(crate) fn parse(text: String, at: Instant) -> Self {
        let mut block = Self {
            at,
            id: None,
            retry: None,
            event: None,
            data: None,
            comments: Vec::new(),
            unknown: Vec::new(),
            text: String::new(),
        };
        for line in text.split('\n') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => block.comments.push(value.to_owned()),
                "id" => block.id = Some(value.to_owned()),
                "event" => block.event = Some(value.to_owned()),
                "data" => {
                    let before = block.data.take();
                    block.data =
                        Some(before.map_or_else(|| value.to_owned(), |before| format!("{before}\n{value}")));
                }
                "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                    block.retry = value.parse().ok();
                }
                _ => block.unknown.push(line.to_owned()),
            }
        }
        block.text = text;
        block
    }

    /// Whether it is an `id` with empty `data`: what opens and closes the connections of a primed stream.
    #[must_use]
    pub fn is_priming(&self) -> bool {
        self.id.is_some() && self.data.as_deref() == Some("")
    }

    /// Whether it has comments and nothing else.
    #[must_use]
    pub fn is_comment(&self) -> bool {
        !self.comments.is_empty()
            && self.unknown.is_empty()
            && (&self.id, &self.retry, &self.event, &self.data) == (&None, &None, &None, &None)
    }

    /// The message in it, where there is one. Panics when the data is not JSON.
    #[must_use]
    pub fn message(&self) -> Option<Value> {
        let data = self.data.as_deref().filter(|data| !data.is_empty())?;
        Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data:?}")))
    }
}

/// Cuts blocks off the front of what has been read.
pub(crate) fn cut(buffer: &mut Vec<u8>, searched: &mut usize) -> Option<String> {
    let from = searched.saturating_sub(1);
    let Some(end) = buffer[from..].windows(2).position(|pair| pair == b"\n\n").map(|at| from + at) else {
        *searched = buffer.len();
        return None;
    };
    let rest = buffer.split_off(end + 2);
    let mut block = std::mem::replace(buffer, rest);
    block.truncate(end);
    *searched = 0;
    Some(String::from_utf8(block).expect("a stream is UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Block {
        Block::parse(text.into(), Instant::now())
    }

    #[test]
    fn blocks_are_cut_whatever_the_reads() {
        let text = b"id: 1\ndata:\n\n: c\n\ndata: {}\n\n";
        for step in 1..text.len() {
            let (mut buffer, mut searched, mut blocks) = (Vec::new(), 0, Vec::new());
            for part in text.chunks(step) {
                buffer.extend_from_slice(part);
                while let Some(block) = cut(&mut buffer, &mut searched) {
                    blocks.push(block);
                }
            }
            assert_eq!(blocks, ["id: 1\ndata:", ": c", "data: {}"], "{step}");
        }
    }

    #[test]
    fn kinds_are_told_apart() {
        assert!(parse("id: a\nretry: 20\ndata:").is_priming());
        assert!(parse("id: a\nretry: 20\ndata: ").is_priming());
        assert!(!parse("id: a\ndata: {}").is_priming());
        assert!(parse(": keep-alive").is_comment());
        assert!(!parse(": x\nretry: 5").is_comment());
        let block = parse("retry: 5\ndata: [1,\ndata: 2]\nevent: message\nfoo: 1\nretry: -1");
        assert_eq!(block.message().unwrap(), serde_json::json!([1, 2]));
        assert_eq!((block.retry, block.event.as_deref()), (Some(5), Some("message")));
        assert_eq!(block.unknown, ["foo: 1", "retry: -1"]);
    }
}
