//! Client-side authorization for MCP (revisions 2025-03-26 to 2026-07-28 and the authorization extensions).
//!
//! An [`OAuth`] belongs to one MCP server. It is handed to the client as its [`Authorizer`]: it puts the token on every request, and when
//! the server refuses one, it finds the authorization server, gets a client id, has a person log in (or uses the grant that is
//! configured), and says whether to send the request again. Tokens are renewed before they end, stored by issuer, and shown to nobody
//! but the server that they are for.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use bowline_oauth::{BrowserPrompt, Config, FetchLimits, FileStore, HyperFetch, LoopbackOptions, OAuth, Opener, Url};
//!
//! let config = Config::new(Url::parse("https://mcp.example.com/mcp")?);
//! let fetch = Arc::new(HyperFetch::new(FetchLimits::default())?);
//! let store = Arc::new(FileStore::new(FileStore::default_path().ok_or("no home")?));
//! let prompt = BrowserPrompt::new(LoopbackOptions::default(), Opener::System, Arc::new(|text| eprintln!("{text}")));
//! let authorization = OAuth::new(config, fetch, store, Arc::new(prompt))?;
//! # let _ = authorization;
//! # Ok(())
//! # }
//! ```
//!
//! What to fetch next and what to check is decided without IO ([`discovery`], [`challenge`], [`scope`], [`client`], [`response`],
//! [`token`]); IO goes through [`Fetch`], [`CredentialStore`] and [`Prompt`].
//!
//! Specifications: MCP authorization; RFC 6749, 6750, 7591, 7636, 8252, 8414, 8693, 8707, 9207, 9449, 9728; `OpenID` Connect Discovery;
//! client id metadata documents (draft 00); the extensions for client credentials, enterprise-managed authorization and workload identity.

mod acquire;
mod address;
mod authorizer;
mod browser;
pub mod challenge;
pub mod client;
mod config;
pub mod discovery;
mod error;
mod fetch;
mod file_store;
mod flow;
mod headless;
mod keys;
mod loopback;
pub mod metadata;
mod prompt;
pub mod response;
pub mod scope;
mod secret;
mod state;
mod store;
mod terminal;
pub mod token;

pub use address::AddressPolicy;
pub use authorizer::{OAuth, Status};
pub use bowline_client::Authorizer;
pub use browser::{BrowserPrompt, Lines, Opener, Say};
pub use client::{AuthMethod, Preregistered};
pub use config::{AssertionFile, Assertions, Config, FixedAssertion, Grant, ID_TOKEN, IdentityProvider};
pub use error::Error;
pub use fetch::{Fetch, FetchError, FetchLimits, HyperFetch};
pub use file_store::FileStore;
pub use headless::Headless;
pub use keys::{ClientKey, ProofKey};
pub use loopback::{Loopback, LoopbackOptions};
pub use oauth2::url::Url;
pub use prompt::{NoPrompt, Prompt, PromptError, Question, Waiting};
pub use secret::Secret;
pub use store::{CredentialStore, Credentials, Lock, MemoryStore, StoreError, StoredToken};
pub use terminal::TerminalLines;
