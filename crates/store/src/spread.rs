//! A quick hash for ids that a server has drawn at random.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes ids that were drawn at random, or that come out of a cryptographic hash: stream ids, session ids, backend ids.
///
/// Nobody can choose such keys, so nobody can make them collide; what the standard hash does against that, some hundred
/// instructions a look-up, is not needed. It is keyed all the same, with a number of this process: how long a look-up takes tells nothing
/// about the ids that are there. Not for keys that come from a client.
#[derive(Clone, Debug)]
pub struct Spread(u64);

impl Default for Spread {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl BuildHasher for Spread {
    type Hasher = SpreadHasher;

    fn build_hasher(&self) -> SpreadHasher {
        SpreadHasher(self.0)
    }
}

/// See [`Spread`].
#[derive(Clone, Debug)]
pub struct SpreadHasher(u64);

impl SpreadHasher {
    const fn mix(&mut self, word: u64) {
        // Both halves of the product depend on every bit of the word.
        let product = (self.0 ^ word) as u128 * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for SpreadHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(last));
        }
    }

    /// The end of a text: it parts the members of larger keys, and here the text is the key.
    fn write_u8(&mut self, _: u8) {}

    /// The length of an array: all keys of a map have the same.
    fn write_usize(&mut self, _: usize) {}

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_proto::cursor::StreamId;
    use std::collections::HashSet;

    #[test]
    fn ids_are_spread_over_all_bits_and_differently_in_each_map() {
        let (one, other) = (Spread::default(), Spread::default());
        let id = |number: u64| StreamId::from_bytes((u128::from(number) << 64 | 7).to_le_bytes());
        // Ids that differ little are worse than random ones.
        let hashes: Vec<u64> = (0..4_096).map(|number| one.hash_one(id(number))).collect();
        let different =
            |part: &dyn Fn(u64) -> u64| hashes.iter().map(|hash| part(*hash)).collect::<HashSet<_>>().len();
        assert_eq!(different(&|hash| hash), 4_096);
        assert_eq!(different(&|hash| hash >> 57), 128, "the tag of an entry");
        assert!(different(&|hash| hash & 0xfff) > 2_000, "its place");
        assert_ne!(one.hash_one(id(1)), other.hash_one(id(1)));
    }

    #[test]
    fn texts_hash_as_what_they_are_borrowed_as() {
        let spread = Spread::default();
        let text = "AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(spread.hash_one(text), spread.hash_one(std::sync::Arc::<str>::from(text)));
        assert_ne!(spread.hash_one(text), spread.hash_one("AAAAAAAAAAAAAAAAAAAAAB"));
    }
}
