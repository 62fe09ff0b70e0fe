//! The name of a stream.

use std::fmt;

/// Names one stream: 16 bytes, which whoever opens the stream draws at random. 128 random bits are what makes a cursor
/// unguessable where nothing else guards a stream (SEMANTICS 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct StreamId([u8; 16]);

impl StreamId {
    /// The id made of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 lower-case hexadecimal digits, for logs.
impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_is_hexadecimal() {
        let id = StreamId::from_bytes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xFF]);
        assert_eq!(format!("{id:?}"), "000102030405060708090a0b0c0d0eff");
    }
}
