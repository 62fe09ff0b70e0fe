//! The binary form shared by cursors and tokens: a buffer on the stack, variable-length integers, base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{MAX_CURSOR_CHARS, ScopedKeys};

/// The most bytes that fit [`MAX_CURSOR_CHARS`] characters.
pub(super) const MAX_BYTES: usize = MAX_CURSOR_CHARS / 4 * 3;

/// The most bytes of one variable-length integer.
pub(super) const MAX_VARINT_BYTES: usize = 10;

/// Collects the bytes of one token without touching the heap.
pub(super) struct Writer {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { bytes: [0; MAX_BYTES], len: 0 }
    }

    /// The formats are bounded by construction (their tests mint the largest values), so that this never overflows.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Seven bits a byte, lowest first; the high bit says that more follow.
    pub(super) fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The low byte is what is wanted.
            self.put(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.put(&[value as u8]);
    }

    /// Adds the first `tag_bytes` of the MAC over all bytes, and appends the whole to `out` as base64url.
    pub(super) fn finish(self, keys: &ScopedKeys, tag_bytes: usize, out: &mut String) {
        let mut text = std::mem::take(out).into_bytes();
        self.finish_bytes(keys, tag_bytes, &mut text);
        // What was there is text, and what came is ASCII.
        *out = String::from_utf8(text).unwrap_or_default();
    }

    /// The same for a text that is written as bytes.
    pub(super) fn finish_bytes(mut self, keys: &ScopedKeys, tag_bytes: usize, out: &mut Vec<u8>) {
        let tag = keys.sign(&self.bytes[..self.len]);
        self.put(&tag[..tag_bytes]);
        let start = out.len();
        // Four characters for three bytes, and for a rest one more than that has.
        out.resize(start + (self.len * 4).div_ceil(3), 0);
        let written = URL_SAFE_NO_PAD.encode_slice(&self.bytes[..self.len], &mut out[start..]);
        debug_assert_eq!(written.ok(), Some(out.len() - start), "the room is what it takes");
    }
}

/// A token's bytes after base64url, split into what was signed and the MAC.
pub(super) struct Decoded {
    bytes: [u8; MAX_BYTES],
    body_len: usize,
    len: usize,
}

impl Decoded {
    /// `None` if the text is too long, too short, or not the one base64url text of its bytes.
    pub(super) fn from_text(text: &[u8], tag_bytes: usize) -> Option<Self> {
        if text.len() > MAX_CURSOR_CHARS {
            return None;
        }
        let mut bytes = [0; MAX_BYTES];
        let len = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        Some(Self { bytes, body_len: len.checked_sub(tag_bytes)?, len })
    }

    pub(super) fn body(&self) -> Reader<'_> {
        Reader { rest: &self.bytes[..self.body_len] }
    }

    pub(super) fn verifies(&self, keys: &ScopedKeys) -> bool {
        keys.verify(&self.bytes[..self.body_len], &self.bytes[self.body_len..self.len])
    }
}

/// Reads fields off the front; `None` as soon as something is missing or not canonical.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn take_array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn take_byte(&mut self) -> Option<u8> {
        self.take_array().map(|[byte]| byte)
    }

    pub(super) fn take_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for index in 0..MAX_VARINT_BYTES {
            let byte = self.take_byte()?;
            let bits = u64::from(byte & 0x7F);
            let shift = 7 * index;
            // The tenth byte has room for one bit.
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                // A last byte of zero would be a second form of a shorter one.
                return (byte != 0 || index == 0).then_some(value);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Option<u64> {
        let mut reader = Reader { rest: bytes };
        reader.take_varint().filter(|_| reader.is_empty())
    }

    #[test]
    fn integers_have_one_form() {
        assert_eq!(read(&[0]), Some(0));
        assert_eq!(read(&[0x7F]), Some(127));
        assert_eq!(read(&[0x80, 1]), Some(128));
        assert_eq!(read(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]), Some(u64::MAX));
        for refused in [
            &[][..],
            &[0x80],
            &[0x80, 0],
            &[0xFF, 0x80, 0],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, 0],
            &[0xFF; 20],
        ] {
            assert_eq!(read(refused), None, "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut writer = Writer::new();
            writer.put_varint(value);
            prop_assert!(writer.len <= MAX_VARINT_BYTES);
            prop_assert_eq!(read(&writer.bytes[..writer.len]), Some(value));
        }
    }
}
