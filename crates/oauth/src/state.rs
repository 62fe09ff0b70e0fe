//! What the clones of an authorization share, and the decisions about it: is it time, is it late, is there a point.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Uri};
use oauth2::url::Url;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use tokio::time::Instant;

use crate::acquire::Why;
use crate::address::{AddressPolicy, origin, shown};
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

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) store: Arc<dyn CredentialStore>,
    pub(crate) prompt: Arc<dyn Prompt>,
    /// The address of the server: what its tokens are stored under.
    pub(crate) key: String,
    pub(crate) state: Mutex<State>,
    pub(crate) nonces: Nonces,
    /// Held by the one attempt to get a token.
    pub(crate) gate: Arc<AsyncMutex<()>>,
    origin: String,
    policy: AddressPolicy,
    loaded: OnceCell<()>,
    waiting: AtomicU32,
}

/// What changes.
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

/// Which callers see the same attempt: those that came before it ended.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) generation: u64,
    failures: u64,
}

/// A caller that waits.
pub(crate) struct Waiter<'a>(&'a AtomicU32);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// `server` is the address of the configuration without its fragment, and checked.
    pub(crate) fn new(
        config: Config,
        server: &Url,
        policy: AddressPolicy,
        fetch: Arc<dyn Fetch>,
        store: Arc<dyn CredentialStore>,
        prompt: Arc<dyn Prompt>,
    ) -> Self {
        Self {
            origin: origin(server),
            key: match &config.resource {
                // No address has a blank in it.
                Some(resource) => format!("{server} {resource}"),
                None => server.to_string(),
            },
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
        }
    }

    pub(crate) fn flow(&self) -> Flow<'_> {
        Flow { config: &self.config, fetch: self.fetch.as_ref(), nonces: &self.nonces, policy: self.policy }
    }

    /// The address, if it is one of this server's: a token goes nowhere else.
    pub(crate) fn own(&self, url: &Uri) -> Option<Url> {
        Url::parse(&url.to_string()).ok().filter(|url| origin(url) == self.origin)
    }

    pub(crate) fn seen(&self) -> Seen {
        let state = self.state.lock();
        Seen { generation: state.generation, failures: state.failures }
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.state.lock().current.as_ref().is_some_and(|current| current.proof_key.is_some())
    }

    /// Takes over what is stored for this server, once. A token that has ended is left to the attempt that the refusal starts.
    pub(crate) async fn load(&self) -> Result<(), Error> {
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
    pub(crate) fn due(&self) -> Option<bool> {
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

    pub(crate) fn present(&self, method: &Method, url: &Url) -> Result<HeaderMap, Error> {
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

    pub(crate) fn nonce_wanted(&self, new: bool) -> bool {
        let mut state = self.state.lock();
        state.same_nonce = if new { 0 } else { state.same_nonce + 1 };
        state.same_nonce <= SAME_NONCE
    }

    /// Whether this refusal may be one of the token before: of a request that was on its way when others got the present one.
    pub(crate) fn is_late(&self) -> bool {
        let mut state = self.state.lock();
        let fresh = state.acquired.is_some_and(|at| Instant::now() < at + LATE.1);
        let late = fresh && state.late > 0;
        if late {
            state.late -= 1;
        }
        late
    }

    /// The failure of an attempt that ended after `seen`: those who waited for it share its outcome.
    pub(crate) fn shared_failure(&self, seen: Seen) -> Option<Error> {
        let state = self.state.lock();
        state.failure.as_ref().filter(|_| state.failures != seen.failures).map(|(error, _)| error.clone())
    }

    /// Counts a caller that waits for an attempt until the guard is dropped.
    pub(crate) fn count_waiting(&self) -> Waiter<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiter(&self.waiting)
    }

    /// Whether another attempt has a point. False: there is a new token already.
    pub(crate) fn may_try(&self, why: Why, hints: &Hints, seen: Seen) -> Result<bool, Error> {
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

    pub(crate) fn finish(&self, why: Why, failure: Option<&Error>) {
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
