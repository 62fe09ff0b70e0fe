//! `requestState`: what a server leaves with its client between two rounds, sealed (SEMANTICS 4).
//!
//! A sealed state is encrypted and authenticated under a key that is derived for its principal, with the digest of its request as
//! associated data, and says itself until when it is of use. So one that is forged, that belongs to somebody else or to another
//! request, or that is too old does not open. Keys rotate as those of event ids do: the newest seals, every one opens.

use super::RequestDigest;
use crate::{
    cursor::{Keyring, Scope, ScopedKeys},
    jsonrpc::Raw,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The most that a state may hold, in bytes of JSON: clients send it back whole.
pub const MAX_STATE_BYTES: usize = 256 * 1024;

/// The length of the random nonce that each seal needs, in bytes.
pub const NONCE_BYTES: usize = 24;

/// The length of the number that tells a state apart, in bytes.
pub const SERIAL_BYTES: usize = 16;

const VERSION: u8 = 1;
const PURPOSE: &str = "requestState 1";
const TAG_BYTES: usize = 16;

/// What is known after a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestState {
    /// Until when it is of use, in milliseconds of Unix time.
    #[serde(rename = "e")]
    pub expires: u64,
    /// Tells this state from every other one, for handlers that let it be used once.
    #[serde(rename = "n", with = "serial")]
    pub serial: [u8; SERIAL_BYTES],
    /// The questions that the client was asked in the last round: key and method.
    #[serde(rename = "q", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, String>,
    /// The answers of all earlier rounds.
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, Raw>,
    /// What the handler does not want to do again.
    #[serde(rename = "s", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Raw>,
    /// The call that is still open, where the handler cannot be run again.
    #[serde(rename = "h", default, with = "held", skip_serializing_if = "Option::is_none")]
    pub held: Option<[u8; SERIAL_BYTES]>,
}

/// Why a state does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFault {
    /// It is not ours, or was made for another principal or another request. Which of these is not said.
    #[error("requestState is not one that was given out for this request")]
    Foreign,
    /// It was good once.
    #[error("requestState has expired; send the request again without it")]
    Expired,
}

/// A state holds more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answers and the state of this request have {bytes} bytes, at most {MAX_STATE_BYTES} can be carried"
)]
pub struct StateTooLarge {
    /// How much it holds.
    pub bytes: usize,
}

/// Seals and opens the states of one principal.
#[derive(Clone)]
pub struct StateCodec {
    keys: ScopedKeys,
}

impl StateCodec {
    /// The codec of a principal; `None` where nobody authenticates.
    #[must_use]
    pub fn new(keyring: &Keyring, principal: Option<&str>) -> Self {
        Self { keys: keyring.scoped(PURPOSE, Scope { session: None, principal }) }
    }

    /// Seals a state for the request of `digest`. `nonce` is random and never used twice.
    ///
    /// # Errors
    /// When the state holds more than [`MAX_STATE_BYTES`].
    ///
    /// # Panics
    /// Never: a state is always expressible as JSON, and within the bound it can always be encrypted.
    pub fn seal(
        &self,
        digest: &RequestDigest,
        state: &RequestState,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<String, StateTooLarge> {
        let plain = serde_json::to_vec(state).expect("maps with text keys are JSON");
        if plain.len() > MAX_STATE_BYTES {
            return Err(StateTooLarge { bytes: plain.len() });
        }
        let key = self.keys.secrets().next().expect("a keyring has at least one key");
        let payload = Payload { msg: &plain, aad: digest.as_bytes() };
        let sealed = XChaCha20Poly1305::new(key.into())
            .encrypt(&XNonce::from(nonce), payload)
            .expect("the bound is far below what the cipher can do");
        let mut bytes = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&nonce);
        bytes.extend_from_slice(&sealed);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens a state that came with the request of `digest`; `now` is Unix time in milliseconds.
    ///
    /// # Errors
    /// See [`StateFault`].
    pub fn open(&self, digest: &RequestDigest, now: u64, text: &str) -> Result<RequestState, StateFault> {
        let longest = (1 + NONCE_BYTES + MAX_STATE_BYTES + TAG_BYTES) * 4 / 3 + 4;
        if text.len() > longest {
            return Err(StateFault::Foreign);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| StateFault::Foreign)?;
        let Some(([VERSION], rest)) = bytes.split_first_chunk::<1>() else { return Err(StateFault::Foreign) };
        let Some((nonce, sealed)) = rest.split_first_chunk::<NONCE_BYTES>() else {
            return Err(StateFault::Foreign);
        };
        let nonce = XNonce::from(*nonce);
        let opened = self.keys.secrets().find_map(|key| {
            let payload = Payload { msg: sealed, aad: digest.as_bytes() };
            XChaCha20Poly1305::new(key.into()).decrypt(&nonce, payload).ok()
        });
        let plain = opened.ok_or(StateFault::Foreign)?;
        // Ours, but perhaps of another version of this program.
        let state: RequestState = serde_json::from_slice(&plain).map_err(|_| StateFault::Expired)?;
        if state.expires <= now { Err(StateFault::Expired) } else { Ok(state) }
    }
}

impl fmt::Debug for StateCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateCodec").field("keys", &self.keys).finish()
    }
}

/// Bytes as base64url.
mod serial {
    use super::SERIAL_BYTES;
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        bytes: &[u8; SERIAL_BYTES],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; SERIAL_BYTES], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(D::Error::custom)?;
        bytes.try_into().map_err(|_| D::Error::custom("not 16 bytes"))
    }
}

mod held {
    use super::{SERIAL_BYTES, serial};
    use serde::{Deserializer, Serializer};

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(
        bytes: &Option<[u8; SERIAL_BYTES]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serial::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<[u8; SERIAL_BYTES]>, D::Error> {
        serial::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(keys: &[u8]) -> Keyring {
        Keyring::from_bytes(&keys.iter().map(|&byte| [byte; 32]).collect::<Vec<_>>()).unwrap()
    }

    fn digest(name: &str) -> RequestDigest {
        RequestDigest::of("tools/call", Some(&Raw::parse(format!(r#"{{"name":"{name}"}}"#)).unwrap()))
    }

    fn state() -> RequestState {
        RequestState {
            expires: 1_000,
            serial: [7; 16],
            asked: [("k".into(), "roots/list".into())].into(),
            answers: [("a".into(), Raw::parse(r#"{"x":1.50}"#).unwrap())].into(),
            kept: [("s".into(), Raw::parse("7").unwrap())].into(),
            held: None,
        }
    }

    #[test]
    fn what_was_sealed_opens_for_the_same_principal_and_request_in_time() {
        let codec = StateCodec::new(&ring(&[1]), Some("alice"));
        for state in [state(), RequestState { held: Some([9; 16]), ..state() }] {
            let text = codec.seal(&digest("t"), &state, [3; 24]).unwrap();
            assert_eq!(codec.open(&digest("t"), 999, &text), Ok(state));
            assert_eq!(codec.open(&digest("t"), 1_000, &text), Err(StateFault::Expired));
            assert_eq!(codec.open(&digest("u"), 0, &text), Err(StateFault::Foreign));
            assert_eq!(codec.open(&digest("t"), 0, &format!("{text}-TAMPERED")), Err(StateFault::Foreign));
            for principal in [None, Some("bob"), Some("")] {
                let other = StateCodec::new(&ring(&[1]), principal);
                assert_eq!(other.open(&digest("t"), 0, &text), Err(StateFault::Foreign), "{principal:?}");
            }
        }
        for text in ["", "AQ", "not base64!", "AgAA"] {
            assert_eq!(codec.open(&digest("t"), 0, text), Err(StateFault::Foreign), "{text}");
        }
    }

    #[test]
    fn keys_rotate() {
        let old = StateCodec::new(&ring(&[1]), None).seal(&digest("t"), &state(), [0; 24]).unwrap();
        assert!(StateCodec::new(&ring(&[2, 1]), None).open(&digest("t"), 0, &old).is_ok());
        let new = StateCodec::new(&ring(&[2, 1]), None).seal(&digest("t"), &state(), [0; 24]).unwrap();
        assert!(StateCodec::new(&ring(&[2]), None).open(&digest("t"), 0, &new).is_ok());
        assert_eq!(StateCodec::new(&ring(&[2]), None).open(&digest("t"), 0, &old), Err(StateFault::Foreign));
    }

    #[test]
    fn nothing_of_it_can_be_read() {
        let text = StateCodec::new(&ring(&[1]), None).seal(&digest("t"), &state(), [0; 24]).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
        assert!(!bytes.windows(10).any(|part| part == b"roots/list"));
    }

    #[test]
    fn what_is_too_large_is_not_sealed() {
        let kept = [("s".to_owned(), Raw::from_value(&"x".repeat(MAX_STATE_BYTES)).unwrap())].into();
        let error = StateCodec::new(&ring(&[1]), None)
            .seal(&digest("t"), &RequestState { kept, ..state() }, [0; 24])
            .unwrap_err();
        assert!(error.bytes > MAX_STATE_BYTES);
    }

    proptest! {
        #[test]
        fn no_bit_can_be_changed(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let codec = StateCodec::new(&ring(&[1]), None);
            let text = codec.seal(&digest("t"), &state(), [5; 24]).unwrap();
            let mut bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let forged = URL_SAFE_NO_PAD.encode(bytes);
            prop_assert_eq!(codec.open(&digest("t"), 0, &forged), Err(StateFault::Foreign));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = StateCodec::new(&ring(&[1]), None).open(&digest("t"), 0, &text);
        }
    }
}
