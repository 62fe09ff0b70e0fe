//! Watches what the SDK really sends and receives, without changing it: its HTTP client, wrapped.

use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::{Value, json};
use sse_stream::{Error as SseError, Sse};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::{Arc, Mutex};

type Result<T> = std::result::Result<T, StreamableHttpError<reqwest::Error>>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Stream = BoxStream<'static, std::result::Result<Sse, SseError>>;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// GETs with `Last-Event-ID`.
    pub resumes: u64,
    /// Results and errors that were received.
    pub responses: u64,
    pub session_id: Option<String>,
    /// The revision that requests carry.
    pub revision: Option<String>,
    /// Notifications that were received, by method.
    pub notifications: BTreeMap<String, u64>,
    /// How requests ended, by HTTP method; errors as the SDK describes them.
    pub statuses: BTreeMap<String, u64>,
    pub errors: Vec<String>,
}

/// The SDK's client over HTTP with its defaults, watched.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    client: reqwest::Client,
    seen: Arc<Mutex<Seen>>,
    /// Where the soak wants results written that name their call, before the SDK looks at them.
    journal: Option<Arc<File>>,
}

impl Wire {
    pub fn journalling(journal: Arc<File>) -> Self {
        Self { journal: Some(journal), ..Self::default() }
    }

    pub fn seen(&self) -> Seen {
        self.with(|seen| seen.clone())
    }

    pub fn summary(&self) -> Value {
        let Seen { resumes, statuses, notifications, errors, .. } = self.seen();
        json!({ "resumes": resumes, "statuses": statuses, "notifications": notifications, "errors": errors })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().expect("nobody panics while it is held"))
    }

    fn note<T>(&self, method: &str, result: &Result<T>) {
        self.with(|seen| {
            let ended = if result.is_ok() { "ok" } else { "error" };
            *seen.statuses.entry(format!("{method} {ended}")).or_default() += 1;
            if let Err(error) = result
                && seen.errors.len() < 20
            {
                seen.errors.push(error.to_string());
            }
        });
    }

    fn see(&self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else { return };
        if let (Some(journal), Some(call)) =
            (&self.journal, message["result"]["structuredContent"]["call"].as_str())
        {
            crate::soak::note(journal, json!({ "e": "response", "call": call }));
        }
        self.with(|seen| match message["method"].as_str() {
            Some(method) if message.get("id").is_none() => {
                *seen.notifications.entry(method.to_owned()).or_default() += 1;
            }
            Some(_) => {}
            None => seen.responses += 1,
        });
    }

    fn watched(&self, stream: Stream) -> Stream {
        let wire = self.clone();
        stream
            .inspect(move |event| {
                if let Ok(Sse { data: Some(data), .. }) = event {
                    wire.see(data);
                }
            })
            .boxed()
    }

    fn requested(&self, headers: &Headers) {
        let revision = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
        if let Some(revision) = revision {
            self.with(|seen| seen.revision = Some(revision.to_owned()));
        }
    }
}

impl StreamableHttpClient for Wire {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse> {
        self.requested(&headers);
        let client = &self.client;
        let result = client
            .post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits)
            .await;
        self.note("POST", &result);
        let result = result?;
        if let StreamableHttpPostResponse::Sse(_, Some(id)) | StreamableHttpPostResponse::Json(_, Some(id)) =
            &result
        {
            self.with(|seen| seen.session_id = Some(id.clone()));
        }
        Ok(match result {
            StreamableHttpPostResponse::Sse(stream, id) => {
                StreamableHttpPostResponse::Sse(self.watched(stream), id)
            }
            StreamableHttpPostResponse::Json(message, id) => {
                if let Ok(text) = serde_json::to_string(&message) {
                    self.see(&text);
                }
                StreamableHttpPostResponse::Json(message, id)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<()> {
        let result = self.client.delete_session(uri, session_id, auth_header, headers).await;
        self.note("DELETE", &result);
        result
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
    ) -> Result<Stream> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<Stream> {
        if last_event_id.is_some() {
            self.with(|seen| seen.resumes += 1);
        }
        let client = &self.client;
        let result = client
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, limit)
            .await;
        self.note("GET", &result);
        result.map(|stream| self.watched(stream))
    }
}
