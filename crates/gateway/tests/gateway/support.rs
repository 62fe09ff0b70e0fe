//! What the tests share: an endpoint with a gateway, and a client that speaks to it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_gateway::child::{ChildSpec, Environment, Guard, StderrPolicy};
use bowline_gateway::{Gateway, GatewayOptions};
use bowline_proto::sse::{Decoder, Limits};
use bowline_server::{Body, Endpoint, EndpointBuilder, Options};
use bowline_store::{MemoryLimits, MemoryStore};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The fixture server with these options.
pub(crate) fn fixture(args: &[&str]) -> GatewayOptions {
    script("fixture_server.py", args)
}

/// The fixture server that speaks the modern revision only.
pub(crate) fn modern_fixture(args: &[&str]) -> GatewayOptions {
    script("modern_server.py", args)
}

fn script(name: &str, args: &[&str]) -> GatewayOptions {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    let args = [script.to_str().unwrap()].into_iter().chain(args.iter().copied());
    let mut spec = ChildSpec::new("python3", args);
    spec.name = "fixture".into();
    spec.stderr = StderrPolicy::Log;
    spec.kill_grace = Duration::from_millis(300);
    let mut options = GatewayOptions::new(spec);
    options.end_grace = Duration::from_millis(500);
    options.init_timeout = PATIENCE;
    options
}

/// A file of its own, removed at the end.
pub(crate) struct Log(pub(crate) PathBuf);

impl Log {
    /// Has the child write every line that it receives to a file.
    pub(crate) fn of(options: &mut GatewayOptions) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bowline-gateway-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let environment = std::mem::replace(&mut options.child.environment, Environment::inherit());
        options.child.environment = environment.set("FIXTURE_LOG", &path);
        Self(path)
    }

    /// The messages so far.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Their methods; responses are `-`.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.messages().iter().map(|message| message["method"].as_str().unwrap_or("-").to_owned()).collect()
    }

    /// Waits for a message.
    pub(crate) async fn find(&self, what: impl Fn(&Value) -> bool) -> Value {
        until(PATIENCE, || self.messages().into_iter().find(|message| what(message))).await
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Waits until something is there.
pub(crate) async fn until<T>(within: Duration, look: impl Fn() -> Option<T>) -> T {
    let limit = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "not there after {within:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process exists and is no zombie of a process that is not ours.
pub(crate) fn exists(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    state.is_some_and(|state| state != 'Z')
}

/// An endpoint with a gateway.
pub(crate) struct Server {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) endpoint: Endpoint,
}

impl Server {
    pub(crate) fn new(options: GatewayOptions) -> Self {
        Self::with(options, Options::default())
    }

    pub(crate) fn with(options: GatewayOptions, endpoint: Options) -> Self {
        let gateway = Gateway::new(options, Guard::none());
        // Room for the largest message of these tests.
        let mut limits = MemoryLimits::default();
        limits.event_bytes = 64 << 20;
        let store = Arc::new(MemoryStore::new(limits));
        let endpoint = Endpoint::builder(gateway.clone()).options(endpoint).store(store).build();
        Self { gateway, endpoint }
    }

    pub(crate) fn built(
        options: GatewayOptions,
        with: impl FnOnce(EndpointBuilder) -> EndpointBuilder,
    ) -> Self {
        let gateway = Gateway::new(options, Guard::none());
        let endpoint = with(Endpoint::builder(gateway.clone())).build();
        Self { gateway, endpoint }
    }

    /// One of several over a store.
    pub(crate) fn sharing(options: GatewayOptions, store: &MemoryStore) -> Self {
        let gateway = Gateway::new(options, Guard::none());
        let endpoint = Endpoint::builder(gateway.clone()).shared_store(Arc::new(store.clone())).build();
        Self { gateway, endpoint }
    }

    /// The same client at this server.
    pub(crate) fn serves(&self, client: &Client) -> Client {
        Client { endpoint: self.endpoint.clone(), session: client.session.clone() }
    }

    pub(crate) fn client(&self) -> Client {
        Client { endpoint: self.endpoint.clone(), session: String::new() }
    }

    /// A client that has shaken hands.
    pub(crate) async fn connected(&self) -> Client {
        let mut client = self.client();
        let answer = client.initialize().await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "fixture", "{answer}");
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// Ends everything and sees that nothing is left.
    pub(crate) async fn end(self) {
        self.gateway.shutdown().await;
        assert_eq!(self.gateway.stats().children, 0);
    }
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) session: String,
}

impl Client {
    pub(crate) async fn http(&self, method: Method, body: String) -> Response<Body> {
        let mut request =
            Request::builder().method(method.clone()).uri("/mcp").header("host", "localhost").header(
                "accept",
                if method == Method::GET {
                    "text/event-stream"
                } else {
                    "application/json, text/event-stream"
                },
            );
        if method == Method::POST {
            request = request.header("content-type", "application/json");
        }
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        timeout(PATIENCE, self.endpoint.handle(request)).await.expect("an answer in time")
    }

    /// POSTs a message and gives back what the answer is read from.
    pub(crate) async fn post(&self, body: impl ToString) -> Reading {
        Reading::new(self.http(Method::POST, body.to_string()).await)
    }

    pub(crate) async fn get(&self) -> Reading {
        Reading::new(self.http(Method::GET, String::new()).await)
    }

    pub(crate) async fn delete(&self) -> StatusCode {
        self.http(Method::DELETE, String::new()).await.status()
    }

    pub(crate) fn hello() -> Value {
        json!({ "jsonrpc": "2.0", "id": "init-1", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": {}, "roots": { "listChanged": true }, "x": { "y": 1 } },
            "clientInfo": { "name": "test", "version": "1", "unknown": [1.50] },
            "unknown": { "deep": [true] },
        }})
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        self.say_hello(Self::hello()).await
    }

    /// Shakes hands as a client that can do this.
    pub(crate) async fn initialize_with(&mut self, capabilities: Value) -> Value {
        let mut hello = Self::hello();
        hello["params"]["capabilities"] = capabilities;
        self.say_hello(hello).await
    }

    async fn say_hello(&mut self, hello: Value) -> Value {
        let response = self.http(Method::POST, hello.to_string()).await;
        if let Some(id) = response.headers().get("mcp-session-id") {
            self.session = id.to_str().unwrap().to_owned();
        }
        Reading::new(response).response().await
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let answer = self.post(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }

    /// Sends a request; what comes is still to be read.
    pub(crate) async fn start(&self, id: Value, method: &str, params: Value) -> Reading {
        self.post(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    /// Sends a request and waits for the response.
    pub(crate) async fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        self.start(id.into(), method, params).await.response().await
    }

    /// Starts a tool.
    pub(crate) async fn tool(&self, id: impl Into<Value>, name: &str, arguments: Value) -> Reading {
        self.start(id.into(), "tools/call", json!({ "name": name, "arguments": arguments })).await
    }

    /// Runs a tool to its end and returns its text.
    pub(crate) async fn text(&self, id: impl Into<Value>, name: &str, arguments: Value) -> String {
        let response = self.tool(id, name, arguments).await.response().await;
        response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// What the process says of itself.
    pub(crate) async fn info(&self) -> Value {
        serde_json::from_str(&self.text("info", "info", json!({})).await).unwrap()
    }

    pub(crate) async fn pid(&self) -> u64 {
        self.info().await["pid"].as_u64().unwrap()
    }
}

/// An answer that is being read: one JSON text, or a stream.
pub(crate) struct Reading {
    pub(crate) status: StatusCode,
    pub(crate) raw: Vec<String>,
    body: Body,
    decoder: Option<Decoder>,
    ready: VecDeque<String>,
}

impl Reading {
    pub(crate) fn new(response: Response<Body>) -> Self {
        let status = response.status();
        let stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
        Self {
            status,
            raw: Vec::new(),
            body: response.into_body(),
            decoder: stream.then(|| Decoder::new(Limits::default())),
            ready: VecDeque::new(),
        }
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let text = timeout(PATIENCE, self.next_text()).await.expect("a message in time")?;
        let value = serde_json::from_str(&text).unwrap();
        self.raw.push(text);
        Some(value)
    }

    async fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Some(text);
            }
            let Some(decoder) = &mut self.decoder else {
                let mut whole = Vec::new();
                while let Some(frame) = self.body.frame().await {
                    whole.extend_from_slice(&frame.unwrap().into_data().unwrap());
                }
                return (!whole.is_empty()).then(|| String::from_utf8(whole).unwrap());
            };
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            let mut chunk = &frame[..];
            while let Some(event) = decoder.next_event(&mut chunk).unwrap() {
                self.ready.extend(event.message().map(str::to_owned));
            }
        }
    }

    /// Every message up to the end.
    pub(crate) async fn all(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }

    /// The response; what comes before it is passed over.
    pub(crate) async fn response(mut self) -> Value {
        loop {
            let message = self.next().await.expect("a response before the end");
            if message.get("result").is_some() || message.get("error").is_some() {
                return message;
            }
        }
    }

    /// The next message of that method.
    pub(crate) async fn until_method(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.expect("more messages");
            if message["method"] == method {
                return message;
            }
        }
    }
}
