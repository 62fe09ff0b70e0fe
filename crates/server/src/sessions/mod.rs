//! The sessions that this backend serves: found, begun, ended.

mod refresh;
mod table;

pub(crate) use refresh::{adopt, watch};
pub(crate) use table::Sessions;

use crate::{
    Peer,
    call::CancelReason,
    core::Core,
    fleet::{STORE_PATIENCE, patiently},
    isolate,
    session::Session,
};
use bowline_proto::legacy::Millis;
use bowline_proto::time::millis;
use bowline_store::{CreateError, SessionLookup, SessionRecord, Unavailable, Version};
use std::{sync::Arc, time::Duration};

/// A version for a session that is not in the store yet.
pub(crate) const NOT_STORED: Version = Version(0);

/// What an id stands for.
pub(crate) enum Found {
    Live(Arc<Session>),
    /// It ended; nothing brings it back.
    Ended,
    Unknown,
    /// The store cannot be asked.
    Unavailable,
    /// It lives, and this backend has no room for one more.
    NoRoom,
}

/// Makes `session` known, here and in the store. A place was reserved for it.
pub(crate) async fn open(core: &Core, session: &Arc<Session>) -> Result<(), CreateError> {
    let record = SessionRecord::clone(&session.record());
    let version = patiently(core.store.create_session(&session.id, record, kept_for(core))).await?;
    session.set_version(version);
    let expires = session.idle_deadline(core).unwrap_or_else(|| after_ttl(core));
    core.sessions.insert(session, expires);
    core.metrics.sessions.up();
    core.metrics.sessions_opened.up();
    tracing::debug!(%session, "a session began");
    Ok(())
}

fn after_ttl(core: &Core) -> Millis {
    let ttl = millis(core.options.session_ttl);
    Millis(core.now().0.saturating_add(ttl))
}

/// Looks an id up for `principal`. Another principal's session is unknown.
pub(crate) async fn find(core: &Arc<Core>, id: &str, principal: Option<&str>) -> Found {
    let held = core.sessions.get(id);
    if let Some(session) = &held
        && session.principal.as_deref() != principal
    {
        return Found::Unknown;
    }
    if core.is_shared() {
        return refresh::find(core, id, principal, held).await;
    }
    let Some(session) = held else {
        return match patiently(core.store.load_session(id)).await {
            Ok(SessionLookup::Ended) => Found::Ended,
            Ok(SessionLookup::Live(..) | SessionLookup::Unknown) => Found::Unknown,
            Err(_) => Found::Unavailable,
        };
    };
    if session.has_ended() || session.idle_deadline(core).is_some_and(|deadline| deadline <= core.now()) {
        return Found::Unknown;
    }
    Found::Live(session)
}

/// Looks a session up again, in the store and however fresh its copy is: something that belongs to it has gone.
pub(crate) async fn find_again(core: &Arc<Core>, session: &Arc<Session>) -> Found {
    if core.is_shared() && !session.has_ended() {
        return refresh::find_again(core, session).await;
    }
    find(core, &session.id, session.principal.as_deref()).await
}

/// How a session ends here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// DELETE.
    Deleted,
    /// Not used for its time to live.
    Expired,
    /// This backend leaves, and nobody else could serve it.
    Leaving,
    /// It ended on another backend, or the store does not know it any more.
    Elsewhere,
    /// It lives on; this backend does not hold it any longer.
    Forgotten,
}

/// Ends what this backend has of a session: its calls are cancelled, its streams end, its id is forgotten. `false` where somebody did so
/// before.
fn end_here(core: &Arc<Core>, session: &Arc<Session>, ending: Ending) -> bool {
    let first = if ending == Ending::Forgotten { session.forget() } else { session.end() };
    if !first {
        return false;
    }
    if core.sessions.remove(session) {
        core.metrics.sessions.down();
    }
    if ending == Ending::Expired {
        core.metrics.sessions_expired.up();
    }
    tracing::debug!(%session, ?ending, "a session ended here");
    // Where the session goes on elsewhere, so do those who wait for its calls: they are told.
    let reason =
        if ending == Ending::Forgotten { CancelReason::Draining } else { CancelReason::SessionEnded };
    for call in session.take_calls() {
        call.cancel(reason);
    }
    session.drop_asks();
    if let Some(outlet) = session.standalone_if_made()
        && ending != Ending::Forgotten
    {
        outlet.seal(None);
    }
    if session.is_adopted() {
        isolate::run(core, || core.handler.ended(&Peer::new(core, session)));
    }
    true
}

/// Ends a session because its client says so, here and for every other backend.
///
/// # Errors
/// The store cannot be told: nothing has ended.
pub(crate) async fn delete(core: &Arc<Core>, session: &Arc<Session>) -> Result<(), Unavailable> {
    if !core.is_shared() {
        if end_here(core, session, Ending::Deleted) {
            bury(core, session).await;
        }
        return Ok(());
    }
    patiently(core.store.delete_session(&session.id, core.options.tombstone_ttl)).await?;
    end_here(core, session, Ending::Deleted);
    // Another backend may write it, and yet another have a reader.
    core.remove_stream(session.standalone_id);
    Ok(())
}

/// Ends a session that only this backend could serve.
async fn end(core: &Arc<Core>, session: &Arc<Session>, ending: Ending) {
    if end_here(core, session, ending) {
        bury(core, session).await;
    }
}

/// Leaves a tombstone.
async fn bury(core: &Core, session: &Session) {
    let deleted = core.store.delete_session(&session.id, core.options.tombstone_ttl).await;
    if let Err(error) = deleted {
        tracing::warn!(%session, %error, "the end of a session could not be stored");
    }
}

/// Gives a session up because this backend leaves: other backends of a shared store go on with it.
pub(crate) async fn leave(core: &Arc<Core>, session: &Arc<Session>) {
    if core.is_shared() {
        end_here(core, session, Ending::Forgotten);
    } else {
        end(core, session, Ending::Leaving).await;
    }
}

/// One round of housekeeping: sessions whose time is over end; the store learns which are in use.
pub(crate) async fn expire(core: &Arc<Core>) {
    let now = core.now();
    for session in core.sessions.due(now) {
        if session.has_ended() {
            continue;
        }
        match session.idle_deadline(core) {
            Some(deadline) if deadline <= now => {
                if core.is_shared() {
                    refresh::forget(core, &session).await;
                } else {
                    end(core, &session, Ending::Expired).await;
                }
            }
            deadline => {
                let next = deadline.unwrap_or_else(|| touch_at(core));
                // Where others may use it too, the store says when it is over: what is not in use is not prolonged.
                let in_use = deadline.is_none() || !core.is_shared();
                if in_use && session.touch_due(core) {
                    touch(core, &session).await;
                }
                core.sessions.look_again(next, &session);
            }
        }
    }
}

/// How long the store keeps a record that it is not told of. Where this backend says when a session is over, longer than it lives
/// without use: its record is prolonged when it is looked at, which may be as late as a whole life after it was used, and one that
/// has run out is not found again (no change would be stored, and its end would leave no tombstone). Where the store says so, by
/// the last use that it was told of, which may be a quarter of a life before the last one.
fn kept_for(core: &Core) -> Duration {
    let ttl = core.options.session_ttl;
    if core.is_shared() { ttl + ttl / 4 } else { ttl * 2 }
}

/// Tells the store that a session is in use, so that it keeps the record and the standalone stream.
pub(crate) async fn touch(core: &Core, session: &Session) {
    let touched = core.store.touch_session(&session.id, kept_for(core));
    match tokio::time::timeout(STORE_PATIENCE, touched).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%session, %error, "a session in use could not be prolonged"),
        Err(_) => tracing::warn!(%session, "a session in use could not be prolonged in time"),
    }
    let keep = core.options.session_ttl * 2;
    match session.standalone_if_made() {
        Some(outlet) => outlet.log().keep(outlet.stream, keep),
        // Another backend may have made it.
        None if core.is_shared() => core.store.keep(session.standalone_id, keep),
        None => {}
    }
}

/// A session that is in use is looked at again in a quarter of its time to live, so that the store keeps it too.
fn touch_at(core: &Core) -> Millis {
    let quarter = millis(core.options.session_ttl / 4).max(1);
    Millis(core.now().0.saturating_add(quarter))
}
