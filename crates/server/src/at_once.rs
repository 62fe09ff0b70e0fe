//! The stream of a call that was over before it had one: kept by one action of the store, written as one piece (SEMANTICS 5.1, 5.2).

use crate::{
    body::Body, core::Core, fleet::patiently, log::Short, outlet::FIRST_EPOCH, random, service::events,
    session::Session,
};
use bowline_proto::{
    cursor::{Cursor, CursorKind, CursorRequest, StreamId},
    jsonrpc::RequestId,
    legacy::too_large,
    sse::encode,
};
use bowline_store::{CreateError, SealedStream, Unavailable};
use bytes::Bytes;
use http::Response;
use std::{sync::Arc, time::Duration};

/// The room for two ids of the usual length.
const IDS: usize = 192;

/// Answers the request `id` with the stream that `response` is the only message of.
///
/// A client gets what a connection that reads the stream would give it: the priming event, and the response under the id of its place. The
/// store has it before any of that is written, so that whoever is cut off comes back for the rest on any backend. Where the store does not
/// take it in, the client gets its response all the same, without an id to come back with (SEMANTICS 6).
pub(crate) async fn answer(
    core: &Arc<Core>,
    session: &Session,
    id: &RequestId,
    mut response: Bytes,
) -> Response<Body> {
    let limit = core.options.max_event_bytes;
    if response.len() > limit {
        core.metrics.events_too_large.up();
        response = too_large(id, response.len(), limit);
    }
    core.metrics.streams_sealed.up();
    let stream = if session.resumable { keep(core, session, &response).await } else { None };
    let text = match stream {
        Some(stream) => with_ids(core, session, stream, id, &response),
        None => encode::whole(None, None, &response),
    };
    events(core, Body::full(text))
}

/// Has the store keep the stream. `None` where it does not.
async fn keep(core: &Arc<Core>, session: &Session, response: &Bytes) -> Option<StreamId> {
    let id = random::stream_id();
    let kept = match &core.fleet {
        // It is not asked for each answer anew, which would wait for it.
        Some(fleet) if fleet.store_is_away() => {
            Err(CreateError::Unavailable(Unavailable("it was away".into())))
        }
        // Its owner needs a lease, or others could take it for one of a backend that died.
        Some(fleet) if !fleet.lease.is_held(core) => {
            fleet.lease.take(core).await.map_err(CreateError::Unavailable)
        }
        _ => Ok(()),
    };
    let kept = match kept {
        Ok(()) => {
            let last = response.clone();
            let (owner, keep) = (core.backend, core.options.sealed_ttl);
            let stream = SealedStream { id, owner, epoch: FIRST_EPOCH, last, keep };
            patiently(core.store.create_sealed(stream)).await
        }
        Err(error) => Err(error),
    };
    match kept {
        Ok(()) => {
            session.keep_result(core, id, response.len() as u64);
            Some(id)
        }
        Err(error) => {
            core.metrics.streams_unstored.up();
            tracing::debug!(stream = %Short::stream(id), %error, "an answer could not be stored");
            None
        }
    }
}

fn with_ids(core: &Core, session: &Session, stream: StreamId, id: &RequestId, response: &Bytes) -> Bytes {
    let cursors = session.cursors(core);
    let mut cursor = Cursor {
        kind: CursorKind::Call,
        stream,
        epoch: FIRST_EPOCH,
        offset: 0,
        // As on the first connection of any stream.
        poll: 1,
        request: CursorRequest::from(id),
    };
    let mut ids = Vec::with_capacity(IDS);
    let mut retry = None;
    if session.revision.features().priming {
        cursors.mint_bytes(&cursor, &mut ids);
        retry = Some(core.options.retry.pick(Duration::ZERO, core.load_percent(), random::word(), false));
    }
    let end = ids.len();
    cursor.offset = 1;
    cursors.mint_bytes(&cursor, &mut ids);
    let (first, last) = ids.split_at(end);
    encode::whole(retry.map(|retry| (first, retry.into())), Some(last), response)
}
