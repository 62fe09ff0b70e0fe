//! Whether a request is sent, sent again, or given up: SEMANTICS 7.3 to 7.5.

use super::{ClientError, ClientErrorKind, ReconnectPolicy};
use crate::jsonrpc::{ErrorObject, code};
use crate::time::{Millis, millis};
use std::time::Duration;

/// How long a request is worth trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// The waits between attempts.
    pub reconnect: ReconnectPolicy,
    /// How long attempts go on after the first that failed. Zero: one attempt.
    pub outage: Duration,
    /// Whether the request may run twice: it only reads, or is marked idempotent.
    pub repeatable: bool,
}

/// What came back for a POST: its status, and its body where that was a JSON-RPC error.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Whether the request carried a session id.
    pub had_session: bool,
    /// `Retry-After`, in milliseconds.
    pub retry_after: Option<u64>,
    /// The JSON-RPC error in the body.
    pub error: Option<&'a ErrorObject>,
    /// Whether that error names this request.
    pub error_is_ours: bool,
}

impl Answer<'_> {
    /// Whether it says that the request can be sent again later and was not looked at: 425, 429, and of the 503s those that an MCP
    /// server gives for itself, or that ask to come back. The others come from proxies, which give them for requests that are
    /// running too. Whoever says that the outcome is unknown has looked at the request.
    #[must_use]
    pub fn is_not_now(&self) -> bool {
        let is_refused = match self.status {
            425 | 429 => true,
            503 => self.retry_after.is_some() || (self.error.is_some() && !self.error_is_ours),
            _ => false,
        };
        is_refused && !self.says_unknown()
    }

    /// Whether nobody acted on the request: it was refused before.
    #[must_use]
    pub fn proves_unrun(&self) -> bool {
        self.is_not_now() || (is_refusal(self.status) && !self.says_unknown())
    }

    fn says_unknown(&self) -> bool {
        self.error.is_some_and(ErrorObject::is_outcome_unknown)
    }

    /// Whether it is about what the request asked for, and not about the session that it came in.
    fn answers_the_request(&self) -> bool {
        // Those that servers give for sessions that they do not know, whatever id they put beside them.
        let is_of_session = |error: &ErrorObject| {
            let codes = [code::SESSION_NOT_FOUND, code::INVALID_REQUEST, code::INTERNAL_ERROR, -32000];
            codes.contains(&error.code) || (self.status != 400 && names_a_lost_session(error))
        };
        self.error_is_ours && self.error.is_some_and(|error| !is_of_session(error))
    }
}

/// Whether servers and proxies answer with this status what they have not passed on or worked on.
const fn is_refusal(status: u16) -> bool {
    matches!(status, 300..=407 | 410 | 411 | 413..=417 | 421..=426 | 428 | 429 | 431 | 451)
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the body: the request was taken.
    Read,
    /// Send the request (again), not before `at`.
    Send {
        /// When.
        at: Millis,
    },
    /// The session is gone: take part in the one shared re-initialize, then [`Delivery::on_renewed`].
    Renew,
    /// The server answered with this error, which is final.
    Answered(ErrorObject),
    /// It is over.
    Fail(ClientError),
}

/// The way of one request to its server.
///
/// The shell sends it once, then does what each method says. A request that may not run twice leaves this machine a second
/// time only after the server proved that it did not run: no connection, 404 for its session, or "not now" ([`Answer::is_not_now`]).
#[derive(Clone, Debug)]
pub struct Delivery {
    policy: DeliveryPolicy,
    /// Attempts in a row that failed.
    failures: u32,
    /// When the first of them did.
    failing_since: Option<Millis>,
    /// Re-initializations that worked and were for this request.
    renewed: bool,
    /// The answer made us suspect that the session is gone, and it was renewed once for that.
    suspected: bool,
    /// An earlier sending may have reached a server that ran it.
    in_doubt: bool,
}

impl Delivery {
    /// A request that is about to be sent.
    #[must_use]
    pub const fn new(policy: DeliveryPolicy) -> Self {
        Self { policy, failures: 0, failing_since: None, renewed: false, suspected: false, in_doubt: false }
    }

    /// No connection could be made: not a byte left.
    pub fn on_unreachable(&mut self, now: Millis, random: u64) -> Step {
        self.again(now, None, random, ClientErrorKind::Unreachable)
    }

    /// The connection broke with the request on its way and no status.
    pub fn on_lost(&mut self, now: Millis, random: u64) -> Step {
        self.in_doubt = true;
        if self.policy.repeatable {
            self.again(now, None, random, ClientErrorKind::Lost)
        } else {
            self.fail(ClientErrorKind::Lost)
        }
    }

    /// The stream of the answer ended without the response, and cannot be resumed.
    pub fn on_stream_failed(&mut self, now: Millis, error: ClientError, random: u64) -> Step {
        self.in_doubt |= error.may_have_run;
        let is_final = matches!(error.kind, ClientErrorKind::Unreadable { .. });
        if is_final || (error.may_have_run && !self.policy.repeatable) {
            return self.fail(error.kind);
        }
        self.again(now, None, random, error.kind)
    }

    /// The server answered the POST.
    pub fn on_answer(&mut self, now: Millis, answer: Answer<'_>, random: u64) -> Step {
        let Answer { status, had_session, retry_after, error, error_is_ours } = answer;
        match status {
            200..=299 => return Step::Read,
            404 | 410 if had_session && !answer.answers_the_request() => return self.session_gone(status),
            400 if had_session
                && !self.suspected
                && !answer.answers_the_request()
                && error.is_some_and(names_a_lost_session) =>
            {
                self.suspected = true;
                return Step::Renew;
            }
            _ => {}
        }
        let refused = ClientErrorKind::Refused { status };
        if answer.is_not_now() {
            return self.again(now, retry_after, random, refused);
        }
        self.in_doubt |= !answer.proves_unrun();
        // A proxy may have passed the request on before it gave up.
        let may_pass = matches!(status, 408 | 500..);
        // Said by the server itself about this very request: it is the answer, whatever the status; except where the server cannot
        // know either.
        if let Some(error) = error.filter(|_| {
            error_is_ours
                || matches!(status, 400 | 403 | 404 | 405 | 406 | 413 | 415 | 422)
                || answer.says_unknown()
        }) && !(may_pass && answer.says_unknown() && self.policy.repeatable)
        {
            return Step::Answered(error.clone());
        }
        if may_pass && self.policy.repeatable {
            return self.again(now, retry_after, random, refused);
        }
        self.fail(refused)
    }

    /// What came of the shared re-initialize: `true`: there is a new session. With `false` the old id is kept and tried
    /// again after a while, since whoever said 404 may have been a proxy (SEMANTICS 7.4).
    pub fn on_renewed(&mut self, now: Millis, worked: bool, random: u64) -> Step {
        if worked {
            self.renewed = true;
            self.failures = 0;
            self.failing_since = None;
            return Step::Send { at: now };
        }
        self.again(now, None, random, ClientErrorKind::SessionGone)
    }

    fn session_gone(&self, status: u16) -> Step {
        if self.renewed {
            // Twice, with a new session in between: asking a third time helps nobody.
            return self.fail(ClientErrorKind::Refused { status });
        }
        Step::Renew
    }

    fn again(&mut self, now: Millis, asked: Option<u64>, random: u64, kind: ClientErrorKind) -> Step {
        let since = *self.failing_since.get_or_insert(now);
        let wait = self.policy.reconnect.wait(self.failures, asked, true, random);
        let at = now.after(wait);
        if at.since(since) > millis(self.policy.outage) {
            return self.fail(kind);
        }
        self.failures += 1;
        Step::Send { at }
    }

    const fn fail(&self, kind: ClientErrorKind) -> Step {
        Step::Fail(ClientError { kind, may_have_run: self.in_doubt })
    }
}

/// Real servers do not all say 404 for a session that they do not know.
fn names_a_lost_session(error: &ErrorObject) -> bool {
    let message = error.message.to_ascii_lowercase();
    let names = message.contains("session") || message.contains("not initialized");
    let about_loss =
        ["not found", "no valid", "unknown", "expired", "invalid", "not initialized", "terminated"];
    error.code == code::SESSION_NOT_FOUND || (names && about_loss.iter().any(|word| message.contains(word)))
}

#[cfg(test)]
mod tests;
