//! DELETE: the end of a session.

use crate::{
    body::Body,
    core::Core,
    limits::Caller,
    service::nothing,
    sessions::{self, Ending, Found},
};
use bowline_proto::http::{Refusal, check_session_revision, route_delete, session_not_found};
use http::{Response, request::Parts};
use std::{future::poll_fn, sync::Arc, task::Poll};

pub(crate) async fn answer(
    core: &Arc<Core>,
    caller: &Caller,
    parts: &Parts,
) -> Result<Response<Body>, Refusal> {
    let delete = route_delete(&core.policy, &parts.headers)?;
    let session = match sessions::find(core, delete.session, caller.principal.as_deref()).await {
        Found::Live(session) => session,
        Found::Ended | Found::Unknown => return Err(session_not_found(None)),
        Found::Unavailable => return Err(Refusal::unavailable("store_unavailable", 1, None)),
    };
    check_session_revision(session.revision, delete.header_revision, None)?;
    let core = core.clone();
    let mut ending = Box::pin(async move { sessions::end(&core, &session, Ending::Deleted).await });
    if poll_fn(|cx| Poll::Ready(ending.as_mut().poll(cx))).await.is_ready() {
        return Ok(nothing());
    }
    // A store that takes its time gets a task: a client that does not wait for the answer must not keep the tombstone from it.
    match tokio::spawn(ending).await {
        Ok(()) => Ok(nothing()),
        Err(_) => Err(Refusal::internal("failed", "the session could not be ended", None)),
    }
}
