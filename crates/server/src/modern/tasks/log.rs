//! The log of a task: written by its owner, read by everybody.

use super::super::held::Questions;
use crate::{
    core::Core,
    fleet::{self, patiently},
    outlet::Outlet,
    random,
};
use bowline_proto::{
    cursor::{StreamId, TaskId, TaskIdCodec},
    jsonrpc::{Raw, Reply, RequestId},
    modern::tasks::{Task, TaskState},
    time::millis,
};
use bowline_store::{EventClass, Page, ReadError, ReadLimit};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// What one read of a log brings. A log holds one state and the one before it, unless the store has not yet dropped what was trimmed.
const READ: ReadLimit = ReadLimit { events: 64, bytes: usize::MAX };

/// How often a log is read again because its oldest events were dropped meanwhile, or because it has more.
const TRIES: usize = 64;

/// The writing end of the log of a task.
pub(crate) struct TaskLog {
    pub(super) outlet: Arc<Outlet>,
    pub(super) id: TaskId,
    /// What was said last. Held while something is said, so that the log is in order.
    said: Mutex<Task>,
}

impl TaskLog {
    pub(super) fn new(core: &Core, outlet: Arc<Outlet>, created: u64) -> Self {
        let id = TaskId { stream: outlet.stream, created };
        Self { outlet, id, said: Mutex::new(begun(core, id)) }
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.id.stream
    }

    pub(crate) fn is_written(&self) -> bool {
        self.outlet.is_written()
    }

    /// Says which questions are open, if that is news.
    pub(crate) fn publish(&self, core: &Core, questions: &Questions) {
        let mut said = self.said.lock();
        // Looked at under the lock: of two that look, the later one says what is.
        let state = TaskState::asking(&questions.open());
        if said.state != state {
            said.state = state;
            self.say(core, &mut said, EventClass::Kept);
        }
    }

    /// Says that the task is being worked on, whatever was said of it before.
    pub(super) fn begin_again(&self, core: &Core, message: String) {
        let mut said = self.said.lock();
        said.message = Some(message);
        self.say(core, &mut said, EventClass::Kept);
    }

    /// Says what is going on, if that is news.
    pub(crate) fn set_message(&self, core: &Core, message: String) -> bool {
        let mut said = self.said.lock();
        if said.message.as_ref() == Some(&message) {
            return true;
        }
        said.message = Some(message);
        self.say(core, &mut said, EventClass::Droppable)
    }

    fn say(&self, core: &Core, said: &mut Task, class: EventClass) -> bool {
        said.updated = core.unix();
        // A newer state says all that an older one does.
        let key = (class == EventClass::Droppable).then(|| Bytes::from_static(b"task"));
        self.outlet.push(said.to_event(), class, key)
    }

    /// Says how the task ended; `None` where it was cancelled.
    pub(crate) fn end(&self, core: &Core, request: &RequestId, reply: Option<Reply>) {
        let mut said = self.said.lock();
        said.state = match reply {
            Some(Reply::Result(result)) => TaskState::Completed(result),
            Some(Reply::Error(error)) => TaskState::Failed(error),
            None => TaskState::Cancelled,
        };
        said.message = None;
        said.updated = core.unix();
        // One that ran for longer than it was to be kept is there for a while all the same.
        let age = said.updated.saturating_sub(said.created);
        said.ttl = said.ttl.max(age.saturating_add(millis(core.options.sealed_ttl)));
        self.outlet.seal(Some((request, said.to_event())));
    }

    /// What the call answers that became this task.
    pub(in crate::modern) fn created(&self, core: &Core, principal: Option<&str>) -> Raw {
        let said = self.said.lock();
        said.to_created(&codec(core, principal).mint(self.id), poll_interval(core, &said))
    }
}

/// The ids of the tasks of a principal.
pub(super) fn codec(core: &Core, principal: Option<&str>) -> TaskIdCodec {
    TaskIdCodec::new(&core.keys.ring().1, principal)
}

/// A task of which nothing was said yet.
fn begun(core: &Core, id: TaskId) -> Task {
    Task::new(id.created, millis(core.options.task_ttl))
}

/// How long a client is told to wait before it asks for the task again.
pub(super) fn poll_interval(core: &Core, task: &Task) -> u32 {
    let age = Duration::from_millis(core.unix().saturating_sub(task.created));
    core.options.retry.pick(age, 100, random::word(), task.state.is_asking())
}

/// Why a task cannot be told of.
pub(super) enum Unread {
    /// It expired, or never was.
    Unknown,
    /// The store cannot be asked.
    Away,
}

/// What the log says of a task. One whose owner is gone is ended first.
pub(super) async fn read(core: &Arc<Core>, id: TaskId) -> Result<Task, Unread> {
    let task = read_as_it_is(core, id).await?;
    match task {
        (task, Some(page)) if fleet::orphaned_task(core, id.stream, &page).await => {
            Ok(read_as_it_is(core, id).await.map_or(task, |(task, _)| task))
        }
        (task, _) => Ok(task),
    }
}

/// What the log says of a task, with its last page where it is not sealed.
async fn read_as_it_is(core: &Core, id: TaskId) -> Result<(Task, Option<Page>), Unread> {
    let mut events: Vec<Bytes> = Vec::new();
    let mut after = 0;
    for _ in 0..TRIES {
        match patiently(core.store.read_after(id.stream, after, READ)).await {
            Ok(mut page) => {
                after += page.events.len() as u64;
                events.append(&mut page.events);
                if after >= page.tail {
                    let task = Task::of_log(begun(core, id), &events, page.sealed);
                    return Ok((task, (!page.sealed).then_some(page)));
                }
                // Only the two newest count.
                events.drain(..events.len().saturating_sub(2));
            }
            Err(ReadError::Evicted { oldest }) => after = oldest.saturating_sub(1),
            Err(ReadError::Gone | ReadError::Lost { .. }) => return Err(Unread::Unknown),
            Err(ReadError::Unavailable(_)) => return Err(Unread::Away),
        }
    }
    Err(Unread::Away)
}

/// The stream of a task of this principal that a client names.
pub(super) fn named(core: &Core, principal: Option<&str>, id: &str) -> Option<TaskId> {
    codec(core, principal).read(id).ok()
}

/// The writing end of a log that will be a task's; with `rerun`, what it takes to run the task again is kept with it.
pub(super) fn outlet(
    core: &Arc<Core>,
    stream: StreamId,
    request: &RequestId,
    rerun: Option<Bytes>,
) -> Arc<Outlet> {
    let outlet = Outlet::task(core, stream, request, rerun);
    core.running.add(&outlet);
    outlet.open();
    outlet
}
