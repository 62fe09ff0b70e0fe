//! A login in the browser of this machine, or of another one whose answer is pasted.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use oauth2::url::Url;
use tokio::process::Command;

use crate::loopback::{Loopback, LoopbackOptions};
use crate::prompt::{Prompt, PromptError, Question, Waiting, query_with_state};
use crate::secret::Secret;

/// How a browser is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opener {
    /// With the system's way: `$BROWSER`, else `open` or `xdg-open`; not where there is no display.
    System,
    /// With this program, which gets the address as its only argument.
    Program(String),
    /// Not at all: the address is printed.
    Never,
}

/// What a login tells the person; the program decides where it goes. Never to the standard output of a stdio server.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// Where pasted answers come from.
pub trait Lines: Send + Sync + 'static {
    /// The next line; none when there are no more. Dropping the future ends the interest: a line that comes later is somebody else's and
    /// must not be taken.
    fn next(&self) -> BoxFuture<'_, Option<String>>;
}

/// [`Prompt`] for people: opens the browser, prints the address besides, receives the redirect on this machine, and takes a pasted
/// redirect address where the browser is on another one.
#[derive(Clone)]
pub struct BrowserPrompt {
    loopback: LoopbackOptions,
    opener: Opener,
    say: Say,
    lines: Option<Arc<dyn Lines>>,
}

impl fmt::Debug for BrowserPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserPrompt")
            .field("loopback", &self.loopback)
            .field("opener", &self.opener)
            .finish_non_exhaustive()
    }
}

impl BrowserPrompt {
    /// A prompt that tells people with `say`.
    #[must_use]
    pub fn new(loopback: LoopbackOptions, opener: Opener, say: Say) -> Self {
        Self { loopback, opener, say, lines: None }
    }

    /// Takes pasted answers from there.
    #[must_use]
    pub fn with_lines(mut self, lines: Arc<dyn Lines>) -> Self {
        self.lines = Some(lines);
        self
    }
}

impl Prompt for BrowserPrompt {
    fn begin<'a>(
        &'a self,
        preferred: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Waiting>, PromptError>> {
        Box::pin(async move {
            let loopback = Loopback::bind(&self.loopback, preferred).await?;
            Ok(Box::new(BrowserWaiting { loopback, prompt: self.clone() }) as Box<dyn Waiting>)
        })
    }
}

struct BrowserWaiting {
    loopback: Loopback,
    prompt: BrowserPrompt,
}

impl Waiting for BrowserWaiting {
    fn redirect_uri(&self) -> &str {
        self.loopback.redirect_uri()
    }

    fn authorize(self: Box<Self>, question: Question) -> BoxFuture<'static, Result<Secret, PromptError>> {
        Box::pin(async move {
            let Self { loopback, prompt } = *self;
            let opened = open(&prompt.opener, &question.url);
            let beginning = if opened {
                "A browser was opened to log in. If none appeared, open"
            } else {
                "To log in, open"
            };
            (prompt.say)(&format!("{beginning}\n\n    {}\n", question.url));
            if prompt.lines.is_some() {
                (prompt.say)(
                    "If that browser is on another machine, it ends at an address that it cannot load: paste that address here.",
                );
            }
            let pasted = pasted(prompt.lines.as_deref(), &question.state, &prompt.say);
            let answer = async {
                tokio::select! {
                    query = loopback.receive(&question.state) => query,
                    query = pasted => query,
                }
            };
            tokio::time::timeout(question.deadline, answer)
                .await
                .map_err(|_| PromptError::TimedOut(question.deadline))
        })
    }
}

/// The query of a pasted redirect with the right state; never ends without one.
async fn pasted(lines: Option<&dyn Lines>, state: &Secret, say: &Say) -> Secret {
    if let Some(lines) = lines {
        while let Some(line) = lines.next().await {
            let line = line.trim();
            let query = line.split_once('?').map_or(line, |(_, query)| query);
            let query = query.split('#').next().unwrap_or_default();
            if let Some(query) = query_with_state(query, state) {
                return query;
            }
            if !line.is_empty() {
                say(
                    "That is not the answer to this login: it has to be the whole address at which the browser ended.",
                );
            }
        }
    }
    std::future::pending().await
}

/// Starts a browser; whether one was started. Never through a shell, and only for addresses of the web.
fn open(opener: &Opener, url: &Url) -> bool {
    if !matches!(url.scheme(), "http" | "https") {
        return false;
    }
    let program = match opener {
        Opener::Never => return false,
        Opener::Program(program) => program.clone(),
        Opener::System => match system_opener() {
            Some(program) => program,
            None => return false,
        },
    };
    let started = Command::new(&program)
        .arg(url.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(mut child) => {
            tokio::spawn(async move {
                let _ = child.wait().await; // so that it leaves no zombie; how it ends does not matter
            });
            true
        }
        Err(error) => {
            tracing::debug!(program, %error, "no browser could be started");
            false
        }
    }
}

fn system_opener() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(browser) = set("BROWSER") {
        // A list of programs (the first counts); `%s` and options are left to shells.
        return browser
            .split(':')
            .next()
            .filter(|program| !program.contains(char::is_whitespace))
            .map(str::to_owned);
    }
    if cfg!(target_os = "macos") {
        return Some("open".into());
    }
    (set("DISPLAY").is_some() || set("WAYLAND_DISPLAY").is_some()).then(|| "xdg-open".into())
}

#[cfg(test)]
#[path = "browser_tests.rs"]
mod tests;
