//! A modern client whose stream broke has nothing to come back with: it sends its request again. Where the operator says so, the first
//! call goes on for a while when its client has left, and the same request joins it instead of being a call of its own.
//!
//! Two requests are the same where all of this is equal: the principal, who has to be known; what the client says it is and can be asked,
//! and the log level that it wants; the tool and its arguments. Their ids do not count, nor do progress tokens and the trace. The first
//! call has to have lost its client: one that is still read is never joined, so two that are sent side by side are two calls. What was
//! left is joined once, the oldest first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_proto::jsonrpc::{ErrorObject, Reply};
use bowline_proto::modern::RequestDigest;
use bowline_server::{BoxFuture, Call, CancelReason};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::restart::is_modern;
use crate::session::abandoned;

/// How many calls may go on without a client; the next one that is left is cancelled.
const MAX_LEFT: usize = 256;

/// Which request it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Same {
    principal: Box<str>,
    says: Box<str>,
    level: Option<&'static str>,
    request: [u8; 32],
}

impl Same {
    /// `None` where a call can never be joined.
    fn of(call: &Call) -> Option<Self> {
        if !is_modern(call) || call.method() != "tools/call" {
            return None;
        }
        let peer = call.peer();
        let says: serde_json::Value = peer.initialize_params().to().unwrap_or_default();
        Some(Self {
            principal: peer.principal()?.into(),
            says: says.to_string().into(),
            level: call.log_level().map(|level| level.as_str()),
            request: *RequestDigest::of(call.method(), call.params()).as_bytes(),
        })
    }
}

/// A call that takes the place of one that was left, and where its answer goes.
type Next = (Call, oneshot::Sender<Reply>);

/// A call that may be joined once it is left.
struct Running {
    /// The one whose client waits for it, or was the last to.
    call: Call,
    next: mpsc::Sender<Next>,
}

impl Running {
    fn is_left(&self) -> bool {
        self.call.cancel_reason() == Some(CancelReason::Disconnected)
    }
}

#[derive(Default)]
struct Calls {
    serial: u64,
    /// The oldest first.
    running: HashMap<Same, Vec<(u64, Running)>>,
}

impl Calls {
    /// The oldest call of the kind that was left is `next`'s from here on; gives `next` back where there is none.
    fn join(&mut self, same: &Same, mut next: Next) -> Result<(), Next> {
        for (_, running) in self.running.get_mut(same).into_iter().flatten().filter(|(_, r)| r.is_left()) {
            let call = next.0.clone();
            match running.next.try_send(next) {
                Ok(()) => {
                    running.call = call;
                    return Ok(());
                }
                Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                    next = back;
                }
            }
        }
        Err(next)
    }

    fn left(&self) -> usize {
        self.running.values().flatten().filter(|(_, running)| running.is_left()).count()
    }
}

/// The calls that may be joined.
pub(crate) struct Reissues {
    keep: Duration,
    calls: Mutex<Calls>,
}

impl std::fmt::Debug for Reissues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reissues").field("keep", &self.keep).finish_non_exhaustive()
    }
}

/// Tells whoever works on a call that another one takes its place.
type HandOver = Box<dyn Fn(&Call, &Call) + Send>;

impl Reissues {
    /// Calls go on for `keep` when they are left.
    pub(crate) fn new(keep: Duration) -> Arc<Self> {
        Arc::new(Self { keep, calls: Mutex::default() })
    }

    /// Has the call join the same one that was left, or run: `work` must not end because the call is cancelled.
    pub(crate) fn run(
        self: &Arc<Self>,
        call: &Call,
        work: impl FnOnce(Call) -> BoxFuture<'static, Reply>,
        hand_over: impl Fn(&Call, &Call) + Send + 'static,
    ) -> BoxFuture<'static, Reply> {
        let Some(same) = Same::of(call) else {
            return until_cancelled(call.clone(), work(call.clone()));
        };
        let (answer, coming) = oneshot::channel();
        let mut calls = self.calls.lock();
        match calls.join(&same, (call.clone(), answer)) {
            Ok(()) => {
                tracing::info!(target: "bowline::gateway", "a request that was sent again joins the call that its client had left");
            }
            Err((call, answer)) => {
                let (sender, next) = mpsc::channel(1);
                calls.serial += 1;
                let serial = calls.serial;
                let running = Running { call: call.clone(), next: sender };
                calls.running.entry(same.clone()).or_default().push((serial, running));
                let listed = Listed { reissues: self.clone(), same, serial, next };
                let work = work(call.clone());
                tokio::spawn(listed.drive(call, answer, work, Box::new(hand_over)));
            }
        }
        drop(calls);
        let reply = async {
            coming.await.unwrap_or_else(|_| {
                let text = "the call was lost; whether it had an effect is unknown";
                ErrorObject::outcome_unknown("upstream_lost", text).into()
            })
        };
        until_cancelled(call.clone(), Box::pin(reply))
    }
}

fn until_cancelled(call: Call, work: BoxFuture<'static, Reply>) -> BoxFuture<'static, Reply> {
    Box::pin(async move {
        tokio::select! {
            biased;
            _ = call.cancelled() => abandoned(),
            reply = work => reply,
        }
    })
}

/// A call in the list, which it leaves with its end.
struct Listed {
    reissues: Arc<Reissues>,
    same: Same,
    serial: u64,
    next: mpsc::Receiver<Next>,
}

impl Listed {
    /// Works on a call as long as somebody waits for it, and a while longer.
    async fn drive(
        mut self,
        mut call: Call,
        mut answer: oneshot::Sender<Reply>,
        mut work: BoxFuture<'static, Reply>,
        hand_over: HandOver,
    ) {
        let mut done = None;
        loop {
            if done.is_none() {
                tokio::select! {
                    biased;
                    _ = call.cancelled() => {}
                    reply = &mut work => done = Some(reply),
                }
            }
            if let Some(reply) = done.take() {
                // Whoever has been given the answer has it; one that has left keeps nobody from having it.
                match call.cancel_reason() {
                    None => match answer.send(reply) {
                        Ok(()) => return,
                        Err(reply) => done = Some(reply),
                    },
                    Some(_) => done = Some(reply),
                }
            }
            if call.cancelled().await != CancelReason::Disconnected
                || self.reissues.calls.lock().left() > MAX_LEFT
            {
                return;
            }
            let until = Instant::now() + self.reissues.keep;
            let next = loop {
                tokio::select! {
                    biased;
                    next = self.next.recv() => break next,
                    reply = &mut work, if done.is_none() => done = Some(reply),
                    () = sleep_until(until) => break self.close(),
                }
            };
            let Some((next, to)) = next else { return };
            hand_over(&call, &next);
            (call, answer) = (next, to);
        }
    }

    /// Nobody can join any more; whoever just did, has.
    fn close(&mut self) -> Option<Next> {
        let _calls = self.reissues.calls.lock();
        let next = self.next.try_recv().ok();
        if next.is_none() {
            self.next.close();
        }
        next
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut calls = self.reissues.calls.lock();
        if let Some(running) = calls.running.get_mut(&self.same) {
            running.retain(|(serial, _)| *serial != self.serial);
            if running.is_empty() {
                calls.running.remove(&self.same);
            }
        }
    }
}
