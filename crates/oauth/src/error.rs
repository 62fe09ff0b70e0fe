//! What can go wrong between a refused request and one that is authorized.

use http::StatusCode;
use oauth2::url::Url;

use crate::address::shown;
use crate::fetch::FetchError;
use crate::prompt::PromptError;
use crate::store::StoreError;

/// Why there is no authorization. Every message says what happened, where, and what to do about it; none holds a secret.
///
/// It can be cloned because all callers that wait for one attempt get its outcome.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address could not be reached, or answered with more than the bounds allow, or too late.
    #[error("{url}: {source}")]
    Fetch {
        /// The address, without its query.
        url: String,
        /// What happened.
        source: FetchError,
    },
    /// A server is in trouble (a status of 500 and above, or 429), from which nothing may be concluded.
    #[error("{url} answered {status}; try again later")]
    Unavailable {
        /// The address, without its query.
        url: String,
        /// Its status.
        status: u16,
    },
    /// An address that a server named is not one that may be fetched.
    #[error("{url} is not used: {reason}")]
    Address {
        /// The address as it came.
        url: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The metadata of the resource or of the authorization server is missing or unusable.
    #[error("{0}")]
    Discovery(String),
    /// RFC 9728 3.3: the metadata is that of another resource, so a token for it would be a token for somebody else.
    #[error("the server at {server} says that it is {resource}; no login is made for another resource")]
    ResourceMismatch {
        /// The resource of the metadata.
        resource: String,
        /// The server that was asked.
        server: String,
    },
    /// RFC 8414 3.3: the metadata names another issuer than the one it was fetched for.
    #[error(
        "the metadata fetched for the authorization server {expected} is that of {found}; it is not used"
    )]
    IssuerMismatch {
        /// The issuer that the address was made from.
        expected: String,
        /// The issuer in the document.
        found: String,
    },
    /// The authorization server of a pre-registered client is not the one that the server names now.
    #[error(
        "the client id was registered with {registered}, but the server now uses {found}: register there, and configure the new client id"
    )]
    ForeignClient {
        /// The issuer of the configured client.
        registered: String,
        /// The issuer that the server names.
        found: String,
    },
    /// There is no way to get a client id.
    #[error("{0}")]
    Registration(String),
    /// The answer that came back through the browser is not acted on (RFC 9207 `iss`, `state`, no code).
    #[error("the answer of the login is not accepted: {0}")]
    Response(String),
    /// The authorization server said no (RFC 6749 5.2 and 4.1.2.1).
    #[error("the authorization server {issuer} refused: {error}{}", detail(.description.as_deref()))]
    Refused {
        /// Who refused.
        issuer: String,
        /// The error code, e.g. `invalid_grant`.
        error: String,
        /// Its words for people, if any; at most 500 characters, without control characters.
        description: Option<String>,
    },
    /// The answer of an endpoint is not what the protocol allows.
    #[error("{url} answered {what}")]
    Malformed {
        /// The endpoint.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The login by a person did not come about.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The server wants scopes that the token has already, or that were asked for and not given.
    #[error(
        "the server refuses for want of the scopes {needed:?}, and the token was issued with {granted:?}; asking again would not help"
    )]
    InsufficientScope {
        /// What the challenge named.
        needed: Vec<String>,
        /// What the token has.
        granted: Vec<String>,
    },
    /// Tokens were issued, and each was refused at once.
    #[error("{server} refused {attempts} new tokens in a row; it is not asked again for now")]
    StillRefused {
        /// The server.
        server: String,
        /// How many tokens.
        attempts: u32,
    },
    /// Credentials could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key cannot be used, or the system gave no randomness.
    #[error("{0}")]
    Key(String),
    /// The configuration contradicts itself or the server.
    #[error("{0}")]
    Config(String),
}

fn detail(description: Option<&str>) -> String {
    description.map(|text| format!(" ({text})")).unwrap_or_default()
}

impl Error {
    /// Whether the same attempt may succeed a little later without anybody doing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Fetch { .. } | Self::Unavailable { .. })
    }

    /// Whether the authorization server refused with this code.
    pub(crate) fn refused_with(&self, code: &str) -> bool {
        matches!(self, Self::Refused { error, .. } if error == code)
    }
}

impl From<getrandom::Error> for Error {
    fn from(error: getrandom::Error) -> Self {
        Self::Key(format!("the system gave no randomness: {error}"))
    }
}

/// Fails for the statuses that say something about the server's health and nothing about the question.
pub(crate) fn check_health(url: &Url, status: StatusCode) -> Result<(), Error> {
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(Error::Unavailable { url: shown(url), status: status.as_u16() });
    }
    Ok(())
}

/// Text of a server, fit to be shown on a terminal: no control characters, at most 500 characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(500).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_servers_cannot_drive_a_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\n"), "a[31mb");
        assert_eq!(printable(&"x".repeat(2000)).len(), 500);
    }

    #[test]
    fn a_refusal_says_who_and_why() {
        let error = Error::Refused {
            issuer: "https://as".into(),
            error: "invalid_grant".into(),
            description: Some("expired".into()),
        };
        assert_eq!(error.to_string(), "the authorization server https://as refused: invalid_grant (expired)");
        assert!(error.refused_with("invalid_grant") && !error.is_transient());
    }
}
