//! The ids of our own requests (sampling, elicitation, roots): they name the call that asks, so that any backend finds
//! the owner of a response without a look-up (SEMANTICS 6).
//!
//! The bytes, before base64url without padding: version `1`, id of the signing key, stream (16), serial number (a
//! variable-length integer), MAC (10).

use thiserror::Error;

use super::wire::{Decoded, Writer};
use super::{Keyring, Scope, ScopedKeys, StreamId};

const PURPOSE: &str = "request token";
const VERSION: u8 = 1;
/// 80 bits: a guess costs a POST each, and only reaches a call of the same session.
const MAC_BYTES: usize = 10;

/// Names one request that we sent to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestToken {
    /// The stream of the call that asks.
    pub stream: StreamId,
    /// Which of that call's requests it is.
    pub serial: u64,
}

/// Why a text is no token of this scope.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// Not of our form, or of a version that we do not know: an id that we never used.
    #[error("the id is not one of a request that this server sent")]
    Malformed,
    /// Our form, but made in another session, for another principal or with another key.
    #[error("the id is not one of a request that this server sent here")]
    BadMac,
}

/// Mints and reads the request tokens of one scope.
#[derive(Clone, Debug)]
pub struct RequestTokenCodec {
    keys: ScopedKeys,
}

impl RequestTokenCodec {
    /// The codec for a session and a principal, either of which may be absent.
    pub fn new(keyring: &Keyring, scope: Scope<'_>) -> Self {
        Self { keys: keyring.scoped(PURPOSE, scope) }
    }

    /// Appends the token to `out`: base64url characters, 39 to 51 of them. As a JSON-RPC id it is a string.
    pub fn mint(&self, token: RequestToken, out: &mut String) {
        let mut writer = Writer::new();
        writer.put(&[VERSION, self.keys.key_id()]);
        writer.put(token.stream.as_bytes());
        writer.put_varint(token.serial);
        writer.finish(&self.keys, MAC_BYTES, out);
    }

    /// Reads a token: the content of the id string of a response, without quotes.
    ///
    /// # Errors
    ///
    /// See [`TokenError`].
    pub fn parse(&self, text: &str) -> Result<RequestToken, TokenError> {
        let decoded = Decoded::from_text(text.as_bytes(), MAC_BYTES).ok_or(TokenError::Malformed)?;
        let token = parse(&decoded).ok_or(TokenError::Malformed)?;
        if decoded.verifies(&self.keys) { Ok(token) } else { Err(TokenError::BadMac) }
    }
}

fn parse(decoded: &Decoded) -> Option<RequestToken> {
    let mut body = decoded.body();
    let [version, _key_id] = body.take_array()?;
    let stream = StreamId::from_bytes(body.take_array()?);
    let serial = body.take_varint()?;
    (version == VERSION && body.is_empty()).then_some(RequestToken { stream, serial })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codec(key: u8, session: &str, principal: &str) -> RequestTokenCodec {
        let keyring = Keyring::from_bytes(&[[key; 32]]).unwrap();
        RequestTokenCodec::new(&keyring, Scope { session: Some(session), principal: Some(principal) })
    }

    fn minted(codec: &RequestTokenCodec, token: RequestToken) -> String {
        let mut text = String::new();
        codec.mint(token, &mut text);
        text
    }

    #[test]
    fn length_is_about_forty() {
        let length = |serial| {
            minted(&codec(1, "s", "p"), RequestToken { stream: StreamId::from_bytes([7; 16]), serial }).len()
        };
        assert_eq!((length(0), length(200), length(u64::MAX)), (39, 40, 51));
    }

    #[test]
    fn another_scope_or_purpose_is_refused() {
        let token = RequestToken { stream: StreamId::from_bytes([7; 16]), serial: 3 };
        let text = minted(&codec(1, "s", "p"), token);
        assert_eq!(codec(1, "s", "p").parse(&text), Ok(token));
        for other in [codec(2, "s", "p"), codec(1, "t", "p"), codec(1, "s", "q"), codec(1, "sp", "")] {
            assert_eq!(other.parse(&text), Err(TokenError::BadMac));
        }
        let keyring = Keyring::from_bytes(&[[1; 32]]).unwrap();
        let scope = Scope { session: Some("s"), principal: Some("p") };
        let other_purpose = RequestTokenCodec { keys: keyring.scoped("event id", scope) };
        assert_eq!(other_purpose.parse(&text), Err(TokenError::BadMac));
    }

    #[test]
    fn the_form_never_changes() {
        let token = RequestToken { stream: StreamId::from_bytes([7; 16]), serial: 3 };
        assert_eq!(minted(&codec(1, "s", "p"), token), "AZwHBwcHBwcHBwcHBwcHBwcHA_vd_0YFQu_jHJM");
    }

    #[test]
    fn ids_that_are_not_ours_are_malformed() {
        for text in ["", "1", "a1b2", "550e8400-e29b-41d4-a716-446655440000", "AQ==", &"A".repeat(600)] {
            assert_eq!(codec(1, "s", "p").parse(text), Err(TokenError::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip_and_bit_flips(
            stream in any::<[u8; 16]>(), serial in any::<u64>(), shift in 0u32..64, flip in any::<prop::sample::Index>(),
        ) {
            let token = RequestToken { stream: StreamId::from_bytes(stream), serial: serial >> shift };
            let codec = codec(1, "s", "p");
            let text = minted(&codec, token);
            prop_assert_eq!(codec.parse(&text), Ok(token));

            let mut bytes = text.into_bytes();
            let bit = flip.index(bytes.len() * 7);
            bytes[bit / 7] ^= 1 << (bit % 7);
            prop_assert!(codec.parse(std::str::from_utf8(&bytes).unwrap()).is_err());
        }

        #[test]
        fn never_panics(text in any::<String>(), base64 in "[A-Za-z0-9_-]{0,60}") {
            let codec = codec(1, "s", "p");
            prop_assert!(codec.parse(&text).is_err());
            prop_assert!(codec.parse(&base64).is_err());
        }
    }
}
