//! Serves MCP over Streamable HTTP: sessions, calls that outlive their connection, resumption.
//!
//! [`Endpoint`] is a `tower` service over [`http`] types in front of a [`RawHandler`]; [`serve`] is its own listener.
//!
//! A request runs through the checks of [`bowline_proto::http`]; a call runs under a supervisor that its connection does not
//! own; what it says goes into a log in a [`bowline_store::Store`], and a response body only ever reads a log.

mod allocator;
mod ask;
mod at_once;
mod auth;
mod body;
pub mod bridge;
mod call;
mod cancel;
mod clients;
mod compact;
mod config;
mod connection;
mod core;
mod delete;
mod endpoint;
mod exchange;
mod expiries;
mod exposition;
mod fleet;
mod get;
mod handler;
mod head;
mod inbound;
mod isolate;
mod keys;
mod limiter;
mod limits;
mod listener;
mod log;
mod mailbox;
mod metrics;
mod modern;
mod outlet;
mod peer;
mod post;
mod probes;
mod progress;
mod random;
mod rare;
mod remote;
mod results;
mod running;
mod seldom;
mod service;
mod session;
mod sessions;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod supervise;
mod task;
mod wakers;
mod watched;
mod welcome;
mod within;

pub use ask::Ask;
pub use auth::{Authenticator, Denied, MIN_TOKEN_BYTES, StaticTokens, TokensError};
pub use body::Body;
pub use bowline_store::{Figure, FigureKind, Store};
pub use call::{Call, CancelReason};
pub use clients::Rate;
pub use config::{Options, ResponseMode, Takeover};
pub use endpoint::{Endpoint, EndpointBuilder};
pub use handler::{BoxFuture, Hello, NoSession, RawHandler};
pub use listener::{ListenerOptions, Plain, Secure, raise_file_limit, serve, serve_admin, serve_secured};
pub use metrics::{Described, Metric, Metrics, Requests};
pub use modern::{Round, rerun};
pub use peer::Peer;
pub use probes::Admin;
pub use remote::Remote;
pub use service::Principal;
