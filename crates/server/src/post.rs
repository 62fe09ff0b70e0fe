//! POST: the handshake, calls, notifications and responses (SEMANTICS 2).

use crate::{
    CancelReason, Peer, at_once,
    body::Body,
    call::CallState,
    compact,
    config::ResponseMode,
    connection::{Connection, Target},
    core::{Core, Drain},
    exchange::{Answer, Exchange},
    fleet::{Fleet, rerun},
    handler::{Hello, NoSession},
    inbound::{answered, notified},
    isolate, limits,
    limits::Caller,
    modern,
    outlet::{FIRST_EPOCH, Outlet},
    random,
    service::{accepted, events, json},
    session::{AddCall, Session},
    sessions::{self, Found, NOT_STORED},
    supervise,
    within::within,
};
use bowline_proto::{
    http::{
        InitializeRequest, MCP_SESSION_ID, Payload, Post, Refusal, SessionPost, check_session_post,
        route_post, session_not_found,
    },
    jsonrpc::{ErrorObject, Message, ParseError, Raw, Reply, Request, RequestId, code, parse},
};
use bowline_store::{CreateError, Notes, ReadError, SessionRecord, StreamKind};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, request::Parts};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(crate) async fn answer(
    core: &Arc<Core>,
    caller: &Caller,
    parts: &Arc<Parts>,
    body: Bytes,
) -> Result<Response<Body>, Refusal> {
    match route_post(&core.policy, &parts.headers, parse(body)?)? {
        Post::Initialize(request) => initialize(core, caller, request).await,
        Post::Session(post) => in_session(core, caller, parts, post).await,
        // Boxed, as what is seldom and large is in here: all others are moved with it.
        Post::Modern(post) => Box::pin(modern::answer(core, caller, parts, post)).await,
        Post::Stateless(post) => {
            let session = Arc::new(Session::binding(core, post.revision, caller.principal.as_deref()));
            messages(core, &session, parts, post.body).await
        }
    }
}

// --- initialize ---

async fn initialize(
    core: &Arc<Core>,
    caller: &Caller,
    hello: InitializeRequest,
) -> Result<Response<Body>, Refusal> {
    let InitializeRequest { request, revision, .. } = hello;
    let id = request.id;
    // In a shared store a session outlives the backend that began it.
    if core.is_draining() && !(core.is_shared() && *core.drain.borrow() == Drain::Leaving) {
        return Err(Refusal::unavailable("draining", 1, Some(id)));
    }
    // Nothing is begun that could not be kept.
    if core.fleet.as_ref().is_some_and(Fleet::store_is_away) && !core.is_stateless() {
        core.metrics.sessions_refused.up();
        return Err(Refusal::unavailable("store_unavailable", 2, Some(id)));
    }
    let params = request.params.unwrap_or_else(Raw::empty_object);
    let limit = core.options.max_initialize_bytes;
    if params.as_str().len() > limit {
        let text =
            format!("The parameters of initialize are kept with the session and may have {limit} bytes");
        return Ok(json(core, Reply::from(ErrorObject::new(code::INVALID_PARAMS, text)).to_bytes(&id)));
    }
    let params = compact::detached(&params);
    let _handshake = Handshake::new(core);
    let stateless = core.is_stateless();
    let session = if stateless {
        Arc::new(
            Session::binding(core, revision, caller.principal.as_deref()).with_initialize(params.clone()),
        )
    } else {
        let place = match caller.session_place(core) {
            Ok(place) => place,
            Err(limited) => return Err(limits::refuse(core, limited, Some(id))),
        };
        if !core.sessions.reserve(core.options.max_sessions) {
            core.metrics.sessions_refused.up();
            return Err(Refusal::unavailable("too_many_sessions", 5, Some(id)));
        }
        let record = SessionRecord {
            principal: caller.principal.clone(),
            revision,
            initialize: params.clone(),
            initialized: false,
            log_level: None,
            subscriptions: BTreeSet::new(),
            standalone: random::stream_id(),
            notes: Notes::new(),
        };
        let session = Session::new(core, random::session_id(), NOT_STORED, record);
        session.set_place(place);
        Arc::new(session)
    };
    // A server may take longer to start than a session lives without use.
    let _in_use = session.use_now(core);
    let mut offered = Offered { core, session: &session, kept: false };
    let hello = Hello { peer: Peer::new(core, &session), params, revision };
    let result = match isolate::call(|| core.handler.initialize(hello))
        .await
        .unwrap_or_else(|panic| Err(panic.into_error(core).into()))
    {
        Ok(result) => result,
        Err(NoSession::Refused(error)) => return Ok(json(core, Reply::from(error).to_bytes(&id))),
        Err(NoSession::Busy(error, pause)) => {
            let mut refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with_id(Some(id));
            refusal.retry_after = u32::try_from(pause.as_secs()).ok();
            return Err(refusal);
        }
    };
    let Some(welcome) = core.welcomes.get(revision, &result) else {
        let error = ErrorObject::internal(
            "upstream_invalid",
            "the server answered initialize with something that is not an object",
        );
        return Ok(json(core, Reply::from(error).to_bytes(&id)));
    };
    session.set_lists(&welcome.lists);
    let mut response = json(core, Reply::Result(welcome.result.clone()).to_bytes(&id));
    if !stateless {
        sessions::open(core, &session).await.map_err(|error| refuse_session(core, &error, id))?;
        // A session id is base64url, which is always a header value.
        if let Ok(value) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(MCP_SESSION_ID.clone(), value);
        }
        offered.kept = true;
    }
    Ok(response)
}

fn refuse_session(core: &Core, error: &CreateError, id: RequestId) -> Refusal {
    core.metrics.sessions_refused.up();
    match error {
        CreateError::Full { .. } => Refusal::unavailable("too_many_sessions", 5, Some(id)),
        _ => Refusal::unavailable("store_unavailable", 1, Some(id)),
    }
}

/// A handshake is under way while this exists: a drain waits for it.
struct Handshake<'a>(&'a Core);

impl<'a> Handshake<'a> {
    fn new(core: &'a Core) -> Self {
        core.metrics.handshakes.up();
        Self(core)
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.0.metrics.handshakes.down();
    }
}

/// A session that was offered to the handler: told of its end unless it came to be, whatever the reason, a client that
/// went away included.
struct Offered<'a> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    kept: bool,
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.session.end();
        if !self.session.stateless {
            self.core.sessions.unreserve();
        }
        isolate::run(self.core, || self.core.handler.ended(&Peer::new(self.core, self.session)));
    }
}

// --- in a session ---

async fn in_session(
    core: &Arc<Core>,
    caller: &Caller,
    parts: &Arc<Parts>,
    post: SessionPost<'_>,
) -> Result<Response<Body>, Refusal> {
    let id = post.body.request_id();
    let session = match sessions::find(core, post.session, caller.principal.as_deref()).await {
        Found::Live(session) => session,
        Found::Ended | Found::Unknown => return Err(session_not_found(id)),
        Found::Unavailable => return Err(Refusal::unavailable("store_unavailable", 1, id.cloned())),
        Found::NoRoom => return Err(Refusal::unavailable("too_many_sessions", 5, id.cloned())),
    };
    check_session_post(session.revision, &post)?;
    let _in_use = session.use_now(core);
    if session.touch_due(core) {
        sessions::touch(core, &session).await;
    }
    messages(core, &session, parts, post.body).await
}

async fn messages(
    core: &Arc<Core>,
    session: &Arc<Session>,
    parts: &Arc<Parts>,
    body: Payload,
) -> Result<Response<Body>, Refusal> {
    let message = match body {
        Payload::Single(message) => compact::message(message),
        Payload::Batch(members) => return Box::pin(batch(core, session, parts, members)).await,
    };
    match message {
        Message::Request(request) => {
            sessions::adopt(core, session);
            call(core, session, parts, request).await
        }
        Message::Notification(notification) => {
            notified(core, session, notification).await?;
            Ok(accepted())
        }
        Message::Response(response) => {
            answered(core, session, response).await?;
            Ok(accepted())
        }
    }
}

// --- calls ---

async fn call(
    core: &Arc<Core>,
    session: &Arc<Session>,
    parts: &Arc<Parts>,
    request: Request,
) -> Result<Response<Body>, Refusal> {
    let id = request.id.clone();
    if session.stateless && needs_session(&request.method) {
        return Ok(json(core, Reply::from(ErrorObject::method_not_found(&request.method)).to_bytes(&id)));
    }
    let token = progress_token(&request);
    let hold = if token.is_some() {
        core.options.json_hold_progress.min(core.options.json_hold)
    } else {
        core.options.json_hold
    };
    let exchange = Exchange::new(core, session, Some(id.clone()), 1);
    let call = CallState::new(core, session, &exchange, parts, request, token);
    // Before an id was told, nobody can come back; a session's calls run on all the same, since the client may only have
    // lost the answer to its POST (SEMANTICS 6).
    rerun::prepare(&call);
    let mut leaving = EndsWithClient::of(if session.stateless { vec![call.clone()] } else { Vec::new() });
    supervise::start(&call).map_err(|refused| refuse_call(core, &refused, id.clone()))?;
    match wait(core, &exchange, hold).await {
        Answer::Json(replies) => {
            leaving.disarm();
            Ok(match replies.into_iter().next() {
                Some(reply) if core.options.response == ResponseMode::Sse => {
                    at_once::answer(core, session, &id, reply).await
                }
                Some(reply) => json(core, reply),
                // The client cancelled its own request: there is nothing to say, and a stream can say nothing.
                None => events(core, Body::empty()),
            })
        }
        Answer::Stream(outlet) => {
            // It may have said nothing yet: the hold has ended.
            call.narrow();
            if session.resumable {
                leaving.calls.clear();
            }
            Box::pin(stream(core, session, outlet, Some(id), leaving)).await
        }
    }
}

/// The answer that reads `outlet` from its start.
pub(crate) async fn stream(
    core: &Arc<Core>,
    session: &Arc<Session>,
    outlet: Arc<Outlet>,
    request_id: Option<RequestId>,
    leaving: EndsWithClient,
) -> Result<Response<Body>, Refusal> {
    let target = Target {
        stream: outlet.stream,
        kind: StreamKind::Call,
        request_id: request_id.clone(),
        after: Some(0),
        poll: 0,
        epoch: FIRST_EPOCH,
        of: None,
        lost: false,
        outlet: Some(outlet),
        leaving: Some(leaving),
        comes_back: false,
    };
    match Connection::open(core, session, target).await {
        Ok(body) => Ok(events(core, body)),
        Err(ReadError::Unavailable(_)) => Err(store_away(request_id)),
        // The call has begun, so this is its answer and no refusal.
        Err(error) => Ok(json(
            core,
            ErrorObject::outcome_unknown("stream_lost", format!("the answer cannot be streamed: {error}"))
                .to_response(request_id.as_ref()),
        )),
    }
}

/// 503 for a call that has begun and cannot be kept: it is cancelled.
fn store_away(id: Option<RequestId>) -> Refusal {
    let error = ErrorObject::outcome_unknown(
        "store_unavailable",
        "The store that would keep the result of this call is away. The call was cancelled, and may have had an effect",
    );
    let mut refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error).with_id(id);
    refusal.retry_after = Some(2);
    refusal
}

/// Methods that set something for later requests: there is nowhere to keep it without a session (SEMANTICS 3).
fn needs_session(method: &str) -> bool {
    matches!(method, "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
}

/// Waits for the answer of an exchange, which becomes a stream at the latest after `hold`; with `response = "sse"` at once, unless it is
/// there.
pub(crate) async fn wait(core: &Core, exchange: &Exchange, hold: Duration) -> Answer {
    let mut answer = std::pin::pin!(exchange.wait());
    match core.options.response {
        ResponseMode::Json => {}
        ResponseMode::Sse => drop(exchange.outlet_or_open()),
        ResponseMode::Auto => {
            if let Some(answer) = within(hold, &mut answer).await {
                return answer;
            }
            drop(exchange.outlet_or_open());
        }
    }
    answer.await
}

/// With `response = "sse"` there is a stream before anything of a batch runs.
fn stream_from_the_start(core: &Core, exchange: &Exchange) {
    if core.options.response == ResponseMode::Sse {
        drop(exchange.outlet_or_open());
    }
}

pub(crate) fn refuse_call(core: &Core, refused: &AddCall, id: RequestId) -> Refusal {
    core.metrics.calls_refused.up();
    match refused {
        AddCall::Duplicate => Refusal::invalid_request(
            format!("a request with the id {id} is running in this session; ids are not used twice"),
            Some(id),
        ),
        AddCall::TooMany => Refusal::too_many("too_many_calls", 1, Some(id)),
    }
}

/// Calls that end with the client that waits for them, because their answer cannot be come back to. A call that is over
/// takes no notice.
pub(crate) struct EndsWithClient {
    calls: Vec<Arc<CallState>>,
    /// The round that the client waits for, of a call that has several.
    round: Option<Arc<Exchange>>,
}

impl EndsWithClient {
    const fn of(calls: Vec<Arc<CallState>>) -> Self {
        Self { calls, round: None }
    }

    /// For a modern call: only while this is the round that is open.
    pub(crate) fn of_round(call: &Arc<CallState>, round: &Arc<Exchange>) -> Self {
        Self { calls: vec![call.clone()], round: Some(round.clone()) }
    }

    /// The client has its answer.
    pub(crate) fn disarm(mut self) {
        self.calls.clear();
    }
}

impl Drop for EndsWithClient {
    fn drop(&mut self) {
        for call in &self.calls {
            let passed = |round| call.modern.as_ref().is_some_and(|modern| !modern.is_at(round));
            if !self.round.as_ref().is_some_and(passed) {
                call.cancel(CancelReason::Disconnected);
            }
        }
    }
}

/// `params._meta.progressToken`, a string or an integer.
pub(crate) fn progress_token(request: &Request) -> Option<Raw> {
    let params = request.params.as_ref()?;
    // Nearly all parameters have no metadata: those are not read a second time.
    if !params.as_str().contains("_meta") {
        return None;
    }
    let token = params.member("_meta")?.member("progressToken")?;
    (token.as_str().starts_with('"') || token.as_str().parse::<i64>().is_ok()).then_some(token)
}

// --- batches (2025-03-26) ---

async fn batch(
    core: &Arc<Core>,
    session: &Arc<Session>,
    parts: &Arc<Parts>,
    members: Vec<Result<Message, ParseError>>,
) -> Result<Response<Body>, Refusal> {
    let mut requests = Vec::new();
    let mut faults = Vec::new();
    for member in members {
        match member.map(compact::message) {
            Ok(Message::Request(request)) => requests.push(request),
            Ok(Message::Notification(notification)) => notified(core, session, notification).await?,
            Ok(Message::Response(response)) => answered(core, session, response).await?,
            Err(fault) => faults.push(fault.to_error().to_response(fault.id.as_ref())),
        }
    }
    if requests.is_empty() && faults.is_empty() {
        return Ok(accepted());
    }
    sessions::adopt(core, session);
    let exchange = Exchange::new(core, session, None, requests.len());
    let mut leaving = EndsWithClient::of(Vec::with_capacity(requests.len()));
    for fault in faults {
        exchange.fault(fault);
    }
    stream_from_the_start(core, &exchange);
    for request in requests {
        let id = request.id.clone();
        if session.stateless && needs_session(&request.method) {
            let error = Reply::from(ErrorObject::method_not_found(&request.method));
            exchange.answer(Some((&id, error.to_bytes(&id))));
            continue;
        }
        let token = progress_token(&request);
        let call = CallState::new(core, session, &exchange, parts, request, token);
        match supervise::start(&call) {
            Ok(()) => leaving.calls.push(call),
            Err(refused) => {
                let refusal = refuse_call(core, &refused, id.clone());
                exchange.answer(Some((&id, refusal.body())));
            }
        }
    }
    match wait(core, &exchange, core.options.json_hold).await {
        Answer::Json(replies) => {
            leaving.disarm();
            Ok(if replies.is_empty() { accepted() } else { json(core, array(&replies)) })
        }
        Answer::Stream(outlet) => stream(core, session, outlet, None, leaving).await,
    }
}

fn array(replies: &[Bytes]) -> Bytes {
    let mut out = Vec::with_capacity(replies.iter().map(|reply| reply.len() + 1).sum::<usize>() + 1);
    for (index, reply) in replies.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        out.extend_from_slice(reply);
    }
    out.push(b']');
    out.into()
}
