//! The stream of one call, over any number of connections: SEMANTICS 7.1 to 7.3.

use super::{ClientError, ClientErrorKind, ReconnectPolicy};
use crate::jsonrpc::{Body, Message, ParseError, RequestId, parse};
use crate::time::Millis;
use bytes::Bytes;
use std::collections::VecDeque;

/// How the body of a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The server closed it.
    Graceful,
    /// The connection broke, or a resume could not be sent at all.
    Error,
}

/// What the shell is to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Hand a message on. The last one is the response.
    Deliver {
        /// The data as it came.
        text: Bytes,
        /// The same, read; what is no message is told to the log and dropped.
        message: Result<Message, ParseError>,
    },
    /// Send GET with this `Last-Event-ID`, not before `at`; then [`CallStream::on_status`], or [`CallStream::on_end`] if
    /// there is none.
    Reconnect {
        /// When.
        at: Millis,
        /// The value of the header.
        last_event_id: String,
    },
    /// The call is over without a response.
    Fail(ClientError),
    /// The call is over and its response was delivered. The connection can be dropped.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The POST is under way.
    Posting,
    /// A body is being read.
    Reading,
    /// A resume is due or under way.
    Resuming,
    Over,
}

/// The client's view of one call's stream.
///
/// It starts with the POST. The shell tells it every status ([`on_status`](Self::on_status)), every event
/// ([`on_event`](Self::on_event)) and every end of a body ([`on_end`](Self::on_end)), and polls actions
/// ([`poll`](Self::poll)) after each. What comes after the end of the call is ignored.
#[derive(Debug)]
pub struct CallStream {
    policy: ReconnectPolicy,
    request: RequestId,
    phase: Phase,
    actions: VecDeque<Action>,
    /// The newest id, kept through connections that bring none.
    cursor: Option<String>,
    /// Whether the event that brought the cursor had data.
    cursor_had_data: bool,
    /// Whether no event came on this connection yet and it was a resume: some servers repeat the event that was presented.
    may_repeat: bool,
    /// The newest `retry` of this stream, in milliseconds.
    retry: Option<u64>,
    /// Attempts in a row that brought neither a message nor a new id.
    attempts: u32,
    /// Polls in a row that brought the id that was presented and nothing else: the server is there, and says "wait".
    repeats: u32,
    /// Whether this connection brought such an id.
    repeated: bool,
    /// Whether ids mean anything: they do not from `2026-07-28` on.
    resumable: bool,
}

/// How many polls that only repeat the id are worth one that brings nothing at all.
const REPEATS_PER_ATTEMPT: u32 = 10;

impl CallStream {
    /// The stream of the request of that id, which is about to be sent.
    #[must_use]
    pub const fn new(policy: ReconnectPolicy, request: RequestId) -> Self {
        Self {
            policy,
            request,
            phase: Phase::Posting,
            actions: VecDeque::new(),
            cursor: None,
            cursor_had_data: false,
            may_repeat: false,
            retry: None,
            attempts: 0,
            repeats: 0,
            repeated: false,
            resumable: true,
        }
    }

    /// The same for a request whose stream cannot be resumed, whatever ids it shows (`2026-07-28` on).
    #[must_use]
    pub const fn unresumable(policy: ReconnectPolicy, request: RequestId) -> Self {
        let mut stream = Self::new(policy, request);
        stream.resumable = false;
        stream
    }

    /// A stream that another process began: its first action resumes it after `last_event_id`.
    #[must_use]
    pub fn resuming(policy: ReconnectPolicy, request: RequestId, now: Millis, last_event_id: String) -> Self {
        let mut stream = Self::new(policy, request);
        stream.cursor = Some(last_event_id.clone());
        stream.phase = Phase::Resuming;
        stream.attempts = 1;
        stream.actions.push_back(Action::Reconnect { at: now, last_event_id });
        stream
    }

    /// The place in the stream: what a resume would present.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The status of the POST, or of a resume. `retry_after` is that header, in milliseconds.
    ///
    /// A status that may change (409 from servers that have not noticed yet that the old connection is gone, 408, 425, 429,
    /// 5xx) is tried again where the call can be resumed.
    pub fn on_status(&mut self, now: Millis, status: u16, retry_after: Option<u64>, random: u64) {
        match (self.phase, status) {
            (Phase::Reading | Phase::Over, _) => {}
            (Phase::Resuming, 204) => self.fail(ClientErrorKind::NothingLeft, true),
            (_, 200..=299) => {
                self.may_repeat = self.phase == Phase::Resuming && self.cursor_had_data;
                self.repeated = false;
                self.phase = Phase::Reading;
            }
            (Phase::Posting, 404) => self.fail(ClientErrorKind::SessionGone, false),
            (Phase::Resuming, 404) => self.fail(ClientErrorKind::SessionGone, true),
            // A proxy may have passed the request on before it gave up.
            (Phase::Posting, 408 | 500..) => self.fail(ClientErrorKind::Refused { status }, true),
            (Phase::Posting, _) => self.fail(ClientErrorKind::Refused { status }, false),
            (Phase::Resuming, 408 | 409 | 425 | 429 | 500..) => {
                let asked = self.retry.max(retry_after);
                self.reconnect(now, asked, true, random);
            }
            (Phase::Resuming, _) => self.fail(ClientErrorKind::Refused { status }, true),
        }
    }

    /// One event, or a bare `retry` field: the fields that it had, `data` joined as the SSE standard says.
    ///
    /// A JSON body is one event without an id.
    ///
    /// An id counts whether or not there is data, and empty data is never read. An empty id is ignored: it would mean to
    /// start again from the beginning, which no MCP server means.
    pub fn on_event(&mut self, id: Option<&str>, data: Option<&str>, retry: Option<u64>) {
        if self.phase != Phase::Reading {
            return;
        }
        self.retry = retry.or(self.retry);
        let data = data.filter(|data| !data.is_empty());
        let id = id.filter(|id| self.resumable && !id.is_empty());
        if id.is_none() && data.is_none() {
            return;
        }
        let first = std::mem::take(&mut self.may_repeat);
        let fresh = id.is_some() && id != self.cursor.as_deref();
        if first && id.is_some() && !fresh && data.is_some_and(|data| !self.is_response(data)) {
            return;
        }
        if let Some(id) = id {
            self.cursor = Some(id.to_owned());
            self.cursor_had_data = data.is_some();
        }
        if fresh || data.is_some() {
            self.attempts = 0;
            self.repeats = 0;
        } else {
            self.repeated = true;
        }
        if let Some(data) = data {
            self.deliver(Bytes::copy_from_slice(data.as_bytes()));
        }
    }

    /// The body ended, or a resume got no status at all.
    pub fn on_end(&mut self, now: Millis, end: StreamEnd, random: u64) {
        match self.phase {
            Phase::Over => {}
            Phase::Posting => self.fail(ClientErrorKind::NotResumable, true),
            Phase::Reading | Phase::Resuming => {
                // An empty answer counts as a failure too: at the server's own pace it would be a loop.
                let in_vain = self.attempts > 0 && !self.repeated;
                self.reconnect(now, self.retry, end == StreamEnd::Error || in_vain, random);
            }
        }
    }

    /// No connection could be made for the POST: not a byte of it left.
    pub fn on_unreachable(&mut self) {
        if self.phase == Phase::Posting {
            self.fail(ClientErrorKind::Unreachable, false);
        }
    }

    /// The next thing to do. Poll until it is `None`, after every other call.
    #[must_use]
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether the call is over, with or without a response.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn deliver(&mut self, text: Bytes) {
        match parse(text.clone()) {
            Ok(Body::Single(message)) => self.deliver_one(text, Ok(message)),
            Ok(Body::Batch(messages)) => {
                for message in messages {
                    let text = message.as_ref().map_or_else(|_| text.clone(), Message::to_bytes);
                    self.deliver_one(text, message);
                    if self.is_over() {
                        return;
                    }
                }
            }
            Err(error) => self.deliver_one(text, Err(error)),
        }
    }

    fn deliver_one(&mut self, text: Bytes, message: Result<Message, ParseError>) {
        let answers = message.as_ref().is_ok_and(|message| self.answers(message));
        self.actions.push_back(Action::Deliver { text, message });
        if answers {
            self.phase = Phase::Over;
            self.actions.push_back(Action::Done);
        }
    }

    fn answers(&self, message: &Message) -> bool {
        matches!(message, Message::Response(response) if response.id == self.request)
    }

    /// Whether this is the response. It was not delivered before, or the call would be over: servers that give every event
    /// the same id get their response across too.
    fn is_response(&self, data: &str) -> bool {
        let body = parse(Bytes::copy_from_slice(data.as_bytes()));
        match body {
            Ok(Body::Single(message)) => self.answers(&message),
            Ok(Body::Batch(messages)) => messages.iter().flatten().any(|message| self.answers(message)),
            Err(_) => false,
        }
    }

    fn reconnect(&mut self, now: Millis, asked: Option<u64>, backs_off: bool, random: u64) {
        let Some(cursor) = self.cursor.clone().filter(|_| self.policy.max_attempts > 0) else {
            self.fail(ClientErrorKind::NotResumable, true);
            return;
        };
        if std::mem::take(&mut self.repeated) && self.attempts > 0 {
            self.attempts -= 1;
            self.repeats += 1;
        }
        if self.attempts >= self.policy.max_attempts
            || self.repeats >= self.policy.max_attempts.saturating_mul(REPEATS_PER_ATTEMPT)
        {
            let attempts = self.attempts.max(self.repeats);
            self.fail(ClientErrorKind::GaveUp { attempts }, true);
            return;
        }
        let wait = self.policy.wait(self.attempts.max(self.repeats), asked, backs_off, random);
        self.attempts += 1;
        self.phase = Phase::Resuming;
        self.actions.push_back(Action::Reconnect { at: now.after(wait), last_event_id: cursor });
    }

    fn fail(&mut self, kind: ClientErrorKind, may_have_run: bool) {
        self.phase = Phase::Over;
        self.actions.push_back(Action::Fail(ClientError { kind, may_have_run }));
    }
}

#[cfg(test)]
mod tests;
