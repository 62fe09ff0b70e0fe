//! POST of a modern client: one request, one answer.

use super::{ModernCall, discover, held, listen, tasks};
use crate::{
    Call,
    body::Body,
    call::CallState,
    compact,
    config::ResponseMode,
    core::Core,
    exchange::{Answer, Exchange},
    isolate,
    limits::Caller,
    post::{EndsWithClient, progress_token, refuse_call, stream, wait},
    service::{accepted, events, json},
    session::Session,
    supervise,
};
use bowline_proto::{
    http::{ModernMessage, ModernPost, Refusal},
    jsonrpc::{ErrorObject, Request, RequestId, code},
    modern::{
        RequestMeta, RoundParams, check_request, takes_input,
        tasks::{TaskSupport, course},
    },
};
use http::{Response, StatusCode, request::Parts};
use std::sync::Arc;

/// Answers one POST of a modern client.
pub(crate) async fn answer(
    core: &Arc<Core>,
    caller: &Caller,
    parts: &Arc<Parts>,
    post: ModernPost,
) -> Result<Response<Body>, Refusal> {
    let request = match post.message {
        ModernMessage::Request(request) => compact::request(request),
        // This era has no notifications over HTTP: they are taken and have no effect.
        ModernMessage::Notification => return Ok(accepted()),
    };
    let meta = check_request(&parts.headers, &request)?;
    let principal = caller.principal.as_deref();
    match &*request.method {
        "server/discover" => discover::answer(core, principal, post.revision, &meta, &request.id).await,
        "subscriptions/listen" => listen::answer(core, principal, post.revision, &meta, &request).await,
        "tasks/get" | "tasks/update" | "tasks/cancel" if core.handler.serves_tasks() => {
            tasks::answer(core, principal, &meta, &request).await
        }
        _ => {
            let session = Arc::new(Session::modern(core, post.revision, principal, &meta));
            call(core, &session, parts, meta, request).await
        }
    }
}

async fn call(
    core: &Arc<Core>,
    session: &Arc<Session>,
    parts: &Arc<Parts>,
    meta: RequestMeta,
    request: Request,
) -> Result<Response<Body>, Refusal> {
    let id = request.id.clone();
    let earlier = if takes_input(&request.method) {
        RoundParams::of(request.params.as_ref()).map_err(|why| bad_round(why, &id))?
    } else {
        RoundParams::default()
    };
    let token = progress_token(&request);
    let hold = match &token {
        Some(_) => core.options.json_hold_progress.min(core.options.json_hold),
        None => core.options.json_hold,
    };
    let exchange = Exchange::new(core, session, Some(id.clone()), 1);
    let modern = ModernCall::new(core, session, &exchange, meta, &request, earlier)
        .map_err(|why| bad_round(why, &id))?;
    if let Some(handle) = modern.joins() {
        let call = held::join(core, handle, &exchange, &modern, &id).map_err(|why| bad_round(why, &id))?;
        return finish(core, session, &exchange, hold, id, &call).await;
    }
    let call = CallState::modern(core, session, &exchange, parts, request, token, modern);
    plan(core, &call)?;
    // A handler that answers at once says so with the right status, whatever the mode.
    supervise::start(&call).map_err(|refused| refuse_call(core, &refused, id.clone()))?;
    if core.options.response == ResponseMode::Sse {
        drop(exchange.outlet_or_open());
    }
    finish(core, session, &exchange, hold, id, &call).await
}

/// Decides whether the call may become a task. Not sooner than it would become a stream where nobody wants progress: a task has none.
///
/// # Errors
/// 400 with -32021: the tool needs a client that can have tasks.
fn plan(core: &Core, call: &Arc<CallState>) -> Result<(), Refusal> {
    let Some(modern) = &call.modern else { return Ok(()) };
    let mut support = TaskSupport::Never;
    if call.request_method() == "tools/call" && core.handler.serves_tasks() {
        isolate::run(core, || support = core.handler.task_support(&Call(call.clone())));
    }
    let course = course(call.request_method(), support, &modern.meta.capabilities);
    if course == tasks::Course::Refused {
        return Err(tasks::undeclared(call.id()));
    }
    modern.task.set(course, core.options.json_hold);
    Ok(())
}

/// Waits for the answer of this round. The client that goes away cancels the call, as long as this is its round.
async fn finish(
    core: &Arc<Core>,
    session: &Arc<Session>,
    exchange: &Arc<Exchange>,
    hold: std::time::Duration,
    id: RequestId,
    call: &Arc<CallState>,
) -> Result<Response<Body>, Refusal> {
    let leaving = EndsWithClient::of_round(call, exchange);
    let may_be_task = call.modern.as_ref().is_some_and(|modern| modern.task.may_be());
    // What becomes a task when the hold is over opens a stream itself where it cannot.
    let answer = if may_be_task { exchange.wait().await } else { wait(core, exchange, hold).await };
    match answer {
        Answer::Json(replies) => {
            leaving.disarm();
            Ok(match replies.into_iter().next() {
                Some(reply) => {
                    let mut response = json(core, reply);
                    *response.status_mut() = call.modern_status();
                    response
                }
                None => events(core, Body::empty()),
            })
        }
        Answer::Stream(outlet) => stream(core, session, outlet, Some(id), leaving).await,
    }
}

/// 400 with -32602: what came of an earlier round is of no use.
fn bad_round(why: impl Into<String>, id: &RequestId) -> Refusal {
    let error = ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {}", why.into()));
    Refusal::new(StatusCode::BAD_REQUEST, error).with_id(Some(id.clone()))
}
