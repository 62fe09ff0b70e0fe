//! What the client calls.

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri};

/// Puts credentials on every HTTP request of a client, and answers challenges.
pub trait Authorizer: Send + Sync + 'static {
    /// Headers to put on a request to `url`.
    fn headers<'a>(&'a self, request: AuthRequest<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthError>>;

    /// The server answered 401 or 403: whether to send the request again.
    fn challenged<'a>(
        &'a self,
        request: AuthRequest<'a>,
        answer: AuthAnswer<'a>,
    ) -> BoxFuture<'a, Result<bool, AuthError>>;
}

/// The request that needs credentials.
#[derive(Clone, Copy, Debug)]
pub struct AuthRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its address.
    pub url: &'a Uri,
}

/// The answer that asks for other credentials.
#[derive(Clone, Copy, Debug)]
pub struct AuthAnswer<'a> {
    /// 401 or 403.
    pub status: StatusCode,
    /// Its headers.
    pub headers: &'a HeaderMap,
}

/// Why there are no credentials, for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuthError {
    message: String,
}

impl AuthError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
