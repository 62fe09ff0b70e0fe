//! Credentials on every request to one MCP server, and what happens when it wants others.

use std::fmt;
use std::sync::Arc;

use bowline_client::{AuthAnswer, AuthError, AuthRequest, Authorizer};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri};
use oauth2::url::Url;
use tokio::sync::OwnedMutexGuard;
use tracing::debug;

use crate::acquire::Why;
use crate::address::AddressPolicy;
use crate::challenge::Hints;
use crate::config::{Config, Grant};
use crate::error::Error;
use crate::fetch::Fetch;
use crate::prompt::Prompt;
use crate::state::{Inner, Seen};
use crate::store::CredentialStore;

/// Authorization for one MCP server. Cheap to clone; all clones share one token, one attempt to get one, and one memory of failures.
///
/// It is an [`Authorizer`]: hand it to the client, and it does the rest. A caller that gives up waiting does not end the attempt that it
/// waited for, so that a login in a browser outlives the deadline of the call that caused it.
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<Inner>,
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("server", &self.inner.key).finish_non_exhaustive()
    }
}

/// What is known of the authorization, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The authorization server, once it is known.
    pub issuer: Option<String>,
    /// Whether there is a token that has not ended.
    pub authorized: bool,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub expires_at: Option<u64>,
    /// Whether it can be renewed without a login.
    pub renewable: bool,
}

impl OAuth {
    /// Authorization for `config.server`. Nothing is asked until a request is sent or refused.
    ///
    /// # Errors
    /// [`Error::Address`] if tokens would go over `http` to another machine; [`Error::Config`].
    pub fn new(
        config: Config,
        fetch: Arc<dyn Fetch>,
        store: Arc<dyn CredentialStore>,
        prompt: Arc<dyn Prompt>,
    ) -> Result<Self, Error> {
        let mut server = config.server.clone();
        server.set_fragment(None);
        let policy = AddressPolicy::for_server(&server, config.allow_http);
        policy.check(server.as_str())?; // tokens do not go in the clear
        if let Grant::Login { document: Some(document), .. } = &config.grant {
            let proper = Url::parse(document).is_ok_and(|url| url.scheme() == "https" && url.path() != "/");
            if !proper {
                return Err(Error::Config(format!(
                    "{document} is no client id: it has to be an https address with a path"
                )));
            }
        }
        let inner = Inner::new(config, &server, policy, fetch, store, prompt);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Gets a new token now, even if there is one: a login by a person, or the grant that is configured.
    ///
    /// # Errors
    /// Whatever stands in the way; see [`Error`].
    pub async fn login(&self) -> Result<Status, Error> {
        self.inner.load().await?;
        let guard = Arc::clone(&self.inner.gate).lock_owned().await;
        self.run(guard, Why::Login, Hints::default()).await?;
        self.status().await
    }

    /// Forgets the token, here and in the store. The registration of the client stays.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn logout(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let _alone = inner.gate.lock().await;
        inner.state.lock().current = None;
        if let Some(issuer) = inner.store.issuer_for(&inner.key).await? {
            let mut credentials = inner.store.load(&issuer).await?;
            credentials.tokens.remove(&inner.key);
            inner.store.save(&inner.key, &issuer, credentials).await?;
        }
        Ok(())
    }

    /// What is known.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn status(&self) -> Result<Status, Error> {
        let inner = &self.inner;
        inner.load().await?;
        let issuer = inner.store.issuer_for(&inner.key).await?;
        let state = inner.state.lock();
        let token = state.current.as_ref().map(|current| &current.token);
        Ok(Status {
            issuer,
            authorized: token.is_some_and(|token| !token.has_ended((inner.config.clock)())),
            scopes: token.map(|token| token.granted.clone()).unwrap_or_default(),
            expires_at: token.and_then(|token| token.expires_at),
            renewable: token.is_some_and(|token| token.refresh.is_some())
                || !matches!(inner.config.grant, Grant::Login { .. }),
        })
    }

    /// Headers for a request; see [`Authorizer::headers`].
    ///
    /// # Errors
    /// Where a token that ends could not be renewed for a reason that may pass.
    pub async fn headers_for(&self, method: &Method, url: &Uri) -> Result<HeaderMap, Error> {
        let Some(url) = self.inner.own(url) else { return Ok(HeaderMap::new()) };
        self.inner.load().await?;
        self.renew_if_due().await?;
        self.inner.present(method, &url)
    }

    /// What to do about a refusal; see [`Authorizer::challenged`].
    ///
    /// # Errors
    /// Where there is no token to be had, or no point in another one.
    pub async fn refused(&self, url: &Uri, status: StatusCode, headers: &HeaderMap) -> Result<bool, Error> {
        let inner = &self.inner;
        let Some(url) = inner.own(url) else { return Ok(false) };
        let hints = Hints::read(headers);
        let new_nonce = inner.nonces.note(&url, headers);
        let seen = inner.seen();
        match (status, hints.error.as_deref()) {
            (StatusCode::UNAUTHORIZED, Some("use_dpop_nonce")) if inner.is_bound() => {
                Ok(inner.nonce_wanted(new_nonce))
            }
            (StatusCode::UNAUTHORIZED, _) => self.renew(Why::Refused, hints, seen).await,
            (StatusCode::FORBIDDEN, Some("insufficient_scope")) => self.renew(Why::Scopes, hints, seen).await,
            _ => Ok(false),
        }
    }

    async fn renew_if_due(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let Some(ended) = inner.due() else { return Ok(()) };
        let seen = inner.seen();
        let guard = if ended {
            Arc::clone(&inner.gate).lock_owned().await
        } else {
            // It still serves: one caller renews it, the others go on.
            let Ok(guard) = Arc::clone(&inner.gate).try_lock_owned() else { return Ok(()) };
            guard
        };
        if let Some(error) = inner.shared_failure(seen) {
            return if ended { Err(error) } else { Ok(()) };
        }
        if inner.seen().generation != seen.generation || inner.due().is_none() {
            return Ok(());
        }
        match self.run(guard, Why::Ending, Hints::default()).await {
            Err(error) if !ended => {
                debug!(%error, "the token could not be renewed yet");
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn renew(&self, why: Why, hints: Hints, seen: Seen) -> Result<bool, Error> {
        let inner = &self.inner;
        if inner.is_late() {
            return Ok(true);
        }
        let waiting = inner.count_waiting();
        let guard = Arc::clone(&inner.gate).lock_owned().await;
        drop(waiting);
        if !inner.may_try(why, &hints, seen)? {
            return Ok(true);
        }
        self.run(guard, why, hints).await.map(|()| true)
    }

    /// One attempt, in a task of its own: it outlives a caller that gives up.
    async fn run(&self, guard: OwnedMutexGuard<()>, why: Why, hints: Hints) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let attempt = tokio::spawn(async move {
            let outcome = inner.acquire(why, &hints).await;
            inner.finish(why, outcome.as_ref().err());
            drop(guard);
            outcome
        });
        match attempt.await {
            Ok(outcome) => outcome,
            Err(error) => Err(Error::Config(format!("the attempt to get a token was broken off: {error}"))),
        }
    }
}

impl Authorizer for OAuth {
    fn headers<'a>(&'a self, request: AuthRequest<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthError>> {
        Box::pin(async move {
            self.headers_for(request.method, request.url)
                .await
                .map_err(|error| AuthError::new(error.to_string()))
        })
    }

    fn challenged<'a>(
        &'a self,
        request: AuthRequest<'a>,
        answer: AuthAnswer<'a>,
    ) -> BoxFuture<'a, Result<bool, AuthError>> {
        Box::pin(async move {
            self.refused(request.url, answer.status, answer.headers)
                .await
                .map_err(|error| AuthError::new(error.to_string()))
        })
    }
}
