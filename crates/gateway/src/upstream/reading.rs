//! What the process writes: taken line by line, to the end, without ever waiting for a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_proto::jsonrpc::{
    Body, ErrorObject, Message, Notification, Outline, Reply, Request, RequestId, Response, Salvaged, parse,
    salvage,
};
use bowline_proto::projection::untagged;
use bowline_server::bridge::Subject;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

use super::{Outcome, Upstream};
use crate::child::{Dropped, Exit, ExitReason, Lines, Received};
use crate::common::Alive;
use crate::era;
use crate::line::our_id;

/// At most one warning about lines that are no messages in this time.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Should reading panic, those who wait for the process are told all the same: it serves nobody any more.
struct ToldOnPanic<'a> {
    upstream: &'a Upstream,
    armed: bool,
}

impl Drop for ToldOnPanic<'_> {
    fn drop(&mut self) {
        if self.armed {
            let exit = Exit {
                reason: ExitReason::Lost,
                requested: false,
                uptime: Duration::ZERO,
                stderr_tail: String::new(),
            };
            self.upstream.over(&exit);
        }
    }
}

impl Upstream {
    /// Reads what the process writes, to its end, and waits until nothing is left of it. Never waits for a client.
    pub(super) async fn run(
        self: Arc<Self>,
        mut lines: Lines,
        alive: Alive,
        place: Option<Arc<OwnedSemaphorePermit>>,
    ) {
        let mut told = ToldOnPanic { upstream: &self, armed: true };
        let mut noise = Noise::default();
        let mut reads = true;
        let exit = loop {
            let received = tokio::select! {
                received = self.next(&mut lines) => received,
                () = self.child.stdin_closed(), if reads => {
                    // A process that reads nothing any more is of no use. It may still finish what it has.
                    reads = false;
                    self.close(self.common.options.end_grace);
                    continue;
                }
            };
            self.silence.lock().heard(Instant::now());
            match received {
                Received::Line(line) => self.line(&line, &mut noise),
                Received::TooLong(dropped) => self.too_long(&dropped),
                Received::Exit(exit) => break exit,
            }
        };
        told.armed = false;
        self.over(&exit);
        self.child.shutdown(Duration::ZERO).await;
        drop((alive, place));
    }

    /// The next thing from the process, which is ended where it hangs.
    async fn next(&self, lines: &mut Lines) -> Received {
        let received = match self.common.options.hang_timeout {
            None => lines.recv().await,
            Some(limit) => self.next_within(lines, limit).await,
        };
        // `None` comes after the exit only, and after the exit nobody asks.
        received.unwrap_or_else(|| Received::Exit(crate::child::lost()))
    }

    async fn next_within(&self, lines: &mut Lines, limit: Duration) -> Option<Received> {
        let mut probed = false;
        loop {
            if let Ok(received) = timeout(limit, lines.recv()).await {
                return received;
            }
            // Who starts has its own limit; who waits for an answer of the client may be silent.
            let excused = !*self.initialized.lock() || !self.questions.is_empty();
            if excused || self.table.lock().pending.is_empty() {
                probed = false;
            } else if !probed {
                // The answer, like anything else that comes, ends this round.
                let id = self.next_id();
                self.probe.store(id, Ordering::Relaxed);
                self.post(Request { id: id.into(), method: "ping".into(), params: None }.to_bytes());
                probed = true;
            } else {
                tracing::warn!(
                    target: "bowline::gateway",
                    child = %self.name,
                    "the server hangs: it has a request, says nothing and does not answer ping; it is being ended"
                );
                self.hangs.store(true, Ordering::Relaxed);
                self.close(Duration::ZERO);
                return lines.recv().await;
            }
        }
    }

    fn line(self: &Arc<Self>, line: &Bytes, noise: &mut Noise) {
        match parse(line.clone()) {
            Ok(Body::Single(message)) => self.message(message),
            Ok(Body::Batch(members)) if members.iter().all(Result::is_ok) => {
                members.into_iter().flatten().for_each(|message| self.message(message));
            }
            Ok(Body::Batch(_)) | Err(_) => self.salvage(line, noise),
        }
    }

    /// A line that is no message, or not only that. Whose answer is in it must not wait for a better one.
    fn salvage(self: &Arc<Self>, line: &Bytes, noise: &mut Noise) {
        let (found, more) = salvage(line);
        for what in found {
            match what {
                Salvaged::Message(message) => self.message(message),
                Salvaged::Unreadable(id) => {
                    self.unreadable(&id, "it cannot be read as a JSON-RPC response");
                }
                // What a server says that could not read a request. Among several nobody knows which.
                Salvaged::NoId(error) => {
                    if let Some(pending) = self.take_only() {
                        let reply = Reply::Error(error);
                        let _ = pending.send(match reply.fault() {
                            None => Outcome::Answered(reply),
                            Some(fault) => Outcome::Failed(self.common.invalid(fault)),
                        });
                    }
                }
            }
        }
        if more {
            self.noise(noise);
        }
    }

    /// An answer that no client can read: its caller is told so.
    fn unreadable(&self, id: &RequestId, fault: &str) {
        self.common.counters.noise.up();
        let Some(pending) = our_id(id).and_then(|id| self.take(id)) else { return };
        tracing::warn!(target: "bowline::gateway", child = %self.name, "the server sent an answer that is not valid: {fault}");
        let _ = pending.send(Outcome::Failed(self.common.invalid(fault)));
    }

    fn message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => self.response(response),
            Message::Notification(notification) => self.notification(&notification),
            Message::Request(request) => self.question(&request),
        }
    }

    fn response(&self, response: Response) {
        let Response { id, reply } = response;
        let ours = our_id(&id);
        if let Some(fault) = reply.fault()
            && ours.is_some_and(|id| self.awaits(id))
        {
            return self.unreadable(&id, fault);
        }
        match ours.and_then(|id| self.take(id)) {
            Some(pending) => drop(pending.send(Outcome::Answered(reply))),
            None if ours == Some(self.probe.load(Ordering::Relaxed)) => {}
            None if ours.is_some_and(|id| self.listening.heard(id)) => {}
            None => {
                self.common.counters.late.up();
                tracing::debug!(
                    target: "bowline::gateway",
                    child = %self.name,
                    "a response that nobody waits for"
                );
            }
        }
    }

    fn notification(&self, notification: &Notification) {
        let plain;
        let notification = match era::subscription_of(notification) {
            Some(id) if self.is_modern() => {
                if &*notification.method == "notifications/subscriptions/acknowledged" {
                    self.listening.heard(id);
                    return;
                }
                plain = untagged(notification.clone());
                &plain
            }
            _ => notification,
        };
        match Subject::of(&notification.method) {
            Subject::Cancelled => self.questions.cancel(notification),
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

    /// A line was dropped because of its length. Whose answer it was usually stands at one of its ends. Where it stands at neither,
    /// and one request alone is running, it is that one's; among several nobody can know, and the call's own limit ends it.
    fn too_long(&self, dropped: &Dropped) {
        let limit = self.common.options.child.max_line;
        let outline = Outline::of_ends(&dropped.head, dropped.tail.as_deref().unwrap_or_default());
        let is_whole = dropped.tail.is_some();
        if is_whole {
            self.common.counters.too_long.up();
        }
        let pending = match &outline.id {
            _ if !outline.is_response() => None,
            Some(id) => our_id(id).and_then(|id| self.take(id)),
            None if is_whole => self.take_only(),
            None => None,
        };
        if let Some(pending) = pending {
            let text =
                format!("{} answered with more than {limit} bytes, the limit for one message", self.name);
            let _ = pending.send(Outcome::Failed(ErrorObject::outcome_unknown("too_large", text)));
        } else if is_whole && outline.is_response() && outline.id.is_none() {
            tracing::warn!(
                target: "bowline::gateway",
                child = %self.name,
                limit,
                "an answer of the server was dropped because of its size, and nobody knows whose it was; a call may wait for it until its \
                 time is over"
            );
        }
    }

    /// The process ended: everybody who waits for it is told, now.
    fn over(&self, exit: &Exit) {
        let pending = {
            let mut table = self.table.lock();
            table.over = true;
            table.pending.drain()
        };
        // Whatever it did when it was ended, what it did before is what matters.
        let how = if self.hangs.load(Ordering::Relaxed) {
            "hung and was ended".to_owned()
        } else {
            exit.reason.for_clients()
        };
        self.questions.close(&format!("{} {how}", self.name));
        for pending in pending {
            let _ = pending.send(Outcome::Lost(how.clone()));
        }
        self.end.send_replace(Some(exit.clone()));
    }
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
