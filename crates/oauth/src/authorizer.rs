//! Credentials on every request to one MCP server, and what happens when it wants others.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_client::{AuthAnswer, AuthError, AuthRequest, Authorizer};
use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, StatusCode, Uri};
use oauth2::url::Url;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard};
use tokio::time::Instant;
use tracing::debug;

use crate::acquire::Why;
use crate::address::{AddressPolicy, is_loopback, origin, shown};
use crate::challenge::Hints;
use crate::config::{Config, Grant};
use crate::discovery::Discovered;
use crate::error::Error;
use crate::fetch::Fetch;
use crate::flow::{DPOP, Flow, Nonces, sensitive};
use crate::keys::ProofKey;
use crate::prompt::Prompt;
use crate::scope;
use crate::secret::Secret;
use crate::store::{CredentialStore, StoredToken};
use crate::token::{Token, TokenKind};

/// Refusals this soon after a new token was got count as refusals of that token.
const SETTLED: Duration = Duration::from_secs(5);
/// Refusals of the old token that may still come in after a new one was got, per caller that waited for it, and how long.
const LATE: (u32, Duration) = (32, Duration::from_secs(10));
/// Times that a server may ask for the same nonce again: by requests that were on their way, and then by mistake.
const SAME_NONCE: u32 = 64;

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

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) store: Arc<dyn CredentialStore>,
    pub(crate) prompt: Arc<dyn Prompt>,
    /// The address of the server: what its tokens are stored under.
    pub(crate) key: String,
    pub(crate) state: Mutex<State>,
    origin: String,
    policy: AddressPolicy,
    nonces: Nonces,
    loaded: OnceCell<()>,
    gate: Arc<AsyncMutex<()>>,
    waiting: AtomicU32,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) current: Option<Current>,
    /// The access token that was presented last, so that one that was refused is not taken for another process's new one.
    pub(crate) last_access: Option<Secret>,
    pub(crate) found: Option<Arc<Discovered>>,
    pub(crate) generation: u64,
    pub(crate) bound_issuer: Option<String>,
    failures: u64,
    failure: Option<(Error, Instant)>,
    acquired: Option<Instant>,
    attempts: u32,
    late: u32,
    same_nonce: u32,
}

/// The token that is presented.
pub(crate) struct Current {
    pub(crate) token: Token,
    proof_key: Option<ProofKey>,
}

impl Current {
    pub(crate) fn new(stored: &StoredToken) -> Result<Self, Error> {
        let proof_key = stored.proof_key.as_ref().map(ProofKey::from_pkcs8).transpose()?;
        if stored.token.kind == TokenKind::Dpop && proof_key.is_none() {
            return Err(Error::Key(
                "the token is bound to a key (DPoP), and there is none; log in again".into(),
            ));
        }
        Ok(Self { token: stored.token.clone(), proof_key })
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

/// Which callers see the same attempt: those that came before it ended.
#[derive(Clone, Copy)]
struct Seen {
    generation: u64,
    failures: u64,
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
        // Its own address is the owner's choice; what matters is that tokens do not go in the clear.
        AddressPolicy { local_server: is_loopback(&server), ..policy }.check(server.as_str())?;
        if let Grant::Login { document: Some(document), .. } = &config.grant {
            let proper = Url::parse(document).is_ok_and(|url| url.scheme() == "https" && url.path() != "/");
            if !proper {
                return Err(Error::Config(format!(
                    "{document} is no client id: it has to be an https address with a path"
                )));
            }
        }
        let inner = Inner {
            origin: origin(&server),
            key: server.to_string(),
            policy,
            config,
            fetch,
            store,
            prompt,
            state: Mutex::default(),
            nonces: Nonces::default(),
            loaded: OnceCell::new(),
            gate: Arc::default(),
            waiting: AtomicU32::new(0),
        };
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
        inner.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = Arc::clone(&inner.gate).lock_owned().await;
        inner.waiting.fetch_sub(1, Ordering::Relaxed);
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

impl Inner {
    pub(crate) fn flow(&self) -> Flow<'_> {
        Flow { config: &self.config, fetch: self.fetch.as_ref(), nonces: &self.nonces, policy: self.policy }
    }

    /// The address, if it is one of this server's: a token goes nowhere else.
    fn own(&self, url: &Uri) -> Option<Url> {
        Url::parse(&url.to_string()).ok().filter(|url| origin(url) == self.origin)
    }

    fn seen(&self) -> Seen {
        let state = self.state.lock();
        Seen { generation: state.generation, failures: state.failures }
    }

    fn is_bound(&self) -> bool {
        self.state.lock().current.as_ref().is_some_and(|current| current.proof_key.is_some())
    }

    /// Takes over what is stored for this server, once. A token that has ended is left to the attempt that the refusal starts.
    async fn load(&self) -> Result<(), Error> {
        self.loaded
            .get_or_try_init(|| async {
                let Some(issuer) = self.store.issuer_for(&self.key).await? else { return Ok(()) };
                let credentials = self.store.load(&issuer).await?;
                let stored = credentials
                    .tokens
                    .get(&self.key)
                    .filter(|stored| !stored.token.has_ended((self.config.clock)()));
                if let Some(current) = stored.map(Current::new).transpose()? {
                    let mut state = self.state.lock();
                    state.last_access = Some(current.token.access.clone());
                    state.current = Some(current);
                }
                Ok(())
            })
            .await
            .copied()
    }

    /// Whether the token should be renewed and can be without a person; `true` inside if it has ended.
    fn due(&self) -> Option<bool> {
        let state = self.state.lock();
        let token = &state.current.as_ref()?.token;
        let now = (self.config.clock)();
        let possible = state.found.is_some()
            && (token.refresh.is_some() || !matches!(self.config.grant, Grant::Login { .. }));
        let resting =
            state.failure.as_ref().is_some_and(|(_, at)| Instant::now() < *at + self.config.cooldown);
        let ended = token.has_ended(now);
        (token.is_due(now) && possible && (ended || !resting)).then_some(ended)
    }

    fn present(&self, method: &Method, url: &Url) -> Result<HeaderMap, Error> {
        let state = self.state.lock();
        let mut headers = HeaderMap::new();
        let Some(current) = &state.current else { return Ok(headers) };
        let access = &current.token.access;
        headers.insert(
            AUTHORIZATION,
            sensitive(&format!("{} {}", current.token.kind.scheme(), access.expose()))?,
        );
        if let Some(key) = &current.proof_key {
            let nonce = self.nonces.get(url);
            let proof = key.proof(method, url, nonce.as_deref(), Some(access), (self.config.clock)())?;
            headers.insert(DPOP, sensitive(&proof)?);
        }
        Ok(headers)
    }

    fn nonce_wanted(&self, new: bool) -> bool {
        let mut state = self.state.lock();
        state.same_nonce = if new { 0 } else { state.same_nonce + 1 };
        state.same_nonce <= SAME_NONCE
    }

    /// Whether this refusal may be one of the token before: of a request that was on its way when others got the present one.
    fn is_late(&self) -> bool {
        let mut state = self.state.lock();
        let fresh = state.acquired.is_some_and(|at| Instant::now() < at + LATE.1);
        let late = fresh && state.late > 0;
        if late {
            state.late -= 1;
        }
        late
    }

    /// Whether another attempt has a point. False: there is a new token already.
    fn may_try(&self, why: Why, hints: &Hints, seen: Seen) -> Result<bool, Error> {
        let mut state = self.state.lock();
        if state.generation != seen.generation {
            return Ok(false);
        }
        let now = Instant::now();
        if let Some((error, at)) = &state.failure {
            // Those who waited for the attempt that failed share its outcome, whatever it was.
            if state.failures != seen.failures || (!error.is_transient() && now < *at + self.config.cooldown)
            {
                return Err(error.clone());
            }
        }
        if why == Why::Scopes {
            let token = state.current.as_ref().map(|current| &current.token);
            let granted = token.map(|token| token.granted.clone()).unwrap_or_default();
            // Asked for just now and not given: the authorization server, or the person, has said no.
            let denied = token.is_some_and(|token| scope::covers(&token.requested, &hints.scopes))
                && state.acquired.is_some_and(|at| now < at + self.config.cooldown);
            if denied || scope::covers(&granted, &hints.scopes) {
                return Err(Error::InsufficientScope { needed: hints.scopes.clone(), granted });
            }
        }
        if state.acquired.is_none_or(|at| now >= at + SETTLED) {
            state.attempts = 0;
        }
        if state.attempts >= self.config.max_attempts {
            let error = Error::StillRefused { server: shown(&self.config.server), attempts: state.attempts };
            state.failure = Some((error.clone(), now));
            state.failures += 1;
            state.attempts = 0;
            return Err(error);
        }
        Ok(true)
    }

    fn finish(&self, why: Why, failure: Option<&Error>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(error) = failure {
            state.failures += 1;
            state.failure = Some((error.clone(), now));
            return;
        }
        state.failure = None;
        state.acquired = Some(now);
        state.same_nonce = 0;
        state.late = self.waiting.load(Ordering::Relaxed).min(LATE.0);
        if matches!(why, Why::Refused | Why::Scopes) {
            state.attempts += 1;
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
