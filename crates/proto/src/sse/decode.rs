//! The incremental decoder: bytes in, cut anywhere; blocks out, as soon as their empty line is there.

use std::sync::Arc;

use memchr::{memchr, memchr2};
use thiserror::Error;

/// The default of both [`Limits`]: 32 MiB, the bound of a whole stream in SEMANTICS 5.7.
pub const DEFAULT_LIMIT_BYTES: usize = 32 * 1024 * 1024;

/// The longest `retry` that is reported: one day, in milliseconds. Larger values, whatever their number of digits, are
/// reported as this one.
pub const MAX_RETRY_MS: u64 = 24 * 60 * 60 * 1000;

/// Buffers that grew beyond this are given back after use: one large event must not cost memory for the rest of a
/// long connection.
const KEPT_CAPACITY: usize = 64 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How much a peer may make a [`Decoder`] hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest line in bytes, comments included, line end excluded.
    pub max_line_bytes: usize,
    /// The largest `data` of one event in bytes, line ends between its lines included.
    pub max_event_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_line_bytes: DEFAULT_LIMIT_BYTES, max_event_bytes: DEFAULT_LIMIT_BYTES }
    }
}

/// Why a stream cannot be read on. It is final: the rest of the stream has lost its meaning.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// A line is longer than [`Limits::max_line_bytes`].
    #[error(
        "a line of the event stream is longer than {limit} bytes; raise the limit if the server may send that much"
    )]
    LineTooLong {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
    /// The data of one event is larger than [`Limits::max_event_bytes`].
    #[error(
        "the data of one event is larger than {limit} bytes; raise the limit if the server may send that much"
    )]
    EventTooLarge {
        /// The limit that was passed, in bytes.
        limit: usize,
    },
}

/// One block that said something: a `data`, an `id` or a `retry`.
///
/// The standard dispatches only blocks that have data; the others are reported too, with `data: None`, since their id
/// and `retry` count for the next connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The last event id in force after this block, from this block or an earlier one. `None`: never set, or reset by an
    /// empty `id`.
    pub id: Option<Arc<str>>,
    /// Whether this block itself set (or reset) the id.
    pub sets_id: bool,
    /// The `event` field; `None` is the default type, `message`.
    pub event_type: Option<String>,
    /// The `data` lines joined by LF. `None`: there was no `data` line. `Some("")`: there was one and it was empty.
    pub data: Option<String>,
    /// The `retry` field in milliseconds, at most [`MAX_RETRY_MS`].
    pub retry_ms: Option<u64>,
}

impl Event {
    /// The MCP message that this event carries, if it does: data of the default type that is not blank. Priming events
    /// have none (SEMANTICS 7.2: their data is never parsed).
    pub fn message(&self) -> Option<&str> {
        let of_default_type = self.event_type.as_deref().is_none_or(|name| name == "message");
        self.data.as_deref().filter(|data| of_default_type && !data.trim_ascii().is_empty())
    }
}

/// Reads one event stream. A new connection needs a new decoder.
///
/// Holds at most one line and the data of one event, both within [`Limits`]; its work is linear in the number of bytes
/// however they are cut. Bytes that are not UTF-8 become U+FFFD, characters are never cut by a chunk's border, and an
/// event that its empty line never ended is not reported.
///
/// ```
/// use bowline_proto::sse::{Decoder, Limits};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut ids = Vec::new();
/// for mut chunk in [&b"id: 1\nda"[..], b"ta: {}\n\nid: 2\n\n"] {
///     while let Some(event) = decoder.next_event(&mut chunk)? {
///         ids.extend(event.id);
///     }
/// }
/// assert_eq!(ids, ["1".into(), "2".into()]);
/// # Ok::<(), bowline_proto::sse::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// How many bytes of a leading byte order mark have been seen; `None` once the question is settled.
    bom: Option<usize>,
    /// The last byte was a CR that ended a line: an LF that follows belongs to it.
    after_cr: bool,
    /// The start of a line whose end has not come.
    line: Vec<u8>,
    block: Block,
    /// The standard's "last event ID buffer"; an empty one is `None`.
    id_buffer: Option<Arc<str>>,
    last_event_id: Option<Arc<str>>,
    retry_ms: Option<u64>,
    failed: Option<DecodeError>,
}

/// What the lines since the last empty one have said.
#[derive(Debug, Default)]
struct Block {
    /// Bytes until the block is complete: UTF-8 is judged once, and a line end never stands inside a character.
    data: Option<Vec<u8>>,
    event_type: Option<String>,
    sets_id: bool,
    retry_ms: Option<u64>,
}

impl Decoder {
    /// A decoder for a new connection that presented no cursor.
    pub fn new(limits: Limits) -> Self {
        Self::resuming(limits, None)
    }

    /// A decoder for a connection that was opened with `last_event_id`: that id stays in force until the stream sets
    /// another, so that a connection which brings nothing new does not lose the place.
    pub fn resuming(limits: Limits, last_event_id: Option<&str>) -> Self {
        let id: Option<Arc<str>> = last_event_id.filter(|id| !id.is_empty()).map(Arc::from);
        Self {
            limits,
            bom: Some(0),
            after_cr: false,
            line: Vec::new(),
            block: Block::default(),
            id_buffer: id.clone(),
            last_event_id: id,
            retry_ms: None,
            failed: None,
        }
    }

    /// Reads on in `input`, which is moved past what was read, up to the end of the next block that says something.
    /// `None`: all of `input` was read, and more is needed. Call it until then for every chunk, or bytes are lost.
    ///
    /// # Errors
    ///
    /// Over a limit; every later call returns the same error.
    pub fn next_event(&mut self, input: &mut &[u8]) -> Result<Option<Event>, DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let found = self.read(input);
        if let Err(error) = &found {
            self.failed = Some(error.clone());
            self.line = Vec::new();
            self.block = Block::default();
        }
        found
    }

    /// The id with which to resume: the one in force when the last block ended. An `id` line of a block that never
    /// ended does not count, since the data that went with it was not read.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// The last `retry` seen on this connection, in milliseconds; it counts from its own line on, as the standard says,
    /// even if the stream breaks off before the block ends.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn read(&mut self, input: &mut &[u8]) -> Result<Option<Event>, DecodeError> {
        self.skip_bom(input);
        loop {
            if self.after_cr && !input.is_empty() {
                self.after_cr = false;
                *input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let Some(end) = memchr2(b'\n', b'\r', input) else {
                self.check_line(input.len())?;
                self.line.extend_from_slice(input);
                *input = &[];
                return Ok(None);
            };
            self.check_line(end)?;
            let (piece, rest) = input.split_at(end);
            self.after_cr = rest[0] == b'\r';
            *input = &rest[1..];

            let event = if self.line.is_empty() {
                self.end_line(piece)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(piece);
                let event = self.end_line(&line)?;
                if line.capacity() <= KEPT_CAPACITY {
                    line.clear();
                    self.line = line;
                }
                event
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// A byte order mark is dropped at the very start only, and may come in pieces.
    fn skip_bom(&mut self, input: &mut &[u8]) {
        while let Some(seen) = self.bom {
            let Some(first) = input.first() else { return };
            if *first == BOM[seen] {
                *input = &input[1..];
                self.bom = (seen + 1 < BOM.len()).then_some(seen + 1);
            } else {
                self.line.extend_from_slice(&BOM[..seen]);
                self.bom = None;
            }
        }
    }

    fn check_line(&self, more: usize) -> Result<(), DecodeError> {
        let limit = self.limits.max_line_bytes;
        if self.line.len().saturating_add(more) > limit {
            Err(DecodeError::LineTooLong { limit })
        } else {
            Ok(())
        }
    }

    fn end_line(&mut self, line: &[u8]) -> Result<Option<Event>, DecodeError> {
        if line.is_empty() {
            return Ok(self.end_block());
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        // A comment has an empty name, and unknown names are ignored.
        match name {
            b"data" => self.add_data(value)?,
            b"event" => self.block.event_type = Some(text(value)).filter(|name| !name.is_empty()),
            b"id" if memchr(0, value).is_none() => {
                self.id_buffer = (!value.is_empty()).then(|| text(value).into());
                self.block.sets_id = true;
            }
            b"retry" => {
                if let Some(ms) = milliseconds(value) {
                    self.block.retry_ms = Some(ms);
                    self.retry_ms = Some(ms);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let limit = self.limits.max_event_bytes;
        let before = self.block.data.as_ref().map_or(0, |data| data.len() + 1);
        if before.saturating_add(value.len()) > limit {
            return Err(DecodeError::EventTooLarge { limit });
        }
        match &mut self.block.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.block.data = Some(value.to_vec()),
        }
        Ok(())
    }

    fn end_block(&mut self) -> Option<Event> {
        let block = std::mem::take(&mut self.block);
        self.last_event_id.clone_from(&self.id_buffer);
        if block.data.is_none() && !block.sets_id && block.retry_ms.is_none() {
            return None;
        }
        Some(Event {
            id: self.id_buffer.clone(),
            sets_id: block.sets_id,
            event_type: block.event_type,
            data: block
                .data
                .map(|bytes| String::from_utf8(bytes).unwrap_or_else(|error| text(error.as_bytes()))),
            retry_ms: block.retry_ms,
        })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of a `retry` field: ASCII digits and nothing else, saturating at [`MAX_RETRY_MS`].
fn milliseconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = value
        .iter()
        .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(number.map_or(MAX_RETRY_MS, |number| number.min(MAX_RETRY_MS)))
}
