//! Modern clients that listen (`subscriptions/listen`), and what a process has to be subscribed to for them.

use std::collections::{BTreeSet, HashMap};

use bowline_proto::jsonrpc::Notification;
use bowline_server::Peer;
use bowline_server::bridge::Subject;
use parking_lot::Mutex;

/// The listeners of one process, or of several that are alike. How many there may be is the endpoint's bound, and so is how many
/// resources one of them may name.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<HashMap<String, Peer>>);

impl Listeners {
    pub(crate) fn add(&self, peer: &Peer) {
        self.0.lock().insert(peer.session_id().to_owned(), peer.clone());
    }

    /// Takes a listener out; whether it was one.
    pub(crate) fn remove(&self, peer: &Peer) -> bool {
        self.0.lock().remove(peer.session_id()).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Every resource that somebody listens to.
    pub(crate) fn subscriptions(&self) -> BTreeSet<String> {
        self.0.lock().values().flat_map(Peer::subscriptions).collect()
    }

    /// Tells whom it concerns; each hears only what it asked for.
    pub(crate) fn tell(&self, subject: Subject, notification: &Notification) {
        let uri = notification.params.as_ref().and_then(|params| params.member("uri")?.string());
        let concerns = |peer: &&Peer| match subject {
            Subject::Resource => uri.as_ref().is_some_and(|uri| peer.is_subscribed(uri)),
            _ => true,
        };
        let peers: Vec<Peer> = self.0.lock().values().filter(concerns).cloned().collect();
        for peer in peers {
            peer.notify(notification);
        }
    }
}
