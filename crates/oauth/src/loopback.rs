//! The redirect of a login, received on this machine (RFC 8252 7.3).

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use oauth2::url::Url;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::prompt::{PromptError, query_with_state};
use crate::secret::Secret;

/// Connections served at the same time; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 8;
/// How long one connection may take, from its first byte to the last.
const CONNECTION_TIME: Duration = Duration::from_secs(15);
/// How long the page of an answer may take to go out.
const PAGE_TIME: Duration = Duration::from_millis(500);

/// Where the redirect is received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackOptions {
    /// The host in the redirect address: `127.0.0.1`, or `localhost` for authorization servers that know nothing else. What is listened
    /// on is `127.0.0.1` in either case.
    pub host: String,
    /// A fixed port; if none, the one that is registered already, else a free one.
    pub port: Option<u16>,
    /// The path in the redirect address.
    pub path: String,
}

impl Default for LoopbackOptions {
    fn default() -> Self {
        Self { host: "127.0.0.1".into(), port: None, path: "/callback".into() }
    }
}

/// A listener whose address is known.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    redirect_uri: String,
    path: String,
}

impl Loopback {
    /// Listens. With a free port, that of `preferred` is tried first, if that is an address of the same host and path.
    ///
    /// # Errors
    /// [`PromptError::Listen`].
    pub async fn bind(options: &LoopbackOptions, preferred: Option<&str>) -> Result<Self, PromptError> {
        let registered =
            preferred.and_then(|address| Url::parse(address).ok()).filter(|url| url.path() == options.path);
        let registered =
            registered.filter(|url| url.host_str() == Some(&options.host)).and_then(|url| url.port());
        let first = options.port.or(registered).unwrap_or(0);
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, first)).await {
            Err(_) if options.port.is_none() && first != 0 => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
            }
            outcome => outcome,
        };
        let failed = |error: std::io::Error| PromptError::Listen {
            address: format!("127.0.0.1:{first}"),
            reason: error.to_string(),
        };
        let listener = listener.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let redirect_uri = format!("http://{}:{port}{}", options.host, options.path);
        Ok(Self { listener, redirect_uri, path: options.path.clone() })
    }

    /// The redirect address.
    #[must_use]
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the redirect with `state` and returns its query. Does not end by itself: put a deadline on it.
    pub async fn receive(self, state: &Secret) -> Secret {
        let (found, mut answers) = mpsc::channel(1);
        let expected =
            Expected { state: state.clone(), path: self.path.into(), found, carried: Arc::default() };
        let mut connections = JoinSet::new(); // dropped with this future: no connection outlives the login
        loop {
            tokio::select! {
                biased;
                Some(query) = answers.recv() => {
                    // The page goes out first; a browser that does not read it must not hold up the login.
                    let flush = async { while let Some(Ok(false)) = connections.join_next().await {} };
                    let _ = tokio::time::timeout(PAGE_TIME, flush).await;
                    return query;
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        let expected = Expected { carried: Arc::default(), ..expected.clone() };
                        connections.spawn(serve(stream, expected));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await, // out of files: do not spin
                },
            }
        }
    }
}

/// Serves one connection; whether the answer came over it.
async fn serve(stream: TcpStream, expected: Expected) -> bool {
    let carried = Arc::clone(&expected.carried);
    let service =
        service_fn(move |request| std::future::ready(Ok::<_, Infallible>(answer(&expected, &request))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(CONNECTION_TIME, connection).await; // what a browser does wrong is not ours
    carried.load(Ordering::Relaxed)
}

#[derive(Clone)]
struct Expected {
    state: Secret,
    path: Arc<str>,
    found: mpsc::Sender<Secret>,
    carried: Arc<AtomicBool>,
}

fn answer(expected: &Expected, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, page) = if request.uri().path() != &*expected.path {
        (
            StatusCode::NOT_FOUND,
            page("Nothing here", "This address receives logins for Bowline, and nothing else."),
        )
    } else if request.method() != Method::GET {
        (StatusCode::METHOD_NOT_ALLOWED, page("Not like this", "A login comes as a GET request."))
    } else if let Some(query) = query_with_state(request.uri().query().unwrap_or_default(), &expected.state) {
        // A second answer with the same state finds the channel full or closed: the first counts.
        let _ = expected.found.try_send(query);
        expected.carried.store(true, Ordering::Relaxed);
        (StatusCode::OK, page("Answer received", "You can close this window and go back to the program."))
    } else {
        (
            StatusCode::BAD_REQUEST,
            page(
                "Not this login",
                "This answer belongs to another login. Go back to the program and start again.",
            ),
        )
    };
    let mut response = Response::new(Full::new(Bytes::from(page)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    );
    response
}

/// A page of fixed texts: nothing of the request is in it.
fn page(title: &str, text: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:18vh auto;padding:0 1rem}}\
         @media(prefers-color-scheme:dark){{body{{background:#111;color:#eee}}}}</style><h1>{title}</h1><p>{text}</p></html>"
    )
}

#[cfg(test)]
#[path = "loopback_tests.rs"]
mod tests;
