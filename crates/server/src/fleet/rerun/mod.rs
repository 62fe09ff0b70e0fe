//! Runs calls of backends that died again, where they may be (`takeover = "rerun"`, SEMANTICS 6): the one exception from "at most once".
//!
//! - **Which**: calls whose handler said beforehand that a second run does no harm ([`RawHandler::is_repeatable`](crate::RawHandler)), and
//!   whose stream is in the store. What it takes is kept there with the stream, from the beginning.
//! - **Who**: whoever notices that the owner is gone, and would end the call. The store gives the stream to one of them, at the next epoch;
//!   the former owner, should it live, is fenced. A backend that leaves takes nothing.
//! - **How often**: each run has its epoch, so the epoch counts them. A call that kills its backend must not kill them all.
//! - **What the client sees**: its stream goes on behind what it has. Progress does not go back, and says which run it is of; questions that
//!   were open are withdrawn, and those of the new run have ids of their own.
//! - **Tasks** of modern clients too: a task's log is there for whoever asks, whatever backend works on it. What is said of it goes on in words; its
//!   questions have keys of their own in each run.
//! - **Not** other calls of modern clients, and batches: their answer lives on the connection that broke, so there is nobody to tell.
//! - **Not** where the client cancelled the call, where its session ended, where another version kept what it takes: that call is ended.

mod past;
mod record;

pub(crate) use past::Again;

use super::{others_serve, owner_is_lost, patiently, reaper};
use crate::{
    Call, Principal,
    call::CallState,
    config::Takeover,
    core::Core,
    exchange::Exchange,
    isolate,
    log::Short,
    mailbox::{self, CANCEL},
    modern::{self, TASKS, TaskAgain},
    outlet::{FIRST_EPOCH, Outlet},
    post,
    session::Session,
    sessions::{self, Found},
    supervise,
};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::{Request, RequestId},
};
use bowline_store::{EventClass, ReadError, ReadLimit, TakeOver, TakenOver, WriteError};
use bytes::Bytes;
use http::request::Parts;
use parking_lot::Mutex;
use past::Past;
use record::Record;
use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};

/// How long is waited before the store is asked once more, and how often: while a call is begun that is ours already, and for one that may
/// still become ours.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES: u32 = 60;

/// What became of a call whose owner is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenUp {
    /// It is taken care of: by this backend, or by one that was quicker.
    Yes,
    /// It is left alone for now, for backends that stay.
    Later,
    /// It cannot be run again: whoever noticed ends it.
    No,
}

/// The calls that this backend is about to take over: several of its readers may notice the same death at once, and the store takes the same
/// take-over twice for one whose answer got lost.
#[derive(Clone, Default)]
pub(crate) struct Claims(Arc<Mutex<HashSet<StreamId>>>);

impl Claims {
    /// `None` where somebody here is at it.
    fn claim(&self, stream: StreamId) -> Option<Claim> {
        self.0.lock().insert(stream).then(|| Claim { all: self.clone(), stream })
    }
}

/// Nobody else on this backend takes the call over while this exists.
struct Claim {
    all: Claims,
    stream: StreamId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.stream);
    }
}

/// Whether this endpoint runs calls again at all.
fn is_wanted(core: &Core) -> bool {
    core.options.takeover == Takeover::Rerun && core.options.max_reruns > 0 && core.is_shared()
}

/// Asks the handler of a call that is about to begin whether it may be run again; its stream is made accordingly.
pub(crate) fn prepare(call: &Arc<CallState>) {
    let core = &call.core;
    if !is_wanted(core) || call.modern.is_some() {
        return;
    }
    let Some(exchange) = call.exchange().filter(|exchange| exchange.is_stored()) else { return };
    let mut repeatable = false;
    isolate::run(core, || repeatable = core.handler.is_repeatable(&Call(call.clone())));
    if repeatable {
        exchange.set_repeatable(call);
    }
}

/// What is kept with the stream of a call that may be run again; `None` where that is too much.
pub(crate) fn kept(call: &CallState) -> Option<Bytes> {
    keep(call, None)
}

/// What is kept with the log of a call that becomes a task, if it may be run again. A round that came with answers to earlier questions may not:
/// those are good for one run.
pub(crate) fn kept_of_task(call: &Arc<CallState>, created: u64) -> Option<Bytes> {
    let core = &call.core;
    let is_first = call.modern.as_deref().is_some_and(|modern| modern.round.is_first());
    if !is_wanted(core) || !is_first {
        return None;
    }
    let mut repeatable = false;
    isolate::run(core, || repeatable = core.handler.is_repeatable(&Call(call.clone())));
    if repeatable { keep(call, Some(created)) } else { None }
}

fn keep(call: &CallState, task: Option<u64>) -> Option<Bytes> {
    let session = &call.session;
    let limit = call.core.options.max_rerun_bytes;
    let kept = record::encode(session.principal.as_deref(), session.revision, call.request(), task, limit);
    if kept.is_none() {
        call.core.metrics.reruns_too_large.up();
        tracing::debug!(%session, limit, "a call is too large to be run again elsewhere");
    }
    kept
}

/// Takes over a call whose owner is gone, and runs it again, if it may be. `epoch` is that of the log, and `open_ttl` how long it is kept open.
pub(super) async fn take_up(core: &Arc<Core>, stream: StreamId, epoch: u64, open_ttl: Duration) -> TakenUp {
    if !is_wanted(core) || epoch.saturating_sub(FIRST_EPOCH) >= u64::from(core.options.max_reruns) {
        return TakenUp::No;
    }
    if core.is_draining() {
        // It would only be begun to be ended.
        return if others_serve(core).await { TakenUp::Later } else { TakenUp::No };
    }
    let Some(claim) = core.fleet.as_ref().and_then(|fleet| fleet.claims.claim(stream)) else {
        return TakenUp::Yes;
    };
    // Looked at after it was claimed: who was quicker has put it there before it gave up its claim.
    if core.running.get(stream).is_some_and(|outlet| outlet.writes_after(epoch)) {
        return TakenUp::Yes;
    }
    let by = TakeOver { stream, epoch: epoch.saturating_add(1), owner: core.backend, open_ttl };
    match patiently(core.store.take_over(by)).await {
        Ok(Some(taken)) => {
            let core = Arc::downgrade(core);
            crate::task::spawn(async move {
                begin(&core, by, taken).await;
                drop(claim);
            });
            TakenUp::Yes
        }
        Ok(None) => TakenUp::No,
        Err(WriteError::Unavailable(error)) => {
            tracing::debug!(stream = %Short::stream(stream), %error, "the call of a lost backend could not be taken over now");
            // It may be ours all the same, and then nobody else takes care of it.
            let core = Arc::downgrade(core);
            crate::task::spawn(async move {
                find_out(&core, by).await;
                drop(claim);
            });
            TakenUp::Later
        }
        Err(_) => TakenUp::Yes,
    }
}

/// Looks whether a take-over whose answer got lost took effect; then the call is begun. One that has not may be on its way still, in a
/// commit that takes long or in a socket: it is waited for, since nobody else would take care of a call that is ours.
async fn find_out(core: &Weak<Core>, by: TakeOver) {
    let one = ReadLimit { events: 1, bytes: 1 };
    let mut not_yet = 0;
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(core) = super::alive(core) else { return };
        let page = match patiently(core.store.read_after(by.stream, 0, one)).await {
            Ok(page) => page,
            // Its oldest events are gone, and it is there.
            Err(ReadError::Evicted { oldest }) => {
                match patiently(core.store.read_after(by.stream, oldest.saturating_sub(1), one)).await {
                    Ok(page) => page,
                    Err(_) => continue,
                }
            }
            Err(ReadError::Unavailable(_)) => continue,
            Err(_) => return,
        };
        // Nothing of ours comes after that: the epoch is another one's, or higher.
        if page.sealed || page.epoch > by.epoch || (page.epoch == by.epoch && page.owner != by.owner) {
            return;
        }
        // Asked for once more only where that takes a call from nobody who lives.
        let is_ours = page.epoch == by.epoch;
        if !is_ours && !reaper::is_gone(&core, page.owner).await.unwrap_or(false) {
            not_yet += 1;
            if not_yet == TRIES {
                return;
            }
            continue;
        }
        match patiently(core.store.take_over(by)).await {
            Ok(Some(taken)) => {
                let core = Arc::downgrade(&core);
                return begin(&core, by, taken).await;
            }
            Err(WriteError::Unavailable(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

/// Why a call that was taken over is not run.
enum Not {
    /// Its caller wants nothing of it any more.
    Wanted,
    /// It cannot be.
    Possible(&'static str),
    /// The store cannot be asked now.
    Now,
}

/// Begins a call that is this backend's now, or ends it.
async fn begin(core: &Weak<Core>, by: TakeOver, taken: TakenOver) {
    let Some(record) = record::decode(&taken.rerun) else {
        return end(core, by, &taken, Not::Possible("another version has kept it")).await;
    };
    let mut tries = 0;
    loop {
        let Some(core) = super::alive(core) else { return };
        let begun = match record.task {
            None => match session_of(&core, &taken, &record).await {
                Ok(session) => return run(&core, &session, by, &taken, record).await,
                Err(why) => Err(why),
            },
            Some(created) => run_task(&core, by, &taken, &record, created).await,
        };
        match begun {
            Ok(()) => return,
            Err(Not::Now) if tries < TRIES => tries += 1,
            Err(why) => {
                let core = Arc::downgrade(&core);
                return end(&core, by, &taken, why).await;
            }
        }
        drop(core);
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks whether a client has cancelled what it wanted: the cancel of a call whose owner is gone waits in its mailbox.
async fn is_still_wanted(core: &Arc<Core>, mailbox: StreamId) -> Result<(), Not> {
    let letters = patiently(core.store.letters_after(mailbox, 0)).await.map_err(|_| Not::Now)?;
    if letters.iter().any(|letter| letter.key == CANCEL) {
        drop(mailbox::Used::new(core, mailbox));
        return Err(Not::Wanted);
    }
    Ok(())
}

/// Runs a task again, with the log that it has.
async fn run_task(
    core: &Arc<Core>,
    by: TakeOver,
    taken: &TakenOver,
    record: &Record,
    created: u64,
) -> Result<(), Not> {
    is_still_wanted(core, by.stream).await?;
    let Record { principal, revision, request, .. } = record.clone();
    let parts = Arc::new(head(&core.policy.path, principal.clone()));
    let run = by.epoch - FIRST_EPOCH + 1;
    let log = TaskAgain { stream: by.stream, epoch: by.epoch, tail: taken.tail, created, run };
    modern::run_task_again(core, &log, revision, principal.as_deref(), &parts, request).map_err(Not::Possible)
}

/// The session of a call, unless the call is not to be run: the client cancelled it, or the session ended.
async fn session_of(core: &Arc<Core>, taken: &TakenOver, record: &Record) -> Result<Arc<Session>, Not> {
    let principal = record.principal.as_deref();
    let Some(id) = &taken.session else {
        if !core.resumes_without_sessions() {
            return Err(Not::Possible("nobody can come for it"));
        }
        return Ok(Arc::new(Session::binding(core, record.revision, principal)));
    };
    is_still_wanted(core, mailbox::of_call(id, &record.request.id)).await?;
    match sessions::find(core, id, principal).await {
        Found::Live(session) => Ok(session),
        Found::Ended => Err(Not::Wanted),
        Found::Unknown => Err(Not::Possible("its session is not known any more")),
        Found::NoRoom => Err(Not::Possible("there is no room for its session")),
        Found::Unavailable => Err(Not::Now),
    }
}

/// Runs a call again, on the stream that it had.
async fn run(core: &Arc<Core>, session: &Arc<Session>, by: TakeOver, taken: &TakenOver, record: Record) {
    let _in_use = session.use_now(core);
    sessions::adopt(core, session);
    let past = Past::read(&*core.store, by.stream, taken.tail).await;
    let Record { request, principal, .. } = record;
    let id = request.id.clone();
    let outlet = Outlet::taken_over(core, by.stream, session, &id, by.epoch, taken.tail);
    for withdrawal in past.withdrawals() {
        outlet.push(withdrawal, EventClass::Droppable, None);
    }
    let run = by.epoch - FIRST_EPOCH + 1;
    let exchange = Exchange::again(core, session, &id, outlet, Again::new(run, past.progress));
    let call = call(core, session, &exchange, request, principal);
    core.metrics.calls_rerun.up();
    tracing::info!(
        %session, stream = %Short::stream(by.stream), run,
        "the backend of a call is gone; the call is run again here"
    );
    if supervise::start(&call).is_err() {
        // Its id is in use, or its session runs as many calls as it may.
        call.answer(Some(owner_is_lost().to_response(Some(&id))));
    }
}

fn call(
    core: &Arc<Core>,
    session: &Arc<Session>,
    exchange: &Arc<Exchange>,
    request: Request,
    principal: Option<String>,
) -> Arc<CallState> {
    let token = post::progress_token(&request);
    CallState::new(core, session, exchange, &Arc::new(head(&core.policy.path, principal)), request, token)
}

/// The head of a request that did not come by HTTP: nothing in it but who sent it, as far as that is known.
fn head(path: &str, principal: Option<String>) -> Parts {
    let mut request = http::Request::new(());
    *request.method_mut() = http::Method::POST;
    if let Ok(path) = path.parse() {
        *request.uri_mut() = path;
    }
    if let Some(principal) = principal {
        request.extensions_mut().insert(Principal(principal));
    }
    request.into_parts().0
}

/// Ends a call that was taken over and is not run: as long as the store is away it is tried again, since to all others it is a call of
/// somebody who lives.
async fn end(core: &Weak<Core>, by: TakeOver, taken: &TakenOver, why: Not) {
    let (wanted, why) = match why {
        Not::Wanted => (false, "nobody wants it any more"),
        Not::Possible(why) => (true, why),
        Not::Now => (true, "the store was away for too long"),
    };
    tracing::info!(stream = %Short::stream(by.stream), why, "the call of a lost backend is not run again");
    let request = taken.request_id.as_deref().and_then(|id| RequestId::from_json(id).ok());
    let is_task = taken.session.as_deref() == Some(TASKS);
    // A log of a task without a last word is that of one that was cancelled.
    let last = match request {
        _ if !wanted => None,
        _ if is_task => Some(owner_is_lost().to_response(None)),
        request => request.map(|id| owner_is_lost().to_response(Some(&id))),
    };
    loop {
        let Some(core) = super::alive(core) else { return };
        let keep = if is_task { core.options.task_ttl } else { core.options.sealed_ttl };
        match reaper::try_sealing(&core, by.stream, (by.epoch, taken.tail), last.clone(), keep).await {
            Err(WriteError::Unavailable(_)) => {}
            Ok(()) | Err(_) => return,
        }
        drop(core);
        tokio::time::sleep(PAUSE).await;
    }
}
