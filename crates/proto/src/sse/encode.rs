//! The encoder: each function appends one complete block to a buffer and allocates nothing else.
//!
//! Line ends are LF. No block has an `event` field: an MCP message is of the default type, `message`. Payloads are JSON
//! text, and stay one event whatever is in them:
//!
//! - raw CR or LF, which JSON allows between tokens, become further `data` lines;
//! - raw U+2028, U+2029 and U+0085, which JSON allows inside strings only, leave as `\u` escapes: many clients cut
//!   lines there although the standard does not.

use std::borrow::Cow;

use crate::decimal::Decimal;
use bytes::{BufMut, Bytes, BytesMut};
use memchr::{memchr2, memchr2_iter, memchr3};

/// Room for the field names, the line ends and a `retry` value of one block.
const BLOCK_OVERHEAD: usize = 48;

/// Appends one message: `id`, then the payload (JSON text) as `data`.
///
/// The id is a cursor, so it is visible ASCII. Should it hold a CR, LF or NUL all the same, these are left out: an id
/// never forges a field.
pub fn message(buf: &mut BytesMut, id: &str, payload: &[u8]) {
    buf.reserve(id.len() + payload.len() + BLOCK_OVERHEAD);
    put_id(buf, id.as_bytes());
    put_data(buf, payload);
    buf.put_u8(b'\n');
}

/// Appends one message without an id, for streams that cannot be resumed (SEMANTICS 2, batches).
pub fn data(buf: &mut BytesMut, payload: &[u8]) {
    buf.reserve(payload.len() + BLOCK_OVERHEAD);
    put_data(buf, payload);
    buf.put_u8(b'\n');
}

/// Appends a priming event: `id`, `retry` in milliseconds if given, and an empty `data` (SEMANTICS 5.2). The same block
/// is the last one before a connection is closed on purpose (5.3).
pub fn priming(buf: &mut BytesMut, id: &str, retry_ms: Option<u64>) {
    buf.reserve(id.len() + BLOCK_OVERHEAD);
    put_id(buf, id.as_bytes());
    if let Some(ms) = retry_ms {
        put_retry(buf, &Decimal::of(ms));
    }
    put_data(buf, b"");
    buf.put_u8(b'\n');
}

/// A whole stream of one message, in a buffer of its size: the priming event, where there is an id and a `retry` in milliseconds for
/// it, then the payload with its id, where it has one. The same as [`priming`], [`message`] and [`data`].
pub fn whole(first: Option<(&[u8], u64)>, id: Option<&[u8]>, payload: &[u8]) -> Bytes {
    let first = first.map(|(id, ms)| (id, Decimal::of(ms)));
    let field = |name: &str, value: usize| name.len() + ": ".len() + value + 1;
    let mut size = field("data", payload.len()) + 1;
    size += id.map_or(0, |id| field("id", id.len()));
    if let Some((id, ms)) = &first {
        size += field("id", id.len()) + field("retry", ms.as_bytes().len()) + field("data", 0) + 1;
    }
    // It grows where a payload has something that leaves in another form.
    let mut out = Vec::with_capacity(size);
    if let Some((id, ms)) = &first {
        put_id(&mut out, id);
        put_retry(&mut out, ms);
        out.put_slice(b"data: \n\n");
    }
    if let Some(id) = id {
        put_id(&mut out, id);
    }
    put_data(&mut out, payload);
    out.push(b'\n');
    out.into()
}

/// Appends a block of a bare `retry` in milliseconds: no id and no data, so that nothing is dispatched.
pub fn retry_only(buf: &mut BytesMut, ms: u64) {
    buf.reserve(BLOCK_OVERHEAD);
    put_retry(buf, &Decimal::of(ms));
    buf.put_u8(b'\n');
}

/// Appends a comment, which keeps a connection open and which every reader skips (SEMANTICS 5.8). Each line of `text`
/// becomes a comment line.
pub fn comment(buf: &mut BytesMut, text: &str) {
    buf.reserve(text.len() + BLOCK_OVERHEAD);
    for line in Lines::of(text.as_bytes()) {
        buf.put_slice(b": ");
        buf.put_slice(line);
        buf.put_u8(b'\n');
    }
    buf.put_u8(b'\n');
}

/// JSON text with raw U+2028, U+2029 and U+0085 replaced by their `\u` escapes, for plain JSON answers. Borrowed when
/// there is nothing to replace.
///
/// The meaning stays the same for any JSON text, since these characters can stand only inside strings.
pub fn escape_separators(json: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = next_separator(json, 0) else {
        return Cow::Borrowed(json);
    };
    let mut out = Vec::with_capacity(json.len() + 64);
    escape_from(json, Some(first), |bytes| out.extend_from_slice(bytes));
    Cow::Owned(out)
}

fn put_id(buf: &mut impl BufMut, id: &[u8]) {
    buf.put_slice(b"id: ");
    let mut rest = id;
    // Looked at whole, which is quicker than to stop at the first for so few.
    let is_visible = rest.iter().fold(true, |visible, byte| visible & (*byte > b'\r'));
    while !is_visible && let Some(at) = memchr3(b'\n', b'\r', 0, rest) {
        buf.put_slice(&rest[..at]);
        rest = &rest[at + 1..];
    }
    buf.put_slice(rest);
    buf.put_u8(b'\n');
}

fn put_retry(buf: &mut impl BufMut, ms: &Decimal) {
    buf.put_slice(b"retry: ");
    buf.put_slice(ms.as_bytes());
    buf.put_u8(b'\n');
}

/// `data` lines, without the empty line that ends the block. An empty payload is one empty line, with the space: readers
/// that split at colon and space must find both.
fn put_data(buf: &mut impl BufMut, payload: &[u8]) {
    for line in Lines::of(payload) {
        buf.put_slice(b"data: ");
        escape_from(line, next_separator(line, 0), |bytes| buf.put_slice(bytes));
        buf.put_u8(b'\n');
    }
}

/// The lines of a text, split at CRLF, LF and CR; at least one, perhaps empty.
struct Lines<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { rest: Some(text) }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.rest?;
        let Some(at) = memchr2(b'\n', b'\r', text) else {
            self.rest = None;
            return Some(text);
        };
        let after = if text[at..].starts_with(b"\r\n") { at + 2 } else { at + 1 };
        self.rest = Some(&text[after..]);
        Some(&text[..at])
    }
}

/// A separator found in UTF-8 text: where, how many bytes, and the escape that stands for it.
struct Separator {
    at: usize,
    len: usize,
    escape: &'static [u8],
}

/// The first separator at or after `from`. Both first bytes are rare in JSON, so that memchr passes over most of it.
fn next_separator(text: &[u8], from: usize) -> Option<Separator> {
    memchr2_iter(0xE2, 0xC2, &text[from..]).find_map(|found| {
        let at = from + found;
        let tail = &text[at..];
        if tail.starts_with(b"\xE2\x80\xA8") {
            Some(Separator { at, len: 3, escape: b"\\u2028" })
        } else if tail.starts_with(b"\xE2\x80\xA9") {
            Some(Separator { at, len: 3, escape: b"\\u2029" })
        } else if tail.starts_with(b"\xC2\x85") {
            Some(Separator { at, len: 2, escape: b"\\u0085" })
        } else {
            None
        }
    })
}

/// Hands `text` to `put` in pieces, with escapes in place of the separators, of which `found` is the first.
fn escape_from(text: &[u8], mut found: Option<Separator>, mut put: impl FnMut(&[u8])) {
    let mut done = 0;
    while let Some(separator) = found {
        put(&text[done..separator.at]);
        put(separator.escape);
        done = separator.at + separator.len;
        found = next_separator(text, done);
    }
    put(&text[done..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut buf = BytesMut::new();
        write(&mut buf);
        String::from_utf8(buf.to_vec()).unwrap()
    }

    #[test]
    fn blocks_have_this_form() {
        assert_eq!(encoded(|b| message(b, "c1", b"{}")), "id: c1\ndata: {}\n\n");
        assert_eq!(encoded(|b| data(b, b"[1]")), "data: [1]\n\n");
        assert_eq!(encoded(|b| priming(b, "c1", Some(2000))), "id: c1\nretry: 2000\ndata: \n\n");
        assert_eq!(encoded(|b| priming(b, "c1", None)), "id: c1\ndata: \n\n");
        assert_eq!(encoded(|b| retry_only(b, 0)), "retry: 0\n\n");
        assert_eq!(encoded(|b| retry_only(b, u64::MAX)), "retry: 18446744073709551615\n\n");
        assert_eq!(encoded(|b| comment(b, "keep-alive")), ": keep-alive\n\n");
    }

    #[test]
    fn blocks_are_appended() {
        let text = encoded(|b| {
            priming(b, "a", None);
            message(b, "b", b"1");
        });
        assert_eq!(text, "id: a\ndata: \n\nid: b\ndata: 1\n\n");
    }

    #[test]
    fn a_whole_stream_is_its_blocks() {
        for payload in ["{}", "{\n\"a\": \"\u{2028}\u{e9}\"\r\n}", ""] {
            let text = whole(Some((b"c1", 2000)), Some(b"c2"), payload.as_bytes());
            let blocks = encoded(|b| {
                priming(b, "c1", Some(2000));
                message(b, "c2", payload.as_bytes());
            });
            assert_eq!(text, blocks);
            assert_eq!(
                whole(None, Some(b"c2"), payload.as_bytes()),
                encoded(|b| message(b, "c2", payload.as_bytes()))
            );
            assert_eq!(whole(None, None, payload.as_bytes()), encoded(|b| data(b, payload.as_bytes())));
        }
    }

    #[test]
    fn raw_line_ends_become_data_lines() {
        assert_eq!(encoded(|b| data(b, b"{\n1\r2\r\n}")), "data: {\ndata: 1\ndata: 2\ndata: }\n\n");
        assert_eq!(encoded(|b| data(b, b"1\n")), "data: 1\ndata: \n\n");
        assert_eq!(encoded(|b| data(b, b"\n\r")), "data: \ndata: \ndata: \n\n");
    }

    #[test]
    fn neither_an_id_nor_a_comment_forges_a_field() {
        assert_eq!(encoded(|b| message(b, "a\ndata: x\r\0b", b"1")), "id: adata: xb\ndata: 1\n\n");
        assert_eq!(encoded(|b| comment(b, "a\n\ndata: x\r\n")), ": a\n: \n: data: x\n: \n\n");
    }

    #[test]
    fn separators_leave_as_escapes() {
        let json = "{\"a\":\"\u{2028}x\u{2029}\u{0085}\"}";
        assert_eq!(encoded(|b| data(b, json.as_bytes())), "data: {\"a\":\"\\u2028x\\u2029\\u0085\"}\n\n");
        assert_eq!(&*escape_separators(json.as_bytes()), br#"{"a":"\u2028x\u2029\u0085"}"#);
    }

    #[test]
    fn near_misses_of_separators_stay() {
        // Same first bytes (E2, C2), and characters cut short at the end of the text.
        let text = "\u{2027}\u{202A}\u{2014}\u{0084}\u{0086}\u{00A0}";
        assert!(matches!(escape_separators(text.as_bytes()), Cow::Borrowed(same) if same == text.as_bytes()));
        for cut in [&b"\xE2"[..], b"\xE2\x80", b"\xC2"] {
            assert!(matches!(escape_separators(cut), Cow::Borrowed(same) if same == cut));
        }
    }
}
