//! One attempt to get a token: discovery, what is stored, refresh, and the grant, in this order.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info, warn};

use crate::challenge::Hints;
use crate::client::{AuthMethod, Choice, Client, Preregistered, choose};
use crate::config::Grant;
use crate::discovery::Discovered;
use crate::error::Error;
use crate::flow::{Ask, Flow, Identity};
use crate::keys::{ClientKey, ProofKey};
use crate::prompt::PromptError;
use crate::scope::{self, OFFLINE, ScopeSources};
use crate::secret::Secret;
use crate::state::{Current, Inner};
use crate::store::{Credentials, StoredToken};
use crate::token::{GrantRequest, Token, TokenKind, token};

/// Added to the time of a login when waiting for another process that may be in one.
const LOCK_MARGIN: Duration = Duration::from_secs(30);

/// Why a token is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The server refused the one there was, or there was none.
    Refused,
    /// The server wants more scopes.
    Scopes,
    /// It ends. No person is asked for this.
    Ending,
    /// Somebody asked for a login.
    Login,
}

/// What one attempt works with.
struct Attempt<'a> {
    inner: &'a Inner,
    flow: Flow<'a>,
    found: &'a Discovered,
    hints: &'a Hints,
    credentials: Credentials,
    /// The token stored before, of this issuer.
    before: Option<Token>,
    proof_key: Option<ProofKey>,
}

impl Inner {
    /// Gets a token and stores it. The caller makes sure that there is one attempt at a time in this process.
    pub(crate) async fn acquire(&self, why: Why, hints: &Hints) -> Result<(), Error> {
        let flow = self.flow();
        let found = match self.known(why) {
            Some(found) => found,
            None => Arc::new(flow.discover(hints, &self.preferred_issuers().await?).await?),
        };
        let issuer = found.server.issuer.clone();
        self.bind_issuer(&issuer)?;
        let _alone = self.store.lock(&issuer, self.config.login_deadline + LOCK_MARGIN).await?;
        let credentials = self.store.load(&issuer).await?;
        let stored = credentials.tokens.get(&self.key).cloned();
        if let Some(stored) = stored.as_ref().filter(|stored| self.is_news(why, hints, &stored.token)) {
            debug!(%issuer, "another process got a token");
            return self.adopt(found, stored);
        }
        let proof_key = match stored.as_ref().and_then(|stored| stored.proof_key.as_ref()) {
            Some(key) => Some(ProofKey::from_pkcs8(key)?),
            None if self.config.dpop && found.wants_dpop && found.server.takes_es256_proofs() => {
                Some(ProofKey::generate()?)
            }
            None => None,
        };
        let before = stored.map(|stored| stored.token);
        let mut attempt = Attempt { inner: self, flow, found: &found, hints, credentials, before, proof_key };
        let token = match attempt.refresh(why).await? {
            Some(token) => token,
            None if why == Why::Ending && matches!(self.config.grant, Grant::Login { .. }) => {
                debug!(%issuer, "the token cannot be renewed without a login");
                attempt.save(None).await?;
                self.forget();
                return Ok(());
            }
            None => attempt.grant().await?,
        };
        let proof_key = attempt.proof_key.take().filter(|_| token.kind == TokenKind::Dpop);
        let stored = StoredToken { proof_key: proof_key.as_ref().map(|key| key.to_pkcs8().clone()), token };
        if let Err(error) = attempt.save(Some(stored.clone())).await {
            // It was issued, and it may have used up the refresh token before it: this process at least goes on with it.
            warn!(%error, "the token could not be stored");
        }
        info!(%issuer, server = %self.key, scopes = ?stored.token.granted, "authorized");
        self.adopt(found, &stored)
    }

    /// What was discovered before, where nothing has to be asked again: only the server itself can say that something changed.
    fn known(&self, why: Why) -> Option<Arc<Discovered>> {
        (why == Why::Ending).then(|| self.state.lock().found.clone()).flatten()
    }

    async fn preferred_issuers(&self) -> Result<Vec<String>, Error> {
        let configured = self.preregistered().and_then(|client| client.issuer.clone());
        let stored = self.store.issuer_for(&self.key).await?;
        Ok(configured.into_iter().chain(stored).collect())
    }

    /// A configured client without an issuer belongs to the first one that it is used with.
    fn bind_issuer(&self, issuer: &str) -> Result<(), Error> {
        if self.preregistered().is_none() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let bound = state.bound_issuer.get_or_insert_with(|| issuer.to_owned());
        if bound != issuer {
            return Err(Error::ForeignClient { registered: bound.clone(), found: issuer.to_owned() });
        }
        Ok(())
    }

    fn preregistered(&self) -> Option<&Preregistered> {
        match &self.config.grant {
            Grant::Login { client, .. } => client.as_ref(),
            Grant::ClientCredentials(client) | Grant::Enterprise { client, .. } => Some(client),
            Grant::Workload { .. } => None,
        }
    }

    /// Whether a stored token is one that was not tried yet and may serve.
    fn is_news(&self, why: Why, hints: &Hints, stored: &Token) -> bool {
        let enough = match why {
            Why::Login => false,
            Why::Scopes => scope::covers(&stored.granted, &hints.scopes),
            Why::Refused | Why::Ending => stored.was_asked_for(&hints.scopes),
        };
        let alive = !stored.has_ended((self.config.clock)());
        enough && alive && self.state.lock().last_access.as_ref() != Some(&stored.access)
    }

    fn adopt(&self, found: Arc<Discovered>, stored: &StoredToken) -> Result<(), Error> {
        let current = Current::new(stored)?;
        let mut state = self.state.lock();
        state.last_access = Some(current.token.access.clone());
        state.current = Some(current);
        state.found = Some(found);
        state.generation += 1;
        Ok(())
    }

    fn forget(&self) {
        self.state.lock().current = None;
    }
}

impl Attempt<'_> {
    fn now(&self) -> u64 {
        (self.inner.config.clock)()
    }

    /// Saves what is known of the issuer; without a token, the one stored for this server is removed.
    async fn save(&mut self, token: Option<StoredToken>) -> Result<(), Error> {
        let issuer = &self.found.server.issuer;
        let key = &self.inner.key;
        match token {
            Some(token) => {
                // What another authorization server issued for this server is of no use any more.
                let store = &self.inner.store;
                if let Some(old) = store.issuer_for(key).await?.filter(|old| old != issuer) {
                    let mut credentials = store.load(&old).await?;
                    credentials.tokens.remove(key);
                    store.save(key, &old, credentials).await?;
                }
                self.credentials.tokens.insert(key.clone(), token);
            }
            None => {
                self.credentials.tokens.remove(key);
            }
        }
        Ok(self.inner.store.save(key, issuer, self.credentials.clone()).await?)
    }

    fn ask<'b>(
        &'b self,
        client: &'b Client,
        key: Option<&'b ClientKey>,
        scopes: &'b [String],
    ) -> Result<Ask<'b>, Error> {
        let server = &self.found.server;
        Ok(Ask {
            identity: Identity { client, key },
            issuer: &server.issuer,
            endpoint: self.flow.endpoint(server, "token endpoint", server.token_endpoint.as_deref())?,
            resource: self.flow.resource(self.found),
            scopes,
            proof_key: self.proof_key.as_ref(),
        })
    }

    async fn ask_token(
        &self,
        client: &Client,
        key: Option<&ClientKey>,
        scopes: &[String],
        grant: &GrantRequest,
        before: Option<&Token>,
    ) -> Result<Token, Error> {
        let ask = self.ask(client, key, scopes)?;
        let (response, _) = self.flow.token(&ask, grant).await?;
        let requested = before.map_or_else(|| scopes.to_vec(), |token| token.requested.clone());
        token(&response, ask.endpoint.as_str(), requested, before, &client.id, self.now())
    }

    /// Uses the refresh token, if there is one that can help. None: a grant is needed.
    async fn refresh(&mut self, why: Why) -> Result<Option<Token>, Error> {
        let Some(before) = self.before.clone().filter(|_| matches!(why, Why::Refused | Why::Ending)) else {
            return Ok(None);
        };
        let Some(refresh) = before.refresh.clone() else { return Ok(None) };
        if !before.was_asked_for(&self.hints.scopes) {
            return Ok(None); // a refresh brings no more scopes
        }
        let Ok((Choice::Use(client), key)) = self.choose(None) else { return Ok(None) };
        if client.id != before.client_id {
            return Ok(None);
        }
        match self.ask_token(&client, key, &[], &GrantRequest::Refresh(refresh), Some(&before)).await {
            Ok(token) => Ok(Some(token)),
            Err(error @ Error::Refused { .. }) => {
                info!(%error, "the refresh token is of no use any more");
                self.forget_client_if_unknown(&error);
                self.before = Some(Token { refresh: None, ..before });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// An authorization server that has forgotten a client that it registered gets a new registration the next time.
    fn forget_client_if_unknown(&mut self, error: &Error) {
        if error.refused_with("invalid_client") || error.refused_with("unauthorized_client") {
            self.credentials.client = None;
        }
    }

    fn choose(&self, redirect_uri: Option<&str>) -> Result<(Choice, Option<&ClientKey>), Error> {
        let config = &self.inner.config;
        let (known, document) = match &config.grant {
            Grant::Login { client, document } => (client.as_ref(), document.as_deref()),
            Grant::ClientCredentials(client) | Grant::Enterprise { client, .. } => (Some(client), None),
            Grant::Workload { client_id, .. } => {
                let id = client_id.clone().unwrap_or_default();
                let client = Client {
                    id,
                    secret: None,
                    method: AuthMethod::None,
                    redirect_uri: None,
                    secret_expires_at: None,
                };
                return Ok((Choice::Use(client), None));
            }
        };
        let choice = choose(
            known,
            document,
            self.credentials.client.as_ref(),
            &self.found.server,
            redirect_uri,
            self.now(),
        )?;
        Ok((choice, known.and_then(|client| client.key.as_ref())))
    }

    fn scopes(&self, offline: bool) -> Vec<String> {
        scope::choose(ScopeSources {
            challenge: &self.hints.scopes,
            supported: &self.found.scopes_supported,
            configured: &self.inner.config.scopes,
            before: self.before.as_ref().map_or(&[], |token| &token.requested),
            offline: offline && self.inner.config.offline && self.found.server.lists_scope(OFFLINE),
        })
    }

    /// A new token by the configured grant.
    async fn grant(&mut self) -> Result<Token, Error> {
        let inner = self.inner;
        match &inner.config.grant {
            Grant::Login { .. } => self.login().await,
            Grant::ClientCredentials(_) => self.own_grant(GrantRequest::ClientCredentials).await,
            Grant::Workload { assertion, .. } => {
                let assertion = assertion.token(&self.found.server.issuer).await?;
                self.own_grant(GrantRequest::JwtBearer(assertion)).await
            }
            Grant::Enterprise { provider, .. } => {
                let assertion = self.flow.vouched(provider, self.found, &self.scopes(false)).await?;
                self.own_grant(GrantRequest::JwtBearer(assertion)).await
            }
        }
    }

    async fn own_grant(&self, grant: GrantRequest) -> Result<Token, Error> {
        match self.choose(None)? {
            (Choice::Use(client), key) => {
                self.ask_token(&client, key, &self.scopes(false), &grant, None).await
            }
            (Choice::Register(_), _) => {
                Err(Error::Config("this grant needs a client that was registered beforehand".into()))
            }
        }
    }

    async fn login(&mut self) -> Result<Token, Error> {
        let scopes = self.scopes(true);
        let registered = self.credentials.client.as_ref().and_then(|client| client.redirect_uri.clone());
        let waiting = self.inner.prompt.begin(registered.as_deref()).await?;
        let redirect_uri = waiting.redirect_uri().to_owned();
        let (choice, key) = self.choose(Some(&redirect_uri))?;
        let key = key.cloned();
        let client = match choice {
            Choice::Use(client) => client,
            Choice::Register(endpoint) => {
                let client =
                    self.flow.register(&self.found.server, &endpoint, &redirect_uri, &scopes).await?;
                self.credentials.client = Some(client.clone());
                // Before the person is asked: a login that is broken off must not leave a registration behind that nobody knows.
                let kept = self.credentials.clone();
                self.inner.store.save(&self.inner.key, &self.found.server.issuer, kept).await?;
                client
            }
        };
        match self.login_as(&client, key.as_ref(), waiting, &redirect_uri, &scopes).await {
            Ok(token) => Ok(token),
            Err(error) => {
                // An authorization server that does not know the client shows an error in the browser, and nothing comes back.
                let mute = matches!(error, Error::Prompt(PromptError::TimedOut(_)));
                let had = self.credentials.client.is_some();
                self.forget_client_if_unknown(&error);
                if mute {
                    self.credentials.client = None;
                }
                if had && self.credentials.client.is_none() {
                    let kept = self.credentials.clone();
                    self.inner.store.save(&self.inner.key, &self.found.server.issuer, kept).await?;
                }
                Err(error)
            }
        }
    }

    async fn login_as(
        &self,
        client: &Client,
        key: Option<&ClientKey>,
        waiting: Box<dyn crate::prompt::Waiting>,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<Token, Error> {
        let (code, verifier): (Secret, Secret) =
            self.flow.authorize(self.found, client, waiting, scopes, self.proof_key.as_ref()).await?;
        let grant = GrantRequest::Code { code, redirect_uri: redirect_uri.to_owned(), verifier };
        self.ask_token(client, key, scopes, &grant, None).await
    }
}
