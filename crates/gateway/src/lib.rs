//! Puts a stdio MCP server behind resilient Streamable HTTP.
//!
//! [`Gateway`] is a [`bowline_server::RawHandler`]: give it to a [`bowline_server::Endpoint`]. [`child`] has the processes;
//! [`stderr`] is how they and a program's log write to this process's stderr.

mod bridge;
pub mod child;
mod common;
mod era;
mod gate;
mod gateway;
mod headers;
mod line;
mod listeners;
mod lists;
mod options;
mod pool;
mod reissue;
mod repeatable;
mod restart;
mod route;
mod session;
mod shared;
mod stats;
pub mod stderr;
mod tokens;
mod upstream;

pub use gateway::Gateway;
pub use options::{GatewayOptions, Sharing};
pub use stats::GatewayStats;
