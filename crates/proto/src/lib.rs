//! The Model Context Protocol without IO.
//!
//! Everything here decides and nothing here does: no socket, clock, task or source of randomness. Time and entropy
//! are arguments, so that every row of the wire contract is a table test.
//!
//! - [`jsonrpc`]: one parse of an envelope, parameters and results kept as raw JSON
//! - [`revision`]: the dated protocol revisions and what each one has
//! - [`projection`]: messages made fit for a peer of an older revision
//! - [`http`]: from method, headers and body to what has to be done
//! - [`legacy`]: the two halves of a stream (a writer, and a reader for each connection), and how long clients wait
//! - [`modern`]: the revision without sessions: metadata, headers, round trips, listening
//! - [`sse`]: server-sent events, written and read
//! - [`cursor`]: event ids and the ids of our own requests
//! - [`client`]: what a client does when a stream ends before its response
//! - [`time`]: points in time, as arguments

pub mod client;
pub mod cursor;
mod decimal;
pub mod http;
pub mod jsonrpc;
pub mod legacy;
pub mod modern;
pub mod projection;
pub mod revision;
pub mod sse;
pub mod time;
