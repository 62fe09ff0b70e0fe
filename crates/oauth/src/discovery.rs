//! What to fetch next, and what to make of the answer: a machine without IO.
//!
//! Order (MCP 2025-06-18 and later): the metadata of the resource from the challenge, else below the path of the server, else at its
//! root; then that of its authorization server, RFC 8414 before `OpenID` Connect. Where a server has no resource metadata, the rules of
//! 2025-03-26 apply: the authorization server is the origin of the MCP server, and without metadata it has `/authorize`, `/token` and
//! `/register`.

use std::collections::VecDeque;

use http::StatusCode;
use oauth2::url::Url;

use crate::address::{AddressPolicy, origin, shown};
use crate::challenge::Hints;
use crate::error::{Error, check_health, printable};
use crate::metadata::{AuthorizationServer, ProtectedResource};

/// Redirects followed for one document.
const MAX_REDIRECTS: u8 = 3;

/// What discovery found.
#[derive(Debug, Clone)]
pub struct Discovered {
    /// The resource identifier, byte for byte; none under the rules of 2025-03-26.
    pub resource: Option<String>,
    /// `scopes_supported` of the resource.
    pub scopes_supported: Vec<String>,
    /// The resource wants proofs of possession (RFC 9449).
    pub wants_dpop: bool,
    /// The authorization server; its `issuer` has been checked.
    pub server: AuthorizationServer,
    /// Found under the rules of 2025-03-26, which have no `resource` and do not ask for PKCE in the metadata.
    pub legacy: bool,
}

/// What the caller is to do.
#[derive(Debug)]
pub enum Step {
    /// Send a GET there, with `Accept: application/json`, and pass the answer to [`Discovery::answer`].
    Get(Url),
    /// All is known.
    Done(Box<Discovered>),
}

/// An answer, as far as discovery looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status.
    pub status: StatusCode,
    /// `Location`, for redirects.
    pub location: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// Choices of the owner.
#[derive(Debug, Clone, Copy)]
pub struct DiscoveryOptions<'a> {
    /// Issuers to take if the server names several: those with a configured client or with stored credentials.
    pub preferred: &'a [String],
    /// Whether a server without resource metadata is treated by the rules of 2025-03-26.
    pub legacy: bool,
    /// Which addresses may be asked.
    pub policy: AddressPolicy,
}

#[derive(Debug)]
enum Phase {
    Resource { named: bool },
    Server { issuer: String },
    Legacy,
}

/// The machine. Drive it with [`step`](Self::step) and [`answer`](Self::answer); it ends after at most 6 documents with 3 redirects each.
#[derive(Debug)]
pub struct Discovery {
    server: Url,
    preferred: Vec<String>,
    legacy: bool,
    policy: AddressPolicy,
    wants_dpop: bool,
    phase: Phase,
    candidates: VecDeque<Url>,
    redirects: u8,
    resource: Option<ProtectedResource>,
    done: Option<Box<Discovered>>,
}

impl Discovery {
    /// Begins, with what the challenge said.
    ///
    /// # Errors
    /// [`Error::Address`] if the challenge names an address that may not be asked.
    pub fn new(server: &Url, hints: &Hints, options: DiscoveryOptions<'_>) -> Result<Self, Error> {
        let (candidates, named) = match &hints.resource_metadata {
            Some(address) => (VecDeque::from([options.policy.check(address)?]), true),
            None => (resource_metadata_urls(server).into(), false),
        };
        Ok(Self {
            server: server.clone(),
            preferred: options.preferred.to_vec(),
            legacy: options.legacy,
            policy: options.policy,
            wants_dpop: hints.dpop,
            phase: Phase::Resource { named },
            candidates,
            redirects: 0,
            resource: None,
            done: None,
        })
    }

    /// What to do now.
    ///
    /// # Errors
    /// [`Error::Discovery`] when there is nothing left to ask.
    pub fn step(&mut self) -> Result<Step, Error> {
        loop {
            if let Some(done) = self.done.take() {
                return Ok(Step::Done(done));
            }
            if let Some(url) = self.candidates.front() {
                return Ok(Step::Get(url.clone()));
            }
            match &self.phase {
                Phase::Resource { .. } if self.legacy => self.begin_legacy(),
                Phase::Resource { .. } => {
                    return Err(Error::Discovery(format!(
                        "{} asks for authorization but does not say where: it has no protected resource metadata (RFC 9728)",
                        shown(&self.server)
                    )));
                }
                Phase::Server { issuer } => {
                    return Err(Error::Discovery(format!(
                        "the authorization server {issuer} has no metadata, neither RFC 8414 nor OpenID Connect"
                    )));
                }
                Phase::Legacy => {
                    let server = default_endpoints(&self.server);
                    self.finish(server, true);
                }
            }
        }
    }

    /// Takes the answer to the address of the last [`Step::Get`]. Statuses below 500 that are not a document mean: not there, try the next.
    ///
    /// # Errors
    /// Server errors (nothing may be concluded from them, least of all an older rule), documents that fail a check.
    pub fn answer(&mut self, answer: Answer<'_>) -> Result<(), Error> {
        let Some(url) = self.candidates.pop_front() else { return Ok(()) };
        check_health(&url, answer.status)?;
        if answer.status.is_redirection() {
            return self.redirected(&url, answer.location);
        }
        self.redirects = 0;
        if answer.status != StatusCode::OK {
            return Ok(());
        }
        match &self.phase {
            Phase::Resource { named } => match serde_json::from_slice::<ProtectedResource>(answer.body) {
                Ok(resource) => self.resource_found(resource),
                // Servers of web pages answer every path with a page; the address in a challenge is meant.
                Err(error) if *named => Err(malformed(&url, &error)),
                Err(_) => Ok(()),
            },
            Phase::Server { issuer } => {
                let Ok(server) = serde_json::from_slice::<AuthorizationServer>(answer.body) else {
                    return Ok(());
                };
                if server.issuer != *issuer {
                    return Err(Error::IssuerMismatch {
                        expected: issuer.clone(),
                        found: printable(&server.issuer),
                    });
                }
                self.finish(server, false);
                Ok(())
            }
            Phase::Legacy => {
                let Ok(server) = serde_json::from_slice::<AuthorizationServer>(answer.body) else {
                    return Ok(());
                };
                // No issuer was named, so there is none to compare with; but it has to be one of this origin.
                let expected = origin(&self.server);
                if Url::parse(&server.issuer).map(|issuer| origin(&issuer)).ok().as_ref() != Some(&expected) {
                    return Err(Error::IssuerMismatch { expected, found: printable(&server.issuer) });
                }
                self.finish(server, true);
                Ok(())
            }
        }
    }

    fn redirected(&mut self, from: &Url, location: Option<&str>) -> Result<(), Error> {
        self.redirects += 1;
        let Some(target) = location.and_then(|l| from.join(l).ok()) else { return Ok(()) };
        if self.redirects > MAX_REDIRECTS {
            return Err(Error::Discovery(format!(
                "{} redirects more than {MAX_REDIRECTS} times",
                shown(from)
            )));
        }
        if from.scheme() == "https" && target.scheme() != "https" {
            return Err(Error::Address {
                url: shown(&target),
                reason: "a redirect from https to http is not followed",
            });
        }
        self.candidates.push_front(self.policy.check(target.as_str())?);
        Ok(())
    }

    fn resource_found(&mut self, resource: ProtectedResource) -> Result<(), Error> {
        check_resource(&resource.resource, &self.server)?;
        self.wants_dpop |= resource.dpop_bound_access_tokens_required
            || resource.dpop_signing_alg_values_supported.is_some();
        let named = &resource.authorization_servers;
        let issuer =
            self.preferred.iter().find(|issuer| named.contains(issuer)).or_else(|| named.first()).cloned();
        self.resource = Some(resource);
        let Some(issuer) = issuer else {
            if self.legacy {
                self.begin_legacy();
                return Ok(());
            }
            return Err(Error::Discovery(format!(
                "the metadata of {} names no authorization server",
                shown(&self.server)
            )));
        };
        let base = self.policy.check(&issuer)?;
        if base.query().is_some() {
            return Err(Error::Address { url: printable(&issuer), reason: "an issuer has no query" });
        }
        self.candidates = server_metadata_urls(&base).into();
        self.phase = Phase::Server { issuer };
        Ok(())
    }

    fn begin_legacy(&mut self) {
        let mut base = self.server.clone();
        base.set_path("");
        base.set_query(None);
        self.candidates = server_metadata_urls(&base).into();
        self.phase = Phase::Legacy;
    }

    fn finish(&mut self, server: AuthorizationServer, legacy: bool) {
        let resource = self.resource.take();
        self.candidates.clear();
        self.done = Some(Box::new(Discovered {
            scopes_supported: resource.as_ref().and_then(|r| r.scopes_supported.clone()).unwrap_or_default(),
            resource: resource.map(|r| r.resource),
            wants_dpop: self.wants_dpop,
            server,
            legacy,
        }));
    }
}

fn malformed(url: &Url, error: &serde_json::Error) -> Error {
    Error::Malformed { url: shown(url), what: format!("something else than metadata: {error}") }
}

fn well_known(base: &Url, name: &str, path: &str) -> Url {
    let mut url = base.clone();
    url.set_fragment(None);
    url.set_query(None);
    url.set_path(&format!("/.well-known/{name}{path}"));
    url
}

/// Where the metadata of a resource may be, in order (RFC 9728 3.1): with the path of the server, then at the root.
#[must_use]
pub fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut with_path = well_known(server, "oauth-protected-resource", path);
    with_path.set_query(server.query());
    let root = well_known(server, "oauth-protected-resource", "");
    if with_path == root { vec![root] } else { vec![with_path, root] }
}

/// Where the metadata of an authorization server may be, in order (RFC 8414 3.1 and 5, `OpenID` Connect Discovery 4).
#[must_use]
pub fn server_metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut urls = vec![
        well_known(issuer, "oauth-authorization-server", path),
        well_known(issuer, "openid-configuration", path),
    ];
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        urls.push(appended);
    }
    urls
}

/// The endpoints of a server without any metadata (MCP 2025-03-26).
#[must_use]
pub fn default_endpoints(server: &Url) -> AuthorizationServer {
    let issuer = origin(server);
    AuthorizationServer {
        authorization_endpoint: Some(format!("{issuer}/authorize")),
        token_endpoint: Some(format!("{issuer}/token")),
        registration_endpoint: Some(format!("{issuer}/register")),
        issuer,
        ..AuthorizationServer::default()
    }
}

/// Whether metadata for `resource` is metadata for `server`: the same origin, and the server's path at or below the resource's.
/// (RFC 9728 3.3 wants the very same address; metadata at the root is for all of an origin, and MCP allows it.)
///
/// # Errors
/// [`Error::ResourceMismatch`].
pub fn check_resource(resource: &str, server: &Url) -> Result<(), Error> {
    let covers = |r: &Url| {
        let base = r.path().trim_end_matches('/');
        let below =
            server.path().strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        r.origin() == server.origin()
            && below
            && (r.query().is_none() || r.query() == server.query())
            && r.fragment().is_none()
    };
    if Url::parse(resource).is_ok_and(|r| covers(&r)) {
        return Ok(());
    }
    Err(Error::ResourceMismatch { resource: printable(resource), server: shown(server) })
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
