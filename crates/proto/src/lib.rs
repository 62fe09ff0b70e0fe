//! The Model Context Protocol without IO: envelopes, revisions, streams and decisions as pure functions

pub mod cursor;
pub mod sse;
