//! Tokens, and the requests and answers of a token endpoint. No IO.

use http::StatusCode;
use oauth2::TokenResponse as _;
use oauth2::basic::{BasicErrorResponse, BasicTokenResponse};
use serde::{Deserialize, Serialize};

use crate::error::{Error, printable};
use crate::secret::Secret;

/// How a token is presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Whoever has it may use it (RFC 6750).
    Bearer,
    /// Whoever has its key may use it (RFC 9449).
    Dpop,
}

impl TokenKind {
    /// The scheme of `Authorization`.
    #[must_use]
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// An access token with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The access token.
    pub access: Secret,
    /// How it is presented.
    pub kind: TokenKind,
    /// When it was issued, in seconds since 1970.
    #[serde(default)]
    pub issued_at: u64,
    /// When it ends, in seconds since 1970, if the server said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// The scopes that it has: what the server said, else what was asked for.
    #[serde(default)]
    pub granted: Vec<String>,
    /// The scopes that were asked for.
    #[serde(default)]
    pub requested: Vec<String>,
    /// The client that it was issued to: its refresh token is of use to no other.
    pub client_id: String,
}

impl Token {
    /// Whether it has ended by `now`.
    #[must_use]
    pub fn has_ended(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether each of `scopes` was granted, or asked for when it was issued (servers may grant under other names).
    #[must_use]
    pub fn was_asked_for(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.granted.contains(scope) || self.requested.contains(scope))
    }

    /// Whether it is time to get the next one: 30 seconds before the end, or for the last quarter of a short life.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| {
            let margin = (end.saturating_sub(self.issued_at) / 4).min(30);
            end.saturating_sub(margin) <= now
        })
    }
}

/// The grants that ask for tokens.
#[derive(Debug, Clone)]
pub enum GrantRequest {
    /// RFC 6749 4.1.3 with RFC 7636 4.5.
    Code {
        /// The code.
        code: Secret,
        /// The redirect address of the authorization request.
        redirect_uri: String,
        /// The PKCE verifier.
        verifier: Secret,
    },
    /// RFC 6749 6.
    Refresh(Secret),
    /// RFC 6749 4.4.
    ClientCredentials,
    /// RFC 7523 2.1: of a workload, or an ID-JAG of an identity provider.
    JwtBearer(Secret),
    /// RFC 8693 2.1, for an ID-JAG.
    Exchange {
        /// The proof of who the person is.
        subject: Secret,
        /// What kind of token that is.
        subject_kind: String,
        /// The issuer of the authorization server that the grant is for.
        audience: String,
    },
}

impl GrantRequest {
    /// The fields of the form, without those of the client, the resource and the scopes.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Secret)> {
        match self {
            Self::Code { code, redirect_uri, verifier } => vec![
                ("grant_type", "authorization_code".into()),
                ("code", code.clone()),
                ("redirect_uri", redirect_uri.as_str().into()),
                ("code_verifier", verifier.clone()),
            ],
            Self::Refresh(token) => {
                vec![("grant_type", "refresh_token".into()), ("refresh_token", token.clone())]
            }
            Self::ClientCredentials => vec![("grant_type", "client_credentials".into())],
            Self::JwtBearer(assertion) => {
                vec![
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".into()),
                    ("assertion", assertion.clone()),
                ]
            }
            Self::Exchange { subject, subject_kind, audience } => vec![
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange".into()),
                ("requested_token_type", ID_JAG.into()),
                ("audience", audience.as_str().into()),
                ("subject_token", subject.clone()),
                ("subject_token_type", subject_kind.as_str().into()),
            ],
        }
    }

    /// Whether the scopes go along. Not with a code (they are in it) nor with a refresh (they stay).
    #[must_use]
    pub const fn takes_scopes(&self) -> bool {
        matches!(self, Self::ClientCredentials | Self::JwtBearer(_) | Self::Exchange { .. })
    }
}

/// The type of an identity assertion authorization grant.
pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// What a token endpoint answered.
#[derive(Debug)]
pub enum TokenAnswer {
    /// A token.
    Token(Box<BasicTokenResponse>),
    /// RFC 9449 8: ask again with the nonce of the answer.
    UseNonce,
}

/// Reads the answer of a token endpoint.
///
/// # Errors
/// [`Error::Refused`] with its code; [`Error::Malformed`].
pub fn read(url: &str, issuer: &str, status: StatusCode, body: &[u8]) -> Result<TokenAnswer, Error> {
    let malformed = |what: String| Error::Malformed { url: url.to_owned(), what };
    if status.is_success() {
        return match serde_json::from_slice::<BasicTokenResponse>(body) {
            Ok(response) if response.access_token().secret().is_empty() => {
                Err(malformed("an empty token".into()))
            }
            Ok(response) => Ok(TokenAnswer::Token(Box::new(response))),
            // Some servers answer 200 with an error in it. The text of serde names the position, not the content.
            Err(error) => {
                Err(refusal(issuer, body).unwrap_or_else(|| malformed(format!("no token ({error})"))))
            }
        };
    }
    match refusal(issuer, body) {
        Some(refusal) if refusal.refused_with("use_dpop_nonce") => Ok(TokenAnswer::UseNonce),
        Some(refusal) => Err(refusal),
        None => Err(malformed(format!("{} without an error that OAuth knows", status.as_u16()))),
    }
}

fn refusal(issuer: &str, body: &[u8]) -> Option<Error> {
    let response: BasicErrorResponse = serde_json::from_slice(body).ok()?;
    Some(Error::Refused {
        issuer: issuer.to_owned(),
        error: printable(response.error().as_ref()),
        description: response.error_description().map(|text| printable(text)),
    })
}

/// Makes a [`Token`] of an answer.
///
/// # Errors
/// [`Error::Malformed`] if the token is of a kind that cannot be presented.
pub fn token(
    response: &BasicTokenResponse,
    url: &str,
    requested: Vec<String>,
    before: Option<&Token>,
    client_id: &str,
    now: u64,
) -> Result<Token, Error> {
    let kind = match response.token_type().as_ref().to_ascii_lowercase().as_str() {
        "bearer" => TokenKind::Bearer,
        "dpop" => TokenKind::Dpop,
        other => {
            return Err(Error::Malformed {
                url: url.to_owned(),
                what: format!("a token of the type {:?}", printable(other)),
            });
        }
    };
    let same = before.map(|token| token.granted.clone());
    let granted = match response.scopes() {
        Some(scopes) => {
            scopes.iter().map(|scope| scope.as_str().to_owned()).filter(|scope| !scope.is_empty()).collect()
        }
        None => same.unwrap_or_else(|| requested.clone()),
    };
    Ok(Token {
        access: Secret::new(response.access_token().secret().clone()),
        kind,
        issued_at: now,
        expires_at: response.expires_in().map(|lifetime| now.saturating_add(lifetime.as_secs())),
        // A refresh that brings no new refresh token leaves the old one in force (RFC 6749 6).
        refresh: response
            .refresh_token()
            .map(|t| Secret::new(t.secret().clone()))
            .or_else(|| before.and_then(|t| t.refresh.clone())),
        granted,
        requested,
        client_id: client_id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Result<TokenAnswer, Error> {
        read("https://as/t", "https://as", StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    fn good(body: &str, before: Option<&Token>) -> Token {
        let Ok(TokenAnswer::Token(response)) = answer(200, body) else { panic!("{body}") };
        token(&response, "https://as/t", vec!["a".into()], before, "c", 100).unwrap()
    }

    #[test]
    fn tokens() {
        let first = good(
            r#"{"access_token":"x","token_type":"BEARER","expires_in":10,"refresh_token":"r","scope":"b c"}"#,
            None,
        );
        assert_eq!(
            (first.kind, first.expires_at, first.granted.join(" ").as_str()),
            (TokenKind::Bearer, Some(110), "b c")
        );
        assert!(first.has_ended(110) && !first.has_ended(109));
        assert!(first.is_due(108) && !first.is_due(107), "the last quarter of 10 seconds");
        let next = good(r#"{"access_token":"y","token_type":"DPoP"}"#, Some(&first));
        assert_eq!(
            (next.kind, next.refresh.as_ref().unwrap().expose(), next.granted.join(" ").as_str()),
            (TokenKind::Dpop, "r", "b c")
        );
        assert!(!next.has_ended(u64::MAX) && !next.is_due(u64::MAX));
        assert_eq!(good(r#"{"access_token":"y","token_type":"bearer"}"#, None).granted, ["a"]);
    }

    #[test]
    fn refusals() {
        assert!(answer(400, r#"{"error":"invalid_grant"}"#).unwrap_err().refused_with("invalid_grant"));
        assert!(answer(200, r#"{"error":"invalid_grant"}"#).unwrap_err().refused_with("invalid_grant"));
        assert!(matches!(answer(400, r#"{"error":"use_dpop_nonce"}"#), Ok(TokenAnswer::UseNonce)));
        for (status, body) in
            [(500, "oops"), (200, "<html>"), (200, r#"{"access_token":"","token_type":"bearer"}"#), (404, "")]
        {
            assert!(matches!(answer(status, body), Err(Error::Malformed { .. })), "{status} {body}");
        }
        let Ok(TokenAnswer::Token(odd)) = answer(200, r#"{"access_token":"x","token_type":"mac"}"#) else {
            panic!("no token")
        };
        assert!(token(&odd, "u", vec![], None, "c", 0).is_err());
    }
}
