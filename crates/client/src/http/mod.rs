//! Streamable HTTP, both eras.

mod agent;
mod body;
mod exchange;
mod follow;
mod handshake;
mod listen;
mod standing;
mod subscription;
mod told;
mod trouble;

use crate::{
    AuthAnswer, AuthError, AuthRequest, Authorizer, CallError, ClientOptions, ConnectError, Peer, core::Core,
};
use agent::Agent;
pub(crate) use agent::Unanswered;
pub(crate) use body::{drain, has_type};
use bytes::Bytes;
pub(crate) use exchange::server_error;
pub(crate) use handshake::initialize_params;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
pub(crate) use listen::{filter, listen_request};
use parking_lot::RwLock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
pub use trouble::connection_trouble;

const BOTH: &str = "application/json, text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const MAX_REDIRECTS: u32 = 3;
/// The authorizer bounds its own attempts; this is the bound for one that does not.
const MAX_CHALLENGES: u32 = 8;

/// A request that got no answer worth reading.
#[derive(Debug)]
pub(crate) enum Fail {
    /// Not a byte left.
    Unreachable(String),
    /// The connection broke with the request on its way.
    Lost(String),
    Auth(AuthError),
    /// A redirect that is not followed.
    Redirect(String),
}

impl Fail {
    /// What happened, for a person.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Unreachable(message) | Self::Redirect(message) | Self::Lost(message) => message,
            Self::Auth(error) => CallError::Auth(error).to_string(),
        }
    }

    pub(crate) fn into_error(self) -> CallError {
        match self {
            Self::Unreachable(message) | Self::Redirect(message) => CallError::transport(message),
            Self::Lost(message) => CallError::OutcomeUnknown { message },
            Self::Auth(error) => CallError::Auth(error),
        }
    }
}

/// HTTP with credentials and redirects, and nothing of MCP.
pub(crate) struct Plain {
    agent: Agent,
    headers: HeaderMap,
    authorizer: Option<Arc<dyn Authorizer>>,
    /// Whether the last request failed in a way that soon trying again does not change.
    lasts: AtomicBool,
}

/// An answer, and what happened on the way to it.
struct Sent {
    response: Response<Incoming>,
    /// Where the endpoint is from now on.
    moved: Option<Uri>,
    /// Other credentials were needed, and found.
    logged_in: bool,
}

impl Plain {
    pub(crate) fn new(uri: &Uri, options: &ClientOptions) -> Result<Self, ConnectError> {
        let mut headers = options.headers.clone();
        for owned in [
            header::ACCEPT,
            header::CONTENT_TYPE,
            header::CONTENT_LENGTH,
            header::HOST,
            header::CONNECTION,
            header::TRANSFER_ENCODING,
            SESSION,
            REVISION,
            LAST_EVENT_ID,
        ] {
            if headers.remove(&owned).is_some() {
                tracing::warn!(header = %owned, "a header that the client writes itself: the given one is not sent");
            }
        }
        let (agent, authorizer) = (Agent::new(uri, options)?, options.authorizer.clone());
        Ok(Self { agent, headers, authorizer, lasts: AtomicBool::new(false) })
    }

    /// Sends a request, for those who only want to know whether it may have left.
    pub(crate) async fn request(
        &self,
        method: &Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Unanswered> {
        match self.send(method, uri, headers, body).await {
            Ok(sent) => Ok(sent.response),
            Err(Fail::Lost(message)) => Err(Unanswered { unreachable: false, lasts: false, message }),
            Err(fail) => Err(Unanswered { unreachable: true, lasts: false, message: fail.into_message() }),
        }
    }

    async fn send(&self, method: &Method, uri: &Uri, headers: HeaderMap, body: Bytes) -> Result<Sent, Fail> {
        let mut uri = uri.clone();
        let (mut redirects, mut challenges, mut moved) = (0, 0, None);
        loop {
            let asked = AuthRequest { method, url: &uri };
            let mut all = self.headers.clone();
            if let Some(authorizer) = &self.authorizer {
                replace(&mut all, authorizer.headers(asked).await.map_err(Fail::Auth)?);
            }
            replace(&mut all, headers.clone());
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = all;
            let response = self.agent.request(request).await;
            let lasts = response.as_ref().is_err_and(|unanswered| unanswered.lasts);
            self.lasts.store(lasts, Ordering::Relaxed);
            let response = response.map_err(|Unanswered { unreachable, message, .. }| {
                if unreachable { Fail::Unreachable(message) } else { Fail::Lost(message) }
            })?;
            match response.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if challenges < MAX_CHALLENGES => {
                    let answer = AuthAnswer { status: response.status(), headers: response.headers() };
                    let again = match &self.authorizer {
                        Some(authorizer) => authorizer.challenged(asked, answer).await.map_err(Fail::Auth)?,
                        None => false,
                    };
                    if !again {
                        return Ok(Sent { response, moved, logged_in: challenges > 0 });
                    }
                    challenges += 1;
                    drain(response);
                }
                status if status.is_redirection() && response.headers().contains_key(header::LOCATION) => {
                    uri = redirected(&uri, &response).map_err(Fail::Redirect)?;
                    redirects += 1;
                    if redirects > MAX_REDIRECTS {
                        return Err(Fail::Redirect("the server redirects in a circle".into()));
                    }
                    if status == StatusCode::PERMANENT_REDIRECT {
                        moved = Some(uri.clone());
                    }
                    drain(response);
                }
                _ => return Ok(Sent { response, moved, logged_in: challenges > 0 }),
            }
        }
    }
}

/// The endpoint of one server.
pub(crate) struct Http {
    plain: Plain,
    /// Where redirects of the same origin have led.
    uri: RwLock<Uri>,
    /// Whether the newest session came from a 404 to the standalone GET, and nothing was ever served there.
    get_was_404: AtomicBool,
}

impl Http {
    pub(crate) fn new(uri: Uri, options: &ClientOptions) -> Result<Self, ConnectError> {
        Ok(Self {
            plain: Plain::new(&uri, options)?,
            uri: RwLock::new(uri),
            get_was_404: AtomicBool::new(false),
        })
    }

    /// Whether the last request failed in a way that soon trying again does not change: a certificate that nobody trusts, say.
    pub(crate) fn failure_lasts(&self) -> bool {
        self.plain.lasts.load(Ordering::Relaxed)
    }

    /// POSTs one message in a session.
    pub(crate) async fn post(
        &self,
        core: &Core,
        peer: Option<&Peer>,
        body: Bytes,
        mut headers: HeaderMap,
    ) -> Result<Response<Incoming>, Fail> {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        if let Some(peer) = peer {
            name_peer(&mut headers, peer);
        }
        self.send(core, &Method::POST, headers, body).await
    }

    /// GETs the standalone stream, or resumes after `last_event_id`.
    pub(crate) async fn get(
        &self,
        core: &Core,
        peer: &Peer,
        last_event_id: Option<&str>,
    ) -> Result<Response<Incoming>, Fail> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        name_peer(&mut headers, peer);
        // An id that no header can carry came from a broken server; without it the stream starts anew.
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        let get = self.send(core, &Method::GET, headers, Bytes::new());
        match tokio::time::timeout(core.options.post_timeout, get).await {
            Ok(answer) => answer,
            Err(_) => Err(Fail::Lost("no answer to GET in time".into())),
        }
    }

    /// Ends the session on the server, within the time for that.
    pub(crate) async fn delete(&self, core: &Core, peer: &Peer) {
        if peer.session.is_none() {
            return;
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(BOTH));
        name_peer(&mut headers, peer);
        let delete = self.send(core, &Method::DELETE, headers, Bytes::new());
        match tokio::time::timeout(core.options.close_timeout, delete).await {
            Ok(Ok(answer)) => tracing::debug!(status = answer.status().as_u16(), "session ended"),
            Ok(Err(_)) | Err(_) => tracing::debug!("the server did not say that the session ended"),
        }
    }

    async fn send(
        &self,
        core: &Core,
        method: &Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, Fail> {
        let uri = self.uri.read().clone();
        let sent = self.plain.send(method, &uri, headers, body).await?;
        if sent.logged_in {
            // It may be somebody else who is logged in now.
            core.cache.lock().forget_private();
        }
        if let Some(moved) = sent.moved {
            *self.uri.write() = moved;
        }
        Ok(sent.response)
    }

    /// Sends what has no result: a notification or a response. Any 2xx is a success, whatever its body.
    pub(crate) async fn tell(&self, core: &Arc<Core>, body: Bytes, what: &str) -> Result<(), CallError> {
        use bowline_proto::client::{Answer, Delivery, Step};
        // A repeated notification or response is noticed and dropped by the server, or harmless.
        let mut delivery = Delivery::new(core.policy(true, core.options.post_timeout));
        loop {
            let peer = core.peer().ok_or(CallError::Closed)?;
            let mut headers = HeaderMap::new();
            if peer.modern {
                exchange::mirror_method(&mut headers, what);
            }
            let post = self.post(core, Some(&peer), body.clone(), headers);
            let answer = tokio::time::timeout(core.options.post_timeout, post).await;
            let (step, error) = match answer {
                Err(_) => {
                    return Err(CallError::OutcomeUnknown {
                        message: format!("no answer to {what} in time"),
                    });
                }
                Ok(Err(Fail::Unreachable(message))) => {
                    (delivery.on_unreachable(core.now(), crate::core::random()), message)
                }
                Ok(Err(Fail::Lost(message))) => {
                    (delivery.on_lost(core.now(), crate::core::random()), message)
                }
                Ok(Err(fail)) => return Err(fail.into_error()),
                Ok(Ok(response)) => {
                    let status = response.status().as_u16();
                    if response.status().is_success() {
                        drain(response);
                        return Ok(());
                    }
                    let answer = Answer {
                        status,
                        had_session: peer.session.is_some(),
                        retry_after: body::retry_after(response.headers()),
                        error: None,
                        error_is_ours: false,
                    };
                    drain(response);
                    (
                        delivery.on_answer(core.now(), answer, crate::core::random()),
                        format!("status {status}"),
                    )
                }
            };
            match step {
                Step::Send { at } => core.sleep_until(at).await,
                Step::Renew => {
                    core.renew(peer.generation).await?;
                    // What it was about went with the session.
                    return Err(CallError::transport(format!("the session of {what} is gone")));
                }
                Step::Fail(fail) => {
                    let message = format!("{}: {error}", fail.kind);
                    return Err(if fail.may_have_run {
                        CallError::OutcomeUnknown { message }
                    } else {
                        CallError::transport(message)
                    });
                }
                Step::Read | Step::Answered(_) => return Ok(()),
            }
        }
    }
}

fn name_peer(headers: &mut HeaderMap, peer: &Peer) {
    if let Some(session) = &peer.session {
        headers.insert(SESSION, session.clone());
    }
    if let Ok(revision) = HeaderValue::from_str(&peer.revision) {
        headers.insert(REVISION, revision);
    }
}

/// Headers of `newer` take the place of those in `all`, all values of a name together.
fn replace(all: &mut HeaderMap, newer: HeaderMap) {
    for name in newer.keys() {
        all.remove(name);
    }
    let mut last = None;
    for (name, value) in newer {
        last = name.or(last);
        if let Some(name) = &last {
            all.append(name.clone(), value);
        }
    }
}

/// Where a redirect leads, if it keeps method, body and origin: credentials and arguments go nowhere else.
fn redirected(from: &Uri, response: &Response<Incoming>) -> Result<Uri, String> {
    let status = response.status();
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let location = location.unwrap_or_default();
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        return Err(format!(
            "the server redirects with {} to {location}, which loses the request; use that address",
            status.as_u16()
        ));
    }
    let absolute = if location.starts_with('/') && !location.starts_with("//") {
        format!(
            "{}://{}{location}",
            from.scheme_str().unwrap_or("http"),
            from.authority().map_or("", |a| a.as_str())
        )
    } else {
        location.to_owned()
    };
    let to: Uri =
        absolute.parse().map_err(|_| format!("the server redirects to {location:?}, which is no address"))?;
    if from.scheme_str() == Some("https") && to.scheme_str() == Some("http") {
        return Err(format!(
            "the server redirects from https to {location}: refused, it would send everything in the clear"
        ));
    }
    if (from.scheme(), from.authority()) != (to.scheme(), to.authority()) {
        return Err(format!(
            "the server redirects to another origin, {location}: refused; connect to it directly if you trust it"
        ));
    }
    Ok(to)
}
