//! A server and one client in one process: messages in, messages out. Standard input and output, transports of other kinds and tests
//! are made of it.
//!
//! Messages take the road that HTTP requests take, without sockets: one road for every transport.

use crate::modern_line::{ModernLine, ModernLines};
use bowline_proto::{
    http::SessionMode,
    jsonrpc::{Message, Raw, parse_message},
    sse::{Decoder, Limits},
};
use bowline_server::{Body, Endpoint, Options, RawHandler};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

/// How many messages wait for whoever reads them. What is beyond waits in the streams, which have their own bounds.
const WAITING: usize = 64;

/// Marks a request that no HTTP connection brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InProcess;

/// How a [`Pipe`] behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PipeOptions {
    /// Bounds and habits. The connection is never closed early ([`Options::max_connection`] is not looked at): there is none.
    pub options: Options,
    /// Whether there is a session. Default: yes.
    pub session_mode: SessionMode,
}

impl Default for PipeOptions {
    fn default() -> Self {
        Self { options: Options::default(), session_mode: SessionMode::Stateful }
    }
}

impl PipeOptions {
    /// With these bounds and habits.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With or without a session.
    #[must_use]
    pub const fn session_mode(mut self, mode: SessionMode) -> Self {
        self.session_mode = mode;
        self
    }
}

/// A connection to a server in this process. [`Pipe::split`] it to read and write at the same time.
#[derive(Debug)]
pub struct Pipe {
    /// Where messages go in.
    pub sender: PipeSender,
    /// Where messages come out.
    pub receiver: PipeReceiver,
}

/// Where messages of the client go in.
pub struct PipeSender {
    wire: Arc<Wire>,
    running: JoinSet<()>,
}

/// Where messages of the server come out.
#[derive(Debug)]
pub struct PipeReceiver(mpsc::Receiver<Bytes>);

/// What the tasks of a pipe share.
struct Wire {
    endpoint: Endpoint,
    out: mpsc::Sender<Bytes>,
    /// What `initialize` was answered, once it was.
    greeting: Mutex<Greeting>,
    /// Reads the standalone stream.
    standalone: Mutex<Option<AbortHandle>>,
    modern: ModernLines,
    event_limit: usize,
}

#[derive(Clone, Default)]
struct Greeting {
    answered: bool,
    session: Option<HeaderValue>,
    revision: Option<HeaderValue>,
}

impl Pipe {
    pub(crate) fn open(handler: Arc<dyn RawHandler>, options: PipeOptions) -> Self {
        let mut bounds = options.options;
        bounds.max_connection = None;
        let event_limit = bounds.max_event_bytes;
        let endpoint = Endpoint::builder(handler).options(bounds).session_mode(options.session_mode).build();
        let (out, messages) = mpsc::channel(WAITING);
        let wire = Wire {
            endpoint,
            out,
            greeting: Mutex::default(),
            standalone: Mutex::default(),
            modern: ModernLines::default(),
            event_limit,
        };
        let sender = PipeSender { wire: Arc::new(wire), running: JoinSet::new() };
        Self { sender, receiver: PipeReceiver(messages) }
    }

    /// The two directions.
    #[must_use]
    pub fn split(self) -> (PipeSender, PipeReceiver) {
        (self.sender, self.receiver)
    }
}

impl PipeReceiver {
    /// The next message of the server, one JSON text without line breaks; `None` after [`PipeSender::finish`].
    ///
    /// Cancel safe: nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

impl PipeSender {
    /// Takes one message, or a batch, of the client. What is no message is answered with an error, as everything else.
    ///
    /// Returns when the message is being worked on, not when it was answered; messages are begun in their order. Until `initialize` has
    /// been answered, one is answered before the next is taken.
    pub async fn send(&mut self, message: Bytes) {
        while self.running.try_join_next().is_some() {}
        if let Some(modern) = ModernLine::of(&message) {
            return self.send_modern(message, modern);
        }
        if ModernLine::cancelled(&message).is_some_and(|id| self.wire.modern.cancel(&id)) {
            return;
        }
        let greeted = self.wire.greeting.lock().answered;
        let mut work = Box::pin(self.wire.clone().deliver(message, None));
        if !greeted {
            work.await;
            return;
        }
        // The first poll here keeps the order: whatever cancels a call has to find it.
        if (&mut work).now_or_never().is_none() {
            self.running.spawn(work);
        }
    }

    /// A request that stands alone: it waits for no handshake and starts none.
    fn send_modern(&mut self, message: Bytes, modern: ModernLine) {
        let ModernLine { id, listens, headers } = modern;
        let mut work = Box::pin(self.wire.clone().deliver(message, Some(headers)));
        if (&mut work).now_or_never().is_none() {
            self.wire.modern.add(id, listens, self.running.spawn(work));
        }
    }

    /// The client has gone: waits for the calls that run, for `grace` at most, and then ends the session and with it what still runs.
    pub async fn finish(mut self, grace: Duration) {
        self.wire.modern.stop_listening();
        let all = async { while self.running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(grace, all).await;
        let wire = &self.wire;
        if wire.greeting.lock().session.is_some() {
            drop(wire.endpoint.handle(wire.request(Method::DELETE, None, Bytes::new())).await);
        }
        // What was said at the very end is still on its way; the streams end with the session.
        let rest = async { while self.running.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
        self.running.shutdown().await;
        self.wire.endpoint.close().await;
    }
}

impl Wire {
    /// One message of the client, and everything that it is answered with.
    async fn deliver(self: Arc<Self>, message: Bytes, modern: Option<HeaderMap>) {
        let mut request = self.request(Method::POST, None, message.clone());
        let is_modern = modern.is_some();
        if let Some(headers) = modern {
            request.headers_mut().remove("mcp-session-id");
            request.headers_mut().remove("mcp-protocol-version");
            request.headers_mut().extend(headers);
        }
        let response = self.endpoint.handle(request).await;
        let (status, session) = (response.status(), response.headers().get("mcp-session-id").cloned());
        if is_stream(&response) {
            self.greeting.lock().answered |= !is_modern;
            return self.stream(response).await;
        }
        let body =
            response.into_body().collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
        if body.is_empty() {
            return;
        }
        if is_modern {
            // It says nothing of a handshake.
        } else if status == StatusCode::OK {
            self.greet(session, &body);
        } else if matches!(parse_message(message), Ok(Message::Notification(_) | Message::Response(_))) {
            // Nobody waits for an answer to these.
            tracing::debug!(%status, "a notification or a response of the client was refused");
            return;
        }
        self.say(body).await;
    }

    /// Learns from the answer to `initialize`; any other answer says only that there was one.
    fn greet(self: &Arc<Self>, session: Option<HeaderValue>, body: &Bytes) {
        let mut greeting = self.greeting.lock();
        if greeting.answered && session.is_none() {
            return;
        }
        greeting.answered = true;
        let revision = Raw::parse(String::from_utf8_lossy(body).into_owned())
            .ok()
            .and_then(|answer| answer.member("result")?.member("protocolVersion")?.string());
        if let Some(revision) = revision.and_then(|revision| HeaderValue::from_str(&revision).ok()) {
            greeting.revision = Some(revision);
        }
        if let Some(session) = session {
            greeting.session = Some(session);
            let reading = tokio::spawn(self.clone().read_standalone()).abort_handle();
            if let Some(before) = self.standalone.lock().replace(reading) {
                before.abort();
            }
        }
    }

    /// Reads the standalone stream for as long as the session lives.
    async fn read_standalone(self: Arc<Self>) {
        let response = self.endpoint.handle(self.request(Method::GET, None, Bytes::new())).await;
        if is_stream(&response) {
            self.stream(response).await;
        }
    }

    /// Passes on the messages of a stream to its response, wherever it is interrupted.
    async fn stream(&self, response: Response<Body>) {
        let mut body = response.into_body();
        let mut last_id: Option<Arc<str>> = None;
        loop {
            let limits = Limits { max_line_bytes: self.event_limit, max_event_bytes: self.event_limit };
            let mut decoder = Decoder::new(limits);
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                let mut rest = &data[..];
                while let Ok(Some(event)) = decoder.next_event(&mut rest) {
                    if event.sets_id {
                        last_id = event.id.clone();
                    }
                    let Some(message) = event.message() else { continue };
                    let message = Bytes::copy_from_slice(message.as_bytes());
                    let last = matches!(parse_message(message.clone()), Ok(Message::Response(_)));
                    if !self.say(message).await || last {
                        return;
                    }
                }
            }
            // The stream was let go of before its response; it goes on where it was left.
            let Some(id) = last_id.clone() else { return };
            let resumed = self.endpoint.handle(self.request(Method::GET, Some(&id), Bytes::new())).await;
            if !is_stream(&resumed) {
                return;
            }
            body = resumed.into_body();
        }
    }

    /// Returns whether anybody reads.
    async fn say(&self, message: Bytes) -> bool {
        self.out.send(message).await.is_ok()
    }

    fn request(&self, method: Method, last_id: Option<&str>, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        let is_post = method == Method::POST;
        *request.method_mut() = method;
        *request.uri_mut() = http::Uri::from_static("/mcp");
        request.extensions_mut().insert(InProcess);
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static(if is_post {
                "application/json, text/event-stream"
            } else {
                "text/event-stream"
            }),
        );
        if is_post {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let greeting = self.greeting.lock().clone();
        if let Some(session) = greeting.session {
            headers.insert("mcp-session-id", session);
        }
        if let Some(revision) = greeting.revision {
            headers.insert("mcp-protocol-version", revision);
        }
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert("last-event-id", id);
        }
        request
    }
}

fn is_stream(response: &Response<Body>) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"))
}

/// A pipe that is dropped rather than finished leaves its session to expire; nobody reads it any more.
impl Drop for PipeSender {
    fn drop(&mut self) {
        if let Some(standalone) = self.wire.standalone.lock().take() {
            standalone.abort();
        }
    }
}

impl fmt::Debug for PipeSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeSender").field("running", &self.running.len()).finish_non_exhaustive()
    }
}
