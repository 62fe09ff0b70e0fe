//! What the owner decides.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use oauth2::url::Url;
use serde_json::{Map, Value};

use crate::client::Preregistered;
use crate::error::Error;
use crate::secret::Secret;

/// How tokens for one MCP server are got. Made with [`new`](Self::new), which sets what most want; all members may be changed.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the MCP server. `https`, or `http` on this machine, or what [`allow_http`](Self::allow_http) adds.
    pub server: Url,
    /// Which grant.
    pub grant: Grant,
    /// The name that people see where they say yes. `Bowline`.
    pub client_name: String,
    /// Further members of a dynamic registration (RFC 7591 2), which take the place of ours. None.
    pub registration: Map<String, Value>,
    /// Scopes to ask for where the server does not name any in its challenge. None: what its metadata lists.
    pub scopes: Vec<String>,
    /// Ask for `offline_access` where the authorization server lists it, so that people log in rarely. True.
    pub offline: bool,
    /// Send `resource` (RFC 8707). True; a few authorization servers fail on it.
    pub send_resource: bool,
    /// The value of `resource`, where it is not the one of the server's metadata: for one server that serves several tenants. Tokens
    /// are kept apart by it. None.
    pub resource: Option<String>,
    /// Treat servers without resource metadata by the rules of 2025-03-26. True.
    pub legacy: bool,
    /// Accept `http` for other machines: for test networks. False.
    pub allow_http: bool,
    /// Bind tokens to a key (RFC 9449) where the server wants that and the authorization server can. True.
    pub dpop: bool,
    /// The MCP revision to name when metadata is fetched (`MCP-Protocol-Version`), if any.
    pub protocol_version: Option<String>,
    /// How long a person may take. 5 minutes.
    pub login_deadline: Duration,
    /// How long a failure counts for all who come after it, so that nothing asks again in a loop. 30 seconds.
    pub cooldown: Duration,
    /// New tokens in a row that a server may refuse. 3.
    pub max_attempts: u32,
    /// Seconds since 1970.
    pub clock: fn() -> u64,
}

impl Config {
    /// A login by a person, with what most want.
    #[must_use]
    pub fn new(server: Url) -> Self {
        Self {
            server,
            grant: Grant::Login { client: None, document: None },
            client_name: "Bowline".into(),
            registration: Map::new(),
            scopes: Vec::new(),
            offline: true,
            send_resource: true,
            resource: None,
            legacy: true,
            allow_http: false,
            dpop: true,
            protocol_version: None,
            login_deadline: Duration::from_secs(300),
            cooldown: Duration::from_secs(30),
            max_attempts: 3,
            clock: system_clock,
        }
    }
}

fn system_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The grant that tokens come from.
#[derive(Debug, Clone)]
pub enum Grant {
    /// A person says yes in a browser (authorization code with PKCE).
    Login {
        /// A client that was registered beforehand.
        client: Option<Preregistered>,
        /// The address of a client id metadata document; used where the authorization server knows them.
        document: Option<String>,
    },
    /// The client acts for itself, with a secret or a key.
    ClientCredentials(Preregistered),
    /// A workload shows the token that its platform gave it (RFC 7523). Not tried again and nothing else is tried when it is refused.
    Workload {
        /// The client id, if the authorization server wants one.
        client_id: Option<String>,
        /// Where the token comes from.
        assertion: Arc<dyn Assertions>,
    },
    /// An identity provider vouches for the person (enterprise-managed authorization, ID-JAG).
    Enterprise {
        /// The client at the MCP server's authorization server.
        client: Preregistered,
        /// Who vouches.
        provider: IdentityProvider,
    },
}

/// The identity provider of a company.
#[derive(Debug, Clone)]
pub struct IdentityProvider {
    /// Its issuer.
    pub issuer: String,
    /// Its token endpoint; found by discovery where none is given.
    pub token_endpoint: Option<String>,
    /// The client id there.
    pub client_id: String,
    /// The secret there, if it wants one.
    pub client_secret: Option<Secret>,
    /// Where the person's identity token comes from.
    pub subject: Arc<dyn Assertions>,
    /// What kind of token that is; see [`ID_TOKEN`].
    pub subject_kind: String,
}

/// The kind of an `OpenID` Connect identity token.
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// Where a token that somebody else issued comes from.
pub trait Assertions: fmt::Debug + Send + Sync + 'static {
    /// The token to show to `audience` (an issuer). Called for every request for an access token, since these tokens are short-lived.
    fn token<'a>(&'a self, audience: &'a str) -> BoxFuture<'a, Result<Secret, Error>>;
}

/// Always the same token.
#[derive(Debug, Clone)]
pub struct FixedAssertion(pub Secret);

impl Assertions for FixedAssertion {
    fn token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Secret, Error>> {
        Box::pin(async move { Ok(self.0.clone()) })
    }
}

/// The token in a file that a platform renews (as Kubernetes does with projected service account tokens); read each time, at most 64 KiB.
#[derive(Debug, Clone)]
pub struct AssertionFile(pub PathBuf);

impl Assertions for AssertionFile {
    fn token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Secret, Error>> {
        Box::pin(async move {
            use tokio::io::AsyncReadExt as _;
            let failed = |reason: &dyn fmt::Display| {
                Error::Config(format!("no token in {}: {reason}", self.0.display()))
            };
            let file = tokio::fs::File::open(&self.0).await.map_err(|error| failed(&error))?;
            let mut text = String::new();
            file.take(64 * 1024).read_to_string(&mut text).await.map_err(|error| failed(&error))?;
            match text.trim() {
                "" => Err(failed(&"the file is empty")),
                token => Ok(Secret::new(token)),
            }
        })
    }
}
