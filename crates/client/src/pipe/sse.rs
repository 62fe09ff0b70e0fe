//! HTTP+SSE, the HTTP transport of 2024-11-05: one stream for everything the server says, POSTs for everything it is told.

use super::{Connector, Pipe, PipeReceiver, PipeSender, TransportError};
use crate::{
    ClientOptions, ConnectError,
    http::{Plain, Unanswered},
};
use bowline_proto::sse::Decoder;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::{collections::VecDeque, sync::Arc, time::Duration};

pub(crate) struct SseConnector {
    plain: Arc<Plain>,
    uri: Uri,
    options: ClientOptions,
}

impl SseConnector {
    pub(crate) fn new(uri: Uri, options: &ClientOptions) -> Result<Self, ConnectError> {
        Ok(Self { plain: Arc::new(Plain::new(&uri, options)?), uri, options: options.clone() })
    }

    async fn open(&self) -> Result<Pipe, TransportError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let answer = self.plain.request(&Method::GET, &self.uri, headers, Bytes::new()).await;
        let answer = answer.map_err(|error| TransportError::before(error.message))?;
        let status = answer.status();
        if !status.is_success() || !crate::http::has_type(answer.headers(), "text/event-stream") {
            return Err(TransportError::before(format!(
                "no event stream: the server answered with status {}",
                status.as_u16()
            )));
        }
        let mut receiver = FromSse {
            body: answer.into_body(),
            decoder: Decoder::new(self.options.sse),
            ready: VecDeque::new(),
            endpoint: None,
        };
        while receiver.endpoint.is_none() {
            match receiver.read().await {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(TransportError::before(error.message)),
                None => {
                    return Err(TransportError::before(
                        "the event stream ended before it named its endpoint",
                    ));
                }
            }
        }
        let endpoint = receiver.endpoint.clone().unwrap_or_default();
        let uri = resolve(&self.uri, &endpoint)?;
        let sender = ToSse { plain: Arc::clone(&self.plain), uri, limit: self.options.post_timeout };
        Ok(Pipe { sender: Box::new(sender), receiver: Box::new(receiver) })
    }
}

/// The address that the stream names for POSTs. Of the same origin, or messages would go to strangers.
fn resolve(base: &Uri, endpoint: &str) -> Result<Uri, TransportError> {
    let endpoint = endpoint.trim();
    let origin =
        format!("{}://{}", base.scheme_str().unwrap_or("http"), base.authority().map_or("", |a| a.as_str()));
    let bad = || {
        let message =
            format!("the server names the endpoint {endpoint:?}, which is no address of its own origin");
        TransportError::before(message)
    };
    let absolute = if endpoint.starts_with("//") {
        return Err(bad());
    } else if endpoint.contains("://") {
        endpoint.to_owned()
    } else if endpoint.starts_with('/') {
        format!("{origin}{endpoint}")
    } else if let Some(query) = endpoint.strip_prefix('?') {
        format!("{origin}{}?{query}", base.path())
    } else {
        let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
        format!("{origin}{directory}/{endpoint}")
    };
    let uri: Uri = absolute.parse().map_err(|_| bad())?;
    if (uri.scheme(), uri.authority()) != (base.scheme(), base.authority()) {
        return Err(bad());
    }
    Ok(uri)
}

impl Connector for SseConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Pipe, TransportError>> {
        Box::pin(self.open())
    }

    fn describe(&self) -> String {
        format!(
            "{}://{}{}",
            self.uri.scheme_str().unwrap_or("http"),
            self.uri.authority().map_or("", |a| a.as_str()),
            self.uri.path()
        )
    }

    fn is_legacy(&self) -> bool {
        true
    }
}

struct ToSse {
    plain: Arc<Plain>,
    uri: Uri,
    limit: Duration,
}

impl PipeSender for ToSse {
    fn send(&mut self, message: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
            let post = self.plain.request(&Method::POST, &self.uri, headers, message);
            let answer = tokio::time::timeout(self.limit, post).await;
            let answer =
                answer.map_err(|_| TransportError::after("the server did not take a message in time"))?;
            match answer {
                Ok(answer) if answer.status().is_success() => {
                    crate::http::drain(answer);
                    Ok(())
                }
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let message = format!("the server answered a message with status {status}");
                    let refused = matches!(status, 400..=407 | 409..=499 | 503);
                    Err(if refused {
                        TransportError::before(message)
                    } else {
                        TransportError::after(message)
                    })
                }
                Err(Unanswered { unreachable: true, message, .. }) => Err(TransportError::before(message)),
                Err(Unanswered { message, .. }) => Err(TransportError::after(message)),
            }
        })
    }

    fn close(&mut self, _: Duration) -> BoxFuture<'_, ()> {
        // The session ends with its stream.
        Box::pin(std::future::ready(()))
    }
}

struct FromSse {
    body: Incoming,
    decoder: Decoder,
    ready: VecDeque<Bytes>,
    endpoint: Option<String>,
}

impl FromSse {
    /// Reads one piece of the stream.
    async fn read(&mut self) -> Option<Result<(), TransportError>> {
        let data = match self.body.frame().await? {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => return Some(Err(TransportError::after(error.to_string()))),
        };
        let mut rest = &data[..];
        loop {
            match self.decoder.next_event(&mut rest) {
                Ok(Some(event)) if event.event_type.as_deref() == Some("endpoint") => {
                    self.endpoint = event.data.or_else(|| self.endpoint.take());
                }
                Ok(Some(event)) => {
                    self.ready.extend(event.message().map(|text| Bytes::copy_from_slice(text.as_bytes())));
                }
                Ok(None) => return Some(Ok(())),
                Err(error) => return Some(Err(TransportError::after(error.to_string()))),
            }
        }
    }
}

impl PipeReceiver for FromSse {
    fn receive(&mut self) -> BoxFuture<'_, Option<Result<Bytes, TransportError>>> {
        Box::pin(async move {
            loop {
                if let Some(message) = self.ready.pop_front() {
                    return Some(Ok(message));
                }
                match self.read().await? {
                    Ok(()) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_stay_at_home() {
        let base: Uri = "http://a:1/base/sse?x=1".parse().unwrap();
        let to = |endpoint| resolve(&base, endpoint).map(|uri| uri.to_string());
        assert_eq!(to("/messages?id=1").unwrap(), "http://a:1/messages?id=1");
        assert_eq!(to("messages").unwrap(), "http://a:1/base/messages");
        assert_eq!(to("?id=1").unwrap(), "http://a:1/base/sse?id=1");
        assert_eq!(to("http://a:1/m").unwrap(), "http://a:1/m");
        for endpoint in ["http://b/m", "https://a:1/m", "//b/m", "http://a:2/m"] {
            assert!(to(endpoint).is_err(), "{endpoint}");
        }
    }
}
