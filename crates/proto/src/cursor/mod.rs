//! Event ids and other short tokens that we hand out and must recognise (SEMANTICS 5.6).
//!
//! A [`Cursor`] is the position in one stream after which a reader resumes; on the wire it is the SSE `id`. It carries
//! enough to answer a poll without any stored state, and a MAC that binds it to the [`Scope`] it was made in: used in
//! another session, by another principal or after all keys changed, it does not verify. A [`RequestToken`] is the id of
//! a request that we send to the client, and names the call that sent it; a [`TaskId`] names a task. All come from one [`Keyring`], each with a
//! purpose of its own, so that one kind never passes for another.
//!
//! Nothing here is secret to its holder: tokens are authenticated, not encrypted.

mod codec;
mod keyring;
mod stream_id;
mod task;
#[cfg(test)]
mod tests;
mod token;
mod wire;

pub use codec::{Cursor, CursorCodec, CursorError, CursorKind, CursorRequest, IdText, NotAnIdError};
pub use keyring::{Keyring, KeyringError, MAX_KEYS, MIN_KEY_BYTES, Scope, ScopedKeys, TAG_BYTES};
pub use stream_id::StreamId;
pub use task::{NoTaskIdError, TaskId, TaskIdCodec};
pub use token::{RequestToken, RequestTokenCodec, TokenError};

/// The longest event id and request token that are minted or read, in characters (bytes of ASCII).
pub const MAX_CURSOR_CHARS: usize = 512;
