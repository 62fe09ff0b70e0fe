//! The built program from the outside: what it prints, serves and returns, and what SEMANTICS promises, row by row, over
//! real sockets and in front of real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bodies;
mod checks;
mod common;
mod connections;
mod demo;
mod serve;
mod support;
mod usage;
