//! The endpoint in process, on paused time: what SEMANTICS 2, 5 and 6 promise, without sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;
mod fleet;
mod lifecycle;
mod limits;
mod listener;
mod metrics;
mod mounted;
mod polling;
mod script;
mod sessions;
mod stateless;
