//! The part of a person: to say yes in a browser.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use oauth2::url::Url;

use crate::secret::Secret;

/// Why a login by a person did not come about.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// Nobody answered in time.
    #[error("nobody finished the login within {0:?}; start it again when somebody can")]
    TimedOut(Duration),
    /// The port for the redirect cannot be had.
    #[error("no login can be received on {address}: {reason}")]
    Listen {
        /// Where.
        address: String,
        /// What happened.
        reason: String,
    },
    /// There is nobody to ask, and nothing that could be printed where somebody sees it.
    #[error("{0}")]
    Nobody(String),
}

/// Asks a person.
pub trait Prompt: Send + Sync + 'static {
    /// Gets ready to receive the answer: afterwards the redirect address is known, and does not change. `preferred` is the one that is
    /// registered already; it should be used again if that is possible.
    fn begin<'a>(
        &'a self,
        preferred: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Waiting>, PromptError>>;
}

/// Ready for an answer.
pub trait Waiting: Send {
    /// The redirect address.
    fn redirect_uri(&self) -> &str;

    /// Shows the authorization request to the person and waits for the answer; returns its query, as it came. Answers with another
    /// `state` are not this one's and are passed over.
    fn authorize(self: Box<Self>, question: Question) -> BoxFuture<'static, Result<Secret, PromptError>>;
}

/// What a person is asked.
#[derive(Clone)]
pub struct Question {
    /// The address of the authorization request: `https`, or `http` on this machine.
    pub url: Url,
    /// The `state` of the request.
    pub state: Secret,
    /// How long to wait.
    pub deadline: Duration,
}

impl fmt::Debug for Question {
    /// The address without its query, which holds the `state`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        url.set_query(None);
        f.debug_struct("Question")
            .field("url", &url.as_str())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The query of a redirect if it carries `state` (compared in constant time).
#[must_use]
pub(crate) fn query_with_state(query: &str, state: &Secret) -> Option<Secret> {
    let mut states =
        oauth2::url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "state");
    let (Some((_, found)), None) = (states.next(), states.next()) else { return None };
    (Secret::new(found) == *state).then(|| Secret::new(query))
}

/// A [`Prompt`] for programs that nobody watches: it refuses, and says what to do instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPrompt;

impl Prompt for NoPrompt {
    fn begin<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn Waiting>, PromptError>> {
        let text = "the server wants a login, and nobody is here to do it: log in once from a terminal, or configure a client of its own";
        Box::pin(async move { Err(PromptError::Nobody(text.into())) })
    }
}
