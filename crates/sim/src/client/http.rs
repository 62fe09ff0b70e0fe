//! One request and its answer.

use crate::{
    fleet,
    trace::{Purpose, What},
    world::World,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What is sent.
pub(crate) struct Send<'a> {
    pub(crate) method: &'static str,
    pub(crate) session: Option<&'a str>,
    pub(crate) revision: &'static str,
    pub(crate) cursor: Option<&'a str>,
    pub(crate) body: Option<&'a Value>,
    /// Set where the client has begun to end the session.
    pub(crate) deleted: Option<&'a AtomicBool>,
    /// Whether it is the client's own.
    pub(crate) own: bool,
}

/// An answer whose head is there.
pub(crate) struct Answer {
    pub(crate) connection: u64,
    pub(crate) status: u16,
    pub(crate) response: Response<Incoming>,
    /// Not by a backend.
    pub(crate) proxy: bool,
    injured: Arc<AtomicBool>,
    _sender: http1::SendRequest<Full<Bytes>>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    pub(crate) fn was_injured(&self) -> bool {
        self.injured.load(Ordering::Relaxed)
    }

    /// The next bytes; `Ok(None)` at the end, `Err` where the connection broke.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            match self.response.frame().await {
                None => return Ok(None),
                Some(Err(_)) => {
                    // Who broke it says so in the same moment.
                    tokio::task::yield_now().await;
                    return Err(());
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body.
    pub(crate) async fn body(&mut self) -> Result<Vec<u8>, ()> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Sends a request. `None`: the connection broke before the head of the answer was there; that is noted.
pub(crate) async fn send(
    world: &Arc<World>,
    client: usize,
    purpose: Purpose,
    what: Send<'_>,
) -> Option<Answer> {
    let line = world.network.dial();
    let (number, injured) = (line.number, line.injured);
    let answer = attempt(client, line.io, &what).await;
    let Some((sender, response)) = answer else {
        // Who broke it says so in the same moment.
        tokio::task::yield_now().await;
        let injured = injured.load(Ordering::Relaxed);
        world.trace.note(What::Failed { connection: number, purpose, injured });
        return None;
    };
    let status = response.status().as_u16();
    let proxy = response.headers().contains_key("x-sim-proxy");
    world.trace.note(What::Status {
        connection: number,
        purpose,
        method: what.method,
        status,
        proxy,
        cursor: what.cursor.is_some(),
        answerable: what.own && !what.deleted.is_some_and(|deleted| deleted.load(Ordering::Relaxed)),
    });
    Some(Answer { connection: number, status, response, proxy, injured, _sender: sender })
}

type Attempt = Option<(http1::SendRequest<Full<Bytes>>, Response<Incoming>)>;

async fn attempt(client: usize, io: tokio::io::DuplexStream, what: &Send<'_>) -> Attempt {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.ok()?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let mut request = Request::builder()
        .method(what.method)
        .uri("/mcp")
        .header("host", "sim")
        .header("accept", "application/json, text/event-stream")
        .header("authorization", format!("Bearer {}", fleet::token(client)));
    if let Some(session) = what.session {
        request = request.header("mcp-session-id", session).header("mcp-protocol-version", what.revision);
    }
    if let Some(cursor) = what.cursor {
        request = request.header("last-event-id", cursor);
    }
    if what.body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = what.body.map_or_else(Bytes::new, |body| body.to_string().into());
    let request = request.body(Full::new(body)).ok()?;
    let response = sender.send_request(request).await.ok()?;
    Some((sender, response))
}
