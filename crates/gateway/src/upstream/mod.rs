//! One process as the gateway talks to it: requests with ids of ours, what comes back, and the end.

mod fit;
mod listening;
mod questions;
mod reading;
mod silence;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Notification, Raw, Reply, Request};
use bowline_server::Call;
use bowline_server::bridge::{Calls, Questions, Subject, cancelled};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::{Instant, timeout};

use self::fit::Fit;
use self::listening::Listening;
pub(crate) use self::questions::Question;
use self::silence::Silence;
use crate::child::{Child, Exit, SendError, SpawnError};
use crate::common::Common;
use crate::line::one_line;

/// Who is on the other side of a process: one client, or all of them.
pub(crate) trait Audience: Send + Sync + 'static {
    /// The parameters of `initialize`.
    fn hello(&self) -> Raw;
    /// The log level to set in a process that replaces another.
    fn log_level(&self) -> Option<String>;
    /// What to subscribe to in a process that replaces another.
    fn subscriptions(&self) -> Vec<String>;
    /// Passes a notification of the process on. Must not block.
    fn hear(&self, upstream: &Upstream, subject: Subject, notification: &Notification);
    /// Where to put a request of the process, or why not.
    fn question(&self, upstream: &Upstream, request: &Request) -> Result<Question, ErrorObject>;
    /// Tells every client something of the gateway's own.
    fn tell(&self, notification: &Notification);
    /// Notes what the client has seen of a list, by the method that reads it, for another backend that takes the client up.
    fn note_seen(&self, method: &'static str, digest: String) {
        let _ = (method, digest);
    }
    /// What was noted so.
    fn seen(&self, method: &'static str) -> Option<String> {
        let _ = method;
        None
    }
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The process answered.
    Answered(Reply),
    /// The process had not been given the request: it may be sent to another one.
    NotSent,
    /// The process ended with the request in its hands, in this way.
    Lost(String),
    /// The gateway gives up on it.
    Failed(ErrorObject),
}

#[derive(Default)]
struct Table {
    /// The process ended: nothing may be added.
    over: bool,
    pending: Calls<oneshot::Sender<Outcome>>,
}

/// A running process.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    child: Child,
    common: Arc<Common>,
    audience: Weak<dyn Audience>,
    table: Mutex<Table>,
    questions: Arc<Questions>,
    /// Whether `notifications/initialized` went out.
    initialized: Mutex<bool>,
    end: watch::Sender<Option<Exit>>,
    /// Whether it is being ended because it hangs.
    hangs: AtomicBool,
    /// The id of the last `ping` that asked whether it hangs.
    probe: AtomicU64,
    /// What it speaks.
    fit: Mutex<Fit>,
    /// Whether that is a revision without a handshake, in which every request says what it needs.
    modern: AtomicBool,
    listening: Listening,
    silence: Mutex<Silence>,
}

impl Upstream {
    /// Starts a process. `place` is its place among the processes that there may be.
    pub(crate) fn start(
        common: &Arc<Common>,
        audience: Weak<dyn Audience>,
        place: Option<Arc<OwnedSemaphorePermit>>,
    ) -> Result<Arc<Self>, SpawnError> {
        let (child, lines) = Child::spawn(common.options.child.clone(), &common.guard)?;
        let started = common.counters.started.up();
        tracing::debug!(target: "bowline::gateway", child = %common.name, pid = child.pid(), started, "started");
        let upstream = Arc::new(Self {
            name: common.name.clone(),
            child,
            common: common.clone(),
            audience,
            table: Mutex::default(),
            questions: Arc::default(),
            initialized: Mutex::new(false),
            end: watch::Sender::new(None),
            hangs: AtomicBool::new(false),
            probe: AtomicU64::new(0),
            fit: Mutex::default(),
            modern: AtomicBool::new(false),
            listening: Listening::default(),
            silence: Mutex::new(Silence::new(Instant::now())),
        });
        tokio::spawn(upstream.clone().run(lines, common.alive(), place));
        Ok(upstream)
    }

    /// Asks the process to leave; what runs there ends with it. Does not wait.
    pub(crate) fn close(&self, grace: Duration) {
        self.child.stop(grace);
    }

    /// Waits for the end of the process.
    pub(crate) async fn ended(&self) -> Exit {
        let mut end = self.end.subscribe();
        // The sender lives in `self`.
        match end.wait_for(Option::is_some).await.map(|end| end.clone()) {
            Ok(Some(exit)) => exit,
            _ => std::future::pending().await,
        }
    }

    // --- to the process ---

    /// Sends `notifications/initialized`, once: whoever is first. Returns whether this was the first.
    pub(crate) fn initialized(&self, notification: Option<Notification>) -> bool {
        let mut sent = self.initialized.lock();
        let first = !std::mem::replace(&mut *sent, true);
        if first && !self.is_modern() {
            let notification =
                notification.unwrap_or_else(|| Notification::new("notifications/initialized", None));
            self.notify(notification);
        }
        first
    }

    /// Sends a notification in the words of the process. One that finds no room is dropped and counted: it must not hold up
    /// who sends it.
    pub(crate) fn notify(&self, notification: Notification) {
        if self.is_modern() && &*notification.method != "notifications/cancelled" {
            // What a modern server has to know of its client stands in each request.
            return;
        }
        if let Some(notification) = self.fit().notification(notification) {
            self.post(notification.to_bytes());
        }
    }

    /// Takes note of what the process speaks: its answer to `initialize`, or what would be that of a modern one.
    pub(crate) fn speaks(&self, hello: &Raw, modern: bool) {
        self.modern.store(modern, Ordering::Relaxed);
        *self.fit.lock() = if modern { Fit::default() } else { Fit::of_hello(hello) };
    }

    /// Whether the process speaks a revision without a handshake.
    pub(crate) fn is_modern(&self) -> bool {
        self.modern.load(Ordering::Relaxed)
    }

    fn fit(&self) -> Fit {
        *self.fit.lock()
    }

    fn post(&self, message: Bytes) {
        if let Err(error) = self.child.try_send(one_line(message)) {
            self.common.counters.undelivered.up();
            tracing::debug!(target: "bowline::gateway", child = %self.name, %error, "a message was dropped");
        }
    }

    /// The id that the next request will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.common.next_id()
    }

    /// Sends a request and waits for what comes of it. Dropping the future cancels the request at the process, unless it
    /// is `initialize`, which cannot be cancelled.
    pub(crate) async fn request(
        self: &Arc<Self>,
        id: u64,
        call: Option<&Call>,
        method: &str,
        params: Option<Raw>,
    ) -> Outcome {
        let params = match self.fit().request(method, params) {
            Ok(params) => params,
            Err(unsupported) => return Outcome::Failed(unsupported.to_error()),
        };
        let (outcome, coming) = oneshot::channel();
        {
            let mut table = self.table.lock();
            if table.over {
                return Outcome::NotSent;
            }
            if table.pending.len() >= self.common.options.max_requests {
                return Outcome::Failed(ErrorObject::internal(
                    "upstream_busy",
                    format!(
                        "{} works on {} requests already; try again later",
                        self.name,
                        table.pending.len()
                    ),
                ));
            }
            if table.pending.is_empty() {
                // Who has nothing to do is silent for good reason.
                self.silence.lock().heard(Instant::now());
            }
            table.pending.insert(id, call, outcome);
        }
        let waiting = Waiting { upstream: self, id, cancels: method != "initialize" };
        let message = Request { id: id.into(), method: method.into(), params }.to_bytes();
        match self.child.send(one_line(message)).await {
            Ok(()) => {}
            Err(SendError::Closed { .. }) => {
                waiting.forget();
                return Outcome::NotSent;
            }
            Err(error) => {
                waiting.forget();
                return Outcome::Failed(ErrorObject::internal("upstream_busy", error.to_string()));
            }
        }
        // It was sent, so whatever became of who would have told us, it must not be sent again.
        let outcome = coming.await.unwrap_or_else(|_| Outcome::Lost("was lost".to_owned()));
        waiting.forget();
        outcome
    }

    /// A request of the gateway's own.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: Option<Raw>,
        patience: Duration,
    ) -> Result<Raw, ErrorObject> {
        match timeout(patience, self.request(self.next_id(), None, method, params)).await {
            Ok(Outcome::Answered(reply)) => reply.into_result(),
            Ok(Outcome::Failed(error)) => Err(error),
            Ok(Outcome::Lost(how)) => Err(self.common.lost(method, &how)),
            Ok(Outcome::NotSent) => Err(self.common.unavailable("is not running")),
            Err(_) => Err(ErrorObject::internal(
                "timeout",
                format!("{} did not answer {method} within {patience:?}", self.name),
            )),
        }
    }

    // --- calls ---

    /// How busy it is, less being better: first whether it may hang, having work and saying nothing, then how much it works
    /// on. One that may hang is asked whether it is there, so that a server that only takes its time is soon known as such.
    pub(crate) fn load(&self) -> (bool, usize) {
        let pending = self.table.lock().pending.len();
        if pending == 0 {
            return (false, 0);
        }
        let (quiet, asks) = self.silence.lock().look(Instant::now());
        if asks {
            let id = self.next_id();
            self.probe.store(id, Ordering::Relaxed);
            self.post(Request { id: id.into(), method: "ping".into(), params: None }.to_bytes());
        }
        (quiet, pending)
    }

    /// How many calls of clients run, and the newest of them.
    pub(crate) fn running(&self) -> (usize, Option<Call>) {
        self.table.lock().pending.running()
    }

    /// The running call that was sent under that id.
    pub(crate) fn call_of(&self, id: u64) -> Option<Call> {
        self.table.lock().pending.call(id)
    }

    /// From here on, what the process works on for `from` is for `to`.
    pub(crate) fn hand_over(&self, from: &Call, to: &Call) {
        self.table.lock().pending.hand_over(from, to);
    }

    fn awaits(&self, id: u64) -> bool {
        self.table.lock().pending.contains(id)
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<Outcome>> {
        self.table.lock().pending.remove(id)
    }

    /// The only request that is running, if it is the only one.
    fn take_only(&self) -> Option<oneshot::Sender<Outcome>> {
        self.table.lock().pending.remove_only()
    }
}

/// A request in the table, which is cancelled at the process when nobody waits for it any more.
struct Waiting<'a> {
    upstream: &'a Arc<Upstream>,
    id: u64,
    cancels: bool,
}

impl Waiting<'_> {
    /// Takes the request out without a word.
    fn forget(mut self) {
        self.cancels = false;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let known = self.upstream.take(self.id).is_some();
        if known && self.cancels {
            let reason = Raw::from_value("the client does not wait for it any more").ok();
            self.upstream.notify(cancelled(&self.id.into(), reason));
        }
    }
}
