//! The questions of a session that wait on this backend for their answer.

use super::Session;
use crate::core::Core;
use bowline_proto::{
    cursor::{RequestToken, RequestTokenCodec, StreamId},
    jsonrpc::{Raw, Reply, RequestId},
};
use tokio::sync::oneshot;

/// A question that waits here.
pub(super) struct Open {
    answer: oneshot::Sender<Reply>,
    /// The progress token that whoever asked gave it. The client sees the id of the question in its place.
    progress: Option<Raw>,
}

impl Session {
    /// The ids of our own requests in this session.
    pub(crate) fn tokens(&self, core: &Core) -> RequestTokenCodec {
        RequestTokenCodec::new(&core.keys.ring().1, self.scope())
    }

    /// Mints the id of a request of ours whose answer comes to `mailbox` where another backend gets it, and waits for its answer
    /// under it. Progress of the client's that names this id is progress under the token `progress`.
    pub(crate) fn open_ask(
        &self,
        core: &Core,
        mailbox: StreamId,
        progress: Option<Raw>,
    ) -> (Box<str>, oneshot::Receiver<Reply>) {
        let mut id = String::new();
        // Numbers go on from a random one: two backends that ask for a call of the same id never use one twice.
        let serial = self.next_ask.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.tokens(core).mint(RequestToken { stream: mailbox, serial }, &mut id);
        let (answer, receiver) = oneshot::channel();
        let id = id.into_boxed_str();
        self.asks.lock().insert(id.clone(), Open { answer, progress });
        (id, receiver)
    }

    pub(crate) fn close_ask(&self, id: &str) {
        if let Some(mut asks) = self.asks.lock_if_made() {
            asks.remove(id);
        }
    }

    /// Ends the wait of every open question: the session ended.
    pub(crate) fn drop_asks(&self) {
        if let Some(mut asks) = self.asks.lock_if_made() {
            asks.clear();
        }
    }

    /// Hands a response to whoever waits for it here.
    ///
    /// # Errors
    /// The response: nobody does.
    pub(crate) fn answer_ask(&self, id: &RequestId, reply: Reply) -> Result<(), Reply> {
        let RequestId::String(id) = id else { return Err(reply) };
        let open = self.asks.lock_if_made().and_then(|mut asks| asks.remove(id));
        match open {
            Some(open) => open.answer.send(reply),
            None => Err(reply),
        }
    }

    /// The progress token of the question with this id, where it waits here and has one.
    pub(crate) fn progress_of_ask(&self, id: &str) -> Option<Raw> {
        self.asks.lock_if_made()?.get(id)?.progress.clone()
    }
}
