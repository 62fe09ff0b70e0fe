//! Ends the calls of backends that died: whoever reads such a stream, or looks for them, seals it at a higher epoch. The store lets
//! one seal win, so an owner that was only asleep is fenced off (SEMANTICS 6).

use super::{
    alive, jittered, patiently,
    rerun::{TakenUp, take_up},
};
use crate::{core::Core, log::Short, modern::TASKS};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{ErrorObject, RequestId},
};
use bowline_store::{BackendState, OpenStream, Page, Unavailable, WriteAt, WriteError};
use bytes::Bytes;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How often a backend looks for others that died, more or less: together with a lease well below the 20 s that a caller may wait.
const SWEEP: Duration = Duration::from_secs(5);

/// The first time: where no backend lives for long, somebody has to look all the same.
const FIRST: Duration = Duration::from_secs(1);

/// How many streams are sealed in one go, and the pause between two: a backend that had very many must not keep the store from everybody
/// else.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);

/// What the caller of a lost call is told.
pub(crate) fn owner_is_lost() -> ErrorObject {
    ErrorObject::outcome_unknown(
        "owner_lost",
        "The backend that worked on this call is gone. The call may have run",
    )
}

/// Whether `owner` is gone, and this backend may say so.
pub(super) async fn is_gone(core: &Core, owner: bowline_store::BackendId) -> Result<bool, Unavailable> {
    let may_judge = core.fleet.as_ref().is_some_and(|fleet| fleet.lease.may_judge(core));
    if !may_judge || owner == core.backend {
        return Ok(false);
    }
    Ok(patiently(core.store.backend_state(owner)).await? == BackendState::Gone)
}

/// Looks whether the stream of `page`, a call's that is not sealed, has lost its owner; then it is run again or sealed. Returns whether
/// something was done about it.
pub(crate) async fn orphaned(
    core: &Arc<Core>,
    stream: StreamId,
    page: &Page,
    request: Option<&RequestId>,
) -> bool {
    if page.sealed || core.fleet.is_none() {
        return false;
    }
    match is_gone(core, page.owner).await {
        Ok(true) => {
            match take_up(core, stream, page.epoch, core.options.open_ttl()).await {
                TakenUp::Yes => return true,
                TakenUp::Later => return false,
                TakenUp::No => {}
            }
            let last = request.map(|id| owner_is_lost().to_response(Some(id)));
            seal(core, stream, (page.epoch, page.tail), last, core.options.sealed_ttl).await
        }
        Ok(false) | Err(_) => false,
    }
}

/// The same for the log of a task, whose client may come for it for as long as it was told.
pub(crate) async fn orphaned_task(core: &Arc<Core>, stream: StreamId, page: &Page) -> bool {
    if page.sealed || core.fleet.is_none() || !is_gone(core, page.owner).await.unwrap_or(false) {
        return false;
    }
    match take_up(core, stream, page.epoch, core.options.open_task_ttl()).await {
        TakenUp::Yes => return true,
        TakenUp::Later => return false,
        TakenUp::No => {}
    }
    let last = owner_is_lost().to_response(None);
    seal(core, stream, (page.epoch, page.tail), Some(last), core.options.task_ttl).await
}

/// Seals a stream at the next epoch. Returns whether it is sealed now.
async fn seal(
    core: &Core,
    stream: StreamId,
    (epoch, tail): (u64, u64),
    last: Option<Bytes>,
    keep: Duration,
) -> bool {
    match try_sealing(core, stream, (epoch, tail), last, keep).await {
        // Somebody else was quicker, or the owner lives.
        Ok(()) | Err(WriteError::Sealed | WriteError::Fenced { .. }) => true,
        Err(error) => {
            tracing::debug!(stream = %Short::stream(stream), %error, "the call of a lost backend could not be ended now");
            false
        }
    }
}

/// The same, with what the store says where it is not done.
pub(super) async fn try_sealing(
    core: &Core,
    stream: StreamId,
    (epoch, tail): (u64, u64),
    last: Option<Bytes>,
    keep: Duration,
) -> Result<(), WriteError> {
    let at = WriteAt { stream, epoch: epoch.saturating_add(1), offset: tail.saturating_add(1) };
    patiently(core.store.seal(at, last, keep)).await?;
    core.metrics.streams_reaped.up();
    tracing::info!(stream = %Short::stream(stream), "the backend of a call is gone; the call was ended with an error");
    Ok(())
}

/// Looks for backends that died, now and then, until the endpoint is gone or has left.
pub(super) async fn sweep(core: Weak<Core>) {
    let mut pause = FIRST;
    loop {
        tokio::time::sleep(jittered(pause)).await;
        pause = SWEEP;
        let Some(core) = alive(&core) else { return };
        if !core.fleet.as_ref().is_some_and(|fleet| fleet.lease.may_judge(&core)) {
            continue;
        }
        let backends = match patiently(core.store.backends()).await {
            Ok(backends) => backends,
            Err(error) => {
                tracing::debug!(%error, "the other backends could not be listed");
                continue;
            }
        };
        for (backend, state) in backends {
            if state == BackendState::Gone && backend != core.backend {
                bury(&core, backend).await;
            }
        }
    }
}

/// Ends every call of a backend that is gone, or runs it again.
async fn bury(core: &Arc<Core>, backend: bowline_store::BackendId) {
    loop {
        // Looked at again for each go: who lives again keeps the rest.
        if !is_gone(core, backend).await.unwrap_or(false) {
            return;
        }
        let Ok(open) = patiently(core.store.open_streams(backend, AT_ONCE)).await else { return };
        if open.is_empty() {
            return;
        }
        let mut settled = 0;
        for OpenStream { id, epoch, tail, request_id, session, .. } in &open {
            let request = request_id.as_deref().and_then(|id| RequestId::from_json(id).ok());
            let is_task = session.as_deref() == Some(TASKS);
            let open_ttl = if is_task { core.options.open_task_ttl() } else { core.options.open_ttl() };
            let taken_up = take_up(core, *id, *epoch, open_ttl).await;
            settled += usize::from(taken_up == TakenUp::Yes);
            if taken_up != TakenUp::No {
                continue;
            }
            let keep = if is_task { core.options.task_ttl } else { core.options.sealed_ttl };
            let last = request.map(|id| owner_is_lost().to_response(Some(&id)));
            settled += usize::from(seal(core, *id, (*epoch, *tail), last, keep).await);
        }
        if settled == 0 {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
