//! What a call of a modern client has beside any call.

use super::{
    Round,
    held::Questions,
    tasks::{TaskCall, TaskLog},
};
use crate::{core::Core, exchange::Exchange, post::progress_token, session::Session};
use bowline_proto::{
    jsonrpc::{Notification, Raw, Reply, Request, RequestId},
    legacy::Millis,
    modern::{RequestMeta, RoundParams, SERIAL_BYTES, fit_error, fit_result, status_of},
    projection::result_for_modern,
};
use bowline_store::EventClass;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Names a call that stays open between its rounds.
pub(crate) type Handle = [u8; SERIAL_BYTES];

pub(crate) struct ModernCall {
    pub(crate) meta: RequestMeta,
    pub(crate) round: Round,
    pub(super) questions: Questions,
    pub(crate) task: TaskCall,
    place: Mutex<Place>,
}

/// Where the call says what it says.
enum Place {
    /// To the client of this round.
    Here { id: RequestId, exchange: Arc<Exchange>, token: Option<Raw>, status: u16 },
    /// The client was asked and has not come back since then; the call may have ended meanwhile.
    Between { since: Millis, ended: Option<Reply> },
    /// To its log: the call is a task.
    Task { id: RequestId, log: Arc<TaskLog> },
    /// Nobody will come for anything.
    Over,
}

impl ModernCall {
    /// A call that `request` starts or goes on with.
    ///
    /// # Errors
    /// Why what it brings of an earlier round is of no use.
    pub(super) fn new(
        core: &Arc<Core>,
        session: &Session,
        exchange: &Arc<Exchange>,
        meta: RequestMeta,
        request: &Request,
        earlier: RoundParams,
    ) -> Result<Box<Self>, String> {
        let round = Round::new(core, session.principal.as_deref(), &meta, request, earlier)?;
        Ok(Box::new(Self {
            meta,
            round,
            questions: Questions::default(),
            task: TaskCall::default(),
            place: Mutex::new(Place::Here {
                id: request.id.clone(),
                exchange: exchange.clone(),
                token: progress_token(request),
                status: 200,
            }),
        }))
    }

    /// The call that this request goes on with instead of starting one.
    pub(super) fn joins(&self) -> Option<Handle> {
        self.round.held()
    }

    pub(crate) fn say(&self, payload: Bytes, class: EventClass, coalesce: Option<Bytes>) -> bool {
        match &*self.place.lock() {
            Place::Here { exchange, .. } => exchange.say(payload, class, coalesce),
            Place::Between { .. } | Place::Task { .. } | Place::Over => false,
        }
    }

    /// The call ended. Whoever is here is answered; where nobody is, the answer waits for the next round.
    pub(crate) fn conclude(&self, core: &Core, method: &str, reply: Option<Reply>) {
        let reply = reply.map(|reply| fit(core, method, reply));
        self.round.set_over();
        let mut place = self.place.lock();
        match &mut *place {
            Place::Here { id, exchange, status, .. } => {
                if let Some(Reply::Error(error)) = &reply {
                    let code = error.member("code").and_then(|code| code.to().ok()).unwrap_or_default();
                    *status = status_of(code).as_u16();
                }
                exchange.answer(reply.map(|reply| (&*id, reply.to_bytes(id))));
                self.questions.forget(core);
            }
            Place::Between { ended, .. } => {
                *ended = reply;
                if ended.is_none() {
                    *place = Place::Over;
                    self.questions.forget(core);
                }
            }
            Place::Task { id, log } => {
                core.tasks.remove(log.stream());
                log.end(core, id, reply);
                self.questions.forget(core);
                *place = Place::Over;
            }
            Place::Over => {}
        }
    }

    /// Ends the round with `result`, a question to the client; the call goes on. `false` where there is no round to be ended.
    pub(super) fn end_round(&self, core: &Core, method: &str, ask: impl FnOnce() -> Option<Raw>) -> bool {
        let mut place = self.place.lock();
        let Place::Here { id, exchange, .. } = &*place else { return false };
        let Some(result) = ask() else { return false };
        let reply = fit(core, method, Reply::Result(result));
        exchange.answer(Some((id, reply.to_bytes(id))));
        *place = Place::Between { since: core.now(), ended: None };
        true
    }

    /// Progress as this round's client knows it: every round is a request with a token of its own. `None` where it wants none.
    pub(crate) fn progress_of_round(
        &self,
        notification: Notification,
        first: Option<&Raw>,
    ) -> Option<Notification> {
        if &*notification.method != "notifications/progress" {
            return Some(notification);
        }
        let token = match &*self.place.lock() {
            Place::Here { token, .. } if token.as_ref() != first => token.clone()?,
            _ => return Some(notification),
        };
        let params = notification.params.as_ref()?.with_member("progressToken", &token)?;
        Some(Notification { params: Some(params), ..notification })
    }

    /// The client came back on `exchange` with `next`. Returns whether the call goes on.
    ///
    /// # Errors
    /// Why it cannot come back to this call.
    pub(super) fn attach(
        &self,
        exchange: &Arc<Exchange>,
        next: &Self,
        request: &RequestId,
    ) -> Result<bool, &'static str> {
        let token = match &*next.place.lock() {
            Place::Here { token, .. } => token.clone(),
            Place::Between { .. } | Place::Task { .. } | Place::Over => None,
        };
        let mut place = self.place.lock();
        match &mut *place {
            Place::Between { ended, .. } => {
                if let Some(reply) = ended.take() {
                    exchange.answer(Some((request, reply.to_bytes(request))));
                    *place = Place::Over;
                    return Ok(false);
                }
                *place = Place::Here { id: request.clone(), exchange: exchange.clone(), token, status: 200 };
                self.task.attached.notify_one();
                Ok(true)
            }
            Place::Here { .. } => Err("this request is being gone on with already"),
            Place::Task { .. } | Place::Over => Err(super::held::GONE),
        }
    }

    /// Since when the client has been asked without coming back, if it has.
    pub(crate) fn asked_since(&self) -> Option<Millis> {
        match &*self.place.lock() {
            Place::Between { since, .. } => Some(*since),
            Place::Here { .. } | Place::Task { .. } | Place::Over => None,
        }
    }

    /// Whether this is the exchange of the round that is open.
    pub(crate) fn is_at(&self, at: &Arc<Exchange>) -> bool {
        matches!(&*self.place.lock(), Place::Here { exchange, .. } if Arc::ptr_eq(exchange, at))
    }

    /// The HTTP status of a plain answer.
    pub(crate) fn status(&self) -> u16 {
        match &*self.place.lock() {
            Place::Here { status, .. } => *status,
            Place::Between { .. } | Place::Task { .. } | Place::Over => 200,
        }
    }

    // --- tasks ---

    /// Whether somebody waits for the call.
    pub(super) fn is_anywhere(&self) -> bool {
        matches!(&*self.place.lock(), Place::Here { .. })
    }

    /// Answers the request that the client waits for with the handle of `log`: the call is a task from now on. `false` where nobody waits.
    pub(super) fn become_task(
        &self,
        core: &Core,
        method: &str,
        principal: Option<&str>,
        log: &Arc<TaskLog>,
    ) -> bool {
        let mut place = self.place.lock();
        let Place::Here { id, exchange, .. } = &*place else { return false };
        let (id, exchange) = (id.clone(), exchange.clone());
        // What is asked already is in the log before its client looks.
        log.publish(core, &self.questions);
        *place = Place::Task { id: id.clone(), log: log.clone() };
        self.task.set_task();
        let reply = fit(core, method, Reply::Result(log.created(core, principal)));
        exchange.answer(Some((&id, reply.to_bytes(&id))));
        true
    }

    /// Makes it the task of `log`, which was begun by another backend: this is run `run` of it.
    pub(super) fn continue_task(&self, id: RequestId, run: u64, log: &Arc<TaskLog>) {
        self.questions.of_run(run);
        *self.place.lock() = Place::Task { id, log: log.clone() };
        self.task.set_running(log);
    }

    /// Says in the log of the task which questions are open. `false` where this is no task.
    pub(super) fn publish(&self, core: &Core) -> bool {
        let place = self.place.lock();
        let Place::Task { log, .. } = &*place else { return false };
        log.publish(core, &self.questions);
        true
    }

    /// Whether the log of the task has all that was said; `true` where this is no task.
    pub(super) fn is_written(&self) -> bool {
        match &*self.place.lock() {
            Place::Task { log, .. } => log.is_written(),
            Place::Here { .. } | Place::Between { .. } | Place::Over => true,
        }
    }

    /// Says in words how far the task is. `false` where this is no task.
    pub(crate) fn say_in_task(&self, core: &Core, message: String) -> bool {
        match &*self.place.lock() {
            Place::Task { log, .. } => log.set_message(core, message),
            Place::Here { .. } | Place::Between { .. } | Place::Over => false,
        }
    }

    /// Makes a stream of the answer that the client waits for.
    pub(super) fn open_stream(&self) {
        if let Place::Here { exchange, .. } = &*self.place.lock() {
            drop(exchange.outlet_or_open());
        }
    }

    /// Hands the answers of the client to whoever asked. What was not asked, or was answered already, is not looked at.
    pub(super) fn answered(&self, responses: &[(String, Raw)]) {
        self.questions.answer(responses);
    }
}

/// A reply in the shape of this revision.
fn fit(core: &Core, method: &str, reply: Reply) -> Reply {
    match reply {
        Reply::Result(result) => {
            let server = core.handler.server_info();
            let result = result_for_modern(method, result);
            Reply::Result(fit_result(result, server.as_ref(), core.options.cache.of(method)))
        }
        Reply::Error(error) => Reply::Error(fit_error(error)),
    }
}
