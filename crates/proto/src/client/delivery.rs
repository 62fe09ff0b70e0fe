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
/// time only after the server proved that it did not run: no connection, 404 for its session, 401, 429, 503.
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
            404 | 410 if had_session => return self.session_gone(status),
            400 if had_session && !self.suspected && error.is_some_and(names_a_lost_session) => {
                self.suspected = true;
                return Step::Renew;
            }
            _ => {}
        }
        let refused = ClientErrorKind::Refused { status };
        // Said by the server itself about this very request: it is the answer, whatever the status; except where the
        // server says "not now".
        if let Some(error) =
            error.filter(|_| error_is_ours || matches!(status, 400 | 403 | 404 | 405 | 406 | 413 | 415 | 422))
            && !matches!(status, 429 | 503)
        {
            return Step::Answered(error.clone());
        }
        match status {
            // Refused before anybody looked at it.
            425 | 429 | 503 => self.again(now, retry_after, random, refused),
            // A proxy may have passed the request on before it gave up.
            408 | 500.. => {
                self.in_doubt = true;
                if self.policy.repeatable {
                    self.again(now, retry_after, random, refused)
                } else {
                    self.fail(refused)
                }
            }
            _ => self.fail(refused),
        }
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
