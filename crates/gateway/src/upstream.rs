//! One process as the gateway talks to it: requests with ids of ours, what comes back, and the end.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use bowline_proto::jsonrpc::{
    Body, ErrorObject, Message, Notification, Raw, Reply, Request, RequestId, Response, parse,
};
use bowline_server::{Ask, Call, Peer};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::child::{Child, Exit, Lines, Received, SendError, SpawnError};
use crate::common::{Alive, Common};
use crate::line::{broken_response_id, one_line};
use crate::route::Subject;

/// At most one warning about lines that are no messages in this time.
const WARN_EVERY: Duration = Duration::from_secs(10);

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
}

/// A request of the process, on its way to a client.
pub(crate) struct Question {
    pub(crate) ask: Ask,
    pub(crate) on: On,
}

/// The stream that a question is on.
pub(crate) enum On {
    Call(Call),
    Standalone(Peer),
}

impl On {
    fn notify(&self, notification: &Notification) {
        match self {
            Self::Call(call) => drop(call.notify(notification)),
            Self::Standalone(peer) => peer.notify(notification),
        }
    }
}

/// A question that waits for its answer.
struct Open {
    /// The id that the client knows it by.
    seen_as: RequestId,
    on: On,
    task: AbortHandle,
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

/// A request that waits for its response.
struct Pending {
    call: Option<Call>,
    /// The client's progress token, in the form of [`token_key`].
    token: Option<String>,
    outcome: oneshot::Sender<Outcome>,
}

#[derive(Default)]
struct Table {
    /// The process ended: nothing may be added.
    over: bool,
    /// Ordered by id, which is the order of their arrival.
    pending: BTreeMap<u64, Pending>,
}

/// A running process.
pub(crate) struct Upstream {
    pub(crate) name: Arc<str>,
    child: Child,
    common: Arc<Common>,
    audience: Weak<dyn Audience>,
    table: Mutex<Table>,
    questions: Mutex<HashMap<RequestId, Open>>,
    /// Whether `notifications/initialized` went out.
    initialized: Mutex<bool>,
    end: watch::Sender<Option<Exit>>,
    /// Whether it is being ended because it hangs.
    hangs: AtomicBool,
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
            questions: Mutex::default(),
            initialized: Mutex::new(false),
            end: watch::Sender::new(None),
            hangs: AtomicBool::new(false),
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

    /// Sends `notifications/initialized`, once: whoever is first.
    pub(crate) fn initialized(&self, notification: Option<Notification>) {
        let mut sent = self.initialized.lock();
        if !std::mem::replace(&mut *sent, true) {
            let notification =
                notification.unwrap_or_else(|| Notification::new("notifications/initialized", None));
            self.post(notification.to_bytes());
        }
    }

    /// Sends a notification. One that finds no room is dropped and counted: it must not hold up who sends it.
    pub(crate) fn notify(&self, notification: &Notification) {
        self.post(notification.to_bytes());
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
            let token = call.and_then(Call::progress_token).map(token_key);
            table.pending.insert(id, Pending { call: call.cloned(), token, outcome });
        }
        let waiting = Waiting { upstream: self, id, cancels: method != "initialize" };
        let message = Request { id: id.into(), method: method.into(), params }.to_bytes();
        match self.child.send(one_line(message)).await {
            Ok(()) => {}
            Err(SendError::Closed { .. }) => {
                waiting.forget();
                // A process that does not take requests any more is of no use, even if it lives.
                self.close(self.common.options.end_grace);
                return Outcome::NotSent;
            }
            Err(error) => {
                waiting.forget();
                return Outcome::Failed(ErrorObject::internal("upstream_busy", error.to_string()));
            }
        }
        let outcome = coming.await.unwrap_or(Outcome::NotSent);
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

    /// How many calls of clients run, and the newest of them.
    pub(crate) fn running(&self) -> (usize, Option<Call>) {
        let table = self.table.lock();
        let mut calls = table.pending.values().rev().filter_map(|pending| pending.call.as_ref());
        let newest = calls.next().cloned();
        (usize::from(newest.is_some()) + calls.count(), newest)
    }

    /// The running call with that progress token; the newest, should a client have used it twice.
    pub(crate) fn call_with_token(&self, token: &Raw) -> Option<Call> {
        let key = token_key(token);
        let table = self.table.lock();
        let found = table.pending.values().rev().find(|pending| pending.token.as_ref() == Some(&key));
        found.and_then(|pending| pending.call.clone())
    }

    /// The running call that was sent under that id.
    pub(crate) fn call_of(&self, id: u64) -> Option<Call> {
        self.table.lock().pending.get(&id).and_then(|pending| pending.call.clone())
    }

    fn take(&self, id: &RequestId) -> Option<Pending> {
        let RequestId::Number(id) = id else { return None };
        self.table.lock().pending.remove(&u64::try_from(*id).ok()?)
    }

    // --- from the process ---

    /// Reads what the process writes, to its end, and waits until nothing is left of it. Never waits for a client.
    async fn run(self: Arc<Self>, mut lines: Lines, alive: Alive, place: Option<Arc<OwnedSemaphorePermit>>) {
        let mut noise = Noise::default();
        let exit = loop {
            match self.next(&mut lines).await {
                Received::Line(line) => self.line(line, &mut noise).await,
                Received::TooLong => self.too_long(),
                Received::Exit(exit) => break exit,
            }
        };
        self.over(&exit);
        self.child.shutdown(Duration::ZERO).await;
        drop((alive, place));
    }

    /// The next thing from the process, which is ended where it hangs.
    async fn next(self: &Arc<Self>, lines: &mut Lines) -> Received {
        let mut probe = None;
        loop {
            let received = match self.common.options.hang_timeout {
                None => lines.recv().await,
                Some(limit) => match timeout_at(Instant::now() + limit, lines.recv()).await {
                    Ok(received) => received,
                    Err(_) if self.table.lock().pending.is_empty() => {
                        probe = None;
                        continue;
                    }
                    Err(_) if probe.is_none() => {
                        // The answer, like anything else that comes, ends this round.
                        let id = self.next_id();
                        self.post(Request { id: id.into(), method: "ping".into(), params: None }.to_bytes());
                        probe = Some(id);
                        continue;
                    }
                    Err(_) => {
                        tracing::warn!(
                            target: "bowline::gateway",
                            child = %self.name,
                            "the server hangs: it has a request, says nothing and does not answer ping; it is being ended"
                        );
                        self.hangs.store(true, Ordering::Relaxed);
                        self.close(Duration::ZERO);
                        lines.recv().await
                    }
                },
            };
            // `None` comes after the exit only, and after the exit nobody asks.
            return received.unwrap_or_else(|| Received::Exit(crate::child::lost()));
        }
    }

    async fn line(self: &Arc<Self>, line: Bytes, noise: &mut Noise) {
        match parse(line.clone()) {
            Ok(Body::Single(message)) => self.message(message).await,
            Ok(Body::Batch(members)) => {
                for member in members {
                    match member {
                        Ok(message) => self.message(message).await,
                        Err(_) => self.noise(noise),
                    }
                }
            }
            Err(_) => {
                self.noise(noise);
                if let Some(pending) = broken_response_id(&line).and_then(|id| self.take(&id)) {
                    let error = ErrorObject::outcome_unknown(
                        "upstream_invalid",
                        format!("{} answered with something that is not a JSON-RPC response", self.name),
                    );
                    let _ = pending.outcome.send(Outcome::Failed(error));
                }
            }
        }
    }

    async fn message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => self.response(response),
            Message::Notification(notification) => self.notification(&notification),
            Message::Request(request) => self.question(request).await,
        }
    }

    fn response(&self, response: Response) {
        match self.take(&response.id) {
            Some(pending) => drop(pending.outcome.send(Outcome::Answered(response.reply))),
            None => {
                self.common.counters.late.up();
                tracing::debug!(
                    target: "bowline::gateway",
                    child = %self.name,
                    id = %response.id,
                    "a response that nobody waits for"
                );
            }
        }
    }

    fn notification(&self, notification: &Notification) {
        match Subject::of(&notification.method) {
            Subject::Cancelled => self.question_cancelled(notification),
            subject => {
                if let Some(audience) = self.audience.upgrade() {
                    audience.hear(self, subject, notification);
                }
            }
        }
    }

    fn noise(&self, noise: &mut Noise) {
        self.common.counters.noise.up();
        if let Some(lines) = noise.tell(Instant::now()) {
            tracing::warn!(
                target: "bowline::gateway",
                child = %self.name,
                lines,
                "the server writes lines to stdout that are no JSON-RPC messages; they were skipped"
            );
        }
    }

    /// A line was dropped because of its length, and with it the id of whatever it answered. When one request alone is
    /// running it is that one's answer; among several nobody can know, and the call's own limit ends it.
    fn too_long(&self) {
        self.common.counters.too_long.up();
        let mut table = self.table.lock();
        let only = if table.pending.len() == 1 { table.pending.pop_first() } else { None };
        drop(table);
        let limit = self.common.options.child.max_line;
        match only {
            Some((_, pending)) => {
                let error = ErrorObject::internal(
                    "too_large",
                    format!("{} answered with more than {limit} bytes, the limit for one message", self.name),
                );
                let _ = pending.outcome.send(Outcome::Failed(error));
            }
            None => tracing::warn!(
                target: "bowline::gateway",
                child = %self.name,
                limit,
                "a message of the server was dropped because of its size; a call may wait for it until its time is over"
            ),
        }
    }

    /// The process ended: everybody who waits for it is told, now.
    fn over(&self, exit: &Exit) {
        let pending = {
            let mut table = self.table.lock();
            table.over = true;
            std::mem::take(&mut table.pending)
        };
        // Whatever it did when it was ended, what it did before is what matters.
        let how = if self.hangs.load(Ordering::Relaxed) {
            "hung and was ended".to_owned()
        } else {
            exit.reason.to_string()
        };
        for (_, open) in self.questions.lock().drain() {
            open.task.abort();
            let reason = Raw::from_value(&format!("{} {how}", self.name)).ok();
            open.on.notify(&cancelled(&open.seen_as, reason));
        }
        for (_, pending) in pending {
            let _ = pending.outcome.send(Outcome::Lost(how.clone()));
        }
        self.end.send_replace(Some(exit.clone()));
    }

    // --- requests of the process ---

    async fn question(self: &Arc<Self>, request: Request) {
        if &*request.method == "ping" {
            return self.post(Reply::Result(Raw::empty_object()).to_bytes(&request.id));
        }
        let Some(audience) = self.audience.upgrade() else { return };
        let Request { id, method, .. } = &request;
        let refused = {
            let open = self.questions.lock();
            let limit = self.common.options.max_questions;
            if open.contains_key(id) {
                Some(ErrorObject::new(-32600, format!("a request with the id {id} is open already")))
            } else if open.len() >= limit {
                let text = format!("{limit} requests wait for the client already; {method} is one too many");
                Some(ErrorObject::internal("too_many_requests", text))
            } else {
                None
            }
        };
        let asked = match refused {
            Some(error) => Err(error),
            None => audience.question(self, &request),
        };
        let Question { ask, on } = match asked {
            Ok(question) => question,
            Err(error) => return self.post(Reply::from(error).to_bytes(id)),
        };
        let seen_as = ask.id().clone();
        let mut ask = Box::pin(ask);
        // Sent here and now, so that nothing the process says later overtakes it.
        if let Poll::Ready(reply) = poll_fn(|cx| Poll::Ready(ask.as_mut().poll(cx))).await {
            return self.post(reply.to_bytes(id));
        }
        let upstream = self.clone();
        let id = request.id.clone();
        // The task takes its entry out again, which it can only do once the lock is free.
        let mut open = self.questions.lock();
        let task = tokio::spawn(async move {
            let reply = ask.await;
            let known = upstream.questions.lock().remove(&id).is_some();
            if known && let Err(error) = upstream.child.send(one_line(reply.to_bytes(&id))).await {
                tracing::debug!(target: "bowline::gateway", child = %upstream.name, %error, "an answer was dropped");
            }
        });
        open.insert(request.id, Open { seen_as, on, task: task.abort_handle() });
    }

    /// The process gives up a request of its own: the client is told under the id that it knows.
    fn question_cancelled(&self, notification: &Notification) {
        let params = notification.params.as_ref();
        let id = params.and_then(|params| params.member("requestId"));
        let id = id.and_then(|id| RequestId::from_json(id.as_str()).ok());
        let Some(open) = id.and_then(|id| self.questions.lock().remove(&id)) else { return };
        open.task.abort();
        open.on.notify(&cancelled(&open.seen_as, params.and_then(|params| params.member("reason"))));
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
        let known = self.upstream.table.lock().pending.remove(&self.id).is_some();
        if known && self.cancels {
            let reason = Raw::from_value("the client does not wait for it any more").ok();
            self.upstream.notify(&cancelled(&self.id.into(), reason));
        }
    }
}

fn cancelled(id: &RequestId, reason: Option<Raw>) -> Notification {
    let reason = reason.map(|reason| format!(r#","reason":{}"#, reason.as_str())).unwrap_or_default();
    let params = format!(r#"{{"requestId":{}{reason}}}"#, id.to_json());
    Notification::new("notifications/cancelled", Some(Raw::from_trusted(params.into())))
}

/// A progress token in a form that is equal where the tokens are: a server may write a string with other escapes.
pub(crate) fn token_key(token: &Raw) -> String {
    token.string().map_or_else(|| token.as_str().to_owned(), |text| format!("\"{text}"))
}

/// Lines that were skipped since the last warning.
#[derive(Debug, Default)]
struct Noise {
    lines: u64,
    warned: Option<Instant>,
}

impl Noise {
    /// Counts a line; how many to warn of, if it is time.
    fn tell(&mut self, now: Instant) -> Option<u64> {
        self.lines += 1;
        if self.warned.is_some_and(|at| now - at < WARN_EVERY) {
            return None;
        }
        self.warned = Some(now);
        Some(std::mem::take(&mut self.lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_where_their_values_are() {
        let key = |text: &str| token_key(&Raw::parse(text.to_owned()).unwrap());
        assert_eq!(key(r#""a""#), key(r#""\u0061""#));
        assert_ne!(key("1"), key(r#""1""#));
        assert_ne!(key("1"), key("-1"));
    }

    #[tokio::test(start_paused = true)]
    async fn noise_is_told_once_in_a_while_with_its_count() {
        let mut noise = Noise::default();
        assert_eq!(noise.tell(Instant::now()), Some(1));
        for _ in 0..100 {
            assert_eq!(noise.tell(Instant::now()), None);
        }
        tokio::time::advance(WARN_EVERY).await;
        assert_eq!(noise.tell(Instant::now()), Some(101));
    }
}
