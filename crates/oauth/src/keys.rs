//! Signing: proofs of possession (RFC 9449) and assertions of a client (RFC 7523 2.2).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use oauth2::url::Url;
use serde::Serialize;

use crate::error::Error;
use crate::secret::Secret;

/// Seconds that an assertion of a client is valid.
const ASSERTION_LIFETIME: u64 = 300;

/// Chooses aws-lc-rs for `jsonwebtoken` in this process, unless the program has chosen already.
fn choose_provider() {
    // An error means that there is a choice already, which is the program's right.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

/// SHA-256 in the URL alphabet of base64.
pub(crate) fn sha256(data: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, data))
}

/// A P-256 key whose possession is proved with every request (`ES256`).
#[derive(Clone, Debug)]
pub struct ProofKey {
    pkcs8: Secret,
    key: EncodingKey,
    public: Jwk,
}

#[derive(Serialize)]
struct ProofClaims<'a> {
    jti: Secret,
    htm: &'a str,
    htu: String,
    iat: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ath: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

impl ProofKey {
    /// A new key.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> Result<Self, Error> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| Error::Key("no key for proofs (DPoP) could be made".into()))?;
        Self::from_pkcs8(&Secret::new(URL_SAFE_NO_PAD.encode(document.as_ref())))
    }

    /// The key from what [`to_pkcs8`](Self::to_pkcs8) returned.
    ///
    /// # Errors
    /// [`Error::Key`] if it is no P-256 key.
    pub fn from_pkcs8(pkcs8: &Secret) -> Result<Self, Error> {
        choose_provider();
        let bad = || Error::Key("the stored key for proofs (DPoP) cannot be used; log in again".into());
        let der = URL_SAFE_NO_PAD.decode(pkcs8.expose()).map_err(|_| bad())?;
        let key = EncodingKey::from_ec_der(&der);
        let mut public = Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|_| bad())?;
        public.common.key_algorithm = None;
        Ok(Self { pkcs8: pkcs8.clone(), key, public })
    }

    /// The private key (PKCS #8, base64), to be stored beside the tokens that are bound to it.
    #[must_use]
    pub const fn to_pkcs8(&self) -> &Secret {
        &self.pkcs8
    }

    /// The thumbprint that authorization servers know the key by (RFC 7638).
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn thumbprint(&self) -> Result<String, Error> {
        self.public
            .thumbprint(ThumbprintHash::SHA256)
            .map_err(|error| Error::Key(format!("no thumbprint of the key for proofs: {error}")))
    }

    /// A proof for one request: never the same twice. `nonce` is the one that this server gave last, `token` the one sent along.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn proof(
        &self,
        method: &http::Method,
        url: &Url,
        nonce: Option<&str>,
        token: Option<&Secret>,
        now: u64,
    ) -> Result<String, Error> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("dpop+jwt".into());
        header.jwk = Some(self.public.clone());
        let claims = ProofClaims {
            jti: Secret::random()?,
            htm: method.as_str(),
            htu: crate::address::shown(url),
            iat: now,
            ath: token.map(|token| sha256(token.expose().as_bytes())),
            nonce,
        };
        encode(&header, &claims, &self.key)
            .map_err(|error| Error::Key(format!("no proof (DPoP) could be signed: {error}")))
    }
}

/// A client's own key for `private_key_jwt`.
#[derive(Clone, Debug)]
pub struct ClientKey {
    key: EncodingKey,
    algorithm: Algorithm,
    key_id: Option<String>,
}

#[derive(Serialize)]
struct AssertionClaims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: Secret,
}

impl ClientKey {
    /// Reads a PEM file's text: PKCS #8, for `algorithm` one of `ES256`, `ES384`, `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `EdDSA`.
    ///
    /// # Errors
    /// [`Error::Key`] if the algorithm is none of those or the key is not for it.
    pub fn from_pem(pem: &Secret, algorithm: &str, key_id: Option<String>) -> Result<Self, Error> {
        choose_provider();
        let bytes = pem.expose().as_bytes();
        let (algorithm, key) = match algorithm {
            "ES256" => (Algorithm::ES256, EncodingKey::from_ec_pem(bytes)),
            "ES384" => (Algorithm::ES384, EncodingKey::from_ec_pem(bytes)),
            "RS256" => (Algorithm::RS256, EncodingKey::from_rsa_pem(bytes)),
            "RS384" => (Algorithm::RS384, EncodingKey::from_rsa_pem(bytes)),
            "RS512" => (Algorithm::RS512, EncodingKey::from_rsa_pem(bytes)),
            "PS256" => (Algorithm::PS256, EncodingKey::from_rsa_pem(bytes)),
            "PS384" => (Algorithm::PS384, EncodingKey::from_rsa_pem(bytes)),
            "PS512" => (Algorithm::PS512, EncodingKey::from_rsa_pem(bytes)),
            "EdDSA" => (Algorithm::EdDSA, EncodingKey::from_ed_pem(bytes)),
            other => {
                return Err(Error::Key(format!(
                    "no client assertion can be signed with {other:?}: use e.g. ES256"
                )));
            }
        };
        let key = key.map_err(|error| {
            Error::Key(format!("the client's private key is not a PKCS #8 key for {algorithm:?}: {error}"))
        })?;
        Ok(Self { key, algorithm, key_id })
    }

    /// An assertion that this is the client, for one authorization server, valid for 5 minutes.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn assertion(&self, client_id: &str, audience: &str, now: u64) -> Result<Secret, Error> {
        let mut header = Header::new(self.algorithm);
        header.kid.clone_from(&self.key_id);
        let claims = AssertionClaims {
            iss: client_id,
            sub: client_id,
            aud: audience,
            iat: now,
            exp: now + ASSERTION_LIFETIME,
            jti: Secret::random()?,
        };
        encode(&header, &claims, &self.key)
            .map(Secret::new)
            .map_err(|error| Error::Key(format!("no client assertion could be signed: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
    use serde_json::Value;

    use super::*;

    fn open(proof: &str) -> (Header, Value) {
        let header = decode_header(proof).unwrap();
        let key = DecodingKey::from_jwk(header.jwk.as_ref().unwrap()).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        let claims = decode::<Value>(proof, &key, &validation).unwrap().claims;
        (header, claims)
    }

    #[test]
    fn a_proof_proves_its_request() {
        let key = ProofKey::generate().unwrap();
        let url = Url::parse("https://a.b/t?x=1#f").unwrap();
        let token = Secret::new("tok");
        let (header, claims) =
            open(&key.proof(&http::Method::POST, &url, Some("n"), Some(&token), 17).unwrap());
        assert_eq!(header.typ.as_deref(), Some("dpop+jwt"));
        assert_eq!(
            (&claims["htm"], &claims["htu"], &claims["iat"], &claims["nonce"]),
            (&"POST".into(), &"https://a.b/t".into(), &17.into(), &"n".into())
        );
        assert_eq!(claims["ath"], sha256(b"tok"));
        let again = key.proof(&http::Method::POST, &url, None, None, 17).unwrap();
        let (_, other) = open(&again);
        assert_ne!(claims["jti"], other["jti"]);
        assert!(other.get("ath").is_none() && other.get("nonce").is_none());
        let public = serde_json::to_value(header.jwk.unwrap()).unwrap();
        assert!(public.get("d").is_none(), "the private part must not be in a proof");
    }

    #[test]
    fn a_key_survives_storage() {
        let key = ProofKey::generate().unwrap();
        let again = ProofKey::from_pkcs8(key.to_pkcs8()).unwrap();
        assert_eq!(key.public, again.public);
        assert!(ProofKey::from_pkcs8(&Secret::new("bm9uc2Vuc2U")).is_err());
        assert!(!format!("{key:?}").contains(key.to_pkcs8().expose()));
    }

    #[test]
    fn bad_client_keys_are_errors() {
        assert!(ClientKey::from_pem(&"no pem".into(), "ES256", None).is_err());
        assert!(ClientKey::from_pem(&"no pem".into(), "HS256", None).is_err());
    }
}
