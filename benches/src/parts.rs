//! One function for what is made beforehand, one for what is measured; what is measured drops what it made.

use bowline::{Call, Http, Options, ResponseMode, Server};
use bowline_proto::{
    cursor::{Cursor, CursorCodec, CursorKind, CursorRequest, IdText, Keyring, Scope, StreamId},
    http::{AllowedHosts, AllowedOrigins, Policy, SessionMode, StaleSession, admit, negotiate, route_post},
    jsonrpc::{self, Body},
    sse::{Decoder, Limits, encode},
};
use bowline_server::Endpoint;
use bowline_store::{
    BackendId, Event, EventClass, MemoryStore, NewStream, ReadLimit, StreamKind, StreamLog as _, WriteAt,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::runtime::Runtime;

/// A `tools/call` with a text of `size` bytes.
#[must_use]
pub fn call_body(size: usize) -> Bytes {
    let text = "x".repeat(size);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    );
    body.into()
}

// --- the envelope ---

/// [`call_body`], after one such body was parsed: whatever looks once at what the processor can do has looked.
#[must_use]
pub fn next_body(size: usize) -> Bytes {
    parse(call_body(size));
    call_body(size)
}

/// The one parse of a body.
pub fn parse(body: Bytes) {
    let _ = black_box(jsonrpc::parse(black_box(body)));
}

// --- classification ---

/// A POST before anything is looked up.
pub struct Head {
    policy: Policy,
    headers: HeaderMap,
    body: Body,
}

/// A parsed call without a session, with the headers of a usual client.
#[must_use]
pub fn head() -> Head {
    let headers = usual_headers();
    let policy = Policy {
        path: "/mcp".into(),
        origins: AllowedOrigins::default(),
        hosts: AllowedHosts::default(),
        loopback: true,
        mode: SessionMode::Stateless { resumable: false, stale_session: StaleSession::NotFound },
        body_limit: 4 << 20,
        modern: true,
    };
    let body = jsonrpc::parse(call_body(100)).expect("a call is a message");
    Head { policy, headers, body }
}

fn usual_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("host", "127.0.0.1:8000"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

/// The checks of SEMANTICS 1 and the choice of what is to be done.
pub fn classify(head: Head) {
    let Head { policy, headers, body } = head;
    let admitted = admit(&policy, &Method::POST, "/mcp", &headers).expect("the head is good");
    negotiate(admitted.verb, &headers).expect("the head is good");
    let _ = black_box(route_post(&policy, &headers, body));
}

// --- cursors ---

/// A codec, a cursor, and its text.
pub struct Cursors {
    codec: CursorCodec,
    cursor: Cursor,
    text: String,
}

/// The cursor of a call in a session.
#[must_use]
pub fn cursors() -> Cursors {
    let keyring = Keyring::from_bytes(&[[7_u8; 32]]).expect("32 bytes are a key");
    let scope = Scope { session: Some("AAAAAAAAAAAAAAAAAAAAAA"), principal: None };
    let codec = CursorCodec::new(&keyring, scope);
    let request = CursorRequest::Id(IdText::new("7").expect("a number is an id"));
    let stream = StreamId::from_bytes([9; 16]);
    let cursor = Cursor { kind: CursorKind::Call, stream, epoch: 1, offset: 3, poll: 1, request };
    let mut text = String::with_capacity(128);
    codec.mint(&cursor, &mut text);
    Cursors { codec, cursor, text }
}

/// Minting an event id.
pub fn mint(mut cursors: Cursors) {
    cursors.text.clear();
    cursors.codec.mint(black_box(&cursors.cursor), &mut cursors.text);
    black_box(cursors);
}

/// Reading one and checking its MAC.
pub fn verify(cursors: Cursors) {
    let _ = black_box(cursors.codec.decode(black_box(&cursors.text)));
    black_box(cursors);
}

// --- streams ---

/// A message, as a stream carries it.
pub struct Sse {
    id: String,
    payload: Bytes,
    out: BytesMut,
}

/// A progress notification and room for its event.
#[must_use]
pub fn sse() -> Sse {
    let payload =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}"#;
    Sse { id: cursors().text, payload: payload.into(), out: BytesMut::with_capacity(1024) }
}

/// Writing an event.
pub fn sse_encode(mut sse: Sse) {
    encode::message(&mut sse.out, &sse.id, &sse.payload);
    black_box(sse);
}

/// A decoder, and an event of a stream.
#[must_use]
pub fn sse_event() -> (Decoder, BytesMut) {
    let mut sse = sse();
    encode::message(&mut sse.out, &sse.id, &sse.payload);
    (Decoder::new(Limits::default()), sse.out)
}

/// Reading an event.
pub fn sse_decode((mut decoder, event): (Decoder, BytesMut)) {
    let mut input = &event[..];
    let _ = black_box(decoder.next_event(&mut input));
}

/// A memory store with one stream of ten events.
#[must_use]
pub fn store() -> MemoryStore {
    let store = MemoryStore::default();
    let new = NewStream {
        id: StreamId::from_bytes([9; 16]),
        kind: StreamKind::Call,
        owner: BackendId(1),
        epoch: 1,
        incarnation: 0,
        session: None,
        request_id: Some("7".into()),
        rerun: None,
        open_ttl: Duration::from_secs(60),
        max_events: 1_000,
        max_bytes: 1 << 20,
    };
    let _ = store.create(new).now();
    for offset in 1..=10 {
        append_at(&store, offset);
    }
    store
}

fn append_at(store: &MemoryStore, offset: u64) {
    let at = WriteAt { stream: StreamId::from_bytes([9; 16]), epoch: 1, offset };
    let payload = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#);
    let _ = black_box(store.append(at, Event { payload, class: EventClass::Droppable }).now());
}

/// One more event.
pub fn append(store: &MemoryStore) {
    append_at(store, 11);
}

/// The last five events.
pub fn read(store: &MemoryStore) {
    let limit = ReadLimit { events: 256, bytes: 1 << 20 };
    let _ = black_box(store.read_after(StreamId::from_bytes([9; 16]), 5, limit).now());
}

// --- a whole call ---

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// An endpoint and a call for it.
pub struct Fast {
    runtime: Runtime,
    endpoint: Endpoint,
    request: Option<Request<Full<Bytes>>>,
}

/// A typed echo, served as `configure` says.
fn echo(configure: impl FnOnce(Http) -> Http) -> Fast {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without sockets needs nothing");
    let endpoint = {
        let _in = runtime.enter();
        let server = Server::builder("echo", "1")
            .tool("echo", "Says it back", |_: Call, Text { text }: Text| async move { text })
            .build()
            .expect("one tool is a server");
        configure(server.http()).into_endpoint()
    };
    Fast { runtime, endpoint, request: None }
}

/// A typed echo without sessions, which has answered before.
#[must_use]
pub fn fast() -> Fast {
    let mut fast = echo(Http::stateless);
    fast.request = Some(request(call_body(100)));
    call(&mut fast);
    fast.request = Some(request(call_body(100)));
    fast
}

/// The same in a session, each answer a primed stream that is kept in the store (memory).
///
/// # Panics
/// When no session begins.
#[must_use]
pub fn streamed() -> Fast {
    let mut options = Options::default();
    options.response = ResponseMode::Sse;
    let mut fast = echo(|http| http.options(options));
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    fast.request = Some(request(hello.into()));
    let session = answer(&mut fast).headers().get("mcp-session-id").cloned().expect("a session begins");
    let next = || {
        let mut request = request(call_body(100));
        request.headers_mut().insert("mcp-session-id", session.clone());
        request
    };
    // Whatever is made for the first is there.
    for _ in 0..3 {
        fast.request = Some(next());
        call(&mut fast);
    }
    fast.request = Some(next());
    fast
}

fn request(body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static("/mcp");
    *request.headers_mut() = usual_headers();
    request
}

/// A call from its head to its answer, without a socket.
///
/// # Panics
/// When there is no answer at the first poll, or not this one: then something else was measured.
pub fn call(fast: &mut Fast) {
    assert_eq!(answer(fast).status(), StatusCode::OK);
}

fn answer(fast: &mut Fast) -> Response<()> {
    let request = fast.request.take().expect("there is a request for each call");
    let _in = fast.runtime.enter();
    let answer = pin!(fast.endpoint.handle(request));
    let Poll::Ready(response) = answer.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("a quick call is answered at once")
    };
    response.map(drop)
}
