//! The handler API from outside, in process and on paused time: each feature, and each revision where it makes a difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod building;
mod changing;
mod examples;
mod http;
mod life;
mod modern;
mod prompts;
mod rerun;
mod resources;
mod stdio;
mod tasks;
mod tools;

use bowline::Revision;

/// The revisions with a handshake, by name.
pub(crate) fn revisions() -> [&'static str; 4] {
    Revision::LEGACY.map(Revision::as_str)
}
