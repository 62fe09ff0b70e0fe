//! The questions of a session that wait on this backend for their answer.

use super::Session;
use crate::core::Core;
use bowline_proto::{
    cursor::{RequestToken, RequestTokenCodec, StreamId},
    jsonrpc::{Reply, RequestId},
};
use tokio::sync::oneshot;

impl Session {
    /// The ids of our own requests in this session.
    pub(crate) fn tokens(&self, core: &Core) -> RequestTokenCodec {
        RequestTokenCodec::new(&core.keys.ring().1, self.scope())
    }

    /// Mints the id of a request of ours whose answer comes to `mailbox` where another backend gets it, and waits for its answer
    /// under it.
    pub(crate) fn open_ask(&self, core: &Core, mailbox: StreamId) -> (Box<str>, oneshot::Receiver<Reply>) {
        let mut id = String::new();
        // Numbers go on from a random one: two backends that ask for a call of the same id never use one twice.
        let serial = self.next_ask.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.tokens(core).mint(RequestToken { stream: mailbox, serial }, &mut id);
        let (sender, receiver) = oneshot::channel();
        let id = id.into_boxed_str();
        self.asks.lock().insert(id.clone(), sender);
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
        let sender = self.asks.lock_if_made().and_then(|mut asks| asks.remove(id));
        match sender {
            Some(sender) => sender.send(reply),
            None => Err(reply),
        }
    }
}
