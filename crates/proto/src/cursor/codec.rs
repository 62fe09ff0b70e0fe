//! The event id: layout, minting, and the three outcomes of reading one.
//!
//! The bytes, before base64url without padding:
//!
//! | field | bytes |
//! |---|---|
//! | version, `1` | 1 |
//! | id of the signing key | 1 |
//! | kind (low 4 bits: 1 call, 2 standalone) and form of the request id (high 4 bits: 0 none, 1 here, 2 in the record) | 1 |
//! | stream | 16 |
//! | epoch, offset, poll | variable-length integers |
//! | the request id as JSON text, where it is here | length as a variable-length integer, then the text |
//! | MAC over all of the above | 16 |

use std::fmt;

use serde_json::Number;
use thiserror::Error;

use super::wire::{Decoded, MAX_BYTES, MAX_VARINT_BYTES, Writer};
use super::{Keyring, Scope, ScopedKeys, StreamId};
use crate::jsonrpc::RequestId;

const PURPOSE: &str = "event id";
const VERSION: u8 = 1;
const MAC_BYTES: usize = 16;

/// The room that the other fields leave for a request id: version, key id, kind, stream, three integers, a length of at
/// most two bytes, MAC.
const MAX_REQUEST_BYTES: usize = MAX_BYTES - (3 + 16 + 3 * MAX_VARINT_BYTES + 2 + MAC_BYTES);

/// A position in one stream: a reader resumes strictly after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// What kind of stream it is.
    pub kind: CursorKind,
    /// The stream.
    pub stream: StreamId,
    /// The owner's epoch when the event was written; a seal by another backend raises it.
    pub epoch: u64,
    /// The last event that the reader has.
    pub offset: u64,
    /// Counts the connections that told this position, so that each tells a new id even when nothing is new
    /// (SEMANTICS 5.5). It does not move the position.
    pub poll: u64,
    /// The request that the stream answers.
    pub request: CursorRequest,
}

/// Which kind of stream a cursor points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorKind {
    /// The log that answers one request that was sent with POST.
    Call,
    /// The standalone log of a session.
    Standalone,
}

/// The JSON-RPC id of the request that a stream answers, which makes an answer possible when the stream is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CursorRequest {
    /// There is none: a standalone stream.
    None,
    /// The id.
    Id(IdText),
    /// There is one, but its JSON text is too long for a cursor: only the stream's record has it. Minting a cursor with
    /// such an id gives this.
    InRecord,
}

/// A JSON-RPC request id as JSON text: a string with its quotes and escapes, or a number, without blanks around it.
/// Fit to be put into an answer as it is, even when it came from a cursor whose MAC failed.
#[derive(Clone, PartialEq, Eq)]
pub struct IdText(Box<str>);

impl IdText {
    /// Checks that `json` is the JSON text of a string or a number.
    ///
    /// # Errors
    ///
    /// It is anything else.
    pub fn new(json: &str) -> Result<Self, NotAnIdError> {
        let is_id = match (json.as_bytes().first(), json.as_bytes().last()) {
            (Some(b'"'), Some(b'"')) => serde_json::from_str::<String>(json).is_ok(),
            (Some(b'-' | b'0'..=b'9'), Some(b'0'..=b'9')) => serde_json::from_str::<Number>(json).is_ok(),
            _ => false,
        };
        if is_id { Ok(Self(json.into())) } else { Err(NotAnIdError) }
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

impl From<&RequestId> for IdText {
    fn from(id: &RequestId) -> Self {
        Self(id.to_json().into_boxed_str())
    }
}

impl From<&RequestId> for CursorRequest {
    fn from(id: &RequestId) -> Self {
        Self::Id(id.into())
    }
}

impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not the JSON text of a string or a number.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a request id must be a JSON string or number, without blanks around it")]
pub struct NotAnIdError;

/// Why a text is no cursor that counts here. The message is one for both: a peer must not learn which it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CursorError {
    /// Not of our form, or of a version that we do not know.
    #[error("the event id is not valid here")]
    Malformed,
    /// Our form, but no key verifies it in this scope: another session, principal or key, or a forgery. Nothing in it
    /// can be relied on; the request id serves for an answer that only its sender sees (SEMANTICS 5.6, the stateless
    /// row).
    #[error("the event id is not valid here")]
    BadMac {
        /// What it says.
        claimed: Box<Cursor>,
    },
}

/// Mints and reads the event ids of one scope. Made once for a connection.
#[derive(Clone, Debug)]
pub struct CursorCodec {
    keys: ScopedKeys,
}

impl CursorCodec {
    /// The codec for a session and a principal, either of which may be absent.
    pub fn new(keyring: &Keyring, scope: Scope<'_>) -> Self {
        Self { keys: keyring.scoped(PURPOSE, scope) }
    }

    /// Appends the event id of `cursor` to `out`: base64url characters, at most
    /// [`MAX_CURSOR_CHARS`](super::MAX_CURSOR_CHARS). Allocates nothing but what `out` needs.
    pub fn mint(&self, cursor: &Cursor, out: &mut String) {
        self.write(cursor).finish(&self.keys, MAC_BYTES, out);
    }

    /// The same for a text that is written as bytes.
    pub fn mint_bytes(&self, cursor: &Cursor, out: &mut Vec<u8>) {
        self.write(cursor).finish_bytes(&self.keys, MAC_BYTES, out);
    }

    /// Everything but the MAC.
    fn write(&self, cursor: &Cursor) -> Writer {
        let (form, id) = match &cursor.request {
            CursorRequest::None => (0, None),
            CursorRequest::Id(id) if id.0.len() <= MAX_REQUEST_BYTES => (1, Some(id.0.as_bytes())),
            CursorRequest::Id(_) | CursorRequest::InRecord => (2, None),
        };
        let kind = match cursor.kind {
            CursorKind::Call => 1,
            CursorKind::Standalone => 2,
        };
        let mut writer = Writer::new();
        writer.put(&[VERSION, self.keys.key_id(), form << 4 | kind]);
        writer.put(cursor.stream.as_bytes());
        writer.put_varint(cursor.epoch);
        writer.put_varint(cursor.offset);
        writer.put_varint(cursor.poll);
        if let Some(id) = id {
            writer.put_varint(id.len() as u64);
            writer.put(id);
        }
        writer
    }

    /// Reads an event id, such as the value of `Last-Event-ID`.
    ///
    /// # Errors
    ///
    /// [`CursorError::Malformed`] or [`CursorError::BadMac`]; which keys failed, and how, takes no time of its own.
    pub fn decode(&self, text: impl AsRef<[u8]>) -> Result<Cursor, CursorError> {
        let decoded = Decoded::from_text(text.as_ref(), MAC_BYTES).ok_or(CursorError::Malformed)?;
        let cursor = parse(&decoded).ok_or(CursorError::Malformed)?;
        if decoded.verifies(&self.keys) {
            Ok(cursor)
        } else {
            Err(CursorError::BadMac { claimed: Box::new(cursor) })
        }
    }
}

fn parse(decoded: &Decoded) -> Option<Cursor> {
    let mut body = decoded.body();
    let [version, _key_id, forms] = body.take_array()?;
    if version != VERSION {
        return None;
    }
    let kind = match forms & 0x0F {
        1 => CursorKind::Call,
        2 => CursorKind::Standalone,
        _ => return None,
    };
    let stream = StreamId::from_bytes(body.take_array()?);
    let [epoch, offset, poll] = [body.take_varint()?, body.take_varint()?, body.take_varint()?];
    let request = match forms >> 4 {
        0 => CursorRequest::None,
        1 => {
            let len = usize::try_from(body.take_varint()?).ok()?;
            let json = std::str::from_utf8(body.take(len)?).ok()?;
            CursorRequest::Id(IdText::new(json).ok()?)
        }
        2 => CursorRequest::InRecord,
        _ => return None,
    };
    body.is_empty().then_some(Cursor { kind, stream, epoch, offset, poll, request })
}
