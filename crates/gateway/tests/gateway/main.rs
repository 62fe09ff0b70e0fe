//! The gateway behind an endpoint, in front of the fixture server: real processes, no sockets.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a failed setup is a failed test

mod bounds;
mod bridge;
mod deaths;
mod eras;
mod handshake;
mod messages;
mod modern;
mod odd;
mod questions;
mod reissues;
mod repeatable;
mod shared;
mod support;
mod taken_up;
