//! A bridge: a host that speaks a revision with a handshake on one side, a [`Client`] on the other.

mod connecting;
mod from_host;
mod introduction;
mod to_host;
mod words;

use self::words::Words;
use crate::{Canceller, Client, ClientOptions, Peer, Target};
use bowline_proto::{
    jsonrpc::{ErrorObject, Message, Raw, Reply, RequestId, Response},
    revision::Revision,
};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

/// Carries a host's messages to a server and the server's to the host: what `bowline connect` is made of.
///
/// The host's `initialize` opens the connection, with the host's own name, capabilities and revision; its requests, notifications
/// and responses go through [`forward`](Self::forward), and everything for it comes out of the channel given to
/// [`new`](Self::new), in order, each response once. When the server is replaced the host notices nothing but
/// `list_changed`. Errors for lost requests never say that repeating is safe where nobody knows.
///
/// A server that speaks `2026-07-28` only is served to the host as one of the host's own revision, and so is one that takes the place of
/// another and speaks another revision than the host was told; a host that asks for `server/discover` first is told to use
/// `initialize`.
#[derive(Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Clone)]
enum State {
    New,
    Connecting,
    Ready(Client),
    /// The last attempt failed, and nothing is tried any more, or nothing that helps soon.
    Failed(ErrorObject),
    Closed,
}

/// Calls that are under way get this long to take themselves back before the session is ended.
const TAKING_BACK: Duration = Duration::from_millis(500);

struct Inner {
    target: Target,
    options: ClientOptions,
    host: mpsc::Sender<Message>,
    state: watch::Sender<State>,
    /// Calls of the host under way, by the host's ids.
    calls: Mutex<HashMap<RequestId, Canceller>>,
    running: watch::Sender<usize>,
    /// Requests of the server that the host is to answer, by the ids that the host sees.
    questions: Mutex<HashMap<RequestId, oneshot::Sender<Reply>>>,
    ids: AtomicU64,
    /// How long the host waits for the server at the beginning, where somebody stands in for it afterwards.
    patience: Option<Duration>,
    /// Whether the host was introduced to a stand-in.
    stood_in: AtomicBool,
    /// The revision that the host was told, once it was.
    told: Mutex<Option<Revision>>,
    /// What the last attempt to connect met.
    trouble: Mutex<Option<ErrorObject>>,
}

impl Relay {
    /// A bridge to `target`; `host` gets the messages for the host. A full channel holds back what is read from the server.
    ///
    /// The handler, capabilities, name and revision in `options` are replaced by the host's.
    #[must_use]
    pub fn new(target: Target, options: ClientOptions, host: mpsc::Sender<Message>) -> Self {
        Self::build(target, options, host, None)
    }

    /// The same for a host that gives a server up which does not answer `initialize`: when `patience` is over and the server is not
    /// there, the host is introduced to a stand-in that has every list. Connecting goes on, for ever; requests wait for it for
    /// [`outage`](ClientOptions::outage), and then get an error that says that they did not run. When the server is there, the
    /// host hears that every list changed.
    ///
    /// A server that refuses (an error for `initialize`, no authorization) is not away: the host gets its answer.
    #[must_use]
    pub fn patient(
        target: Target,
        options: ClientOptions,
        host: mpsc::Sender<Message>,
        patience: Duration,
    ) -> Self {
        Self::build(target, options, host, Some(patience))
    }

    fn build(
        target: Target,
        options: ClientOptions,
        host: mpsc::Sender<Message>,
        patience: Option<Duration>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                target,
                options,
                host,
                state: watch::Sender::new(State::New),
                calls: Mutex::default(),
                running: watch::Sender::new(0),
                questions: Mutex::default(),
                ids: AtomicU64::new(1),
                patience,
                stood_in: AtomicBool::new(false),
                told: Mutex::default(),
                trouble: Mutex::default(),
            }),
        }
    }

    /// Takes one message of the host. Returns when it is on its way; a response comes out of the channel later.
    pub async fn forward(&self, message: Message) {
        let inner = &self.inner;
        match message {
            Message::Request(request) => inner.on_request(request).await,
            Message::Notification(note) => inner.on_notification(note),
            Message::Response(response) => {
                let asked = inner.questions.lock().remove(&response.id);
                match asked {
                    Some(asked) => drop(asked.send(response.reply)),
                    None => tracing::debug!(id = %response.id, "the host answered what nobody asked"),
                }
            }
        }
    }

    /// The client, once the host has initialized.
    #[must_use]
    pub fn client(&self) -> Option<Client> {
        match &*self.inner.state.borrow() {
            State::Ready(client) => Some(client.clone()),
            _ => None,
        }
    }

    /// Waits until every request of the host is answered, at most `within`. Whether it was so.
    pub async fn drain(&self, within: Duration) -> bool {
        let mut running = self.inner.running.subscribe();
        tokio::time::timeout(within, running.wait_for(|count| *count == 0)).await.is_ok()
    }

    /// Requests of the host that have no answer yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        *self.inner.running.borrow()
    }

    /// Ends the connection; calls that are under way are cancelled.
    pub async fn close(&self) {
        let client = self.client();
        let calls: Vec<_> = self.inner.calls.lock().drain().collect();
        let any = !calls.is_empty();
        for (_, call) in calls {
            call.cancel("the host is gone");
        }
        if any {
            // A server that knows no end of sessions hears at least of the end of each call.
            self.drain(TAKING_BACK).await;
        }
        self.inner.state.send_replace(State::Closed);
        if let Some(client) = client {
            client.close().await;
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("target", &self.inner.target).finish_non_exhaustive()
    }
}

impl Inner {
    /// The way between the server as it is now and the host.
    fn words(&self, peer: &Peer) -> Words {
        Words::between(peer, *self.told.lock())
    }

    /// The same for what the server says of its own accord, which it may do before it was introduced to the host.
    fn words_now(&self) -> Words {
        let peer = match &*self.state.borrow() {
            State::Ready(client) => Some(client.peer()),
            _ => None,
        };
        match peer {
            Some(peer) => self.words(&peer),
            None => Words::Modern(self.told.lock().unwrap_or(Revision::NEWEST_LEGACY)),
        }
    }

    async fn answer(&self, id: RequestId, answer: Result<Raw, ErrorObject>) {
        // A host that is gone needs no answer.
        drop(self.host.send(Message::Response(Response { id, reply: answer.into() })).await);
    }
}
