//! `tasks/get`, `tasks/update` and `tasks/cancel`, on any backend.

use super::{begin, log};
use crate::{CancelReason, body::Body, core::Core, fleet::patiently, mailbox, service::json};
use bowline_proto::{
    cursor::TaskId,
    http::Refusal,
    jsonrpc::{ErrorObject, Notification, Raw, Reply, Request, RequestId, code},
    modern::{
        RequestMeta, fit_result,
        input::missing_capability,
        status_of,
        tasks::{self, Task, TaskParams, unknown_task},
    },
};
use bowline_store::Unavailable;
use http::Response;
use std::{sync::Arc, time::Duration};

/// How long what a client says to a task waits for the backend that runs it.
const KEEP: Duration = Duration::from_secs(600);

pub(in crate::modern) async fn answer(
    core: &Arc<Core>,
    principal: Option<&str>,
    meta: &RequestMeta,
    request: &Request,
) -> Result<Response<Body>, Refusal> {
    let id = &request.id;
    if !tasks::declared(&meta.capabilities) {
        return Err(undeclared(id));
    }
    let error = |error: ErrorObject| Ok(json(core, Reply::from(error).to_bytes(id)));
    let params = match TaskParams::of(&request.method, request.params.as_ref()) {
        Ok(params) => params,
        Err(why) => return error(ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {why}"))),
    };
    let Some(task) = log::named(core, principal, &params.id) else { return error(unknown_task()) };
    let result = match &*request.method {
        "tasks/get" => get(core, task, &params.id, id).await,
        "tasks/update" => update(core, task, params, id).await,
        _ => cancel(core, task, params, id).await,
    };
    match result? {
        Some(result) => {
            let result = fit_result(result, core.handler.server_info().as_ref(), None);
            Ok(json(core, Reply::Result(result).to_bytes(id)))
        }
        None => error(unknown_task()),
    }
}

/// 400 with -32021: a client that asks for tasks has to declare them.
pub(in crate::modern) fn undeclared(id: &RequestId) -> Refusal {
    let error = missing_capability(&tasks::required());
    Refusal::new(status_of(error.code), error).with_id(Some(id.clone()))
}

/// What the log says; `None` where nothing is known of the task.
async fn read(core: &Arc<Core>, task: TaskId, request: &RequestId) -> Result<Option<Task>, Refusal> {
    match log::read(core, task).await {
        Ok(task) => Ok(Some(task)),
        Err(log::Unread::Unknown) => Ok(None),
        Err(log::Unread::Away) => Err(away(request)),
    }
}

fn away(request: &RequestId) -> Refusal {
    Refusal::unavailable("store_unavailable", 1, Some(request.clone()))
}

async fn get(core: &Arc<Core>, task: TaskId, id: &str, request: &RequestId) -> Result<Option<Raw>, Refusal> {
    let Some(found) = read(core, task, request).await? else { return Ok(None) };
    if found.state.is_terminal() {
        core.running.fetched(task.stream);
    }
    Ok(Some(found.to_result(id, log::poll_interval(core, &found))))
}

async fn update(
    core: &Arc<Core>,
    task: TaskId,
    params: TaskParams,
    request: &RequestId,
) -> Result<Option<Raw>, Refusal> {
    if let Some(call) = core.tasks.get(task.stream) {
        begin::update(&call, &params.responses);
        begin::written(&call).await;
        return Ok(Some(Raw::empty_object()));
    }
    let Some(found) = read(core, task, request).await? else { return Ok(None) };
    // What is not asked is not passed on, whatever it is.
    let asked = found.state.keys();
    for (key, answer) in params.responses {
        if asked.contains(&key) {
            let answers = Raw::from_members([(&key, answer)]);
            // One letter for each answer, by its key: the first one counts.
            let key = format!("answer {key}");
            let sent = send(core, task, &key, "tasks/update", Some(answers), &params.id);
            sent.await.map_err(|error| undelivered(&error, request))?;
        }
    }
    Ok(Some(Raw::empty_object()))
}

async fn cancel(
    core: &Arc<Core>,
    task: TaskId,
    params: TaskParams,
    request: &RequestId,
) -> Result<Option<Raw>, Refusal> {
    if let Some(call) = core.tasks.get(task.stream) {
        call.cancel(CancelReason::Client);
        return Ok(Some(Raw::empty_object()));
    }
    let Some(found) = read(core, task, request).await? else { return Ok(None) };
    if !found.state.is_terminal() && core.is_shared() {
        let sent = send(core, task, mailbox::CANCEL, "tasks/cancel", None, &params.id);
        sent.await.map_err(|error| undelivered(&error, request))?;
    }
    Ok(Some(Raw::empty_object()))
}

/// Passes something on to the backend that runs the task.
async fn send(
    core: &Core,
    task: TaskId,
    key: &str,
    method: &'static str,
    answers: Option<Raw>,
    id: &str,
) -> Result<(), Unavailable> {
    let id = Raw::from_value(id).unwrap_or_else(|_| Raw::empty_object());
    let params = [("taskId", id)].into_iter().chain(answers.map(|answers| ("inputResponses", answers)));
    let letter = Notification::new(method, Some(Raw::from_members(params))).to_bytes();
    patiently(core.store.put_letter(task.stream, key, letter, KEEP)).await?;
    core.metrics.letters_sent.up();
    Ok(())
}

fn undelivered(error: &Unavailable, request: &RequestId) -> Refusal {
    tracing::warn!(%error, "a message to a task on another backend could not be passed on");
    away(request)
}
