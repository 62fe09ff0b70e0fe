//! MCP servers that never drop work.
#![doc = include_str!("guide/overview.md")]

mod arguments;
mod ask;
mod builder;
mod call;
mod catalog;
mod completion;
mod content;
mod dispatch;
mod error;
mod escape;
pub mod guide;
mod handle;
mod http;
mod icon;
mod level;
mod mistake;
mod modern_line;
mod peers;
mod pipe;
mod prompt;
mod reply;
mod resource;
mod schema;
mod server;
mod stdio;
mod template;
pub mod testing;
mod texts;
mod tool;
mod tool_entry;

pub use ask::{
    AskError, AskErrorKind, Elicit, Elicited, IncludeContext, Question, Questions, Root, Roots, Sample,
    SampleContent, SampleMessage, SampleTool, Sampled, ToolChoice, WireQuestion,
};
pub use builder::ServerBuilder;
pub use call::Call;
pub use completion::{Completions, IntoCompletions, Reference, Typed};
pub use content::{Annotations, Content, Meta, ResourceContents, Role};
pub use error::{Error, ResultExt};
pub use handle::Handle;
pub use http::Http;
pub use icon::{Icon, Theme};
pub use level::Level;
pub use mistake::BuildError;
pub use pipe::{Pipe, PipeOptions, PipeReceiver, PipeSender};
pub use prompt::{IntoPrompt, Prompt, PromptArgument, PromptMessage, PromptResult};
pub use resource::{IntoResource, Resource, ResourceTemplate};
pub use schema::Schema;
pub use server::Server;
pub use stdio::Stdio;
pub use tool::{IntoToolResult, Json, NoInput, Tool, ToolResult};

pub use bowline_proto::{
    http::{AllowedHosts, AllowedOrigins, SessionMode, StaleSession},
    jsonrpc::{ErrorObject, Notification, Raw, RequestId, code},
    modern::{
        cache::{CacheHint, CachePolicy, CacheScope},
        tasks::TaskSupport,
        trace::TraceContext,
    },
    revision::Revision,
};
pub use bowline_server::{
    Authenticator, CancelReason, Denied, Endpoint, EndpointBuilder, ListenerOptions, Options, Peer,
    Principal, RawHandler, ResponseMode, StaticTokens, Takeover, TokensError,
};
pub use bowline_store::{MemoryStore, Store};

/// The crate that derives the schema of a handler's input and output, in the version that this one understands.
pub use schemars;

/// The client: connects to servers, and always comes back. With the feature `client`.
#[cfg(feature = "client")]
pub use bowline_client as client;
