//! The requests of an authorization, one after the other. What to ask and what to check is decided elsewhere, without IO.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use oauth2::basic::{BasicClient, BasicTokenResponse};
use oauth2::url::{Url, form_urlencoded};
use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope, TokenResponse as _};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::address::{AddressPolicy, origin, shown};
use crate::challenge::Hints;
use crate::client::{self, AuthMethod, Client};
use crate::config::{Config, IdentityProvider};
use crate::discovery::{self, Answer, Discovered, Discovery, DiscoveryOptions, Step, server_metadata_urls};
use crate::error::{Error, check_health, printable};
use crate::fetch::Fetch;
use crate::keys::{ClientKey, ProofKey};
use crate::metadata::AuthorizationServer;
use crate::prompt::{Question, Waiting};
use crate::secret::Secret;
use crate::token::{self, GrantRequest, ID_JAG, TokenAnswer};

/// Servers whose nonces are remembered.
const MAX_NONCES: usize = 16;
/// `DPoP`.
pub(crate) const DPOP: HeaderName = HeaderName::from_static("dpop");
/// `DPoP-Nonce`.
pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The last nonce of each server (RFC 9449 8.2), by origin.
#[derive(Debug, Default)]
pub(crate) struct Nonces(Mutex<BTreeMap<String, String>>);

impl Nonces {
    pub(crate) fn get(&self, url: &Url) -> Option<String> {
        self.0.lock().get(&origin(url)).cloned()
    }

    /// Notes the nonce of an answer; whether it is a new one.
    pub(crate) fn note(&self, url: &Url, headers: &http::HeaderMap) -> bool {
        let Some(nonce) = headers.get(&DPOP_NONCE).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        let mut known = self.0.lock();
        if known.len() >= MAX_NONCES && !known.contains_key(&origin(url)) {
            known.pop_first();
        }
        known.insert(origin(url), nonce.to_owned()).as_deref() != Some(nonce)
    }
}

/// What the requests are made with.
#[derive(Clone, Copy)]
pub(crate) struct Flow<'a> {
    pub(crate) config: &'a Config,
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) nonces: &'a Nonces,
    pub(crate) policy: AddressPolicy,
}

/// A client at an authorization server, with the key that it signs with if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) client: &'a Client,
    pub(crate) key: Option<&'a ClientKey>,
}

/// What a token is asked for with.
pub(crate) struct Ask<'a> {
    pub(crate) identity: Identity<'a>,
    pub(crate) issuer: &'a str,
    pub(crate) endpoint: Url,
    pub(crate) resource: Option<&'a str>,
    pub(crate) scopes: &'a [String],
    pub(crate) proof_key: Option<&'a ProofKey>,
}

impl Flow<'_> {
    async fn send(&self, url: &Url, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        self.fetch.fetch(request).await.map_err(|source| Error::Fetch { url: shown(url), source })
    }

    async fn get(&self, url: &Url) -> Result<Response<Bytes>, Error> {
        let mut request = Request::get(url.as_str()).header(ACCEPT, "application/json");
        if let Some(version) = &self.config.protocol_version {
            request = request.header("mcp-protocol-version", version);
        }
        let request = request.body(Bytes::new()).map_err(|error| unusable(url, &error))?;
        self.send(url, request).await
    }

    /// Finds the authorization server.
    pub(crate) async fn discover(&self, hints: &Hints, preferred: &[String]) -> Result<Discovered, Error> {
        let options = DiscoveryOptions { preferred, legacy: self.config.legacy, policy: self.policy };
        let mut machine = Discovery::new(&self.config.server, hints, options)?;
        loop {
            match machine.step()? {
                Step::Done(found) => return Ok(*found),
                Step::Get(url) => {
                    let answer = self.get(&url).await?;
                    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                    machine.answer(Answer { status: answer.status(), location, body: answer.body() })?;
                }
            }
        }
    }

    /// The address of an endpoint of the authorization server.
    pub(crate) fn endpoint(
        &self,
        server: &AuthorizationServer,
        name: &str,
        address: Option<&str>,
    ) -> Result<Url, Error> {
        let address = address.ok_or_else(|| {
            Error::Discovery(format!("the authorization server {} has no {name}", server.issuer))
        })?;
        self.policy.check(address)
    }

    /// Registers a client (RFC 7591).
    pub(crate) async fn register(
        &self,
        server: &AuthorizationServer,
        endpoint: &str,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<Client, Error> {
        let url = self.policy.check(endpoint)?;
        let body = client::registration_request(
            &self.config.registration,
            &self.config.client_name,
            redirect_uri,
            scopes,
            server,
        );
        let request = Request::post(url.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| unusable(&url, &error))?;
        let answer = self.send(&url, request).await?;
        check_health(&url, answer.status())?;
        if answer.status().is_success() {
            return client::registered(answer.body(), redirect_uri, server);
        }
        let guessed = discovery::default_endpoints(&self.config.server).registration_endpoint;
        if matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
            && guessed.as_deref() == Some(endpoint)
        {
            return Err(Error::Registration(format!(
                "{} wants credentials, and says nowhere how to log in. Send it the token that you were given for it",
                shown(&self.config.server)
            )));
        }
        let why = serde_json::from_slice::<Refusal>(answer.body()).map(Refusal::text).unwrap_or_default();
        Err(Error::Registration(format!(
            "{} registers no client for {redirect_uri}: it answered {}{why}. Register one there by hand, and configure its client id",
            server.issuer,
            answer.status().as_u16()
        )))
    }

    /// Has a person say yes; returns the code and the PKCE verifier.
    pub(crate) async fn authorize(
        &self,
        found: &Discovered,
        client: &Client,
        waiting: Box<dyn Waiting>,
        scopes: &[String],
        proof_key: Option<&ProofKey>,
    ) -> Result<(Secret, Secret), Error> {
        let server = &found.server;
        check_pkce(found)?;
        let url =
            self.endpoint(server, "authorization endpoint", server.authorization_endpoint.as_deref())?;
        let redirect = RedirectUrl::new(waiting.redirect_uri().to_owned()).map_err(|error| {
            Error::Config(format!("{} is no redirect address: {error}", waiting.redirect_uri()))
        })?;
        let request = BasicClient::new(ClientId::new(client.id.clone()))
            .set_auth_uri(AuthUrl::from_url(url))
            .set_redirect_uri(redirect);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = request
            .authorize_url(|| CsrfToken::new_random_len(32))
            .set_pkce_challenge(challenge)
            .add_scopes(scopes.iter().cloned().map(Scope::new));
        if let Some(resource) = self.resource(found) {
            request = request.add_extra_param("resource", resource);
        }
        if scopes.iter().any(|scope| scope == crate::scope::OFFLINE) {
            // OpenID Connect Core 11: without this `offline_access` is ignored.
            request = request.add_extra_param("prompt", "consent");
        }
        if let Some(key) = proof_key {
            request = request.add_extra_param("dpop_jkt", key.thumbprint()?);
        }
        let (url, state) = request.url();
        let state = Secret::new(state.into_secret());
        let question = Question { url, state: state.clone(), deadline: self.config.login_deadline };
        let query = waiting.authorize(question).await?;
        let code = crate::response::code(query.expose(), &state, server)?;
        Ok((code, Secret::new(verifier.into_secret())))
    }

    /// The value of `resource`, byte for byte as the metadata has it.
    pub(crate) fn resource<'a>(&'a self, found: &'a Discovered) -> Option<&'a str> {
        let named = self.config.resource.as_deref().or(found.resource.as_deref());
        named.filter(|_| self.config.send_resource)
    }

    /// Asks a token endpoint, a second time if it wants a nonce in the proof.
    pub(crate) async fn token(
        &self,
        ask: &Ask<'_>,
        grant: &GrantRequest,
    ) -> Result<(BasicTokenResponse, Bytes), Error> {
        for _ in 0..2 {
            let answer = self.send(&ask.endpoint, self.token_request(ask, grant)?).await?;
            check_health(&ask.endpoint, answer.status())?;
            self.nonces.note(&ask.endpoint, answer.headers());
            match token::read(&shown(&ask.endpoint), ask.issuer, answer.status(), answer.body())? {
                TokenAnswer::Token(response) => return Ok((*response, answer.into_body())),
                TokenAnswer::UseNonce if ask.proof_key.is_some() => {}
                TokenAnswer::UseNonce => break,
            }
        }
        Err(Error::Refused {
            issuer: ask.issuer.to_owned(),
            error: "use_dpop_nonce".into(),
            description: None,
        })
    }

    fn token_request(&self, ask: &Ask<'_>, grant: &GrantRequest) -> Result<Request<Bytes>, Error> {
        let url = &ask.endpoint;
        let now = (self.config.clock)();
        let proof = ask.identity.client.prove(ask.identity.key, ask.issuer, now)?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, value) in grant.fields().iter().chain(&proof.fields) {
            form.append_pair(name, value.expose());
        }
        if let Some(resource) = ask.resource {
            form.append_pair("resource", resource);
        }
        if grant.takes_scopes() && !ask.scopes.is_empty() {
            form.append_pair("scope", &ask.scopes.join(" "));
        }
        let mut request = Request::post(url.as_str())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Bytes::from(form.finish()))
            .map_err(|error| unusable(url, &error))?;
        if let Some(value) = proof.authorization {
            request.headers_mut().insert(AUTHORIZATION, sensitive(value.expose())?);
        }
        if let Some(key) = ask.proof_key {
            let nonce = self.nonces.get(url);
            request
                .headers_mut()
                .insert(DPOP, sensitive(&key.proof(&Method::POST, url, nonce.as_deref(), None, now)?)?);
        }
        Ok(request)
    }

    /// Gets an identity assertion grant (ID-JAG) from the identity provider.
    pub(crate) async fn vouched(
        &self,
        provider: &IdentityProvider,
        found: &Discovered,
        scopes: &[String],
    ) -> Result<Secret, Error> {
        // The owner configured the provider: on this machine it is fine whatever the server is.
        let policy = AddressPolicy { local_server: true, ..self.policy };
        let endpoint = match &provider.token_endpoint {
            Some(address) => policy.check(address)?,
            None => self.provider_endpoint(provider, policy).await?,
        };
        let method =
            provider.client_secret.as_ref().map_or(AuthMethod::None, |_| AuthMethod::ClientSecretPost);
        let client = Client {
            id: provider.client_id.clone(),
            secret: provider.client_secret.clone(),
            method,
            redirect_uri: None,
            secret_expires_at: None,
        };
        let ask = Ask {
            identity: Identity { client: &client, key: None },
            issuer: &provider.issuer,
            endpoint,
            // Required here, so it does not depend on `send_resource`.
            resource: Some(found.resource.as_deref().unwrap_or(self.config.server.as_str())),
            scopes,
            proof_key: None,
        };
        let subject = provider.subject.token(&provider.issuer).await?;
        let exchange = GrantRequest::Exchange {
            subject,
            subject_kind: provider.subject_kind.clone(),
            audience: found.server.issuer.clone(),
        };
        let (response, body) = self.token(&ask, &exchange).await?;
        let kind = serde_json::from_slice::<Issued>(&body).ok().and_then(|issued| issued.issued_token_type);
        if kind.as_deref() != Some(ID_JAG) {
            let what = format!(
                "a token of the type {:?} instead of an identity assertion grant",
                kind.as_deref().map(printable)
            );
            return Err(Error::Malformed { url: shown(&ask.endpoint), what });
        }
        Ok(Secret::new(response.access_token().secret().clone()))
    }

    async fn provider_endpoint(
        &self,
        provider: &IdentityProvider,
        policy: AddressPolicy,
    ) -> Result<Url, Error> {
        for url in server_metadata_urls(&policy.check(&provider.issuer)?) {
            let answer = self.get(&url).await?;
            check_health(&url, answer.status())?;
            let Ok(server) = serde_json::from_slice::<AuthorizationServer>(answer.body()) else { continue };
            if server.issuer != provider.issuer {
                return Err(Error::IssuerMismatch {
                    expected: provider.issuer.clone(),
                    found: printable(&server.issuer),
                });
            }
            let address = server.token_endpoint.as_deref();
            return address
                .map_or_else(|| Err(no_endpoint(&provider.issuer)), |address| policy.check(address));
        }
        Err(no_endpoint(&provider.issuer))
    }
}

#[derive(Deserialize)]
struct Issued {
    issued_token_type: Option<String>,
}

#[derive(Default, Deserialize)]
struct Refusal {
    error: Option<String>,
    error_description: Option<String>,
}

impl Refusal {
    fn text(self) -> String {
        let words: Vec<String> =
            [self.error, self.error_description].into_iter().flatten().map(|text| printable(&text)).collect();
        if words.is_empty() { String::new() } else { format!(" ({})", words.join(": ")) }
    }
}

fn no_endpoint(issuer: &str) -> Error {
    Error::Discovery(format!("no token endpoint of the identity provider {issuer} was found; configure it"))
}

fn unusable(url: &Url, error: &http::Error) -> Error {
    Error::Malformed { url: shown(url), what: format!("with an address that cannot be asked: {error}") }
}

/// A header value that is not shown.
pub(crate) fn sensitive(value: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Error::Config("a credential has characters that no header can carry".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// MCP 2026-07-28 (security considerations): without S256 in the metadata there is no login. The rules of 2025-03-26 do not ask for it.
fn check_pkce(found: &Discovered) -> Result<(), Error> {
    let proper = match found.server.code_challenge_methods_supported.as_deref() {
        Some(methods) => methods.iter().any(|method| method == "S256"),
        None => found.legacy,
    };
    if proper {
        return Ok(());
    }
    Err(Error::Discovery(format!(
        "the authorization server {} does not say that it protects logins with PKCE (S256); no login is made there",
        found.server.issuer
    )))
}
