//! Server-Sent Events: what a connection writes and what a client reads.
//!
//! [`encode`] appends blocks to a buffer; [`Decoder`] reads them back from chunks that are cut anywhere. Both follow the
//! event stream section of the WHATWG HTML standard; the choices that it leaves are those of SEMANTICS 5.2 and 7.2.

mod decode;
pub mod encode;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use decode::{DEFAULT_LIMIT_BYTES, DecodeError, Decoder, Event, Limits, MAX_RETRY_MS};
