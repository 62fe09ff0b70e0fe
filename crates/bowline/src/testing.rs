//! Calling a server in process: a client without sockets, for tests.
//!
//! ```
//! use bowline::{Call, NoInput, Server, testing::Client};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), bowline::BuildError> {
//! let server = Server::builder("s", "1").tool("hi", "Says hi", |_: Call, _: NoInput| async { "hi" }).build()?;
//! let client = Client::connect(&server).await;
//! assert_eq!(client.call_tool("hi", serde_json::json!({})).await.unwrap()["content"][0]["text"], "hi");
//! # Ok(()) }
//! ```

use crate::{
    pipe::{PipeOptions, PipeReceiver, PipeSender},
    server::Server,
};
use bowline_proto::{
    jsonrpc::{
        ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, Response, code, parse_message,
    },
    revision::Revision,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
    task::AbortHandle,
};

/// How many notifications are kept for [`Client::notification`]; more than a test sends. Further ones are dropped.
const KEPT: usize = 10_000;

type OnRequest = dyn Fn(&str, Value) -> Result<Value, ErrorObject> + Send + Sync;

/// How a [`Client`] introduces itself.
#[must_use = "nothing is connected without `connect`"]
pub struct ClientBuilder {
    revision: String,
    capabilities: Value,
    on_request: Arc<OnRequest>,
    pipe: PipeOptions,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            revision: Revision::NEWEST_LEGACY.as_str().into(),
            capabilities: json!({}),
            on_request: Arc::new(|method, _| Err(ErrorObject::method_not_found(method))),
            pipe: PipeOptions::default(),
        }
    }
}

impl ClientBuilder {
    /// The revision that is asked for. Default: the newest one with a handshake.
    pub fn revision(mut self, revision: impl Into<String>) -> Self {
        self.revision = revision.into();
        self
    }

    /// The capabilities that the client declares. Default: none.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Answers the server's questions: the method and the parameters in, the result or an error out. Default: -32601.
    pub fn on_request(
        mut self,
        answer: impl Fn(&str, Value) -> Result<Value, ErrorObject> + Send + Sync + 'static,
    ) -> Self {
        self.on_request = Arc::new(answer);
        self
    }

    /// The bounds of the connection, and whether there is a session.
    pub fn pipe_options(mut self, options: PipeOptions) -> Self {
        self.pipe = options;
        self
    }

    /// Connects and shakes hands. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// When the server refuses: this is for tests.
    pub async fn connect<S: Send + Sync + 'static>(self, server: &Server<S>) -> Client {
        let (sender, receiver) = server.pipe(self.pipe).split();
        let sender = Arc::new(AsyncMutex::new(sender));
        let (notify, notifications) = mpsc::channel(KEPT);
        let waiting = Arc::new(Mutex::new(HashMap::new()));
        let reading = tokio::spawn(read(receiver, sender.clone(), waiting.clone(), notify, self.on_request));
        let mut client = Client {
            sender,
            waiting,
            notifications: AsyncMutex::new(notifications),
            next_id: AtomicU64::new(1),
            server_info: Value::Null,
            reading: reading.abort_handle(),
        };
        let hello = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": { "name": "bowline-testing", "version": env!("CARGO_PKG_VERSION") },
        });
        client.server_info = match client.request("initialize", hello).await {
            Ok(answer) => answer,
            Err(error) => panic!("the server refused initialize: {} ({})", error.message, error.code),
        };
        client.notify("notifications/initialized", json!({})).await;
        client
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("revision", &self.revision).finish_non_exhaustive()
    }
}

type Waiting = Arc<Mutex<HashMap<RequestId, oneshot::Sender<Reply>>>>;

/// A client in the process of its server.
pub struct Client {
    sender: Arc<AsyncMutex<PipeSender>>,
    waiting: Waiting,
    notifications: AsyncMutex<mpsc::Receiver<Value>>,
    next_id: AtomicU64,
    server_info: Value,
    reading: AbortHandle,
}

impl Client {
    /// Connects with the newest revision and no capabilities.
    pub async fn connect<S: Send + Sync + 'static>(server: &Server<S>) -> Self {
        Self::builder().connect(server).await
    }

    /// Chooses how the client introduces itself.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The server's answer to `initialize`.
    #[must_use]
    pub const fn initialize_result(&self) -> &Value {
        &self.server_info
    }

    /// Calls a tool and returns the `result`, errors of the tool (`isError`) included.
    ///
    /// # Errors
    /// The JSON-RPC error.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<Value, ErrorObject> {
        self.request("tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// The JSON-RPC error.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, ErrorObject> {
        self.begin(method, params).await.1.await
    }

    /// Sends a request; returns its id and what waits for the response.
    pub async fn begin(
        &self,
        method: &str,
        params: Value,
    ) -> (RequestId, impl Future<Output = Result<Value, ErrorObject>> + use<>) {
        let id = RequestId::from(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(id.clone(), sender);
        let params = Raw::from_value(&params).ok().filter(Raw::is_object);
        let request = Request { id: id.clone(), method: method.into(), params };
        self.sender.lock().await.send(request.to_bytes()).await;
        let gone = || ErrorObject::new(code::INTERNAL_ERROR, "the server has gone");
        let response = async move {
            let reply = receiver.await.map_err(|_| gone())?;
            reply.into_result()?.to().map_err(|error| ErrorObject::internal("malformed", error.to_string()))
        };
        (id, response)
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        let notification = Notification::new(method, Raw::from_value(&params).ok());
        self.sender.lock().await.send(notification.to_bytes()).await;
    }

    /// Sends `notifications/cancelled` for a request.
    pub async fn cancel(&self, id: &RequestId) {
        self.notify("notifications/cancelled", json!({ "requestId": id })).await;
    }

    /// The next notification of the server, waited for: `{"method": .., "params": ..}`. `None` when the server has gone.
    pub async fn notification(&self) -> Option<Value> {
        self.notifications.lock().await.recv().await
    }

    /// The notifications that have come and were not taken.
    pub async fn notifications(&self) -> Vec<Value> {
        let mut notifications = self.notifications.lock().await;
        std::iter::from_fn(|| notifications.try_recv().ok()).collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// Hands every message of the server to whom it is for.
async fn read(
    mut receiver: PipeReceiver,
    sender: Arc<AsyncMutex<PipeSender>>,
    waiting: Waiting,
    notify: mpsc::Sender<Value>,
    on_request: Arc<OnRequest>,
) {
    while let Some(bytes) = receiver.next().await {
        match parse_message(bytes) {
            Ok(Message::Response(response)) => {
                let waiting = waiting.lock().remove(&response.id);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(response.reply);
                }
            }
            Ok(Message::Notification(notification)) => {
                let params: Option<Value> = notification.params.and_then(|params| params.to().ok());
                let _ = notify.try_send(json!({ "method": &*notification.method, "params": params }));
            }
            Ok(Message::Request(request)) => {
                let params = request.params.and_then(|params| params.to().ok()).unwrap_or_default();
                let result = on_request(&request.method, params)
                    .map(|result| Raw::from_value(&result).unwrap_or_else(|_| Raw::empty_object()));
                let response = Response { id: request.id, reply: Reply::from(result) };
                // Whoever is sending may be waiting for this very loop, so it does not wait for them.
                let sender = sender.clone();
                tokio::spawn(async move { sender.lock().await.send(response.to_bytes()).await });
            }
            Err(error) => tracing::warn!(%error, "the server sent something that is no message"),
        }
    }
}
