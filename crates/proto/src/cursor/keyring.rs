//! Keys, and what is derived from them: one MAC key for each purpose and scope.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_PAD_INDIFFERENT, URL_SAFE_PAD_INDIFFERENT};
use blake3::{Hash, Hasher};
use thiserror::Error;

/// The shortest key, in bytes.
pub const MIN_KEY_BYTES: usize = 32;

/// The most keys of one [`Keyring`]: each is tried on every token, so their number bounds what a forged one costs.
pub const MAX_KEYS: usize = 16;

/// The length of a [`ScopedKeys`] tag in bytes. A token may keep fewer of them.
pub const TAG_BYTES: usize = 32;

/// Fixed for ever: another text here makes every token of every deployment invalid.
const ROOT_CONTEXT: &str = "bowline 2026-07 keyring root key";
const KEY_ID_CONTEXT: &str = "bowline 2026-07 keyring key id";

/// One or more keys, newest first: the first one signs, all of them verify. To rotate, put the new key in front on every
/// backend, and drop the old one when nothing that it signed is in use any more.
///
/// `Debug` shows the key ids only; the keys themselves are not kept, only what was derived from them.
#[derive(Clone)]
pub struct Keyring {
    keys: Vec<RootKey>,
}

#[derive(Clone)]
struct RootKey {
    id: u8,
    root: [u8; 32],
}

/// Why a text or some bytes are no [`Keyring`]. Never contains any of the key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum KeyringError {
    /// There is no key at all.
    #[error(
        "no key given: at least one of {MIN_KEY_BYTES} bytes or more is needed (try `openssl rand -hex 32`)"
    )]
    Empty,
    /// More than [`MAX_KEYS`].
    #[error("{count} keys given, at most {MAX_KEYS} are accepted: drop the oldest ones, at the end")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// Nothing between two commas, or before the first or after the last one.
    #[error("key {position} is empty: look for a comma too many")]
    Blank {
        /// Which key, counted from 1.
        position: usize,
    },
    /// Neither hexadecimal nor base64.
    #[error(
        "key {position} is neither hexadecimal nor base64 (a key that looks like hexadecimal needs an even number of digits)"
    )]
    NotText {
        /// Which key, counted from 1.
        position: usize,
    },
    /// Shorter than [`MIN_KEY_BYTES`].
    #[error(
        "key {position} has {bytes} bytes, at least {MIN_KEY_BYTES} are needed (try `openssl rand -hex 32`)"
    )]
    TooShort {
        /// Which key, counted from 1.
        position: usize,
        /// How many bytes it has.
        bytes: usize,
    },
}

impl Keyring {
    /// Reads the form of `BOWLINE_KEY`: keys in hexadecimal or base64 (either alphabet, with or without padding),
    /// separated by commas, newest first. Blanks around a key are ignored. A key of hexadecimal digits only is read as
    /// hexadecimal.
    ///
    /// # Errors
    ///
    /// See [`KeyringError`]; the message says which key, and never shows it.
    pub fn parse(text: &str) -> Result<Self, KeyringError> {
        if text.trim().is_empty() {
            return Err(KeyringError::Empty);
        }
        let count = text.split(',').count();
        if count > MAX_KEYS {
            return Err(KeyringError::TooMany { count });
        }
        let keys: Vec<Vec<u8>> = text
            .split(',')
            .enumerate()
            .map(|(index, key)| parse_key(key.trim(), index + 1))
            .collect::<Result<_, _>>()?;
        Self::from_bytes(&keys)
    }

    /// A keyring of raw keys, newest first: a random key of this process, or one that a store keeps for its backends.
    ///
    /// # Errors
    ///
    /// No key, too many, or one that is too short.
    pub fn from_bytes(keys: &[impl AsRef<[u8]>]) -> Result<Self, KeyringError> {
        if keys.is_empty() {
            return Err(KeyringError::Empty);
        }
        if keys.len() > MAX_KEYS {
            return Err(KeyringError::TooMany { count: keys.len() });
        }
        let root_key = |(index, key): (usize, &[u8])| {
            if key.len() < MIN_KEY_BYTES {
                return Err(KeyringError::TooShort { position: index + 1, bytes: key.len() });
            }
            Ok(RootKey {
                id: blake3::derive_key(KEY_ID_CONTEXT, key)[0],
                root: blake3::derive_key(ROOT_CONTEXT, key),
            })
        };
        let keys = keys.iter().map(AsRef::as_ref).enumerate().map(root_key).collect::<Result<_, _>>()?;
        Ok(Self { keys })
    }

    /// The ids of the keys, newest first: one byte each, derived from the key, fit for logs ("do all backends have the
    /// same key?"). Two keys may share an id; it selects nothing.
    pub fn key_ids(&self) -> impl ExactSizeIterator<Item = u8> + '_ {
        self.keys.iter().map(|key| key.id)
    }

    /// Keys for one purpose and scope. `purpose` is a fixed text of the caller, different for each kind of token, so that
    /// a token of one kind never verifies as another.
    pub fn scoped(&self, purpose: &str, scope: Scope<'_>) -> ScopedKeys {
        let keys = self
            .keys
            .iter()
            .map(|key| {
                let mut hasher = Hasher::new_keyed(&key.root);
                for part in [Some(purpose), scope.session, scope.principal] {
                    add_part(&mut hasher, part);
                }
                RootKey { id: key.id, root: *hasher.finalize().as_bytes() }
            })
            .collect();
        ScopedKeys { keys }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_ids("Keyring", &self.keys, f)
    }
}

/// What a token is bound to without containing it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The id of the session, where there is one. Absent differs from empty.
    pub session: Option<&'a str>,
    /// Who is calling, where authentication is configured; a text that differs for each principal.
    pub principal: Option<&'a str>,
}

/// The keys of one purpose and scope: derived once for a connection, then one short keyed hash for each token.
///
/// Also for tokens that other modules define: [`sign`](Self::sign) gives a tag, [`verify`](Self::verify) checks a whole
/// or a truncated one.
#[derive(Clone)]
pub struct ScopedKeys {
    keys: Vec<RootKey>,
}

impl ScopedKeys {
    /// The id of the key that signs.
    pub fn key_id(&self) -> u8 {
        self.newest().id
    }

    /// The tag of `bytes` under the newest key.
    pub fn sign(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        *blake3::keyed_hash(&self.newest().root, bytes).as_bytes()
    }

    /// Whether `tag` is the start of the tag of `bytes` under any key. Its length is what the format says, never what a
    /// peer sent. Takes the same time whatever the keys and the tag are: every key is tried, every byte compared.
    ///
    /// A tag of under 8 bytes or over [`TAG_BYTES`] never verifies.
    pub fn verify(&self, bytes: &[u8], tag: &[u8]) -> bool {
        if !(8..=TAG_BYTES).contains(&tag.len()) {
            return false;
        }
        let claimed = widened(tag);
        self.keys.iter().fold(false, |verified, key| {
            let actual = blake3::keyed_hash(&key.root, bytes);
            // `Hash` compares in constant time, and `|` does not stop at the first match.
            verified | (widened(&actual.as_bytes()[..tag.len()]) == claimed)
        })
    }

    /// The keys themselves, newest first, for what is encrypted with them.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.keys.iter().map(|key| &key.root)
    }

    fn newest(&self) -> &RootKey {
        self.keys.first().expect("a keyring has at least one key")
    }
}

impl fmt::Debug for ScopedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_ids("ScopedKeys", &self.keys, f)
    }
}

fn debug_ids(name: &str, keys: &[RootKey], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ids: Vec<u8> = keys.iter().map(|key| key.id).collect();
    f.debug_struct(name).field("key_ids", &ids).finish_non_exhaustive()
}

/// Presence and length come before the bytes, so that no two lists of parts give the same input.
fn add_part(hasher: &mut Hasher, part: Option<&str>) {
    let Some(text) = part else {
        hasher.update(&[0]);
        return;
    };
    hasher.update(&[1]);
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}

/// A truncated tag, filled up with zeros to the size that compares in constant time.
fn widened(tag: &[u8]) -> Hash {
    let mut bytes = [0; TAG_BYTES];
    bytes[..tag.len()].copy_from_slice(tag);
    Hash::from_bytes(bytes)
}

fn parse_key(text: &str, position: usize) -> Result<Vec<u8>, KeyringError> {
    if text.is_empty() {
        return Err(KeyringError::Blank { position });
    }
    if text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return from_hex(text).ok_or(KeyringError::NotText { position });
    }
    URL_SAFE_PAD_INDIFFERENT
        .decode(text)
        .or_else(|_| STANDARD_PAD_INDIFFERENT.decode(text))
        .map_err(|_| KeyringError::NotText { position })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";
    const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=";

    fn roots(keyring: &Keyring) -> Vec<[u8; 32]> {
        keyring.keys.iter().map(|key| key.root).collect()
    }

    #[test]
    fn every_text_form_gives_the_same_key() {
        let key: Vec<u8> = (0..31).chain([0xFF]).collect();
        let expected = roots(&Keyring::from_bytes(&[key]).unwrap());
        let without_padding = BASE64.trim_end_matches('=');
        let url_safe = without_padding.replace('+', "-").replace('/', "_");
        for text in [HEX, &HEX.to_uppercase(), BASE64, without_padding, &url_safe, &format!(" {HEX}\n")] {
            assert_eq!(roots(&Keyring::parse(text).unwrap()), expected);
        }
        // 0xFB 0xFF… has both characters in which the alphabets differ.
        let high = [0xFB, 0xFF, 0xBF].repeat(11);
        let expected = roots(&Keyring::from_bytes(std::slice::from_ref(&high)).unwrap());
        for text in [STANDARD_PAD_INDIFFERENT.encode(&high), URL_SAFE_PAD_INDIFFERENT.encode(&high)] {
            assert_eq!(roots(&Keyring::parse(&text).unwrap()), expected);
        }
    }

    #[test]
    fn keys_keep_their_order() {
        let (old, new) = ([1u8; 32], [2u8; 40]);
        let keyring = Keyring::from_bytes(&[&new[..], &old[..]]).unwrap();
        let only = |key: &[u8]| Keyring::from_bytes(&[key]).unwrap();
        assert_eq!(roots(&keyring), [roots(&only(&new)), roots(&only(&old))].concat());
        assert_eq!(keyring.key_ids().next(), only(&new).key_ids().next());
        assert_eq!(keyring.scoped("p", Scope::default()).key_id(), keyring.key_ids().next().unwrap());
    }

    #[test]
    fn errors_say_which_key_and_never_show_it() {
        let many = vec![HEX; MAX_KEYS + 1].join(",");
        for (text, expected) in [
            ("", KeyringError::Empty),
            (" \n", KeyringError::Empty),
            (&*many, KeyringError::TooMany { count: MAX_KEYS + 1 }),
            (&format!("{HEX},"), KeyringError::Blank { position: 2 }),
            (&format!(",{HEX}"), KeyringError::Blank { position: 1 }),
            (&format!("{HEX}, ,{HEX}"), KeyringError::Blank { position: 2 }),
            (&HEX[1..], KeyringError::NotText { position: 1 }),
            (&format!("{HEX},not a key"), KeyringError::NotText { position: 2 }),
            (&format!("{HEX};{HEX}"), KeyringError::NotText { position: 1 }),
            (&HEX[2..], KeyringError::TooShort { position: 1, bytes: 31 }),
            (&format!("{HEX},c2hvcnQ="), KeyringError::TooShort { position: 2, bytes: 5 }),
        ] {
            let error = Keyring::parse(text).unwrap_err();
            assert_eq!(error, expected, "{text:?}");
            let message = error.to_string();
            assert!(!message.contains("0001") && !message.contains("not a key"), "{message}");
        }
        assert_eq!(Keyring::from_bytes(&[[0; 32]; 0]).unwrap_err(), KeyringError::Empty);
        assert_eq!(
            Keyring::from_bytes(&[[0; 31]]).unwrap_err(),
            KeyringError::TooShort { position: 1, bytes: 31 }
        );
    }

    #[test]
    fn debug_shows_key_ids_only() {
        let keyring = Keyring::from_bytes(&[[0xAB; 32]]).unwrap();
        let id = keyring.key_ids().next().unwrap();
        assert_eq!(format!("{keyring:?}"), format!("Keyring {{ key_ids: [{id}], .. }}"));
        let scoped = keyring.scoped("p", Scope::default());
        assert_eq!(format!("{scoped:?}"), format!("ScopedKeys {{ key_ids: [{id}], .. }}"));
    }

    #[test]
    fn no_two_scopes_or_purposes_share_a_key() {
        let keyring = Keyring::from_bytes(&[[3; 32]]).unwrap();
        let mut roots = Vec::new();
        for purpose in ["a", "ab", ""] {
            for session in [None, Some(""), Some("a"), Some("b"), Some("ab")] {
                for principal in [None, Some(""), Some("a"), Some("b"), Some("ab")] {
                    roots.push(keyring.scoped(purpose, Scope { session, principal }).newest().root);
                }
            }
        }
        let all = roots.len();
        roots.sort_unstable();
        roots.dedup();
        assert_eq!(roots.len(), all);
    }

    #[test]
    fn a_tag_may_be_cut_but_not_too_short() {
        let keys = Keyring::from_bytes(&[[3; 32]]).unwrap().scoped("p", Scope::default());
        let tag = keys.sign(b"bytes");
        for len in 0..=TAG_BYTES {
            assert_eq!(keys.verify(b"bytes", &tag[..len]), len >= 8, "{len}");
        }
        assert!(!keys.verify(b"bytes", &[&tag[..], &[0]].concat()));
    }

    #[test]
    fn derivation_never_changes() {
        // Tokens must verify after an upgrade: these values are part of the format.
        let keys = Keyring::parse(HEX).unwrap().scoped("test", Scope { session: Some("s"), principal: None });
        let tag: String = keys.sign(b"bytes")[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((keys.key_id(), tag.as_str()), (170, "744f120fd7b0ecf6"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_never_shows_its_input(text in "[ -~,]{0,100}") {
            let _ = Keyring::parse(&text);
        }

        #[test]
        fn any_tag_but_the_right_one_fails(bytes in proptest::collection::vec(any::<u8>(), 0..40), bit in 0usize..128) {
            let keys = Keyring::from_bytes(&[[1; 32], [2; 32]]).unwrap().scoped("p", Scope::default());
            let mut tag: [u8; 16] = keys.sign(&bytes)[..16].try_into().unwrap();
            prop_assert!(keys.verify(&bytes, &tag));
            tag[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!keys.verify(&bytes, &tag));
        }
    }
}
