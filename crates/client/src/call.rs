//! One call from its begin to its end: limits, cancellation, rounds of questions, tasks.

use crate::{
    CallError, CallOptions, TimeLimit,
    core::{Core, Link, Telling},
    ctx::Ctx,
    http::server_error,
};
use bowline_proto::{
    client::{Outcome, Question, TaskState, TaskStatus},
    jsonrpc::{ErrorObject, Notification, Raw},
};
use futures_util::future::join_all;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a task is asked for that does not say how often it wants to be.
const POLL: Duration = Duration::from_secs(1);
/// The least and the longest wait between two polls, whatever the server says.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// The wait before a round that asks nothing and only gives a state back.
const EMPTY_ROUND: Duration = Duration::from_millis(500);

/// Methods that may run twice: they read, or set what is set already.
fn only_reads(method: &str) -> bool {
    !matches!(method, "tools/call" | "sampling/createMessage" | "elicitation/create")
        && (method.ends_with("/list")
            || matches!(
                method,
                "resources/templates/list"
                    | "resources/read"
                    | "prompts/get"
                    | "completion/complete"
                    | "ping"
                    | "server/discover"
                    | "logging/setLevel"
                    | "resources/subscribe"
                    | "resources/unsubscribe"
                    | "tasks/get"
                    | "tasks/update"
                    | "tasks/cancel"
            ))
}

/// Makes one call.
pub(crate) async fn call(
    core: &Arc<Core>,
    method: &str,
    params: Option<Raw>,
    options: CallOptions,
) -> Result<Raw, CallError> {
    let tool = (method == "tools/call").then(|| params.as_ref()?.member("name")?.string()).flatten();
    let marked = tool.is_some_and(|tool| core.tools.lock().get(&tool).is_some_and(|facts| facts.repeatable));
    let repeatable = options.idempotent || marked || only_reads(method);
    let ctx = Arc::new(Ctx::new(method, core.target.to_string(), repeatable, options));
    let (params, token) = with_token(core, &ctx, params);
    if let Some(token) = &token {
        core.watch_progress(token, &ctx);
    }
    let guard = Guard { core, ctx: &ctx, token, over: false };
    limited(core, &ctx, guard, run(core, &ctx, params)).await
}

/// Runs `work` within the limits of its call, and takes the call back where they end it.
pub(crate) async fn limited(
    core: &Arc<Core>,
    ctx: &Arc<Ctx>,
    mut guard: Guard<'_>,
    work: impl Future<Output = Result<Raw, CallError>>,
) -> Result<Raw, CallError> {
    let started = Instant::now();
    let total = ctx.options.timeout.unwrap_or(core.options.timeout);
    let idle = ctx.options.idle_timeout.unwrap_or(core.options.idle_timeout);
    let mut cancel = ctx.options.cancel.clone();
    let mut work = std::pin::pin!(work);
    let outcome = loop {
        let signs = *ctx.signs.borrow();
        let from = if ctx.options.progress_extends { signs.progress.max(started) } else { started };
        let ends = [
            total.and_then(|total| Some((from.checked_add(total)?, TimeLimit::Total, total))),
            idle.and_then(|idle| Some((signs.life.checked_add(idle)?, TimeLimit::Idle, idle))),
        ];
        let first = ends.into_iter().flatten().min_by_key(|(at, ..)| *at);
        let due = async {
            match first {
                Some((at, ..)) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = async {
            let Some(cancel) = &mut cancel else { return std::future::pending().await };
            // A handle that is gone cancels nothing.
            if cancel.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            outcome = &mut work => break outcome,
            () = cancelled => break Err(CallError::Cancelled),
            () = core.closing() => break Err(closed(ctx)),
            () = due => {
                let now = *ctx.signs.borrow();
                let moved = now.life != signs.life || (ctx.options.progress_extends && now.progress != signs.progress);
                if let Some((at, limit, after)) = first
                    && (!moved || (limit == TimeLimit::Total && !ctx.options.progress_extends && Instant::now() >= at))
                {
                    break Err(CallError::Timeout { limit, after, may_have_run: ctx.was_sent() });
                }
            }
        }
    };
    // Where the work came to its own end, the server has nothing left to cancel, or cannot be reached.
    guard.over =
        !matches!(outcome, Err(CallError::Cancelled | CallError::Timeout { .. } | CallError::Closed));
    drop(guard);
    outcome
}

/// The client was closed under a call.
fn closed(ctx: &Ctx) -> CallError {
    if ctx.was_sent() {
        CallError::OutcomeUnknown { message: "the client was closed".into() }
    } else {
        CallError::Closed
    }
}

/// Takes the call back where it is dropped before its end.
pub(crate) struct Guard<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) ctx: &'a Arc<Ctx>,
    pub(crate) token: Option<Raw>,
    pub(crate) over: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            self.core.unwatch_progress(token);
        }
        if self.over || self.core.is_closed() {
            return;
        }
        // A call may be dropped where no runtime is left: then the server learns it from the end of its connection.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let core = Arc::clone(self.core);
        let telling = core.telling();
        if let Some(task) = self.ctx.task() {
            runtime.spawn(cancel_task(core, task, telling));
            return;
        }
        let Some(id) = self.ctx.current() else { return };
        let is_modern_http =
            matches!(core.link, Link::Http(_)) && core.peer().is_some_and(|peer| peer.modern);
        if is_modern_http {
            // The end of the stream says it.
            return;
        }
        let params = serde_json::json!({ "requestId": id, "reason": "the caller gave up" });
        let note =
            Notification::new("notifications/cancelled", Some(Raw::from_trusted(params.to_string().into())));
        runtime.spawn(async move {
            if let Err(error) = core.notify(&note).await {
                tracing::debug!(%error, "the server was not told of the cancellation");
            }
            drop(telling);
        });
    }
}

/// The parameters with a progress token where progress is wanted, and the token in them.
fn with_token(core: &Core, ctx: &Ctx, params: Option<Raw>) -> (Option<Raw>, Option<Raw>) {
    let meta = params.as_ref().and_then(|params| params.member("_meta"));
    let given = meta.as_ref().and_then(|meta| meta.member("progressToken"));
    if given.is_some() || ctx.options.on_progress.is_none() {
        return (params, given);
    }
    let token = Raw::from_trusted(core.next_id().to_json().into());
    let meta = meta.unwrap_or_else(Raw::empty_object);
    let params = params.unwrap_or_else(Raw::empty_object);
    let meta = meta.with_member("progressToken", &token).unwrap_or(meta);
    (Some(params.with_member("_meta", &meta).unwrap_or(params)), Some(token))
}

async fn run(core: &Arc<Core>, ctx: &Arc<Ctx>, params: Option<Raw>) -> Result<Raw, CallError> {
    let permit = core.slots.acquire().await.map_err(|_| CallError::Closed)?;
    ctx.alive();
    let mut round_params = params.clone();
    let mut rounds = 0;
    loop {
        let result = core.exchange(ctx, round_params.as_ref()).await;
        let result = if rounds == 0 { result? } else { result.map_err(after_a_round)? };
        if !core.peer().is_some_and(|peer| peer.modern) {
            return Ok(result);
        }
        match Outcome::of(result) {
            Outcome::Complete(result) => return Ok(result),
            Outcome::Task(task) => {
                let outcome = follow_task(core, ctx, task).await;
                drop(permit);
                return outcome;
            }
            Outcome::InputRequired { questions, state } => {
                rounds += 1;
                if rounds > core.options.max_rounds {
                    return Err(after_a_round(still_asks(rounds)));
                }
                if questions.is_empty() {
                    tokio::time::sleep(EMPTY_ROUND).await;
                }
                let answers = answer(core, ctx, questions).await.map_err(after_a_round)?;
                let mut next = params.clone().unwrap_or_else(Raw::empty_object);
                // These belong to one round only: what the caller's parameters say is replaced, what the round before said is
                // not in them.
                let mut set = |name: &str, value: &Raw| {
                    if let Some(with) = next.with_member(name, value) {
                        next = with;
                    }
                };
                if let Some(answers) = &answers {
                    set("inputResponses", answers);
                }
                if let Some(state) = &state {
                    set("requestState", state);
                }
                round_params = Some(next);
            }
        }
    }
}

/// The server has worked on the request before it asked: whatever a later round meets, no error but the server's own says what ran.
fn after_a_round(error: CallError) -> CallError {
    match error {
        CallError::Transport { message } | CallError::Invalid { message } => {
            CallError::OutcomeUnknown { message }
        }
        CallError::Auth(error) => CallError::OutcomeUnknown {
            message: format!("the server asked for something, and then: {error}"),
        },
        CallError::Closed => CallError::OutcomeUnknown { message: "the client was closed".into() },
        error => error,
    }
}

/// The answers to the questions of one round, all asked at once; `None` where there were none.
async fn answer(core: &Arc<Core>, ctx: &Ctx, questions: Vec<Question>) -> Result<Option<Raw>, CallError> {
    if questions.is_empty() {
        return Ok(None);
    }
    // The person who answers is a sign of life.
    let answers = join_all(questions.into_iter().map(|question| async move {
        let Question { key, method, params } = question;
        let mut asking = std::pin::pin!(core.ask(&method, params));
        let answer = loop {
            tokio::select! {
                answer = &mut asking => break answer,
                () = tokio::time::sleep(POLL) => ctx.alive(),
            }
        };
        ctx.alive();
        match answer {
            Ok(answer) => Ok((key, answer)),
            Err(error) => Err(CallError::invalid(format!(
                "the server needs an answer to {method:?}, and there is none: {}",
                error.message
            ))),
        }
    }))
    .await;
    let answers: Vec<_> = answers.into_iter().collect::<Result<_, _>>()?;
    Ok(Some(Raw::from_members(answers)))
}

async fn cancel_task(core: Arc<Core>, id: impl AsRef<str>, telling: Telling) {
    let params = Raw::from_members([("taskId", text(id.as_ref()))]);
    let ctx = core.quiet_ctx("tasks/cancel");
    drop(core.exchange(&ctx, Some(&params)).await);
    drop(telling);
}

/// Polls a task until its end. From its beginning on, no error but its own says that nothing ran.
pub(crate) async fn follow_task(core: &Arc<Core>, ctx: &Arc<Ctx>, task: TaskState) -> Result<Raw, CallError> {
    match poll_task(core, ctx, task).await {
        Err(CallError::Invalid { message }) => {
            // One that was given up would wait for its answers, or for its end.
            if let Some(task) = ctx.task() {
                tokio::spawn(cancel_task(Arc::clone(core), task, core.telling()));
            }
            Err(CallError::OutcomeUnknown { message })
        }
        outcome => outcome,
    }
}

/// A request about a task failed: that says nothing of what the task did, and does.
fn task_lost(error: CallError) -> CallError {
    match error {
        CallError::Transport { .. }
        | CallError::Protocol(_)
        | CallError::Auth(_)
        | CallError::Invalid { .. } => {
            CallError::OutcomeUnknown { message: format!("the task is lost: {error}") }
        }
        error => error,
    }
}

async fn poll_task(core: &Arc<Core>, ctx: &Arc<Ctx>, mut task: TaskState) -> Result<Raw, CallError> {
    let id = task.id.clone();
    ctx.set_task(Some(&id));
    let params = Raw::from_members([("taskId", text(&id))]);
    let mut answered = BTreeSet::new();
    let mut rounds = 0;
    loop {
        ctx.alive();
        match task.status {
            TaskStatus::Completed(result) => {
                ctx.set_task(None);
                return result.ok_or_else(|| CallError::invalid("the task is completed, and has no result"));
            }
            TaskStatus::Failed(error) => {
                ctx.set_task(None);
                let error = error.and_then(|error| error.to::<ErrorObject>().ok());
                return Err(error
                    .map_or_else(|| CallError::invalid("the task failed, and says not how"), server_error));
            }
            TaskStatus::Cancelled => {
                ctx.set_task(None);
                return Err(CallError::Cancelled);
            }
            TaskStatus::InputRequired(questions) => {
                let new: Vec<_> =
                    questions.into_iter().filter(|question| answered.insert(question.key.clone())).collect();
                rounds += u32::from(!new.is_empty());
                if rounds > core.options.max_rounds {
                    return Err(still_asks(rounds));
                }
                if let Some(answers) = answer(core, ctx, new).await? {
                    let update = Raw::from_members([("taskId", text(&id)), ("inputResponses", answers)]);
                    let quiet = core.quiet_ctx("tasks/update");
                    core.exchange(&quiet, Some(&update)).await.map_err(task_lost)?;
                }
            }
            TaskStatus::Working => {}
        }
        let wait = task.poll_interval_ms.map_or(POLL, Duration::from_millis);
        tokio::time::sleep(wait.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1)).await;
        let quiet = core.quiet_ctx("tasks/get");
        let state = core.exchange(&quiet, Some(&params)).await.map_err(task_lost)?;
        task =
            TaskState::of(&state).ok_or_else(|| CallError::invalid("the answer to tasks/get is no task"))?;
    }
}

fn still_asks(rounds: u32) -> CallError {
    CallError::invalid(format!("the server still asks after {rounds} rounds"))
}

pub(crate) fn text(text: &str) -> Raw {
    Raw::from_trusted(serde_json::Value::from(text).to_string().into())
}
