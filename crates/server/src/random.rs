//! Entropy, and the short hashes that stand for ids in logs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bowline_proto::cursor::StreamId;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

/// Random bytes from the system.
///
/// # Panics
/// When the system has none to give: no id could be unguessable then, and no session safe.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    getrandom::fill(&mut out).expect("the system gives random bytes");
    out
}

/// A new stream id: 128 random bits.
pub(crate) fn stream_id() -> StreamId {
    StreamId::from_bytes(bytes())
}

/// A new session id: 128 random bits in 22 characters of base64url.
pub(crate) fn session_id() -> Box<str> {
    URL_SAFE_NO_PAD.encode(bytes::<16>()).into_boxed_str()
}

/// 64 random bits.
pub(crate) fn word() -> u64 {
    u64::from_le_bytes(bytes())
}

/// A key for a process that was given none.
pub(crate) fn key() -> [u8; 32] {
    bytes()
}

/// A hash that tells ids apart in this process's logs and gives nothing of them away.
pub(crate) fn short_hash(bytes: &[u8]) -> u32 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    // The low half is as good as the whole.
    STATE.get_or_init(RandomState::new).hash_one(bytes) as u32
}
