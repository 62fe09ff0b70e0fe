//! The built program over real sockets, in front of real processes: what SEMANTICS promises, row by row.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bodies;
mod checks;
mod connections;
mod support;
