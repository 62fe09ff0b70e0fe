//! Serves an [`rmcp`] handler, as it is, over Streamable HTTP that never drops work.
//!
//! ```no_run
//! use rmcp::ServerHandler;
//!
//! #[derive(Clone)]
//! struct Mine; // what you have already
//! impl ServerHandler for Mine {}
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! bowline_rmcp::http(|| Mine).serve("127.0.0.1:8000").await
//! # }
//! ```
//!
//! [`http`] is everything; [`handler`] is for an [`Endpoint`] of your own.
//!
//! # What is as with rmcp's own transport
//!
//! - Each session has a handler of its own, made by the factory, and rmcp's service around it: tools, prompts, resources,
//!   completions, subscriptions, log levels, `Peer`, `RequestContext`, and the order in which a session's messages are taken.
//! - `context.extensions` has the `http::request::Parts` of the request; also the [`bowline_server::Call`], with
//!   which a handler can let go of its connection (`close_connection`).
//!
//! # What is better
//!
//! - A call outlives its connection: it is parked, polled and resumed, and its result is delivered once (SEMANTICS 5).
//! - A handler that panics costs its caller an error and nobody else anything. With rmcp alone the caller waits for ever.
//! - A handler that does not look at its `ct` is dropped [`Options::cancel_grace`] after its call was cancelled or its session
//!   ended. When a session has ended, nothing of its service is left.
//!
//! # Where messages go
//!
//! What the handler asks (sampling, elicitation, roots) goes to the stream of the call that asks; rmcp knows which one that is, but
//! not in a task that the handler spawned. What it does not know, and log messages, go to the only running call; else to the standalone
//! stream if it is read; else to the newest call; else to the standalone stream, which keeps it. Progress goes to the call with its
//! token, `list_changed` and `resources/updated` to the standalone stream. A `ping` of the handler is answered here.
//!
//! # Without sessions
//!
//! In the session mode `stateless` each request gets a handler of its own from the factory, with a client that declares nothing;
//! `initialize` is answered by one too, which is dropped after that. It can say progress and ask nothing.
//!
//! # Logs
//!
//! rmcp logs every session and every notification, with its content, at the level `info`: filter with `rmcp=warn`.

mod adapter;
mod guard;
mod link;
mod options;
mod pipe;
mod words;

pub use adapter::RmcpHandler;
pub use options::Options;

use bowline::{Endpoint, Http};
use bowline_server::RawHandler;
use rmcp::{RoleServer, Service};
use std::sync::Arc;

/// An rmcp handler for each session, as the handler of an [`Endpoint`]. `factory` is called for each session and must
/// not block; to share state, let it clone a handler.
pub fn handler<S: Service<RoleServer>>(
    factory: impl Fn() -> S + Send + Sync + 'static,
) -> Arc<dyn RawHandler> {
    Arc::new(RmcpHandler::new(factory, Options::default()))
}

/// An rmcp handler for each session, ready to be served or mounted; see [`handler`].
pub fn http<S: Service<RoleServer>>(factory: impl Fn() -> S + Send + Sync + 'static) -> Http {
    Http::new(Endpoint::builder(handler(factory)))
}
