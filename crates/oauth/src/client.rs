//! Who this client is at an authorization server: chosen, registered, and proved at the token endpoint. No IO.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oauth2::url::form_urlencoded;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, printable};
use crate::keys::ClientKey;
use crate::metadata::AuthorizationServer;
use crate::secret::Secret;

/// How a client proves who it is (RFC 6749 2.3, RFC 7523 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// Not at all: a public client, with PKCE.
    None,
    /// `Authorization: Basic`.
    ClientSecretBasic,
    /// In the body.
    ClientSecretPost,
    /// With an assertion signed by its key.
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The name in metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt]
            .into_iter()
            .find(|m| m.name() == name)
    }
}

/// A client that was registered beforehand, outside of this program.
#[derive(Debug, Clone)]
pub struct Preregistered {
    /// The client id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<Secret>,
    /// Its private key, for `private_key_jwt`; takes the place of the secret.
    pub key: Option<ClientKey>,
    /// The issuer that it was registered with. Where none is given, the id is used with whichever authorization server the MCP server
    /// names first, and with that one only (it is remembered while the program runs).
    pub issuer: Option<String>,
    /// How it proves who it is; chosen by the server's metadata where none is given.
    pub method: Option<AuthMethod>,
}

/// A client as it stands at one authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The client id.
    pub id: String,
    /// The secret, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// How it proves who it is.
    pub method: AuthMethod,
    /// The redirect address that it was registered with (dynamic registration only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// When the secret ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<u64>,
}

/// How a client id is come by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// There is one: use it.
    Use(Client),
    /// Register at this endpoint.
    Register(String),
}

/// Chooses in the order of MCP 2026-07-28 (client registration): pre-registered, metadata document, stored or new dynamic registration.
///
/// `redirect_uri` is what the login will use: a stored registration for another one is of no use. None for grants without a login.
///
/// # Errors
/// [`Error::ForeignClient`], [`Error::Registration`].
pub fn choose(
    preregistered: Option<&Preregistered>,
    document: Option<&str>,
    stored: Option<&Client>,
    server: &AuthorizationServer,
    redirect_uri: Option<&str>,
    now: u64,
) -> Result<Choice, Error> {
    if let Some(known) = preregistered {
        if let Some(registered) = known.issuer.as_ref().filter(|issuer| **issuer != server.issuer) {
            return Err(Error::ForeignClient {
                registered: registered.clone(),
                found: server.issuer.clone(),
            });
        }
        let method =
            known.method.unwrap_or_else(|| method_for(known.secret.is_some(), known.key.is_some(), server));
        let secret = known.secret.clone();
        return Ok(Choice::Use(Client {
            id: known.id.clone(),
            secret,
            method,
            redirect_uri: None,
            secret_expires_at: None,
        }));
    }
    if let Some(document) = document.filter(|_| server.client_id_metadata_document_supported) {
        let id = document.to_owned();
        return Ok(Choice::Use(Client {
            id,
            secret: None,
            method: AuthMethod::None,
            redirect_uri: None,
            secret_expires_at: None,
        }));
    }
    let usable = |client: &&Client| {
        let alive = client.secret_expires_at.is_none_or(|end| end > now);
        alive && (redirect_uri.is_none() || redirect_uri == client.redirect_uri.as_deref())
    };
    if let Some(client) = stored.filter(usable) {
        return Ok(Choice::Use(client.clone()));
    }
    server.registration_endpoint.clone().map(Choice::Register).ok_or_else(|| {
        Error::Registration(format!(
            "the authorization server {} registers no clients by itself: register one there, and configure its client id",
            server.issuer
        ))
    })
}

/// The method for a client with or without a secret or a key, of those that the server lists (by default `client_secret_basic`).
fn method_for(secret: bool, key: bool, server: &AuthorizationServer) -> AuthMethod {
    if key {
        return AuthMethod::PrivateKeyJwt;
    }
    if !secret {
        return AuthMethod::None;
    }
    let lists = |method: AuthMethod| {
        server
            .token_endpoint_auth_methods_supported
            .as_deref()
            .is_some_and(|list| list.iter().any(|name| name == method.name()))
    };
    if !lists(AuthMethod::ClientSecretBasic) && lists(AuthMethod::ClientSecretPost) {
        AuthMethod::ClientSecretPost
    } else {
        AuthMethod::ClientSecretBasic
    }
}

/// The method to register for: a public client if that is possible, since a secret on a person's machine is none.
fn method_to_register(server: &AuthorizationServer) -> AuthMethod {
    let Some(listed) = server.token_endpoint_auth_methods_supported.as_deref() else {
        return AuthMethod::None;
    };
    [AuthMethod::None, AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost]
        .into_iter()
        .find(|method| listed.iter().any(|name| name == method.name()))
        .unwrap_or(AuthMethod::None)
}

/// The body of a registration (RFC 7591 2). `extra` are members of the owner, which take the place of ours, but for the redirect address.
#[must_use]
pub fn registration_request(
    extra: &Map<String, Value>,

    name: &str,
    redirect_uri: &str,
    scopes: &[String],
    server: &AuthorizationServer,
) -> Value {
    let mut body = json!({
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method_to_register(server).name(),
        // OpenID Connect Registration: without this a redirect to this machine may be refused.
        "application_type": "native",
    });
    if !scopes.is_empty() {
        body["scope"] = scopes.join(" ").into();
    }
    for (name, value) in extra.iter().filter(|(name, _)| *name != "redirect_uris") {
        body[name] = value.clone();
    }
    body
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<Secret>,
    #[serde(default)]
    client_secret_expires_at: Option<u64>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

/// Reads the answer to a registration.
///
/// # Errors
/// [`Error::Registration`] if it is none, or if the server wants a method that this client cannot use.
pub fn registered(body: &[u8], redirect_uri: &str, server: &AuthorizationServer) -> Result<Client, Error> {
    let failed = |why: String| {
        Error::Registration(format!("the registration at {} did not work: {why}", server.issuer))
    };
    let answer: Registered = serde_json::from_slice(body)
        .map_err(|error| failed(format!("its answer is no registration ({error})")))?;
    let method = match answer.token_endpoint_auth_method.as_deref() {
        Some(name) => match (AuthMethod::from_name(name), &answer.client_secret) {
            (Some(AuthMethod::None), _) => AuthMethod::None,
            (Some(method @ (AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost)), Some(_)) => {
                method
            }
            (Some(AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost), None) => AuthMethod::None,
            _ => return Err(failed(format!("it wants {:?} at its token endpoint", printable(name)))),
        },
        None if answer.client_secret.is_none() => AuthMethod::None,
        None => method_to_register(server),
    };
    Ok(Client {
        id: answer.client_id,
        secret: answer.client_secret.filter(|_| method != AuthMethod::None),
        method,
        redirect_uri: Some(redirect_uri.to_owned()),
        secret_expires_at: answer.client_secret_expires_at.filter(|end| *end != 0),
    })
}

/// Proof of who the client is: a header, and form fields.
#[derive(Debug, Default)]
pub struct ClientProof {
    /// The value of `Authorization`.
    pub authorization: Option<Secret>,
    /// Fields of the form.
    pub fields: Vec<(&'static str, Secret)>,
}

impl Client {
    /// The proof for a request to the token endpoint of `issuer`.
    ///
    /// # Errors
    /// [`Error::Config`] if the secret or the key that the method needs is not there; [`Error::Key`].
    pub fn prove(&self, key: Option<&ClientKey>, issuer: &str, now: u64) -> Result<ClientProof, Error> {
        let missing = |what| {
            Error::Config(format!(
                "the client {} has no {what}, but the method {} needs one",
                self.id,
                self.method.name()
            ))
        };
        let id = || ("client_id", Secret::new(self.id.clone()));
        let mut proof = ClientProof::default();
        match self.method {
            AuthMethod::None => proof.fields.push(id()),
            AuthMethod::ClientSecretPost => {
                let secret = self.secret.clone().ok_or_else(|| missing("secret"))?;
                proof.fields.extend([id(), ("client_secret", secret)]);
            }
            AuthMethod::ClientSecretBasic => {
                let secret = self.secret.as_ref().ok_or_else(|| missing("secret"))?;
                // RFC 6749 2.3.1: both are form-encoded before they are joined.
                let encode =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encode(&self.id), encode(secret.expose()));
                proof.authorization = Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))));
            }
            AuthMethod::PrivateKeyJwt => {
                let assertion =
                    key.ok_or_else(|| missing("private key"))?.assertion(&self.id, issuer, now)?;
                let kind = Secret::new("urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                proof.fields.extend([("client_assertion_type", kind), ("client_assertion", assertion)]);
            }
        }
        Ok(proof)
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
