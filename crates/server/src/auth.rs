//! Who is calling: authentication, before anything else is looked at (SEMANTICS 1.3).

use crate::{BoxFuture, Principal};
use bowline_proto::{
    http::Refusal,
    jsonrpc::{ErrorObject, code},
};
use http::{HeaderValue, StatusCode, header, request::Parts};
use std::{collections::BTreeMap, fmt};

/// Tells who sent a request.
///
/// The principal is what sessions, cursors and mailboxes are bound to, so it must be one unambiguous text for each (issuer,
/// subject), the same for every token of that subject, and never the token.
pub trait Authenticator: Send + Sync + 'static {
    /// Who sent the request with this head.
    ///
    /// # Errors
    /// Why nobody is let in; see [`Denied`].
    fn authenticate<'a>(&'a self, head: &'a Parts) -> BoxFuture<'a, Result<Principal, Denied>>;
}

/// Why a request is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// 401 or 403.
    pub status: StatusCode,
    /// What a person has to do.
    pub message: String,
    /// The value of `WWW-Authenticate`; required with 401.
    pub challenge: Option<HeaderValue>,
}

impl Denied {
    /// 401: no credentials, or none that count here.
    pub fn unauthorized(message: impl Into<String>, challenge: HeaderValue) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, message: message.into(), challenge: Some(challenge) }
    }

    pub(crate) fn into_refusal(self) -> Refusal {
        let mut refusal = Refusal::new(self.status, ErrorObject::new(code::INVALID_REQUEST, self.message));
        refusal.challenge = self.challenge.map(Box::new);
        refusal
    }
}

/// Bearer tokens with a name each. The name is the principal.
///
/// Only hashes are kept. A token that is presented is hashed and compared with every hash in constant time, so the time of a
/// refusal says nothing about the tokens.
#[derive(Clone)]
pub struct StaticTokens(Vec<(String, blake3::Hash)>);

/// Why a list of tokens is not usable. No message holds a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// A line without `=`, without a name, or with odd characters in its name.
    #[error("entry {entry}: expected NAME=TOKEN, with a name of letters, digits, '.', '-', '_', '@'")]
    Form {
        /// Which one, from 1.
        entry: usize,
    },
    /// A token that is too short to be safe.
    #[error(
        "entry {entry} ({name}): the token has fewer than {MIN_TOKEN_BYTES} characters; use a random one, e.g. of `openssl rand -hex 32`"
    )]
    TooShort {
        /// Which one, from 1.
        entry: usize,
        /// Its name.
        name: String,
    },
    /// A token with blanks or characters that cannot be in a header.
    #[error("entry {entry} ({name}): the token has characters that cannot be in an Authorization header")]
    Characters {
        /// Which one, from 1.
        entry: usize,
        /// Its name.
        name: String,
    },
    /// One token under two names.
    #[error("entry {entry} ({name}) has the same token as another name")]
    Twice {
        /// Which one, from 1.
        entry: usize,
        /// Its name.
        name: String,
    },
    /// Nothing in it.
    #[error("no tokens: nobody could call")]
    Empty,
}

/// The shortest token that is taken, in characters.
pub const MIN_TOKEN_BYTES: usize = 16;

impl StaticTokens {
    /// Reads entries `NAME=TOKEN`, one a line or separated by commas; blank lines and lines that start with `#` are skipped. A name may
    /// have several tokens, so that one can be replaced without an outage.
    ///
    /// # Errors
    /// The first entry that is not usable.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        let mut owners = BTreeMap::new();
        let entries =
            text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(|line| line.split(','));
        for (index, text) in entries.map(str::trim).filter(|text| !text.is_empty()).enumerate() {
            let entry = index + 1;
            let Some((name, token)) = text.split_once('=') else { return Err(TokensError::Form { entry }) };
            let (name, token) = (name.trim().to_owned(), token.trim());
            let in_name = |c: char| c.is_ascii_alphanumeric() || ".-_@".contains(c);
            if name.is_empty() || !name.chars().all(in_name) {
                return Err(TokensError::Form { entry });
            }
            if token.len() < MIN_TOKEN_BYTES {
                return Err(TokensError::TooShort { entry, name });
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(TokensError::Characters { entry, name });
            }
            let hash = blake3::hash(token.as_bytes());
            if owners.insert(*hash.as_bytes(), name.clone()).is_some_and(|owner| owner != name) {
                return Err(TokensError::Twice { entry, name });
            }
            tokens.push((name, hash));
        }
        if tokens.is_empty() { Err(TokensError::Empty) } else { Ok(Self(tokens)) }
    }

    /// Whose token this is.
    fn owner(&self, token: &[u8]) -> Option<&str> {
        let presented = blake3::hash(token);
        let mut owner = None;
        // Every hash is compared, in constant time each, whether or not one was found.
        for (name, hash) in &self.0 {
            if *hash == presented {
                owner = Some(name.as_str());
            }
        }
        owner
    }
}

impl Authenticator for StaticTokens {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> BoxFuture<'a, Result<Principal, Denied>> {
        let mut values = head.headers.get_all(header::AUTHORIZATION).iter();
        let token = match (values.next(), values.next()) {
            (Some(value), None) => bearer(value),
            _ => None,
        };
        let owner = token.and_then(|token| self.owner(token)).map(|name| Principal(name.to_owned()));
        let denied = || match token {
            None => Denied::unauthorized(
                "This server needs a token: send it as \"Authorization: Bearer TOKEN\"",
                HeaderValue::from_static("Bearer realm=\"mcp\""),
            ),
            Some(_) => Denied::unauthorized(
                "The bearer token is not one of this server's",
                HeaderValue::from_static("Bearer realm=\"mcp\", error=\"invalid_token\""),
            ),
        };
        Box::pin(std::future::ready(owner.ok_or_else(denied)))
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let value = value.as_bytes().trim_ascii();
    let (scheme, token) = value.split_at_checked(6)?;
    let rest = token.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !rest.is_empty()).then_some(rest)
}

impl fmt::Debug for StaticTokens {
    /// The names alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const A: &str = "0123456789abcdefA";
    const B: &str = "0123456789abcdefB";

    fn ask(tokens: &StaticTokens, headers: &[&str]) -> Result<String, StatusCode> {
        let mut request = Request::builder();
        for value in headers {
            request = request.header("authorization", *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let mut answer = tokens.authenticate(&head);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match answer.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(answer) => answer.map(|principal| principal.0).map_err(|denied| {
                assert!(denied.challenge.is_some());
                assert!(!denied.message.contains(A) && !denied.message.contains("wrong"));
                denied.status
            }),
            std::task::Poll::Pending => panic!("answers at once"),
        }
    }

    #[test]
    fn a_token_gives_its_name_and_nothing_else_does() {
        let tokens =
            StaticTokens::parse(&format!("# people\nalice={A}\n\nbob={B},alice=0123456789abcdefC\n"))
                .unwrap();
        assert_eq!(ask(&tokens, &[&format!("Bearer {A}")]), Ok("alice".into()));
        assert_eq!(ask(&tokens, &[&format!("bearer   {B} ")]), Ok("bob".into()));
        assert_eq!(ask(&tokens, &["Bearer 0123456789abcdefC"]), Ok("alice".into()));
        let two = [format!("Bearer {A}"), format!("Bearer {B}")];
        for refused in [
            vec![],
            vec!["Bearer"],
            vec!["Bearer "],
            vec!["Basic YTpi"],
            vec!["Bearer wrong"],
            two.iter().map(|s| &**s).collect(),
        ] {
            assert_eq!(ask(&tokens, &refused), Err(StatusCode::UNAUTHORIZED), "{refused:?}");
        }
        assert_eq!(format!("{tokens:?}"), r#"["alice", "bob", "alice"]"#);
    }

    #[test]
    fn unusable_lists_are_refused_without_showing_a_token() {
        for (text, expected) in [
            ("", TokensError::Empty),
            ("# only a comment\n , ", TokensError::Empty),
            (A, TokensError::Form { entry: 1 }),
            (&format!("={A}"), TokensError::Form { entry: 1 }),
            (&format!("a b={A}"), TokensError::Form { entry: 1 }),
            ("a=short", TokensError::TooShort { entry: 1, name: "a".into() }),
            (&format!("a={A} {B}"), TokensError::Characters { entry: 1, name: "a".into() }),
            (&format!("a={A}\nb={A}"), TokensError::Twice { entry: 2, name: "b".into() }),
        ] {
            let error = StaticTokens::parse(text).unwrap_err();
            assert_eq!(error, expected);
            assert!(!error.to_string().contains("0123456789"));
        }
    }
}
