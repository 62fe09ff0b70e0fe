//! The endpoint in process, on paused time: what SEMANTICS 2 to 6 promise, without sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod asking;
mod client;
mod fleet;
mod lifecycle;
mod limits;
mod listener;
mod listening;
mod metrics;
mod modern;
mod modern_script;
mod mounted;
mod polling;
mod rounds;
mod script;
mod sessions;
mod stateless;
mod tasks;
mod unchecked;
