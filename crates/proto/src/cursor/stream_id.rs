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

    /// Names one of the logs that, one after the other, are kept under this id: a number that differs from log to log makes the name. A session's
    /// own log may be made again once it is gone, and the cursors into it must not pass for cursors into the next one (SEMANTICS 5.6). 0 is
    /// the id itself.
    #[must_use]
    pub const fn of_incarnation(self, incarnation: u64) -> Self {
        Self((u128::from_be_bytes(self.0) ^ incarnation as u128).to_be_bytes())
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
    fn each_incarnation_has_a_name() {
        let id = StreamId::from_bytes([0xF0; 16]);
        assert_eq!(id.of_incarnation(0), id);
        let names: std::collections::BTreeSet<_> =
            [0, 1, 2, u64::MAX].map(|n| id.of_incarnation(n)).into_iter().collect();
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn debug_is_hexadecimal() {
        let id = StreamId::from_bytes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xFF]);
        assert_eq!(format!("{id:?}"), "000102030405060708090a0b0c0d0eff");
    }
}
