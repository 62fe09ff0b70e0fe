//! An MCP client that always comes back.
//!
//! ```no_run
//! use bowline_client::{Client, ClientOptions, Target};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Target::http("http://127.0.0.1:8000/mcp")?, ClientOptions::new("me", "1.0")).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let output = client.call_tool("forecast", &serde_json::json!({ "city": "Turku" })).await?;
//! println!("{}", output.text());
//! client.close().await;
//! # Ok(()) }
//! ```
#![doc = include_str!("guide.md")]

mod authorize;
mod call;
mod client;
mod core;
mod ctx;
mod era;
mod error;
mod handler;
mod http;
mod listening;
mod noise;
mod options;
mod peer;
mod pipe;
mod relay;
mod target;
mod tools;
mod typed;
mod types;

pub use authorize::{AuthAnswer, AuthError, AuthRequest, Authorizer, StaticHeaders};
pub use client::Client;
pub use error::{CallError, ConnectError, TimeLimit};
pub use handler::{ElicitReply, Elicitation, Handler, Handlers, List, LogMessage, Progress, Root};
pub use http::connection_trouble;
pub use listening::{Change, ListenFilter, Listening};
pub use options::{CallOptions, Canceller, ClientOptions, Era};
pub use peer::Peer;
pub use pipe::{Connector, Pipe, PipeReceiver, PipeSender, TransportError};
pub use relay::Relay;
pub use target::{StdioCommand, Target};
pub use types::{
    CompleteFor, Completion, Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolAnnotations,
    ToolOutput,
};

pub use bowline_proto::{
    client::{ReconnectPolicy, ResumePlace, ResumeToken},
    jsonrpc::{ErrorObject, Message, Notification, Raw, RequestId, code},
};
