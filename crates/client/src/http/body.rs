//! Reading answers.

use bowline_proto::jsonrpc::{ErrorObject, Raw, RequestId};
use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use std::time::Duration;

/// The largest body of a refusal that is read.
const MAX_REFUSAL: usize = 64 * 1024;
/// How long a refusal may take to tell its reason.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// How long the rest of an answer is read, so that the connection can be used again.
const DRAIN_TIME: Duration = Duration::from_millis(200);

pub(crate) fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let name = value.and_then(|value| value.split(';').next());
    name.is_some_and(|name| name.trim().eq_ignore_ascii_case(wanted))
}

/// `Retry-After` in milliseconds, where it is a number of seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    seconds.checked_mul(1_000)
}

/// The whole body; what went wrong, and whether that was its size.
pub(crate) async fn whole(body: Incoming, limit: usize) -> Result<Bytes, (String, bool)> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err((format!("it is larger than {limit} bytes"), true))
        }
        Err(error) => Err((error.to_string(), false)),
    }
}

/// Reads what is left, for a moment, so that the connection goes back to the pool.
pub(crate) fn drain(response: Response<Incoming>) {
    let mut body = Limited::new(response.into_body(), MAX_REFUSAL);
    tokio::spawn(async move {
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        drop(tokio::time::timeout(DRAIN_TIME, rest).await);
    });
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    /// The JSON-RPC error in the body.
    pub(crate) error: Option<ErrorObject>,
    /// Whether it names the request.
    pub(crate) is_ours: bool,
    /// Whether it is what web servers answer where TLS is spoken, in the clear, to who does not speak it.
    pub(crate) wants_tls: bool,
}

impl Refusal {
    pub(crate) async fn read(response: Response<Incoming>, id: &RequestId) -> Self {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let body = tokio::time::timeout(REFUSAL_TIME, whole(response.into_body(), MAX_REFUSAL)).await;
        let body = body.ok().and_then(Result::ok).and_then(|body| String::from_utf8(body.into()).ok());
        let wants_tls = status == 400 && body.as_deref().is_some_and(says_tls);
        let body = body.and_then(|body| Raw::parse(body).ok());
        let said = body.as_ref().and_then(|body| body.member("id"));
        let is_ours = said.is_some_and(|said| RequestId::from_json(said.as_str()).as_ref() == Ok(id));
        let error = body.and_then(|body| body.member("error")).and_then(|error| error.to().ok());
        Self { status, retry_after, error, is_ours, wants_tls }
    }
}

/// Whether a text is the page of nginx, Go, Apache and others that were sent a plain request on a port with TLS.
fn says_tls(body: &str) -> bool {
    let body = body.to_ascii_lowercase();
    !body.starts_with('{')
        && ["https server", "https port", "ssl-enabled server port"].iter().any(|part| body.contains(part))
}
