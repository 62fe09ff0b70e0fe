//! Calls that stay open while their client is asked: for handlers that cannot run again.
//!
//! The round ends with the questions and a handle in `requestState`; the next round joins the call by it. A call is open on the backend
//! that runs it, so the next round has to reach that one. How many stay open is bounded, and for how long.

use super::call::{Handle, ModernCall};
use crate::{call::CallState, core::Core, exchange::Exchange, random};
use bowline_proto::{
    jsonrpc::{ErrorObject, Raw, Reply, RequestId},
    legacy::Millis,
    modern::{
        RequestState,
        input::{InputRequest, missing_capabilities, missing_capability},
        input_required, takes_input,
    },
    time::millis,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tokio::sync::oneshot;

/// How many keys for questions each run of a task has.
const KEYS_OF_A_RUN: u64 = 1_000_000;

/// How many questions of one call may wait for their answers.
const MAX_QUESTIONS: usize = 64;

pub(super) const GONE: &str =
    "the request that requestState belongs to is over; send it again without requestState";

/// The calls that wait for their client's next round.
#[derive(Default)]
pub(crate) struct HeldCalls(Mutex<HashMap<Handle, Held>>);

struct Held {
    call: Arc<CallState>,
    principal: Option<Box<str>>,
    expires: Millis,
}

impl HeldCalls {
    /// Forgets calls whose client did not come back; their own limits have ended them.
    pub(crate) fn expire(&self, now: Millis) {
        self.0.lock().retain(|_, held| held.expires > now);
    }
}

/// The questions of one call.
#[derive(Default)]
pub(crate) struct Questions(Mutex<Open>);

#[derive(Default)]
struct Open {
    serial: u64,
    handle: Option<Handle>,
    /// In the order in which they were asked.
    waiting: BTreeMap<u64, Question>,
}

struct Question {
    request: InputRequest,
    answer: oneshot::Sender<Reply>,
    told: bool,
}

impl Questions {
    /// The call is over: nobody can join it any more, and nothing that still waits is answered.
    pub(super) fn forget(&self, core: &Core) {
        let handle = {
            let mut open = self.0.lock();
            open.waiting.clear();
            open.handle.take()
        };
        if let Some(handle) = handle {
            core.held.0.lock().remove(&handle);
        }
    }

    /// Leaves out the keys of the questions of earlier runs: an answer to one of those is none to a question of this run.
    pub(super) fn of_run(&self, run: u64) {
        self.0.lock().serial = run.saturating_sub(1).saturating_mul(KEYS_OF_A_RUN);
    }

    /// The questions that wait for their answers, in the order in which they were asked.
    pub(super) fn open(&self) -> Vec<InputRequest> {
        self.0.lock().waiting.values().map(|question| question.request.clone()).collect()
    }

    /// Hands answers to who asked. Those to nothing that waits are not looked at.
    pub(super) fn answer(&self, responses: &[(String, Raw)]) {
        let mut open = self.0.lock();
        for (key, answer) in responses {
            let serial = key.strip_prefix('q').and_then(|serial| serial.parse().ok());
            if let Some(question) = serial.and_then(|serial: u64| open.waiting.remove(&serial)) {
                // Whoever asked may have stopped waiting.
                let _ = question.answer.send(Reply::Result(answer.clone()));
            }
        }
    }

    /// Whether it was still there.
    fn remove(&self, serial: u64) -> bool {
        self.0.lock().waiting.remove(&serial).is_some()
    }
}

/// Asks the client of a modern call, which stays open until the client comes back with the answer.
pub(crate) async fn ask(call: Arc<CallState>, method: String, params: Option<Raw>) -> Reply {
    let (core, modern) = match &call.modern {
        Some(modern) => (call.core.clone(), modern),
        None => return ErrorObject::internal("undeliverable", "this is no call of a modern client").into(),
    };
    if !takes_input(call.request_method()) {
        let text = format!("{method} cannot be asked while the client waits for {}", call.request_method());
        return ErrorObject::internal("unsupported_by_revision", text).into();
    }
    if let Some(missing) = missing_capabilities(modern.round.capabilities(), &method, params.as_ref()) {
        return missing_capability(&missing).into();
    }
    let (sender, receiver) = oneshot::channel();
    let serial = {
        let mut open = modern.questions.0.lock();
        if open.waiting.len() >= MAX_QUESTIONS {
            return ErrorObject::internal("too_many_questions", "too many questions of this call are open")
                .into();
        }
        open.serial += 1;
        let serial = open.serial;
        let request = InputRequest { key: format!("q{serial}"), method: method.as_str().into(), params };
        open.waiting.insert(serial, Question { request, answer: sender, told: false });
        serial
    };
    let _waiting = Waiting { call: &call, serial };
    core.metrics.asks.up();
    // What is asked in the same moment is asked in the same round.
    tokio::task::yield_now().await;
    if let Err(error) = tell(&core, &call) {
        return error.into();
    }
    tokio::select! {
        reply = receiver => reply.unwrap_or_else(|_| {
            ErrorObject::internal("cancelled", format!("the client did not come back with the answer to {method}")).into()
        }),
        () = tokio::time::sleep(core.options.ask_timeout) => {
            core.metrics.asks_timed_out.up();
            ErrorObject::internal("timeout", format!("the client did not answer {method} in time")).into()
        }
        _ = call.cancelled() => {
            ErrorObject::internal("cancelled", format!("the call that asked {method} was cancelled")).into()
        }
    }
}

struct Waiting<'a> {
    call: &'a CallState,
    serial: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(modern) = &self.call.modern
            && modern.questions.remove(self.serial)
        {
            modern.publish(&self.call.core);
        }
    }
}

/// Ends the round with every question that is open, if somebody is there to be told and there is one that was not told.
fn tell(core: &Arc<Core>, call: &Arc<CallState>) -> Result<(), ErrorObject> {
    let Some(modern) = &call.modern else { return Ok(()) };
    if modern.publish(core) {
        return Ok(());
    }
    let (handle, asked) = {
        let mut open = modern.questions.0.lock();
        if open.waiting.values().all(|question| question.told) {
            return Ok(());
        }
        let handle = *open.handle.get_or_insert_with(random::bytes);
        let asked: Vec<_> = open.waiting.values().map(|question| question.request.clone()).collect();
        (handle, asked)
    };
    let state = RequestState {
        expires: core.unix().saturating_add(millis(core.options.input_ttl)),
        serial: random::bytes(),
        asked: asked.iter().map(|asked| (asked.key.clone(), asked.method.to_string())).collect(),
        answers: BTreeMap::new(),
        kept: BTreeMap::new(),
        held: Some(handle),
    };
    let sealed = modern.round.seal(core, &state)?;
    let result = input_required(&asked, &sealed);
    hold(core, call, handle)?;
    let told = modern.end_round(core, call.request_method(), || Some(result));
    if told {
        let mut open = modern.questions.0.lock();
        for question in open.waiting.values_mut() {
            question.told |= asked.iter().any(|asked| asked.key == question.request.key);
        }
    } else {
        // It may have become a task in this moment.
        modern.publish(core);
    }
    Ok(())
}

fn hold(core: &Arc<Core>, call: &Arc<CallState>, handle: Handle) -> Result<(), ErrorObject> {
    let mut calls = core.held.0.lock();
    if !calls.contains_key(&handle) && calls.len() >= core.options.max_held_calls {
        let text = "too many calls wait for answers of their clients";
        return Err(ErrorObject::internal("too_many_held_calls", text));
    }
    let expires = core.now().after(millis(core.options.input_ttl));
    let principal = call.session.principal.clone();
    // A principal leaves places for the others.
    let of_principal = || calls.values().filter(|held| held.principal == principal).count();
    if principal.is_some()
        && !calls.contains_key(&handle)
        && of_principal() >= core.options.max_calls_per_session
    {
        let text = "too many calls of this client wait for its answers";
        return Err(ErrorObject::internal("too_many_held_calls", text));
    }
    calls.insert(handle, Held { call: call.clone(), principal, expires });
    Ok(())
}

/// Goes on with the call of `handle`: what it says from now on goes on `exchange`, and it gets the answers that came.
///
/// # Errors
/// Why there is no such call, for the sender.
pub(super) fn join(
    core: &Arc<Core>,
    handle: Handle,
    exchange: &Arc<Exchange>,
    next: &ModernCall,
    id: &RequestId,
) -> Result<Arc<CallState>, &'static str> {
    let call = {
        let calls = core.held.0.lock();
        let held = calls.get(&handle).filter(|held| held.expires > core.now()).ok_or(GONE)?;
        if held.principal != exchange.principal() {
            return Err(GONE);
        }
        held.call.clone()
    };
    let modern = call.modern.as_ref().ok_or(GONE)?;
    let goes_on = modern.attach(exchange, next, id)?;
    if !goes_on {
        core.held.0.lock().remove(&handle);
        return Ok(call);
    }
    modern.questions.answer(next.round.responses());
    let unanswered = {
        let mut open = modern.questions.0.lock();
        for question in open.waiting.values_mut() {
            question.told = false;
        }
        !open.waiting.is_empty()
    };
    if unanswered && let Err(error) = tell(core, &call) {
        tracing::warn!(message = %error.message, "a client cannot be asked again");
    }
    Ok(call)
}
