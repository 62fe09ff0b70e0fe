//! A task of a backend that died, which this one took over with its log and runs again (`takeover = "rerun"`, SEMANTICS 6).

use super::{super::ModernCall, Bounds, TaskLog};
use crate::{
    call::CallState, core::Core, exchange::Exchange, fleet::owner_is_lost, log::Short, outlet::Outlet,
    post::progress_token, session::Session, supervise,
};
use bowline_proto::{
    cursor::StreamId,
    jsonrpc::Request,
    modern::{RequestMeta, RoundParams},
    revision::Revision,
};
use http::request::Parts;
use std::sync::Arc;

/// A task that was taken over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    /// Its log.
    pub(crate) stream: StreamId,
    /// The epoch at which this backend writes it.
    pub(crate) epoch: u64,
    /// Where it ended.
    pub(crate) tail: u64,
    /// When it was made, as its id says.
    pub(crate) created: u64,
    /// The number of this run, from 2 on.
    pub(crate) run: u64,
}

/// Runs it. Whoever asks for the task reads that it is being worked on; questions of the run before are not asked any more.
///
/// # Errors
/// Why it cannot be run here.
pub(crate) fn run(
    core: &Arc<Core>,
    again: &Again,
    revision: Revision,
    principal: Option<&str>,
    parts: &Arc<Parts>,
    request: Request,
) -> Result<(), &'static str> {
    const NONE: &str = "what was kept is no request that can be a task";
    let id = request.id.clone();
    let params = request.params.as_ref();
    let meta = RequestMeta::read(params).map_err(|_| NONE)?;
    let earlier = RoundParams::of(params).map_err(|_| NONE)?;
    let session = Arc::new(Session::modern(core, revision, principal, &meta));
    let exchange = Exchange::new(core, &session, Some(id.clone()), 1);
    let modern = ModernCall::new(core, &session, &exchange, meta, &request, earlier).map_err(|_| NONE)?;
    if !core.tasks.reserve(again.stream, principal, Bounds::of(core)) {
        core.metrics.tasks_refused.up();
        return Err("there are as many tasks here as there may be");
    }
    let outlet = Outlet::task_taken_over(core, again.stream, &id, again.epoch, again.tail);
    let log = Arc::new(TaskLog::new(core, outlet, again.created));
    modern.continue_task(id, again.run, &log);
    let token = progress_token(&request);
    let call = CallState::modern(core, &session, &exchange, parts, request, token, modern);
    core.tasks.set(again.stream, &call);
    log.begin_again(core, format!("The backend that worked on this is gone. This is run {}.", again.run));
    core.metrics.calls_rerun.up();
    tracing::info!(
        stream = %Short::stream(again.stream), run = again.run,
        "the backend of a task is gone; the task is run again here"
    );
    if supervise::start(&call).is_err() {
        call.conclude(Some(owner_is_lost().into()));
    }
    Ok(())
}
