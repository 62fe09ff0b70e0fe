//! Who puts credentials on requests, and what happens when the server wants others.

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header::AUTHORIZATION};
use std::fmt;
use thiserror::Error;

/// Puts credentials on every HTTP request of a [`Client`](crate::Client), and answers challenges.
///
/// An implementation is shared by all requests: it is single-flight where it fetches tokens, and bounds its own attempts.
pub trait Authorizer: Send + Sync + 'static {
    /// Headers to put on a request to `url` (`Authorization`, `DPoP`, say). Called for every HTTP request; has to be quick
    /// when a token is at hand.
    fn headers<'a>(&'a self, request: AuthRequest<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthError>>;

    /// The server answered 401 or 403 (or asked for a `DPoP` nonce): whether to send the request again. A request that was
    /// answered this way did not run, so that sending it again is safe.
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
    /// Its headers; `WWW-Authenticate` says what is wanted.
    pub headers: &'a HeaderMap,
}

/// Why there are no credentials, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AuthError {
    message: String,
}

impl AuthError {
    /// An error that says `message`. It must not hold a secret: it is shown and logged.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The same headers on every request: a bearer token that does not change, an API key.
#[derive(Clone, Default)]
pub struct StaticHeaders {
    headers: HeaderMap,
}

impl StaticHeaders {
    /// These headers.
    #[must_use]
    pub const fn new(headers: HeaderMap) -> Self {
        Self { headers }
    }

    /// `Authorization: Bearer` and `token`.
    ///
    /// # Errors
    /// When the token cannot stand in a header.
    pub fn bearer(token: &str) -> Result<Self, AuthError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| AuthError::new("the bearer token has characters that no header can carry"))?;
        value.set_sensitive(true);
        Ok(Self { headers: HeaderMap::from_iter([(AUTHORIZATION, value)]) })
    }

    /// The same with one header more.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }
}

impl fmt::Debug for StaticHeaders {
    /// The names alone: values are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.headers.keys()).finish()
    }
}

impl Authorizer for StaticHeaders {
    fn headers<'a>(&'a self, _: AuthRequest<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthError>> {
        Box::pin(std::future::ready(Ok(self.headers.clone())))
    }

    fn challenged<'a>(
        &'a self,
        _: AuthRequest<'a>,
        _: AuthAnswer<'a>,
    ) -> BoxFuture<'a, Result<bool, AuthError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
