//! The sessions that this backend serves, and their end.

use crate::{Peer, call::CancelReason, core::Core, expiries::Expiries, isolate, random, session::Session};
use bowline_proto::legacy::Millis;
use bowline_proto::time::millis;
use bowline_store::{CreateError, SessionLookup, SessionRecord, Version};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SHARDS: usize = 32;

/// Sessions by id. The map's hash is keyed at random, so a look-up tells nothing about ids by its time.
#[derive(Default)]
pub(crate) struct Sessions {
    shards: [Mutex<HashMap<Box<str>, Arc<Session>>>; SHARDS],
    count: AtomicUsize,
    /// When a session has to be looked at again. Every session has one entry.
    expiries: Mutex<Expiries<Session>>,
}

/// What an id stands for.
pub(crate) enum Found {
    Live(Arc<Session>),
    /// It ended; nothing brings it back.
    Ended,
    Unknown,
    /// The store cannot be asked.
    Unavailable,
}

impl Sessions {
    fn shard(&self, id: &str) -> &Mutex<HashMap<Box<str>, Arc<Session>>> {
        let hash = random::short_hash(id.as_bytes()) as usize;
        &self.shards[hash % SHARDS]
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes a place for a new session.
    pub(crate) fn reserve(&self, limit: usize) -> bool {
        self.count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1))
            .is_ok()
    }

    pub(crate) fn unreserve(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    fn insert(&self, session: &Arc<Session>, expires: Millis) {
        self.shard(&session.id).lock().insert(session.id.clone(), session.clone());
        self.expiries.lock().push(expires, session);
    }

    /// Takes a session out; `true` for the one who did.
    fn remove(&self, session: &Session) -> bool {
        let removed = self.shard(&session.id).lock().remove(&session.id).is_some();
        if removed {
            self.unreserve();
        }
        removed
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.shards.iter().flat_map(|shard| shard.lock().values().cloned().collect::<Vec<_>>()).collect()
    }
}

/// Makes `session` known, here and in the store. A place was reserved for it.
pub(crate) async fn open(core: &Core, session: &Arc<Session>) -> Result<(), CreateError> {
    let record = SessionRecord::clone(&session.record());
    let version = core.store.create_session(&session.id, record, kept_for(core)).await?;
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
pub(crate) async fn find(core: &Core, id: &str, principal: Option<&str>) -> Found {
    let held = core.sessions.shard(id).lock().get(id).cloned();
    let Some(session) = held else {
        return match core.store.load_session(id).await {
            Ok(SessionLookup::Ended) => Found::Ended,
            Ok(SessionLookup::Live(..) | SessionLookup::Unknown) => Found::Unknown,
            Err(_) => Found::Unavailable,
        };
    };
    if session.principal.as_deref() != principal {
        return Found::Unknown;
    }
    if session.has_ended() || session.idle_deadline(core).is_some_and(|deadline| deadline <= core.now()) {
        return Found::Unknown;
    }
    Found::Live(session)
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// DELETE.
    Deleted,
    /// Not used for its time to live.
    Expired,
    /// This backend leaves, and nobody else could serve it.
    Leaving,
}

/// Ends a session: its calls are cancelled, its streams end, its id is forgotten.
pub(crate) async fn end(core: &Arc<Core>, session: &Arc<Session>, ending: Ending) {
    if !session.end() {
        return;
    }
    if core.sessions.remove(session) {
        core.metrics.sessions.down();
    }
    if ending == Ending::Expired {
        core.metrics.sessions_expired.up();
    }
    tracing::debug!(%session, ?ending, "a session ended");
    for call in session.take_calls() {
        call.cancel(CancelReason::SessionEnded);
    }
    session.drop_asks();
    if let Some(outlet) = session.standalone_if_made() {
        outlet.seal(None);
    }
    isolate::run(core, || core.handler.ended(&Peer::new(core, session)));
    let deleted = core.store.delete_session(&session.id, core.options.tombstone_ttl).await;
    if let Err(error) = deleted {
        tracing::warn!(%session, %error, "the end of a session could not be stored");
    }
}

/// One round of housekeeping: sessions whose time is over end; the store learns which are in use.
pub(crate) async fn expire(core: &Arc<Core>) {
    let now = core.now();
    let due = core.sessions.expiries.lock().take_due(now);
    for session in due {
        if session.has_ended() {
            continue;
        }
        match session.idle_deadline(core) {
            Some(deadline) if deadline <= now => end(core, &session, Ending::Expired).await,
            deadline => {
                let next = deadline.unwrap_or_else(|| touch_at(core));
                if session.touch_due(core) {
                    touch(core, &session).await;
                }
                core.sessions.expiries.lock().push(next, &session);
            }
        }
    }
}

/// How long the store keeps a record that it is not told of. Longer than a session lives without use: a record is prolonged when its
/// session is looked at, which may be as late as a whole life after it was used, and one that has run out is not found again. Without
/// it no change of the session would be stored, and its end would leave no tombstone.
fn kept_for(core: &Core) -> Duration {
    core.options.session_ttl * 2
}

/// Tells the store that a session is in use, so that it keeps the record and the standalone stream.
pub(crate) async fn touch(core: &Core, session: &Session) {
    if let Err(error) = core.store.touch_session(&session.id, kept_for(core)).await {
        tracing::warn!(%session, %error, "a session in use could not be prolonged");
    }
    if let Some(outlet) = session.standalone_if_made() {
        outlet.log().keep(outlet.stream, core.options.session_ttl * 2);
    }
}

/// A session that is in use is looked at again in a quarter of its time to live, so that the store keeps it too.
fn touch_at(core: &Core) -> Millis {
    let quarter = millis(core.options.session_ttl / 4).max(1);
    Millis(core.now().0.saturating_add(quarter))
}

/// A version for a session that is not in the store yet.
pub(crate) const NOT_STORED: Version = Version(0);
