//! The client: connecting, raw requests, closing.

use crate::{
    CallError, CallOptions, ClientOptions, ConnectError, Peer, Target,
    call::{self, Guard, limited},
    core::{Core, Link},
    ctx::Ctx,
    http::{Http, server_error},
    pipe::{ChildConnector, Connector, PipeLink, SseConnector},
};
use bowline_proto::{
    client::{CallStream, ResumePlace, ResumeToken, TaskState, TaskStatus},
    jsonrpc::{Notification, Raw},
};
use http::{HeaderValue, Uri};
use std::{fmt, sync::Arc};
use tokio::time::Instant;

/// A connection to one MCP server that comes back by itself: cheap to clone, closed when the last clone is dropped or
/// [`close`](Self::close) is called.
#[derive(Clone)]
pub struct Client {
    pub(crate) core: Arc<Core>,
    _owner: Arc<Owner>,
}

/// Closes the client when nobody holds it any more.
struct Owner(Arc<Core>);

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.0.is_closed()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let core = Arc::clone(&self.0);
            runtime.spawn(async move { close(&core).await });
        } else {
            self.0.shut();
        }
    }
}

impl Client {
    /// Connects: finds out what the server speaks and shakes hands (SEMANTICS 7.6).
    ///
    /// # Errors
    /// When there is no such server within [`connect_timeout`](ClientOptions::connect_timeout), or it refuses. An unreachable
    /// server is asked again for [`connect_outage`](ClientOptions::connect_outage).
    pub async fn connect(target: Target, options: ClientOptions) -> Result<Self, ConnectError> {
        let name = target.to_string();
        let limit = options.connect_timeout + options.connect_outage;
        let late = ConnectError::Timeout { target: name, after: limit };
        match tokio::time::timeout(limit, Self::connect_now(target, options)).await {
            Ok(connected) => connected,
            Err(_) => Err(late),
        }
    }

    async fn connect_now(target: Target, options: ClientOptions) -> Result<Self, ConnectError> {
        match &target {
            Target::Http(uri) => {
                let uri = uri.clone();
                Self::connect_http(target, &uri, options).await
            }
            Target::HttpSse(uri) => {
                let connector = SseConnector::new(uri.clone(), &options)?;
                Self::connect_pipe(target, Arc::new(connector), options).await
            }
            Target::Stdio(command) => {
                let connector =
                    ChildConnector { command: command.clone(), max_line: options.sse.max_line_bytes };
                Self::connect_pipe(target, Arc::new(connector), options).await
            }
            Target::Custom(connector) => {
                let connector = Arc::clone(connector);
                Self::connect_pipe(target, connector, options).await
            }
        }
    }

    async fn connect_http(target: Target, uri: &Uri, options: ClientOptions) -> Result<Self, ConnectError> {
        let http = Http::new(uri.clone(), &options)?;
        let core = Arc::new(Core::new(target, options, Link::Http(Box::new(http))));
        let Link::Http(http) = &core.link else { return Err(failed(&core, CallError::Closed)) };
        let mut failures = 0;
        let began = Instant::now();
        let peer = loop {
            match http.first_handshake(&core).await {
                Ok(peer) => break peer,
                Err((error, true)) if core.options.sse_fallback => {
                    // 400, 404 or 405 to `initialize` too: only the first HTTP transport is left.
                    let sse = SseConnector::new(uri.clone(), &core.options)?;
                    let old =
                        Self::connect_pipe(core.target.clone(), Arc::new(sse), core.options.clone()).await;
                    // What the newer transport said is more telling.
                    return old.map_err(|_| failed(&core, error));
                }
                Err((error @ CallError::Transport { .. }, _)) => {
                    let wait = core.options.reconnect.backoff(failures, crate::core::random());
                    failures += 1;
                    if http.failure_lasts() || Instant::now() + wait > began + core.options.connect_outage {
                        return Err(failed(&core, error));
                    }
                    tokio::time::sleep(wait).await;
                }
                Err((error, _)) => return Err(failed(&core, error)),
            }
        };
        let peer = core.install(peer);
        let mut standing = http.start_standing(&core, &peer, true);
        let answered = standing.wait_for(|answered| *answered);
        drop(tokio::time::timeout(core.options.standalone_wait, answered).await);
        Ok(Self::of(core))
    }

    async fn connect_pipe(
        target: Target,
        connector: Arc<dyn Connector>,
        options: ClientOptions,
    ) -> Result<Self, ConnectError> {
        let core = Arc::new(Core::new(target, options, Link::Pipe(PipeLink::new(connector))));
        let client = Self::of(core);
        if let Link::Pipe(pipe) = &client.core.link {
            pipe.live(&client.core).await.map_err(|error| failed(&client.core, error))?;
        }
        Ok(client)
    }

    fn of(core: Arc<Core>) -> Self {
        Self { _owner: Arc::new(Owner(Arc::clone(&core))), core }
    }

    /// The server as it introduced itself the last time.
    #[must_use]
    pub fn peer(&self) -> Arc<Peer> {
        self.core.peer().unwrap_or_else(|| Arc::new(Peer::modern(Raw::empty_object())))
    }

    /// The options that this client was made with.
    #[must_use]
    pub fn options(&self) -> &ClientOptions {
        &self.core.options
    }

    /// Sends a request and waits for its result, with the default options.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn request(&self, method: &str, params: Option<Raw>) -> Result<Raw, CallError> {
        self.request_with(method, params, CallOptions::default()).await
    }

    /// Sends a request and waits for its result, which comes as the server wrote it. A progress token in
    /// `params._meta` stays as it is. Rounds of questions and tasks (`2026-07-28`) are followed to their end.
    ///
    /// Dropping the future cancels the call.
    ///
    /// # Errors
    /// Every way in which a call has no result.
    pub async fn request_with(
        &self,
        method: &str,
        params: Option<Raw>,
        options: CallOptions,
    ) -> Result<Raw, CallError> {
        if params.as_ref().is_some_and(|params| !params.is_object()) {
            return Err(CallError::invalid("the parameters of a request are an object"));
        }
        let result = Box::pin(call::call(&self.core, method, params, options)).await?;
        let is_modern_http = matches!(self.core.link, Link::Http(_)) && self.peer().modern;
        Ok(if method == "tools/list" {
            crate::tools::note(&self.core, result, is_modern_http)
        } else {
            result
        })
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the server was not reached, or refused it.
    pub async fn notify(&self, method: &str, params: Option<Raw>) -> Result<(), CallError> {
        self.core.notify(&Notification::new(method, params)).await
    }

    /// Waits for the result of a call that this or another process began: [`CallOptions::on_token`]. Nothing is sent again; the
    /// stream is read on, or the task asked for.
    ///
    /// # Errors
    /// [`CallError::Invalid`] where the token is of another server; [`CallError::OutcomeUnknown`] where the server does not know
    /// the call any more.
    pub async fn resume(&self, token: &ResumeToken, options: CallOptions) -> Result<Raw, CallError> {
        let core = &self.core;
        if token.url != core.target.to_string() {
            return Err(CallError::invalid(format!("the token is of {}, not of {}", token.url, core.target)));
        }
        let ctx = Arc::new(Ctx::new("tools/call", token.url.clone(), false, options));
        ctx.sending(&token.request);
        let guard = Guard { core, ctx: &ctx, token: None, over: false };
        let work = async {
            match &token.place {
                ResumePlace::Stream { session, revision, last_event_id } => {
                    let Link::Http(http) = &core.link else {
                        return Err(CallError::invalid("only streams over HTTP can be resumed"));
                    };
                    let mut peer = (*self.peer()).clone();
                    peer.modern = false;
                    peer.revision = revision.as_str().into();
                    peer.set_session(
                        session.as_deref().and_then(|session| HeaderValue::from_str(session).ok()),
                    );
                    // Not this client's session: its end is not ours to repair.
                    peer.generation = if self.peer().session == peer.session { peer.generation } else { 0 };
                    let policy = core.options.reconnect;
                    let stream = CallStream::resuming(
                        policy,
                        token.request.clone(),
                        core.now(),
                        last_event_id.clone(),
                    );
                    let followed =
                        http.follow_stream(core, &Arc::new(peer), &ctx, &token.request, stream, None).await;
                    followed?.into_result().map_err(server_error)
                }
                ResumePlace::Task { task_id } => {
                    let task = TaskState {
                        id: task_id.clone(),
                        status: TaskStatus::Working,
                        poll_interval_ms: Some(0),
                    };
                    call::follow_task(core, &ctx, task).await
                }
                _ => Err(CallError::invalid("the token is of a newer version")),
            }
        };
        Box::pin(limited(core, &ctx, guard, work)).await
    }

    /// Ends calls and streams, and the session on the server: within [`close_timeout`](ClientOptions::close_timeout).
    pub async fn close(&self) {
        close(&self.core).await;
    }
}

async fn close(core: &Arc<Core>) {
    if !core.is_closed() {
        // A server without sessions learns nothing from the end of one.
        drop(tokio::time::timeout(core.options.close_timeout, core.told()).await);
    }
    let peer = core.peer();
    if !core.shut() {
        return;
    }
    match (&core.link, peer) {
        (Link::Http(http), Some(peer)) => http.delete(core, &peer).await,
        (Link::Pipe(pipe), _) => pipe.close(core).await,
        (Link::Http(_), None) => {}
    }
}

fn failed(core: &Core, error: CallError) -> ConnectError {
    let target = core.target.to_string();
    match error {
        CallError::Auth(error) => ConnectError::Auth { target, error },
        CallError::Protocol(error) => ConnectError::Refused { target, error },
        CallError::Transport { message }
        | CallError::OutcomeUnknown { message }
        | CallError::Invalid { message } => ConnectError::Failed { target, message },
        error => ConnectError::Failed { target, message: error.to_string() },
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("target", &self.core.target).finish_non_exhaustive()
    }
}
