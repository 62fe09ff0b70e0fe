//! One request and what came back, noted as it comes.

use bowline_proto::sse::{Decoder, Limits};
use bowline_server::Endpoint;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use std::{cell::RefCell, rc::Rc};
use tokio::task::JoinHandle;

/// What one connection has told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) status: Option<u16>,
    pub(super) session: Option<String>,
    /// The cursor that was presented.
    pub(super) presented: Option<String>,
    /// In the order of their arrival.
    pub(super) ids: Vec<String>,
    pub(super) messages: Vec<Value>,
    pub(super) over: bool,
}

/// A request under way. Dropped by [`Self::drop_it`], it is a client that goes away.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) told: Rc<RefCell<Told>>,
    /// The session that it belongs to, as an index.
    pub(super) of: usize,
    pub(super) is_get: bool,
    task: JoinHandle<()>,
}

impl Connection {
    /// Sends a request. Must run inside a `LocalSet`.
    pub(super) fn open(
        endpoint: &Endpoint,
        of: usize,
        method: Method,
        session: Option<&str>,
        cursor: Option<&str>,
        body: String,
    ) -> Self {
        let mut request = Request::builder()
            .method(method.clone())
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let told = Rc::new(RefCell::new(Told { presented: cursor.map(str::to_owned), ..Told::default() }));
        let task = tokio::task::spawn_local(follow(endpoint.clone(), request, told.clone()));
        Self { told, of, is_get: method == Method::GET, task }
    }

    pub(super) fn drop_it(&self) {
        self.task.abort();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for its end, and panics as it did.
    pub(super) async fn join(self) {
        match self.task.await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => {}
        }
    }
}

async fn follow(endpoint: Endpoint, request: Request<Full<Bytes>>, told: Rc<RefCell<Told>>) {
    let response = endpoint.handle(request).await;
    let (parts, mut body) = response.into_parts();
    let status = parts.status.as_u16();
    told.borrow_mut().status = Some(status);
    if let Some(session) = parts.headers.get("mcp-session-id") {
        told.borrow_mut().session = Some(session.to_str().expect("visible").to_owned());
    }
    assert!(matches!(status, 200 | 202 | 204 | 400 | 404 | 429 | 503), "status {status}");
    match parts.headers.get("content-type").map(|value| value.as_bytes()) {
        Some(b"text/event-stream") => {
            assert_eq!(status, 200);
            let presented = told.borrow().presented.clone();
            let mut decoder = Decoder::resuming(Limits::default(), presented.as_deref());
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame;
                let data = frame.into_data().expect("no trailers");
                assert!(!data.is_empty(), "an empty frame");
                let mut rest = &data[..];
                while let Some(event) = decoder.next_event(&mut rest).expect("within limits") {
                    let mut told = told.borrow_mut();
                    if event.sets_id {
                        let id = event.id.as_deref().expect("no id resets the place").to_owned();
                        assert_ne!(Some(&id), told.presented.as_ref(), "the id that was presented");
                        assert!(!told.ids.contains(&id), "an id twice on one connection");
                        told.ids.push(id);
                    }
                    if let Some(message) = event.message() {
                        told.messages.push(serde_json::from_str(message).expect("a message is JSON"));
                    }
                }
            }
        }
        Some(b"application/json") => {
            let body = body.collect().await.unwrap_or_else(|never| match never {}).to_bytes();
            let value: Value = serde_json::from_slice(&body).expect("the body is JSON");
            if status >= 400 {
                crate::json::error_in(&body);
            }
            let messages = match value {
                Value::Array(messages) => messages,
                one => vec![one],
            };
            told.borrow_mut().messages.extend(messages);
        }
        other => {
            assert!(other.is_none() && matches!(status, 202 | 204), "{other:?} with {status}");
            let body = body.collect().await.unwrap_or_else(|never| match never {}).to_bytes();
            assert!(body.is_empty());
        }
    }
    told.borrow_mut().over = true;
}

impl Connection {
    /// What is left of a connection that is over.
    pub(super) fn closed(told: Rc<RefCell<Told>>, of: usize, is_get: bool) -> Self {
        Self { told, of, is_get, task: tokio::task::spawn_local(async {}) }
    }
}
