//! The client of the demo: sockets and a clock around [`CallStream`], which makes every decision.

use super::happening::{Disconnect, Outcome, Recorder, What};
use bowline_proto::{
    client::{Action, CallStream, ReconnectPolicy, StreamEnd},
    jsonrpc::{Message, Reply, RequestId},
    sse::{Decoder, Event, Limits},
    time::Millis,
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    net::SocketAddr,
    time::Duration,
};
use tokio::net::TcpStream;

/// The revision that has polling (SEP-1699).
const REVISION: &str = "2025-11-25";

/// The largest answer that is no stream, in bytes.
const MAX_JSON: usize = 1024 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Connection = http1::SendRequest<Full<Bytes>>;

/// An MCP client with one session.
pub(super) struct Client {
    address: SocketAddr,
    policy: ReconnectPolicy,
    recorder: Recorder,
    session: Option<HeaderValue>,
    /// The id of its call.
    id: u64,
    /// The connection of the last request, where it can carry another.
    connection: Option<Connection>,
}

/// What to do after what the machine said was done.
enum Next {
    ReadOn,
    Reconnect { at: Millis, last_event_id: String },
    Over,
}

impl Client {
    /// Opens a session at `address`. `backoff`: what its waits after a failure start from.
    pub(super) async fn open(
        address: SocketAddr,
        backoff: Duration,
        recorder: Recorder,
    ) -> Result<Self, String> {
        let policy = ReconnectPolicy { backoff_base: backoff, ..ReconnectPolicy::default() };
        let mut client = Self { address, policy, recorder, session: None, id: 1, connection: None };
        client.handshake().await.map_err(|failure| failure.to_string())?;
        Ok(client)
    }

    /// The same client in the same session, for another call, which tells its own timeline.
    pub(super) fn beside(&self, id: u64, recorder: Recorder) -> Self {
        Self {
            address: self.address,
            policy: self.policy,
            recorder,
            session: self.session.clone(),
            id,
            connection: None,
        }
    }

    async fn handshake(&mut self) -> Result<(), Failure> {
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": REVISION,
                "capabilities": {},
                "clientInfo": { "name": "bowline-demo", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let response = self.post(&hello).await?;
        if !response.status().is_success() {
            return Err(format!("initialize was answered with {}", response.status()).into());
        }
        self.session = response.headers().get("mcp-session-id").cloned();
        let text = first_message(response).await?;
        let revision = serde_json::from_str::<Value>(&text)?["result"]["protocolVersion"]
            .as_str()
            .ok_or("initialize was answered without a protocol version")?
            .to_owned();
        let ready = self.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        if !ready.status().is_success() {
            return Err(format!("notifications/initialized was answered with {}", ready.status()).into());
        }
        // Read to its end, so that the connection can carry the call.
        ready.into_body().collect().await?;
        self.recorder.note(What::SessionOpened { revision }).await;
        Ok(())
    }

    /// Calls the tool and stays with the call, over as many connections as it takes. What comes of it is told to the timeline.
    pub(super) async fn count_to(&mut self, number: u64) {
        let call = json!({
            "jsonrpc": "2.0", "id": self.id, "method": "tools/call",
            "params": {
                "name": "count",
                "arguments": { "to": number, "call": self.id },
                "_meta": { "progressToken": self.id },
            },
        });
        let mut stream = CallStream::new(self.policy, RequestId::from(self.id));
        self.recorder.note(What::Called).await;
        let mut answer = self.post(&call).await;
        let mut presented: Option<String> = None;
        loop {
            let how = match answer {
                Ok(response) => self.follow(&mut stream, response, presented.as_deref()).await,
                Err(failure) => {
                    tracing::debug!(%failure, "no answer");
                    stream.on_end(self.now(), StreamEnd::Error, random());
                    Disconnect::Broken
                }
            };
            let Next::Reconnect { at, last_event_id } = self.act(&mut stream).await else { return };
            let back_in_ms = at.since(self.now());
            self.recorder.note(What::Disconnected { how, back_in_ms }).await;
            tokio::time::sleep(Duration::from_millis(back_in_ms)).await;
            self.recorder.note(What::Resumed { last_event_id: last_event_id.clone() }).await;
            answer = self.get(&last_event_id).await;
            presented = Some(last_event_id);
        }
    }

    /// Reads one answer to its end, or to the end of the call.
    async fn follow(
        &self,
        stream: &mut CallStream,
        response: Response<Incoming>,
        presented: Option<&str>,
    ) -> Disconnect {
        let status = response.status().as_u16();
        stream.on_status(self.now(), status, retry_after(&response), random());
        if !response.status().is_success() {
            return Disconnect::Refused(status);
        }
        let mut decoder = Decoder::resuming(Limits::default(), presented);
        let is_stream = has_type(&response, "text/event-stream");
        let mut body = response.into_body();
        if !is_stream {
            let whole = Limited::new(body, MAX_JSON).collect().await.map(http_body_util::Collected::to_bytes);
            let text = whole.ok().and_then(|bytes| String::from_utf8(bytes.into()).ok());
            stream.on_event(None, text.as_deref(), None);
            stream.on_end(self.now(), StreamEnd::Graceful, random());
            return Disconnect::ByServer;
        }
        let mut first = presented.is_none();
        let end = loop {
            let data = match body.frame().await {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(_)) => break StreamEnd::Error,
                None => break StreamEnd::Graceful,
            };
            let mut rest = &data[..];
            let read = loop {
                match decoder.next_event(&mut rest) {
                    Ok(Some(event)) => {
                        let id = own_id(&event);
                        if let Some(id) = id.filter(|_| std::mem::take(&mut first)) {
                            self.recorder.note(What::StreamOpened { event_id: id.to_owned() }).await;
                        }
                        stream.on_event(id, event.data.as_deref(), event.retry_ms);
                        if matches!(self.act(stream).await, Next::Over) {
                            return Disconnect::ByServer;
                        }
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            if read.is_err() {
                break StreamEnd::Error;
            }
        };
        stream.on_end(self.now(), end, random());
        match end {
            StreamEnd::Graceful => Disconnect::ByServer,
            StreamEnd::Error => Disconnect::Broken,
        }
    }

    /// Does what the machine wants done.
    async fn act(&self, stream: &mut CallStream) -> Next {
        while let Some(action) = stream.poll() {
            match action {
                Action::Deliver { message: Ok(message), .. } => {
                    if let Some(what) = read(&message) {
                        self.recorder.note(what).await;
                    }
                }
                Action::Deliver { message: Err(error), .. } => {
                    tracing::warn!(%error, "the server sent what is no message");
                }
                Action::Reconnect { at, last_event_id } => return Next::Reconnect { at, last_event_id },
                Action::Fail(error) => {
                    self.recorder.note(What::Failed { error: error.to_string() }).await;
                    return Next::Over;
                }
                Action::Done => return Next::Over,
            }
        }
        if stream.is_over() { Next::Over } else { Next::ReadOn }
    }

    async fn post(&mut self, message: &Value) -> Result<Response<Incoming>, Failure> {
        let request = self
            .request(Method::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .body(Full::from(message.to_string()))?;
        self.send(request).await
    }

    async fn get(&mut self, last_event_id: &str) -> Result<Response<Incoming>, Failure> {
        // The stream that ended takes its connection with it, as it does in most clients.
        self.connection = None;
        let request = self
            .request(Method::GET)
            .header(header::ACCEPT, "text/event-stream")
            .header("last-event-id", last_event_id)
            .body(Full::default())?;
        self.send(request).await
    }

    fn request(&self, method: Method) -> http::request::Builder {
        let mut request =
            Request::builder().method(method).uri("/mcp").header(header::HOST, self.address.to_string());
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", REVISION);
        }
        request
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failure> {
        let mut open = self.connection.take();
        if let Some(connection) = &mut open
            && connection.ready().await.is_err()
        {
            open = None;
        }
        let mut connection = match open {
            Some(connection) => connection,
            None => connect(self.address).await?,
        };
        let response = connection.send_request(request).await?;
        self.connection = Some(connection);
        Ok(response)
    }

    fn now(&self) -> Millis {
        Millis(self.recorder.now_ms())
    }
}

async fn connect(address: SocketAddr) -> Result<Connection, Failure> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(tcp)).await?;
    tokio::spawn(async move {
        // How it ends is seen by whoever reads the body.
        drop(connection.await);
    });
    Ok(sender)
}

/// The first message of an answer, stream or not.
async fn first_message(response: Response<Incoming>) -> Result<String, Failure> {
    let is_stream = has_type(&response, "text/event-stream");
    let whole = Limited::new(response.into_body(), MAX_JSON).collect().await?.to_bytes();
    if !is_stream {
        return Ok(String::from_utf8(whole.into())?);
    }
    let mut decoder = Decoder::new(Limits::default());
    let mut rest = &whole[..];
    while let Some(event) = decoder.next_event(&mut rest)? {
        if let Some(message) = event.message() {
            return Ok(message.to_owned());
        }
    }
    Err("the stream ended without a message".into())
}

/// What a message means to the timeline.
fn read(message: &Message) -> Option<What> {
    match message {
        Message::Notification(note) if &*note.method == "notifications/progress" => {
            note.params.as_ref()?.member("progress")?.to().ok().map(What::Received)
        }
        Message::Response(response) => Some(match &response.reply {
            Reply::Result(result) => match outcome(&result.to().unwrap_or_default()) {
                Some(outcome) => What::Result(outcome),
                None => What::Failed { error: format!("not a result of this tool: {}", result.as_str()) },
            },
            Reply::Error(error) => What::Failed { error: error.as_str().to_owned() },
        }),
        _ => None,
    }
}

fn outcome(result: &Value) -> Option<Outcome> {
    let counted = &result["structuredContent"];
    let numbers = counted["numbers"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    Some(Outcome { numbers, sum: counted["sum"].as_u64()? })
}

/// The id that this event itself brought.
fn own_id(event: &Event) -> Option<&str> {
    event.id.as_deref().filter(|_| event.sets_id)
}

fn has_type(response: &Response<Incoming>, wanted: &str) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        value.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(wanted))
    })
}

/// `Retry-After` in milliseconds, where it is a number of seconds.
fn retry_after(response: &Response<Incoming>) -> Option<u64> {
    let seconds: u64 = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    seconds.checked_mul(1_000)
}

/// Jitter needs no better randomness than the seeds of hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
