//! The floor: a bare hyper server. `floor [--sessions]`. Prints `listening PORT`.
//!
//! It finds the id and the text with borrowed serde and sends the text back, and knows nothing else of MCP. `--sessions`: with a map of
//! sessions. `notify` answers with a stream of events; a GET is a stream that never says anything.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::HashSet, convert::Infallible, io::Write as _, sync::Arc};

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
}

#[derive(Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    count: Option<u32>,
}

struct Sessions {
    known: Mutex<HashSet<String>>,
    next: Mutex<u64>,
}

type Events = std::pin::Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
type Body = http_body_util::Either<Full<Bytes>, StreamBody<Events>>;

fn full(status: StatusCode, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::Left(Full::new(bytes.into())));
    *response.status_mut() = status;
    response
}

fn json(out: Vec<u8>) -> Response<Body> {
    let mut response = full(StatusCode::OK, out);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn events(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let events: Events = Box::pin(events.map(|event| Ok(Frame::data(event))));
    let mut response = Response::new(Body::Right(StreamBody::new(events)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn response_to(id: &str, result: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + result.iter().map(|part| part.len()).sum::<usize>());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
    for part in result {
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'}');
    out
}

async fn answer(request: Request<Incoming>, sessions: Option<&Sessions>) -> Response<Body> {
    let session = request.headers().get("mcp-session-id");
    let known = sessions.is_none_or(|sessions| {
        session.and_then(|id| id.to_str().ok()).is_some_and(|id| sessions.known.lock().contains(id))
    });
    if *request.method() == Method::GET {
        return events(stream::once(async { Bytes::from_static(b": hello\n\n") }).chain(stream::pending()));
    }
    if *request.method() == Method::DELETE {
        if let (Some(sessions), Some(id)) = (sessions, session.and_then(|id| id.to_str().ok())) {
            sessions.known.lock().remove(id);
        }
        return full(StatusCode::NO_CONTENT, Bytes::new());
    }
    let Ok(body) = request.into_body().collect().await else { return full(StatusCode::BAD_REQUEST, "") };
    let body = body.to_bytes();
    let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(&body) else {
        return full(StatusCode::BAD_REQUEST, "");
    };
    let Some(id) = envelope.id else { return full(StatusCode::ACCEPTED, "") };
    let id = id.get();
    if envelope.method == "initialize" {
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}"#;
        let mut response = json(response_to(id, &[result]));
        if let Some(sessions) = sessions {
            let id = {
                let mut next = sessions.next.lock();
                *next += 1;
                format!("{:032x}", *next)
            };
            if let Ok(value) = HeaderValue::from_str(&id) {
                response.headers_mut().insert("mcp-session-id", value);
            }
            sessions.known.lock().insert(id);
        }
        return response;
    }
    if !known {
        return full(StatusCode::NOT_FOUND, "");
    }
    if let Some(count) = envelope.params.arguments.count {
        let last = response_to(id, &[r#"{"content":[{"type":"text","text":"done"}]}"#]);
        return events(stream::iter(0..=count).map(move |n| {
            let mut out = Vec::with_capacity(160);
            if n < count {
                let _ = write!(
                    out,
                    "id: {n:080}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":1,\"progress\":{n}}}}}\n\n"
                );
            } else {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(&last);
                out.extend_from_slice(b"\n\n");
            }
            out.into()
        }));
    }
    let text = envelope.params.arguments.text.map_or("\"\"", RawValue::get);
    json(response_to(id, &[r#"{"content":[{"type":"text","text":"#, text, "}]}"]))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let sessions = std::env::args().any(|arg| arg == "--sessions");
    let sessions = sessions.then(|| Arc::new(Sessions { known: Mutex::default(), next: Mutex::new(0) }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("listening {}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let sessions = sessions.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let sessions = sessions.clone();
                async move { Ok::<_, Infallible>(answer(request, sessions.as_deref()).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
