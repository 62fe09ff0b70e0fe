//! Sessions that several backends serve: each has a copy of the record, which is at most a second old when it is used.

use super::{Ending, Found, after_ttl, end_here, kept_for, touch, touch_at};
use crate::{
    Peer,
    core::Core,
    fleet::{BACKSTOP, patiently},
    isolate,
    session::Session,
};
use bowline_store::{CreateError, SessionLookup, SessionRecord};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// How old a copy may be that is used, in milliseconds (SEMANTICS 6).
const FRESH: u64 = 1_000;

/// How often the store is asked at most because it said that something changed.
const PAUSE: Duration = Duration::from_millis(400);

/// Looks an id up, here and in the store.
pub(super) async fn find(
    core: &Arc<Core>,
    id: &str,
    principal: Option<&str>,
    held: Option<Arc<Session>>,
) -> Found {
    let Some(session) = held.filter(|session| !session.has_ended()) else {
        return load(core, id, principal).await;
    };
    if !session.check_due(core, FRESH) {
        return Found::Live(session);
    }
    let checking = session.checking().lock().await;
    // Somebody may have asked meanwhile.
    if session.check_due(core, FRESH) {
        let asked = core.now();
        let checked = check(core, &session).await;
        match checked {
            Checked::Lives => session.note_checked(asked),
            Checked::Ended => return Found::Ended,
            Checked::Unknown => return Found::Unknown,
            // What it has here can be served: nothing says that it ended. Those who waited need not wait as long once more.
            Checked::Away => session.note_checked(core.now()),
        }
    }
    drop(checking);
    if session.has_ended() { load(core, id, principal).await } else { Found::Live(session) }
}

/// The same for a session that is held here, although its copy may be fresh.
pub(super) async fn find_again(core: &Arc<Core>, session: &Arc<Session>) -> Found {
    let asked = core.now();
    match check(core, session).await {
        Checked::Lives => {
            session.note_checked(asked);
            Found::Live(session.clone())
        }
        Checked::Ended => Found::Ended,
        Checked::Unknown => Found::Unknown,
        Checked::Away => Found::Unavailable,
    }
}

/// What the store says of a session that this backend holds.
enum Checked {
    Lives,
    Ended,
    Unknown,
    Away,
}

/// Asks the store, and does what its answer demands.
async fn check(core: &Arc<Core>, session: &Arc<Session>) -> Checked {
    match patiently(core.store.load_session(&session.id)).await {
        Ok(SessionLookup::Live(version, record)) => {
            session.take_over(version, &record);
            Checked::Lives
        }
        Ok(SessionLookup::Ended) => {
            end_here(core, session, Ending::Elsewhere);
            Checked::Ended
        }
        Ok(SessionLookup::Unknown) if session.is_active() => put_back(core, session).await,
        Ok(SessionLookup::Unknown) => {
            end_here(core, session, Ending::Elsewhere);
            Checked::Unknown
        }
        Err(error) => {
            tracing::debug!(%session, %error, "the store cannot be asked for a session");
            Checked::Away
        }
    }
}

/// The store has lost a session that something runs for here: one that was ended would have a tombstone. Its record is put back, so that
/// whoever waits for a call is told what became of it, and the session goes on.
async fn put_back(core: &Arc<Core>, session: &Arc<Session>) -> Checked {
    let record = SessionRecord::clone(&session.record());
    match patiently(core.store.create_session(&session.id, record, kept_for(core))).await {
        Ok(version) => {
            session.set_version(version);
            tracing::warn!(%session, "the store had lost a session that is in use; it was put back");
            Checked::Lives
        }
        // Another backend was quicker.
        Err(CreateError::Exists) => Checked::Lives,
        Err(error @ CreateError::Full { .. }) => {
            tracing::warn!(%session, %error, "the store has lost a session that is in use");
            end_here(core, session, Ending::Elsewhere);
            Checked::Unknown
        }
        Err(CreateError::Unavailable(_)) => Checked::Away,
    }
}

/// Takes up a session that another backend began.
async fn load(core: &Arc<Core>, id: &str, principal: Option<&str>) -> Found {
    let (version, record) = match patiently(core.store.load_session(id)).await {
        Ok(SessionLookup::Live(version, record)) => (version, record),
        Ok(SessionLookup::Ended) => return Found::Ended,
        Ok(SessionLookup::Unknown) => return Found::Unknown,
        Err(_) => return Found::Unavailable,
    };
    if record.principal.as_deref() != principal {
        return Found::Unknown;
    }
    if !core.sessions.reserve(core.options.max_sessions) {
        core.metrics.sessions_refused.up();
        return Found::NoRoom;
    }
    let record = Arc::unwrap_or_clone(record);
    let session = Arc::new(Session::loaded(core, id, version, record));
    let (session, first) = core.sessions.insert_first(session, after_ttl(core));
    if first {
        core.metrics.sessions.up();
        core.metrics.sessions_taken_up.up();
        tracing::debug!(%session, "a session was taken up");
        // It is used, wherever it was used last.
        touch(core, &session).await;
    }
    Found::Live(session)
}

/// Shows the session to the handler, if it has not seen it: another backend began it.
pub(crate) fn adopt(core: &Arc<Core>, session: &Arc<Session>) {
    session.adopt(|| isolate::run(core, || core.handler.adopt(&Peer::new(core, session))));
}

/// Gives up a copy that was not used here for as long as a session lives. Whether the session is over the store says: other backends
/// may use it.
pub(super) async fn forget(core: &Arc<Core>, session: &Arc<Session>) {
    match patiently(core.store.load_session(&session.id)).await {
        Ok(SessionLookup::Live(..)) => match session.idle_deadline(core) {
            Some(deadline) if deadline <= core.now() => drop(end_here(core, session, Ending::Forgotten)),
            // It was used while the store was asked: what runs here now must not be ended.
            deadline => core.sessions.look_again(deadline.unwrap_or_else(|| touch_at(core)), session),
        },
        Ok(SessionLookup::Ended) => drop(end_here(core, session, Ending::Elsewhere)),
        Ok(SessionLookup::Unknown) => drop(end_here(core, session, Ending::Expired)),
        // Not now.
        Err(_) => {
            let later = core.now().after(30_000);
            core.sessions.look_again(later, session);
        }
    }
}

/// Looks out for what other backends do to a session, for as long as something of it runs here: without a request, nobody else would
/// notice that it ended.
pub(crate) fn watch(core: &Arc<Core>, session: &Arc<Session>) {
    if !core.is_shared() || session.stateless || session.watched.swap(true, Ordering::AcqRel) {
        return;
    }
    let (core, session) = (core.clone(), session.clone());
    crate::task::spawn(async move {
        // Subscribed before anything is read, so that nothing falls in between.
        let mut wakeups = core.store.subscribe(session.standalone_id);
        loop {
            check(&core, &session).await;
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                () = wakeups.changed() => {}
                () = tokio::time::sleep(BACKSTOP) => {}
            }
            if session.has_ended() {
                return;
            }
            if !session.is_active() {
                session.watched.store(false, Ordering::Release);
                // Who came in the meantime has not started another watch.
                if !session.is_active() || session.watched.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        }
    });
}
