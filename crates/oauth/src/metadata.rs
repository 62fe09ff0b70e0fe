//! The documents of discovery, as far as they are used. Unknown members are ignored; the size of a document is bounded by the fetch.

use serde::Deserialize;

/// Metadata of a protected resource (RFC 9728 2).
#[derive(Debug, Clone, Deserialize)]
pub struct ProtectedResource {
    /// The resource identifier, byte for byte: it is what goes into `resource`.
    pub resource: String,
    /// Issuers of the authorization servers.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// The scopes for basic use.
    #[serde(default)]
    pub scopes_supported: Option<Vec<String>>,
    /// Whether only sender-constrained tokens are taken.
    #[serde(default)]
    pub dpop_bound_access_tokens_required: bool,
    /// Algorithms for proofs (RFC 9449).
    #[serde(default)]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
}

/// Metadata of an authorization server (RFC 8414 2, `OpenID` Connect Discovery 3).
#[derive(Debug, Clone, Default, Deserialize)]
pub struct AuthorizationServer {
    /// The issuer, byte for byte: it keys credentials and is compared with `iss`.
    pub issuer: String,
    /// Where a person says yes.
    #[serde(default)]
    pub authorization_endpoint: Option<String>,
    /// Where tokens come from.
    #[serde(default)]
    pub token_endpoint: Option<String>,
    /// Dynamic registration (RFC 7591).
    #[serde(default)]
    pub registration_endpoint: Option<String>,
    /// All scopes that it knows; looked at for `offline_access` alone.
    #[serde(default)]
    pub scopes_supported: Option<Vec<String>>,
    /// PKCE (RFC 7636).
    #[serde(default)]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// How clients prove who they are at the token endpoint.
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// RFC 9207: whether every answer of the authorization endpoint has `iss`.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    /// Whether a client id may be the address of a document.
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    /// Algorithms for proofs (RFC 9449 5.1).
    #[serde(default)]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl AuthorizationServer {
    /// Whether it takes proofs with the algorithm that this crate signs with.
    #[must_use]
    pub fn takes_es256_proofs(&self) -> bool {
        self.dpop_signing_alg_values_supported
            .as_deref()
            .is_some_and(|algs| algs.iter().any(|alg| alg == "ES256"))
    }

    /// Whether it lists `scope`.
    #[must_use]
    pub fn lists_scope(&self, scope: &str) -> bool {
        self.scopes_supported.as_deref().is_some_and(|scopes| scopes.iter().any(|s| s == scope))
    }
}
