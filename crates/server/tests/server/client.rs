//! A client without sockets: one request, one answer, its stream read as it comes.

use crate::script::{Script, Scripted};
use bowline_proto::sse::{Decoder, Limits};
use bowline_server::{Body, Endpoint, EndpointBuilder, Options, Principal};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) script: Arc<Script>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::built(|builder| builder.options(options))
    }

    pub(crate) fn built(configure: impl FnOnce(EndpointBuilder) -> EndpointBuilder) -> Self {
        let script = Arc::new(Script::default());
        let endpoint = configure(Endpoint::builder(Arc::new(Scripted(script.clone())))).build();
        Self { endpoint, script }
    }

    pub(crate) async fn client(&self, revision: &str) -> Client {
        let mut client =
            Client { endpoint: self.endpoint.clone(), session: None, next_id: 1, principal: None };
        let answer = client.post(&initialize(revision)).await;
        client.session = Some(answer.headers["mcp-session-id"].to_str().unwrap().to_owned());
        let answer = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!(answer.status, 202);
        client
    }
}

pub(crate) fn initialize(revision: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": revision, "capabilities": {} } })
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) session: Option<String>,
    pub(crate) next_id: u64,
    pub(crate) principal: Option<&'static str>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Body,
    decoder: Decoder,
    unread: Bytes,
    pub(crate) last_id: Option<String>,
}

/// One event of a stream, as a client sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<u64>,
    /// `None` for a block without data, `Some(Null)` for empty data.
    pub(crate) data: Option<Value>,
}

impl Event {
    pub(crate) fn is_priming(&self) -> bool {
        self.data == Some(Value::Null) && self.id.is_some()
    }
}

impl Client {
    pub(crate) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) async fn send(&self, method: Method, headers: &[(&str, &str)], body: Bytes) -> Answer {
        let mut request =
            Request::builder().method(method.clone()).uri("/mcp").header("host", "localhost:8000");
        if method == Method::POST {
            request = request
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream");
        } else if method == Method::GET {
            request = request.header("accept", "text/event-stream");
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(principal) = self.principal {
            request = request.extension(Principal(principal.into()));
        }
        let response = self.endpoint.handle(request.body(Full::new(body)).unwrap()).await;
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            decoder: Decoder::new(Limits::default()),
            unread: Bytes::new(),
            last_id: None,
        }
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        self.send(Method::POST, &[], message.to_string().into()).await
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Answer {
        let id = self.id();
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub(crate) async fn get(&self, cursor: Option<&str>) -> Answer {
        let headers: Vec<_> = cursor.map(|cursor| ("last-event-id", cursor)).into_iter().collect();
        self.send(Method::GET, &headers, Bytes::new()).await
    }

    pub(crate) async fn delete(&self) -> Answer {
        self.send(Method::DELETE, &[], Bytes::new()).await
    }
}

impl Answer {
    pub(crate) fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.content_type() == "text/event-stream"
    }

    pub(crate) async fn text(self) -> String {
        String::from_utf8(self.body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.content_type(), "application/json", "status {}", self.status);
        serde_json::from_str(&self.text().await).unwrap()
    }

    /// The next event; `None` when the stream ends.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            let mut slice = &self.unread[..];
            let event = self.decoder.next_event(&mut slice).unwrap();
            self.unread = self.unread.slice(self.unread.len() - slice.len()..);
            if let Some(event) = event {
                let id = event.id.filter(|_| event.sets_id).map(|id| id.to_string());
                self.last_id = id.clone().or_else(|| self.last_id.take());
                let data = event.data.map(|data| {
                    if data.is_empty() { Value::Null } else { serde_json::from_str(&data).unwrap() }
                });
                return Some(Event { id, retry: event.retry_ms, data });
            }
            self.unread = self.body.frame().await?.unwrap().into_data().unwrap();
        }
    }

    /// Every event to the end.
    pub(crate) async fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// Every message to the end, priming and parting left out.
    pub(crate) async fn messages(&mut self) -> Vec<Value> {
        self.events()
            .await
            .into_iter()
            .filter_map(|event| event.data)
            .filter(|data| !data.is_null())
            .collect()
    }
}
