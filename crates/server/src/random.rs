//! Entropy, and the short hashes that stand for ids in logs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bowline_proto::cursor::StreamId;
use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, OnceLock};

/// How much is asked of the system at a time: a call to it costs as much as a whole read of a request, and a stream needs two numbers.
const POOL: usize = 512;

thread_local! {
    /// Random bytes that nobody has had, and how many of them are left. What was given out is overwritten.
    static UNUSED: RefCell<([u8; POOL], usize)> = const { RefCell::new(([0; POOL], 0)) };
}

/// Random bytes from the system, `N` of them at most [`POOL`].
///
/// # Panics
/// When the system has none to give: no id could be unguessable then, and no session safe.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    UNUSED.with_borrow_mut(|(pool, left)| {
        if *left < N {
            getrandom::fill(pool).expect("the system gives random bytes");
            *left = POOL;
        }
        let given = &mut pool[*left - N..*left];
        let mut out = [0; N];
        out.copy_from_slice(given);
        given.fill(0);
        *left -= N;
        out
    })
}

/// A new stream id: 128 random bits.
pub(crate) fn stream_id() -> StreamId {
    StreamId::from_bytes(bytes())
}

/// A new session id: 128 random bits in 22 characters of base64url.
pub(crate) fn session_id() -> Arc<str> {
    let mut text = [0; 22];
    // It is as long as that, and ASCII.
    let written = URL_SAFE_NO_PAD.encode_slice(bytes::<16>(), &mut text).unwrap_or_default();
    str::from_utf8(&text[..written]).unwrap_or_default().into()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nothing_is_given_twice_and_nothing_is_left_unfilled() {
        let mut seen = HashSet::new();
        for _ in 0..1_000 {
            let (long, short) = (bytes::<16>(), word());
            assert!(long.iter().any(|byte| *byte != 0) && short != 0);
            assert!(seen.insert(long[..8].to_vec()) && seen.insert(long[8..].to_vec()));
            assert!(seen.insert(short.to_le_bytes().to_vec()));
        }
        UNUSED.with_borrow(|(pool, left)| assert!(pool[*left..].iter().all(|byte| *byte == 0)));
    }
}
