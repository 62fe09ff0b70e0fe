//! JSON-RPC 2.0 as MCP uses it: the envelope is parsed once, parameters and results stay raw.
//!
//! [`parse`] reads a whole body; what it returns borrows nothing and copies nothing: methods, parameters and results are
//! slices of the one buffer that came from the socket.

mod check;
mod envelope;
mod error;
mod id;
mod members;
mod message;
mod outline;
mod parse;
mod raw;
mod salvage;
mod scan;
mod surrogates;

pub use error::{ErrorObject, code};
pub use id::{MAX_ID_BYTES, RequestId};
pub use message::{Message, Notification, Reply, Request, Response};
pub use outline::Outline;
pub use parse::{Body, MAX_DEPTH, ParseError, ParseErrorKind, parse, parse_message};
pub use raw::Raw;
pub use salvage::{Salvaged, salvage};
pub use scan::{Members, next_special, plain_string};
