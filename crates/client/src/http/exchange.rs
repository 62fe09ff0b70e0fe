//! One request and its response: SEMANTICS 7.3 to 7.5, both eras.

use super::{Fail, Http, body::Refusal};
use crate::{
    AuthError, CallError, Peer,
    core::{Core, random},
    ctx::Ctx,
};
use bowline_proto::{
    client::{
        AfterDiscover, Answer, ClientError, Delivery, Step, after_discover, encode_value, mirrored_name,
        request_meta,
    },
    jsonrpc::{ErrorObject, Raw, Reply, Request, RequestId, code},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

impl Http {
    pub(crate) async fn exchange(
        &self,
        core: &Arc<Core>,
        ctx: &Arc<Ctx>,
        params: Option<&Raw>,
    ) -> Result<Raw, CallError> {
        let mut delivery = Delivery::new(core.policy(ctx.repeatable, core.options.outage));
        let (mut detected_again, mut listed_again) = (false, false);
        let mut detail = String::new();
        loop {
            let peer = core.peer().ok_or(CallError::Closed)?;
            let id = core.next_id();
            let (body, headers) = compose(core, &peer, &id, ctx, params);
            let sent_before = ctx.was_sent();
            ctx.sending(&id);
            let step = match self.post(core, Some(&peer), body, headers).await {
                Err(Fail::Unreachable(message)) => {
                    ctx.unsent(sent_before);
                    detail = message;
                    delivery.on_unreachable(core.now(), random())
                }
                Err(Fail::Lost(message)) => {
                    detail = message;
                    delivery.on_lost(core.now(), random())
                }
                Err(fail) => {
                    ctx.answered();
                    return Err(fail.into_error());
                }
                Ok(response) if response.status().is_success() => {
                    match self.follow(core, &peer, ctx, &id, response).await {
                        Ok(reply) => {
                            ctx.answered();
                            return outcome_of(reply);
                        }
                        Err(error) => {
                            detail.clear();
                            delivery.on_stream_failed(core.now(), error, random())
                        }
                    }
                }
                Ok(response) => {
                    let refusal = Refusal::read(response, &id).await;
                    ctx.answered();
                    let answer = Answer {
                        status: refusal.status,
                        had_session: peer.session.is_some(),
                        retry_after: refusal.retry_after,
                        error: refusal.error.as_ref(),
                        error_is_ours: refusal.is_ours,
                    };
                    if answer.proves_unrun() {
                        ctx.unsent(sent_before);
                    }
                    if let Some(error) = unauthorized(core, &refusal) {
                        return Err(error);
                    }
                    if peer.modern && !detected_again && is_legacy_answer(&refusal) {
                        // Another server is there: it speaks the older era, and refused this before it looked at it.
                        detected_again = true;
                        core.renew(peer.generation).await?;
                        continue;
                    }
                    let is_mismatch =
                        refusal.error.as_ref().is_some_and(|error| error.code == code::HEADER_MISMATCH);
                    if peer.modern && is_mismatch && &*ctx.method == "tools/call" && !listed_again {
                        listed_again = true;
                        crate::tools::learn(core).await?;
                        continue;
                    }
                    detail.clear();
                    delivery.on_answer(core.now(), answer, random())
                }
            };
            let step = match step {
                Step::Renew => match core.renew(peer.generation).await {
                    Ok(()) => delivery.on_renewed(core.now(), true, random()),
                    Err(error @ (CallError::Auth(_) | CallError::Closed)) => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, "no new session yet");
                        detail = error.to_string();
                        delivery.on_renewed(core.now(), false, random())
                    }
                },
                step => step,
            };
            match step {
                Step::Send { at } => core.sleep_until(at).await,
                Step::Answered(error) => return Err(server_error(error)),
                Step::Fail(error) => return Err(with_detail(error, &detail)),
                Step::Read | Step::Renew => {
                    return Err(CallError::OutcomeUnknown { message: "the answer came to nothing".into() });
                }
            }
        }
    }
}

/// The body and headers of one sending.
fn compose(core: &Core, peer: &Peer, id: &RequestId, ctx: &Ctx, params: Option<&Raw>) -> (Bytes, HeaderMap) {
    let mut headers = HeaderMap::new();
    let mut request = Request { id: id.clone(), method: (*ctx.method).into(), params: params.cloned() };
    if peer.modern {
        let level = ctx.options.log_level.clone().or_else(|| core.wishes.lock().level.clone());
        let info = core.client_info();
        let meta = request_meta(params, &peer.revision, &info, &core.capabilities(true), level.as_deref());
        request.params = Some(meta);
        mirror_method(&mut headers, &ctx.method);
        if let Some(name) = mirrored_name(&ctx.method, params) {
            headers.insert(NAME, encode_value(&name));
            if &*ctx.method == "tools/call"
                && let Some(facts) = core.tools.lock().get(&name)
            {
                let arguments = params.and_then(|params| params.member("arguments"));
                headers.extend(
                    facts
                        .plan
                        .headers(arguments.as_ref())
                        .into_iter()
                        .map(|(name, value)| (Some(name), value)),
                );
            }
        }
    }
    (request.to_bytes(), headers)
}

pub(super) fn mirror_method(headers: &mut HeaderMap, method: &str) {
    if let Ok(method) = HeaderValue::from_str(method) {
        headers.insert(METHOD, method);
    }
}

fn outcome_of(reply: Reply) -> Result<Raw, CallError> {
    reply.into_result().map_err(server_error)
}

/// A server's error; where it says itself that nobody knows the outcome, so do we.
pub(crate) fn server_error(error: ErrorObject) -> CallError {
    if error.is_outcome_unknown() {
        CallError::OutcomeUnknown { message: error.message }
    } else {
        CallError::Protocol(error)
    }
}

fn with_detail(error: ClientError, detail: &str) -> CallError {
    if detail.is_empty() {
        return error.into();
    }
    let message = format!("{}: {detail}", error.kind);
    if error.may_have_run { CallError::OutcomeUnknown { message } } else { CallError::transport(message) }
}

/// 401, and 403 where somebody looks after credentials.
pub(super) fn unauthorized(core: &Core, refusal: &Refusal) -> Option<CallError> {
    let status = refusal.status;
    if status == 401 || (status == 403 && core.options.authorizer.is_some()) {
        let said = refusal.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
        return Some(CallError::Auth(AuthError::new(format!("the server answered {status}{said}"))));
    }
    None
}

/// Whether a server that we took for a modern one answered as one does that knows only `initialize`.
fn is_legacy_answer(refusal: &Refusal) -> bool {
    let error = refusal.error.as_ref();
    let own = error.is_some_and(|error| {
        matches!(error.code, code::METHOD_NOT_FOUND | code::INVALID_PARAMS | code::INTERNAL_ERROR)
            && refusal.is_ours
    });
    matches!(refusal.status, 400 | 404 | 405 | 406 | 410)
        && !own
        && after_discover(refusal.status, error.map(Err)) == AfterDiscover::Initialize
}
