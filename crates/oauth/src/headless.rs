//! A login without a person: follows the redirects of an authorization server that asks nothing. For tests and for test servers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http::header::LOCATION;
use oauth2::url::Url;

use crate::fetch::Fetch;
use crate::prompt::{Prompt, PromptError, Question, Waiting};
use crate::secret::Secret;

/// Redirects within the authorization server that are followed.
const MAX_REDIRECTS: usize = 5;

/// [`Prompt`] that answers by itself. Nothing listens at its redirect address: the answer is taken from the redirect.
#[derive(Clone)]
pub struct Headless {
    fetch: Arc<dyn Fetch>,
    redirect_uri: String,
}

impl fmt::Debug for Headless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headless").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}

impl Headless {
    /// Answers with redirects to `redirect_uri`.
    #[must_use]
    pub fn new(fetch: Arc<dyn Fetch>, redirect_uri: impl Into<String>) -> Self {
        Self { fetch, redirect_uri: redirect_uri.into() }
    }
}

impl Prompt for Headless {
    fn begin<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<Box<dyn Waiting>, PromptError>> {
        let own = self.clone();
        Box::pin(async move { Ok(Box::new(own) as Box<dyn Waiting>) })
    }
}

impl Waiting for Headless {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn authorize(self: Box<Self>, question: Question) -> BoxFuture<'static, Result<Secret, PromptError>> {
        Box::pin(async move {
            let walk = walk(self.fetch.as_ref(), &self.redirect_uri, question.url);
            tokio::time::timeout(question.deadline, walk)
                .await
                .unwrap_or(Err(PromptError::TimedOut(question.deadline)))
        })
    }
}

async fn walk(fetch: &dyn Fetch, redirect_uri: &str, mut url: Url) -> Result<Secret, PromptError> {
    let failed = |what: &dyn fmt::Display| {
        PromptError::Nobody(format!("the authorization server did not answer a login by itself: {what}"))
    };
    for _ in 0..MAX_REDIRECTS {
        let request = Request::get(url.as_str()).body(Bytes::new()).map_err(|error| failed(&error))?;
        let answer = fetch.fetch(request).await.map_err(|error| failed(&error))?;
        let location = answer
            .headers()
            .get(LOCATION)
            .filter(|_| answer.status().is_redirection())
            .and_then(|l| l.to_str().ok());
        let Some(location) = location else { return Err(failed(&answer.status())) };
        let next = url.join(location).map_err(|error| failed(&error))?;
        let rest = next.as_str().strip_prefix(redirect_uri);
        if let Some(query) = rest.and_then(|rest| rest.strip_prefix('?')) {
            return Ok(Secret::new(query.split('#').next().unwrap_or_default()));
        }
        url = next;
    }
    Err(failed(&"too many redirects"))
}
