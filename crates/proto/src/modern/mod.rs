//! The modern revision, `2026-07-28`, as pure functions (SEMANTICS 4).
//!
//! A request carries all that is needed to serve it. The server calls, after [`route_post`](crate::http::route_post) found a
//! request to be modern:
//!
//! 1. [`check_request`]: the metadata, the headers `Mcp-Method` and `Mcp-Name`, the methods that are gone.
//! 2. [`params::check`]: the headers `Mcp-Param-*`, by whoever knows the tool.
//! 3. [`RoundParams::of`] and [`StateCodec::open`]: what an earlier round of the same request left with the client.
//! 4. [`fit_result`] and [`fit_error`]: what a handler answers, made an answer of this revision.
//!
//! [`listen`] is the filter of `subscriptions/listen`, [`input`] what a client can be asked, [`tasks`] the calls that go on without
//! their connection, [`trace`] the trace context.

pub mod cache;
mod digest;
pub mod input;
mod level;
pub mod listen;
pub mod meta;
pub mod params;
mod request;
mod result;
mod sentinel;
mod state;
pub mod tasks;
pub mod trace;

pub use digest::RequestDigest;
pub use level::LogLevel;
pub use meta::RequestMeta;
pub use request::{MCP_METHOD, MCP_NAME, RoundParams, check_request, header_name_of, status_of, takes_input};
pub use result::{discover_result, fit_error, fit_notification, fit_result, input_required};
pub use sentinel::{decode, encode};
pub use state::{
    MAX_STATE_BYTES, NONCE_BYTES, RequestState, SERIAL_BYTES, StateCodec, StateFault, StateTooLarge,
};
