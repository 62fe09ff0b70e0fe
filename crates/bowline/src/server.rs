//! A server: what was built, and where it is served.

use crate::{
    builder::ServerBuilder,
    catalog::Catalog,
    dispatch::Dispatch,
    handle::Handle,
    http::Http,
    icon::Icon,
    peers::Peers,
    pipe::{Pipe, PipeOptions},
    stdio::Stdio,
};
use bowline_proto::jsonrpc::Raw;
use bowline_server::{Endpoint, EndpointBuilder, RawHandler};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{fmt, sync::Arc};

/// What is said of the server in `initialize`, and what else is the same for its whole life.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Info {
    pub(crate) name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) website_url: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) icons: Vec<Icon>,
    #[serde(skip)]
    pub(crate) instructions: Option<String>,
    #[serde(skip)]
    pub(crate) page_size: usize,
    #[serde(skip)]
    pub(crate) subscriptions: bool,
}

impl Info {
    pub(crate) const fn new(name: String, version: String) -> Self {
        Self {
            name,
            version,
            title: None,
            description: None,
            website_url: None,
            icons: Vec::new(),
            instructions: None,
            page_size: 1_000,
            subscriptions: false,
        }
    }
}

pub(crate) struct Inner<S> {
    pub(crate) info: Info,
    /// [`Inner::info`] as results to modern clients carry it.
    pub(crate) server_info: Option<Raw>,
    pub(crate) shared: Arc<S>,
    /// Swapped whole when something changes; a call keeps the one that it began with.
    pub(crate) catalog: RwLock<Arc<Catalog<S>>>,
    /// Held by whoever changes the catalog.
    pub(crate) changing: Mutex<()>,
    pub(crate) peers: Mutex<Peers>,
}

impl<S> Inner<S> {
    /// The result of `initialize`; the revision is put in by the layer below.
    pub(crate) fn initialize(&self) -> Result<Raw, serde_json::Error> {
        let catalog = self.catalog.read().clone();
        if let Some(said) = catalog.hello.get() {
            return Ok(said.clone());
        }
        let mut capabilities = Map::new();
        let mut has = |name: &str, value: Value| capabilities.insert(name.into(), value);
        has("logging", json!({}));
        if !catalog.parts.tools.is_empty() {
            has("tools", json!({ "listChanged": true }));
        }
        if !catalog.parts.resources.is_empty() || !catalog.parts.templates.is_empty() {
            let subscribe = self.info.subscriptions;
            has("resources", json!({ "subscribe": subscribe, "listChanged": true }));
        }
        if !catalog.parts.prompts.is_empty() {
            has("prompts", json!({ "listChanged": true }));
        }
        if !catalog.parts.completions.is_empty() {
            has("completions", json!({}));
        }
        let mut result = json!({ "capabilities": capabilities, "serverInfo": self.info });
        if let Some(instructions) = &self.info.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        let said = Raw::from_value(&result)?;
        Ok(catalog.hello.get_or_init(|| said).clone())
    }
}

/// A server. Cheap to clone; every clone is the same server, and it may be served in several places at once.
pub struct Server<S = ()> {
    pub(crate) inner: Arc<Inner<S>>,
}

impl Server {
    /// Builds a server with a name and a version of its own.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(name.into(), version.into())
    }
}

impl<S: Send + Sync + 'static> Server<S> {
    pub(crate) fn new(inner: Inner<S>) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Announces changes, from anywhere.
    #[must_use]
    pub fn handle(&self) -> Handle<S> {
        Handle::new(self.inner.clone())
    }

    /// Serves it over Streamable HTTP.
    pub fn http(&self) -> Http {
        Http::new(self.endpoint())
    }

    /// Serves it on standard input and output, for a client that starts it as its child.
    pub fn stdio(&self) -> Stdio {
        Stdio::new(self.raw_handler())
    }

    /// Serves it to one client in this process, message by message: what a transport of your own is made with.
    ///
    /// Must be called inside a tokio runtime.
    #[must_use]
    pub fn pipe(&self, options: PipeOptions) -> Pipe {
        Pipe::open(self.raw_handler(), options)
    }

    /// The layer below: an endpoint to be configured, a `tower` service when it is built.
    #[must_use]
    pub fn endpoint(&self) -> EndpointBuilder {
        Endpoint::builder(self.raw_handler())
    }

    /// The layer below that: raw JSON-RPC in, a reply out.
    #[must_use]
    pub fn raw_handler(&self) -> Arc<dyn RawHandler> {
        Arc::new(Dispatch(self.inner.clone()))
    }
}

impl<S> Clone for Server<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.inner.info.name).finish_non_exhaustive()
    }
}
