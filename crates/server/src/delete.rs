//! DELETE: the end of a session.

use crate::{
    body::Body,
    core::Core,
    limits::Caller,
    service::nothing,
    sessions::{self, Found},
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
        Found::Unavailable => return Err(away()),
        Found::NoRoom => return Err(Refusal::unavailable("too_many_sessions", 5, None)),
    };
    check_session_revision(session.revision, delete.header_revision, None)?;
    let core = core.clone();
    let mut ending = Box::pin(async move { sessions::delete(&core, &session).await });
    let ended = match poll_fn(|cx| Poll::Ready(ending.as_mut().poll(cx))).await {
        Poll::Ready(ended) => Ok(ended),
        // A store that takes its time gets a task: a client that does not wait for the answer must not keep the tombstone from it.
        Poll::Pending => crate::task::spawn(ending).await,
    };
    match ended {
        Ok(Ok(())) => Ok(nothing()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a session could not be ended");
            Err(away())
        }
        Err(_) => Err(Refusal::internal("failed", "the session could not be ended", None)),
    }
}

fn away() -> Refusal {
    Refusal::unavailable("store_unavailable", 1, None)
}
