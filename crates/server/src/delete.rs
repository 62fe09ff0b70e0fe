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
use std::sync::Arc;

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
    // In a task of its own: a client that does not wait for the answer must not keep the tombstone from the store.
    let ended = tokio::spawn(async move { sessions::end(&core, &session, Ending::Deleted).await });
    match ended.await {
        Ok(()) => Ok(nothing()),
        Err(_) => Err(Refusal::internal("failed", "the session could not be ended", None)),
    }
}
