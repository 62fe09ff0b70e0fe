//! The session mode `stateless` (SEMANTICS 3) on the built program: each row, several backends behind nginx, real clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backends;
mod client;
mod fleet;
mod leaving;
mod pool;
mod projection;
mod resuming;
mod rows;
