//! `/healthz`, `/readyz` and `/metrics`: on the listener of the endpoint, or on one of their own.

use crate::{Metrics, body::Body, core::Core, exposition};
use bowline_proto::http::AllowedHosts;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use std::{fmt, sync::Arc};

/// What of it the endpoint's own listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnEndpoint {
    pub(crate) health: bool,
    pub(crate) metrics: bool,
}

/// Health and metrics of an endpoint for a listener of their own ([`crate::serve_admin`]). Cheap to clone.
///
/// Whoever reaches that listener may ask. Nothing there says anything about a client, and nothing can be changed there.
#[derive(Clone)]
pub struct Admin {
    core: Arc<Core>,
}

impl Admin {
    pub(crate) const fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Answers one request: `/healthz`, `/readyz`, `/metrics`, else 404. Web pages are refused (403): a browser on the same machine is no
    /// collector.
    pub fn handle<B>(&self, request: &Request<B>) -> Response<Body> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET is served here\n".into());
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if request.headers().contains_key(header::ORIGIN) {
            return plain(StatusCode::FORBIDDEN, "not for web pages\n".into());
        }
        let path = request.uri().path();
        if path == "/metrics" {
            return metrics(&self.core);
        }
        health(&self.core, path).unwrap_or_else(|| {
            plain(StatusCode::NOT_FOUND, "/healthz, /readyz and /metrics are served here\n".into())
        })
    }

    /// What the endpoint counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.core.metrics
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// The answer to a probe on the endpoint's own listener. It comes before every check, since probes come with any `Host`, and says
/// nothing about anybody.
pub(crate) fn on_endpoint(core: &Core, head: &Parts) -> Option<Response<Body>> {
    if !core.probes.health || (head.method != Method::GET && head.method != Method::HEAD) {
        return None;
    }
    health(core, head.uri.path())
}

/// Whether a request asks for the metrics on the endpoint's own listener, and may: directly and from this machine, not through a
/// proxy or from a web page. To anybody else the path does not exist.
pub(crate) fn wants_metrics(core: &Core, head: &Parts) -> bool {
    const PROXIED: [&str; 5] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];
    core.probes.metrics
        && head.uri.path() == "/metrics"
        && head.method == Method::GET
        && !head.headers.contains_key(header::ORIGIN)
        && !PROXIED.iter().any(|name| head.headers.contains_key(*name))
        && head
            .headers
            .get(header::HOST)
            .is_none_or(|host| AllowedHosts::default().allow(host.as_bytes(), true))
}

/// The metrics.
pub(crate) fn metrics(core: &Core) -> Response<Body> {
    let mut response = plain(StatusCode::OK, exposition::of(core).into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(exposition::CONTENT_TYPE));
    response
}

fn health(core: &Core, path: &str) -> Option<Response<Body>> {
    let (status, text) = match path {
        "/healthz" => (StatusCode::OK, "ok\n"),
        "/readyz" if core.is_draining() => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/readyz" => match core.handler.ready() {
            Ok(()) => (StatusCode::OK, "ready\n"),
            Err(why) => return Some(plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into())),
        },
        _ => return None,
    };
    Some(plain(status, Bytes::from_static(text.as_bytes())))
}

fn plain(status: StatusCode, text: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
