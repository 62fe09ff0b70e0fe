//! From a call to a task, and what the task needs while it runs.

use super::{Bounds, TaskLog, log};
use crate::{
    CancelReason,
    call::CallState,
    core::Core,
    fleet::{STORE_PATIENCE, rerun},
    mailbox,
    outlet::{Lost, Opened, Outlet},
    random,
    watched::Watched,
};
use bowline_proto::{
    jsonrpc::{Message, Notification, Raw, parse_message},
    modern::tasks::TaskParams,
};
use bowline_store::Letter;
use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::sync::Notify;

pub(crate) use bowline_proto::modern::tasks::Course;

/// How often it is looked whether the store has what was said.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a call has to do with tasks.
pub(crate) struct TaskCall {
    start: OnceLock<Start>,
    /// Whether the handler wishes to be a task now.
    wish: Watched<bool>,
    fate: Watched<Fate>,
    /// Told when a client came back to the call.
    pub(in crate::modern) attached: Notify,
}

/// How a call becomes a task.
#[derive(Clone)]
enum Start {
    /// By running for so long.
    After(Duration),
    /// It is that one, which another backend began.
    Running(Arc<TaskLog>),
}

/// What became of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is not known yet.
    Open,
    /// It is a task.
    Task,
    /// It is answered on its connection, and will not become a task.
    Stays,
}

impl Default for TaskCall {
    fn default() -> Self {
        Self {
            start: OnceLock::new(),
            wish: Watched::new(false),
            fate: Watched::new(Fate::Stays),
            attached: Notify::new(),
        }
    }
}

impl TaskCall {
    /// Sets, once and before the call runs, what is to become of it. It becomes a task after `hold`, where it may.
    pub(in crate::modern) fn set(&self, course: Course, hold: Duration) {
        if matches!(course, Course::WhenSlow | Course::AtOnce) {
            self.fate.set(Fate::Open);
        }
        let hold = if course == Course::AtOnce { Duration::ZERO } else { hold };
        let _ = self.start.set(Start::After(hold));
    }

    /// Makes it the task of this log, once and before the call runs.
    pub(in crate::modern) fn set_running(&self, log: &Arc<TaskLog>) {
        let _ = self.start.set(Start::Running(log.clone()));
        self.set_task();
    }

    /// Whether it may still become a task, or is one.
    pub(crate) fn may_be(&self) -> bool {
        self.fate.get() != Fate::Stays
    }

    /// Whether it is a task.
    pub(crate) fn is(&self) -> bool {
        self.fate.get() == Fate::Task
    }

    /// Wishes that the call become a task now.
    pub(crate) fn wish(&self) {
        self.wish.set(true);
    }

    /// Waits until it is known what becomes of the call; `true` where it is a task.
    pub(crate) async fn decided(&self) -> bool {
        self.fate.wait_for(|fate| fate != Fate::Open).await == Fate::Task
    }

    pub(in crate::modern) fn set_task(&self) {
        self.fate.set(Fate::Task);
    }

    async fn due(&self, hold: Duration) {
        tokio::select! {
            _ = self.wish.wait_for(|wish| wish) => {}
            () = tokio::time::sleep(hold) => {}
        }
    }
}

/// Makes a task of a call when its time has come, and reads what its client says to it; returns when the call has to stop for that.
pub(crate) async fn run(call: &Arc<CallState>) {
    let Some(modern) = call.modern.as_deref() else { return pending().await };
    let Some(start) = modern.task.start.get().filter(|_| modern.task.may_be()).cloned() else {
        return pending().await;
    };
    // Most calls end here: those that do not become tasks should not carry what tasks need.
    Box::pin(async {
        let task = match start {
            Start::Running(task) => task,
            Start::After(hold) => loop {
                modern.task.due(hold).await;
                match begin(call).await {
                    Begun::Task(task) => break task,
                    Begun::Nobody => modern.task.attached.notified().await,
                    Begun::Refused => {
                        modern.task.fate.set(Fate::Stays);
                        modern.open_stream();
                        return pending().await;
                    }
                }
            },
        };
        serve(call, &task).await;
    })
    .await;
}

enum Begun {
    Task(Arc<TaskLog>),
    /// Its client was asked and is not there: it can be told of a task when it comes back.
    Nobody,
    /// There is no place for it, here or in the store.
    Refused,
}

/// A handle goes out when its log is in the store, and not before.
async fn begin(call: &Arc<CallState>) -> Begun {
    let core = &call.core;
    let Some(modern) = call.modern.as_deref() else { return Begun::Refused };
    if !modern.is_anywhere() {
        return Begun::Nobody;
    }
    let principal = call.session.principal.as_deref();
    let stream = random::stream_id();
    let bounds = Bounds::of(core);
    // What a key of this process alone has signed, no other backend could read.
    if !core.keys.are_known() || !core.tasks.reserve(stream, principal, bounds) {
        core.metrics.tasks_refused.up();
        return Begun::Refused;
    }
    let created = core.unix();
    let outlet = log::outlet(core, stream, call.id(), rerun::kept_of_task(call, created));
    let mut unused = Unused { core, outlet, armed: true };
    let opened = tokio::time::timeout(STORE_PATIENCE, unused.outlet.opened()).await;
    if opened != Ok(Opened::Stored) {
        core.metrics.tasks_refused.up();
        return Begun::Refused;
    }
    let task = Arc::new(TaskLog::new(core, unused.outlet.clone(), created));
    core.tasks.set(stream, call);
    if !modern.become_task(core, call.request_method(), principal, &task) {
        return Begun::Nobody;
    }
    unused.armed = false;
    core.metrics.tasks_created.up();
    Begun::Task(task)
}

/// A log that was made and is no task's: the call ended in the same moment, or its client is not there.
struct Unused<'a> {
    core: &'a Arc<Core>,
    outlet: Arc<Outlet>,
    armed: bool,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.core.tasks.remove(self.outlet.stream);
            self.outlet.seal(None);
            self.core.remove_stream(self.outlet.stream);
        }
    }
}

/// Returns when the task has to stop: cancelled by its client, or taken for dead by another backend.
async fn serve(call: &CallState, task: &TaskLog) {
    tokio::select! {
        () = letters(call, task) => {}
        lost = task.outlet.lost() => call.cancel(match lost {
            Lost::Owner => {
                call.core.metrics.streams_lost.up();
                CancelReason::OwnerLost
            }
            Lost::StoreAway => CancelReason::StoreAway,
        }),
        () = fenced(&call.core) => call.cancel(CancelReason::OwnerLost),
    }
}

/// Waits until others may take this backend for dead: nobody waits here for what a task comes to.
async fn fenced(core: &Core) {
    let Some(fleet) = &core.fleet else { return pending().await };
    let mut lease = fleet.lease.changes();
    // The sender lives as long as the endpoint.
    let _ = lease.wait_for(|fenced| *fenced).await;
}

/// Reads what other backends were told for the task. Returns when it was cancelled.
async fn letters(call: &CallState, task: &TaskLog) {
    let core = &call.core;
    if !core.is_shared() {
        return pending().await;
    }
    let mut reader = mailbox::Reader::open(core, task.id.stream);
    let _used = mailbox::Used::new(core, task.id.stream);
    loop {
        for Letter { key, payload, .. } in reader.next().await {
            let Ok(Message::Notification(Notification { method, params })) = parse_message(payload) else {
                tracing::warn!("a letter to a task is none that a backend writes");
                continue;
            };
            if key == mailbox::CANCEL {
                return call.cancel(CancelReason::Client);
            }
            if let Ok(params) = TaskParams::of(&method, params.as_ref()) {
                update(call, &params.responses);
            }
        }
    }
}

/// Gives a task that runs here the answers of its client.
pub(super) fn update(call: &CallState, responses: &[(String, Raw)]) {
    let Some(modern) = &call.modern else { return };
    modern.answered(responses);
    modern.publish(&call.core);
}

/// Waits until the log shows what was said of a task that runs here, as long as a client may be kept waiting: who asks next sees what
/// came of its answers.
pub(super) async fn written(call: &CallState) {
    let Some(modern) = &call.modern else { return };
    let written = async {
        while !modern.is_written() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let _ = tokio::time::timeout(STORE_PATIENCE, written).await;
}
