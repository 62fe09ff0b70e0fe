//! HTTP of its own: one request, one bounded answer, no redirects followed.

use std::sync::Arc;
use std::time::Duration;

use bowline_client::connection_trouble;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No connection, no TLS, or a connection that broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The time ran out.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The body is larger than allowed.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

/// Sends one request. What implements it bounds the time and the body, and follows no redirect: each address is checked before it is asked.
pub trait Fetch: Send + Sync + 'static {
    /// The answer, whatever its status.
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>>;
}

/// Bounds of [`HyperFetch`].
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Until a connection stands. 10 seconds.
    pub connect: Duration,
    /// From the request to the last byte of the answer. 30 seconds.
    pub total: Duration,
    /// Bytes of a body. 1 MiB.
    pub body: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), total: Duration::from_secs(30), body: 1024 * 1024 }
    }
}

/// [`Fetch`] over hyper and rustls: HTTP/1.1, aws-lc-rs, the certificates that the system trusts.
#[derive(Debug, Clone)]
pub struct HyperFetch {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limits: FetchLimits,
}

impl HyperFetch {
    /// A client that trusts what the system trusts.
    ///
    /// # Errors
    /// When the system's certificates cannot be read at all.
    pub fn new(limits: FetchLimits) -> Result<Self, FetchError> {
        let unreachable = |error: &dyn std::fmt::Display| FetchError::Unreachable(format!("no TLS: {error}"));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unreachable(&error))?
            .with_native_roots()
            .map_err(|error| unreachable(&error))?
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(limits.connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(10))
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { client, limits })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, FetchError> {
        let mut request = request.map(Full::new);
        request
            .headers_mut()
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("bowline/", env!("CARGO_PKG_VERSION"))));
        let uri = request.uri().clone();
        let unreachable = |error: &(dyn std::error::Error + 'static)| {
            FetchError::Unreachable(connection_trouble(&uri, error))
        };
        let answer = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, self.limits.body).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                FetchError::TooLarge(self.limits.body)
            } else {
                unreachable(error.as_ref())
            }
        })?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    }
}

impl Fetch for HyperFetch {
    fn fetch(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, FetchError>> {
        Box::pin(async move {
            tokio::time::timeout(self.limits.total, self.send(request))
                .await
                .unwrap_or(Err(FetchError::TimedOut(self.limits.total)))
        })
    }
}
