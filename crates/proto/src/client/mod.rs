//! What a client decides: SEMANTICS 7.
//!
//! [`CallStream`] follows the stream of one call over any number of connections, until the response.

mod config;
mod error;
mod stream;

pub use config::ReconnectPolicy;
pub use error::{ClientError, ClientErrorKind};
pub use stream::{Action, CallStream, StreamEnd};
