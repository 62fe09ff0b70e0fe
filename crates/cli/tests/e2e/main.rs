//! The built program from the outside: what it prints, serves and returns, and what SEMANTICS promises, row by row, over
//! real sockets and in front of real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod authorization;
mod bodies;
mod checks;
mod clients;
mod commands;
mod common;
mod connect;
mod connections;
mod cursors;
mod demo;
mod drain;
mod faults;
mod field;
mod fleet;
mod inspector;
mod lifecycle;
mod listening;
mod manual;
mod modern;
mod production;
mod proxies;
mod rawfuzz;
mod serve;
mod sessions;
mod streams;
mod support;
mod usage;
