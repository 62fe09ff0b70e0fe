//! Logging in: what `bowline_oauth` is given.

use super::options::LoginOptions;
use bowline_gateway::stderr;
use bowline_oauth::{
    BrowserPrompt, Config, FetchLimits, FileStore, Grant, HyperFetch, LoopbackOptions, OAuth, Opener,
    Preregistered, Prompt, PromptError, Question, Secret, TerminalLines, Url, Waiting,
};
use serde_json::{Map, Value};
use std::{
    io::Write as _,
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Why nobody could log in with these options. Never shows what was given: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    #[error("{option}: {path} cannot be read: {source}")]
    File { option: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{0} needs a JSON object, or @FILE with one")]
    Json(&'static str),
    #[error("--static-oauth-client-info has no `client_id`")]
    NoClientId,
    #[error("--host {0}: the redirect comes to this machine, so it is 127.0.0.1 or localhost")]
    Host(String),
    #[error("--callback-path {0}: a path begins with /")]
    Path(String),
    #[error("no home folder, so there is no place to keep a login: say --credentials FILE")]
    NoHome,
    #[error(transparent)]
    Auth(#[from] bowline_oauth::Error),
    #[error(transparent)]
    Fetch(#[from] bowline_oauth::FetchError),
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is known of a person: whether they are being asked, and whether somebody is there to be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    open: AtomicUsize,
    /// The last question was not answered, and nobody has wanted anything since.
    deserted: AtomicBool,
}

impl Asking {
    /// Whether a person is being asked: then a server that does not answer is not at fault.
    pub(crate) fn now(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) > 0
    }

    /// Somebody wants something of the server, so that asking makes sense (again).
    pub(crate) fn somebody_is_there(&self) {
        self.0.deserted.store(false, Ordering::Relaxed);
    }
}

/// Counts a question while it lasts.
struct Open(Asking);

impl Open {
    fn new(asking: &Asking) -> Self {
        asking.0.open.fetch_add(1, Ordering::Relaxed);
        Self(asking.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A prompt that says when it asks, and that opens no window after window on a desk where nobody sits.
struct Noticed {
    prompt: BrowserPrompt,
    asking: Asking,
}

struct NoticedWaiting {
    waiting: Box<dyn Waiting>,
    open: Open,
}

impl Prompt for Noticed {
    fn begin<'a>(&'a self, preferred: Option<&'a str>) -> Boxed<'a, Result<Box<dyn Waiting>, PromptError>> {
        Box::pin(async move {
            if self.asking.0.deserted.load(Ordering::Relaxed) {
                let text = "nobody finished the last login; the next request offers another one";
                return Err(PromptError::Nobody(text.into()));
            }
            let open = Open::new(&self.asking);
            let waiting = self.prompt.begin(preferred).await?;
            Ok(Box::new(NoticedWaiting { waiting, open }) as Box<dyn Waiting>)
        })
    }
}

impl Waiting for NoticedWaiting {
    fn redirect_uri(&self) -> &str {
        self.waiting.redirect_uri()
    }

    fn authorize(self: Box<Self>, question: Question) -> Boxed<'static, Result<Secret, PromptError>> {
        let Self { waiting, open } = *self;
        Box::pin(async move {
            let answer = waiting.authorize(question).await;
            if matches!(answer, Err(PromptError::TimedOut(_))) {
                open.0.0.deserted.store(true, Ordering::Relaxed);
            }
            drop(open);
            answer
        })
    }
}

/// How a login goes with these options. `port`: where the redirect comes; `paste`: whether its address may be typed in the
/// terminal, which belongs to somebody else where a host started us.
pub(super) fn login(
    server: Url,
    options: &LoginOptions,
    allow_http: bool,
    port: Option<u16>,
    paste: bool,
) -> Result<(OAuth, Asking), LoginError> {
    if !matches!(&*options.host, "127.0.0.1" | "localhost") {
        return Err(LoginError::Host(options.host.clone()));
    }
    if !options.callback_path.starts_with('/') {
        return Err(LoginError::Path(options.callback_path.clone()));
    }
    let mut config = Config::new(server);
    config.allow_http = allow_http;
    config.login_deadline = options.auth_timeout;
    config.send_resource = !options.disable_resource_parameter;
    config.resource.clone_from(&options.resource);
    if let Some(given) = &options.static_oauth_client_metadata {
        let mut metadata = object("--static-oauth-client-metadata", given)?;
        if let Some(scope) = metadata.get("scope").and_then(Value::as_str) {
            config.scopes = scope.split_whitespace().map(str::to_owned).collect();
        }
        // The redirect address is the one where we listen.
        metadata.remove("redirect_uris");
        config.registration = metadata;
    }
    if let Some(given) = &options.static_oauth_client_info {
        config.grant = Grant::Login { client: Some(client(given)?), document: None };
    }
    let path = options.credentials.clone().or_else(FileStore::default_path).ok_or(LoginError::NoHome)?;
    let mut loopback = LoopbackOptions::default();
    loopback.host.clone_from(&options.host);
    loopback.path.clone_from(&options.callback_path);
    loopback.port = port;
    let opener = if options.no_browser { Opener::Never } else { Opener::System };
    let say = |text: &str| {
        // Never to stdout: a host reads that.
        let _ = writeln!(stderr::writer(), "{text}");
    };
    let mut prompt = BrowserPrompt::new(loopback, opener, Arc::new(say));
    if paste && let Some(lines) = TerminalLines::open() {
        prompt = prompt.with_lines(Arc::new(lines));
    }
    let asking = Asking::default();
    let prompt = Noticed { prompt, asking: asking.clone() };
    let fetch = HyperFetch::new(FetchLimits::default())?;
    let oauth = OAuth::new(config, Arc::new(fetch), Arc::new(FileStore::new(path)), Arc::new(prompt))?;
    Ok((oauth, asking))
}

/// A JSON object that is given, or in a file.
fn object(option: &'static str, given: &str) -> Result<Map<String, Value>, LoginError> {
    let text = match given.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|source| LoginError::File {
            option,
            path: path.into(),
            source,
        })?,
        None => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|_| LoginError::Json(option))
}

fn client(given: &str) -> Result<Preregistered, LoginError> {
    let info = object("--static-oauth-client-info", given)?;
    let text = |name: &str| {
        info.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    Ok(Preregistered {
        id: text("client_id").ok_or(LoginError::NoClientId)?,
        secret: text("client_secret").map(Secret::new),
        key: None,
        issuer: None,
        method: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_registered_already() {
        let found = client(r#"{"client_id":"a","client_secret":"hunter2","redirect_uris":[]}"#).unwrap();
        assert_eq!((found.id.as_str(), found.secret.as_ref().map(Secret::expose)), ("a", Some("hunter2")));
        for (given, part) in [
            (r#"{"client_secret":"hunter2"}"#, "client_id"),
            ("hunter2", "JSON object"),
            ("[1]", "JSON object"),
            ("@/no/such/hunter", "/no/such/hunter"),
        ] {
            let error = client(given).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hunter2"), "{given}: {error}");
        }
    }

    struct Never;

    impl Waiting for Never {
        fn redirect_uri(&self) -> &'static str {
            "http://127.0.0.1/callback"
        }

        fn authorize(self: Box<Self>, question: Question) -> Boxed<'static, Result<Secret, PromptError>> {
            Box::pin(async move { Err(PromptError::TimedOut(question.deadline)) })
        }
    }

    #[tokio::test]
    async fn nobody_is_asked_again_before_somebody_is_there() {
        let asking = Asking::default();
        let say = Arc::new(|_: &str| {});
        let prompt = Noticed {
            prompt: BrowserPrompt::new(LoopbackOptions::default(), Opener::Never, say),
            asking: asking.clone(),
        };
        assert!(!asking.now());
        let waiting = prompt.begin(None).await.unwrap();
        assert!(asking.now());
        drop(waiting);
        assert!(!asking.now());

        let waiting = Box::new(NoticedWaiting { waiting: Box::new(Never), open: Open::new(&asking) });
        let url = Url::parse("https://as.example/authorize").unwrap();
        let deadline = std::time::Duration::from_secs(1);
        let answer = waiting.authorize(Question { url, state: Secret::new("s"), deadline }).await;
        assert!(matches!(answer, Err(PromptError::TimedOut(_))) && !asking.now());
        assert!(matches!(prompt.begin(None).await, Err(PromptError::Nobody(_))));
        asking.somebody_is_there();
        assert!(prompt.begin(None).await.is_ok());
    }
}
