//! The sessions that this backend holds, by id and by the time at which to look at them again.

use crate::{expiries::Expiries, random, session::Session};
use bowline_proto::legacy::Millis;
use bowline_store::Spread;
use parking_lot::Mutex;
use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const SHARDS: usize = 32;

type Shard = HashSet<ById, Spread>;

/// A session that is known by its id: one word in a table.
struct ById(Arc<Session>);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        &self.0.id
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

/// Sessions by id. The maps' hash is keyed at random, so a look-up tells nothing about ids by its time.
#[derive(Default)]
pub(crate) struct Sessions {
    shards: [Mutex<Shard>; SHARDS],
    count: AtomicUsize,
    /// When a session has to be looked at again. Every session has one entry.
    expiries: Mutex<Expiries<Session>>,
}

impl Sessions {
    fn shard(&self, id: &str) -> &Mutex<Shard> {
        let hash = random::short_hash(id.as_bytes()) as usize;
        &self.shards[hash % SHARDS]
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.shard(id).lock().get(id).map(|ById(session)| session.clone())
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

    /// Puts a session in, for which a place was reserved. There is none of its id.
    pub(super) fn insert(&self, session: &Arc<Session>, expires: Millis) {
        self.shard(&session.id).lock().replace(ById(session.clone()));
        self.look_again(expires, session);
    }

    /// Puts a session in, for which a place was reserved, unless somebody was quicker: then theirs is returned, and the place given back.
    pub(super) fn insert_first(&self, session: Arc<Session>, expires: Millis) -> (Arc<Session>, bool) {
        {
            let mut shard = self.shard(&session.id).lock();
            if let Some(ById(theirs)) = shard.get(&*session.id) {
                let theirs = theirs.clone();
                drop(shard);
                self.unreserve();
                return (theirs, false);
            }
            shard.insert(ById(session.clone()));
        }
        self.look_again(expires, &session);
        (session, true)
    }

    /// Takes a session out; `true` for the one who did.
    pub(super) fn remove(&self, session: &Arc<Session>) -> bool {
        let removed = {
            let mut shard = self.shard(&session.id).lock();
            // One that was loaded anew meanwhile stays.
            let ours = shard.get(&*session.id).is_some_and(|ById(held)| Arc::ptr_eq(held, session));
            ours && shard.remove(&*session.id)
        };
        if removed {
            self.unreserve();
        }
        removed
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().iter().map(|ById(session)| session.clone()).collect::<Vec<_>>())
            .collect()
    }

    /// Looks at `session` again at `at`.
    pub(super) fn look_again(&self, at: Millis, session: &Arc<Session>) {
        self.expiries.lock().push(at, session);
    }

    /// The sessions that have to be looked at now.
    pub(super) fn due(&self, now: Millis) -> Vec<Arc<Session>> {
        self.expiries.lock().take_due(now)
    }
}
