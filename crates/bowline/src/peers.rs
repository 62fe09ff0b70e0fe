//! The sessions that changes are announced to.

use bowline_server::Peer;
use bowline_store::Spread;
use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{Hash, Hasher},
};

/// Sessions by their ids, which are drawn at random. There may be many: each is two words here.
#[derive(Default)]
pub(crate) struct Peers(HashSet<ById, Spread>);

impl Peers {
    /// Notes a session, in place of one with its id.
    pub(crate) fn insert(&mut self, peer: Peer) {
        self.0.replace(ById(peer));
    }

    /// Forgets the session of this id.
    pub(crate) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Peer> {
        self.0.iter().map(|ById(peer)| peer.clone()).collect()
    }
}

/// A session that is known by its id.
struct ById(Peer);

impl Borrow<str> for ById {
    fn borrow(&self) -> &str {
        self.0.session_id()
    }
}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.session_id().hash(state);
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.session_id() == other.0.session_id()
    }
}

impl Eq for ById {}
