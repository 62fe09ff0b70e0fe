//! The road of an HTTP request: checks, then POST, GET or DELETE (SEMANTICS 1).

use crate::{body::Body, core::Core, delete, get, limits, log::Asked, post, probes, within::within};
use bowline_proto::{
    http::{
        Admitted, Refusal, Verb, admit, check_length, cors_headers, negotiate, preflight, too_large, too_slow,
    },
    sse::encode::escape_separators,
};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

/// Who is calling: one unambiguous text for each (issuer, subject) or static key, never a token. Sessions, cursors and mailboxes are
/// bound to it.
///
/// A layer in front of the endpoint that authenticates puts it into the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(pub String);

/// Answers one request of whoever `connected`. Never fails: what goes wrong is said in the answer.
pub(crate) async fn answer<B>(
    core: &Arc<Core>,
    request: Request<B>,
    connected: Option<IpAddr>,
) -> Response<Body>
where
    B: http_body::Body,
{
    let (mut parts, body) = request.into_parts();
    if let Some(answer) = probes::on_endpoint(core, &parts) {
        return answer;
    }
    let asked = Asked::now(core, &parts, connected);
    if core.trust_proxy {
        take_forwarded_host(&mut parts.headers);
    }
    // Shared: a call that runs on keeps what its handler may ask of its request.
    let parts = Arc::new(parts);
    let mut response = match road(core, &parts, connected, body).await {
        Ok(response) => response,
        Err(refusal) => refuse(core, &refusal),
    };
    cors_headers(&core.policy, parts.headers.get(header::ORIGIN), response.headers_mut());
    core.metrics.requests.count(&parts.method, response.status());
    asked.answered(&parts, &response);
    response
}

async fn road<B: http_body::Body>(
    core: &Arc<Core>,
    parts: &Arc<Parts>,
    connected: Option<IpAddr>,
    body: B,
) -> Result<Response<Body>, Refusal> {
    if probes::wants_metrics(core, parts) {
        limits::admit(core, parts, connected, who(core, parts).await)?;
        return Ok(probes::metrics(core));
    }
    let admitted = admit(&core.policy, &parts.method, parts.uri.path(), &parts.headers);
    let Admitted { verb } = admitted.inspect_err(|refusal| tell_forbidden(core, refusal))?;
    if verb == Verb::Preflight {
        let answer = preflight(&core.policy, &parts.headers);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        return Ok(response);
    }
    let (caller, running) = limits::admit(core, parts, connected, who(core, parts).await)?;
    core.keys.wait().await?;
    negotiate(verb, &parts.headers)?;
    let response = match verb {
        Verb::Post => {
            check_length(&core.policy, &parts.headers).inspect_err(|_| core.metrics.bodies_too_large.up())?;
            let body = read(core, body).await?;
            post::answer(core, &caller, parts, body).await?
        }
        Verb::Get => Box::pin(get::answer(core, &caller, parts)).await?,
        Verb::Delete | Verb::Preflight => delete::answer(core, &caller, parts).await?,
    };
    Ok(response.map(|body| body.keeping(running)))
}

/// Logs that an origin or a host was refused: a web page is not allowed to read why, and behind a proxy nobody looks.
fn tell_forbidden(core: &Core, refusal: &Refusal) {
    if refusal.status != StatusCode::FORBIDDEN {
        return;
    }
    // The message holds little of what was sent, and nothing that is not printable.
    let why = &refusal.error.message;
    if core.forbidden.is_due(core.now()) {
        tracing::warn!("refused: {why} (further refusals of the next 10 s: see the level debug)");
    } else {
        tracing::debug!("refused: {why}");
    }
}

/// Puts the host that a trusted proxy was asked for in the place of the one that the proxy asks for.
///
/// The last entry of the last field is the nearest proxy's own; what stands before may come from the client, a page that
/// rebinds its name included. An entry that is no header value (it was part of one) or blank changes nothing.
fn take_forwarded_host(headers: &mut HeaderMap) {
    let Some(forwarded) = headers.get_all("x-forwarded-host").iter().next_back() else { return };
    let last = forwarded.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    if !last.is_empty()
        && let Ok(host) = HeaderValue::from_bytes(last)
    {
        headers.insert(header::HOST, host);
    }
}

/// Check 3: who is calling. A layer in front that authenticated already is believed.
async fn who(core: &Core, parts: &Parts) -> Result<Option<String>, Refusal> {
    if let Some(principal) = parts.extensions.get::<Principal>() {
        return Ok(Some(principal.0.clone()));
    }
    let Some(authenticator) = &core.authenticator else { return Ok(None) };
    match authenticator.authenticate(parts).await {
        Ok(principal) => Ok(Some(principal.0)),
        Err(denied) => Err(denied.into_refusal()),
    }
}

/// Reads a body within its bounds. What is over the limit is not read.
async fn read<B: http_body::Body>(core: &Core, body: B) -> Result<Bytes, Refusal> {
    /// The most bytes of a body that are believed to come before they have.
    const BELIEVED: u64 = 256 * 1024;
    let limit = core.options.body_limit;
    let reading = async {
        let room = body.size_hint().lower().min(limit).min(BELIEVED);
        let mut body = std::pin::pin!(body);
        let mut first = Bytes::new();
        let mut rest: Option<BytesMut> = None;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                // The client is gone or its framing is broken; whether it reads the answer is its affair.
                return Err(Refusal::invalid_request("The body ended before it was complete", None));
            };
            let Ok(mut data) = frame.into_data() else { continue };
            let size = first.len() + rest.as_ref().map_or(0, BytesMut::len) + data.remaining();
            if size as u64 > limit {
                core.metrics.bodies_too_large.up();
                return Err(too_large(limit));
            }
            // Most bodies come whole: then nothing is copied.
            if first.is_empty() && rest.is_none() {
                let size = data.remaining();
                first = data.copy_to_bytes(size);
            } else {
                let whole = rest.get_or_insert_with(|| {
                    let room = usize::try_from(room).unwrap_or_default().max(first.len());
                    let mut whole = BytesMut::with_capacity(room);
                    whole.extend_from_slice(&std::mem::take(&mut first));
                    whole
                });
                while data.has_remaining() {
                    let chunk = data.chunk();
                    whole.extend_from_slice(chunk);
                    let len = chunk.len();
                    data.advance(len);
                }
            }
        }
        Ok(rest.map_or(first, BytesMut::freeze))
    };
    within(core.options.body_timeout, reading).await.unwrap_or_else(|| {
        core.metrics.bodies_too_slow.up();
        Err(too_slow(core.options.body_timeout))
    })
}

/// The answer that a refusal is.
pub(crate) fn refuse(core: &Core, refusal: &Refusal) -> Response<Body> {
    core.metrics.refused.up();
    let mut response = Response::new(Body::full(refusal.body()));
    *response.status_mut() = refusal.status;
    refusal.write_headers(response.headers_mut());
    response
}

/// 200 with one JSON value. What some readers take for the end of a line is escaped, as it is on a stream.
pub(crate) fn json(core: &Core, body: Bytes) -> Response<Body> {
    core.metrics.answers_json.up();
    let escaped = match escape_separators(&body) {
        Cow::Owned(escaped) => Some(escaped),
        Cow::Borrowed(_) => None,
    };
    let body = escaped.map_or(body, Bytes::from);
    let mut response = Response::new(Body::full(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 202, empty.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// 204, empty.
pub(crate) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The headers of a stream. Copied whole, which costs less than to make them.
static EVENTS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    headers
});

/// 200 with a stream of events. The headers keep proxies from holding it back (SEMANTICS 5.8).
pub(crate) fn events(core: &Core, body: Body) -> Response<Body> {
    core.metrics.answers_stream.up();
    let mut response = Response::new(body);
    *response.headers_mut() = EVENTS.clone();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("backend:8000"));
        for value in forwarded {
            headers.append("x-forwarded-host", HeaderValue::from_static(value));
        }
        take_forwarded_host(&mut headers);
        assert_eq!(headers.get_all(header::HOST).iter().count(), 1);
        headers[header::HOST].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_nearest_proxy_says_the_host() {
        assert_eq!(host(&[]), "backend:8000");
        assert_eq!(host(&["mcp.example.com"]), "mcp.example.com");
        assert_eq!(host(&["forged.example, mcp.example.com "]), "mcp.example.com");
        assert_eq!(host(&["forged.example", "mcp.example.com:8443"]), "mcp.example.com:8443");
        assert_eq!(host(&["mcp.example.com, "]), "backend:8000");
        assert_eq!(host(&[""]), "backend:8000");
    }
}
