//! Tasks (`io.modelcontextprotocol/tasks`): calls of modern clients that go on without their connection (SEMANTICS 4).
//!
//! A call that becomes a task gets a log of its own in the store, and its client a handle, in this order. From then on the states of the
//! task are the events of the log, whoever asks reads them there, on any backend, and what the client says to the task reaches its owner
//! by a mailbox of the same name. A backend that dies has its tasks ended, or run again, as every call.
//!
//! - `begin`: from a call to a task
//! - `again`: a task of a backend that died, run once more
//! - `log`: what is written into the log, and read from it
//! - `answer`: `tasks/get`, `tasks/update`, `tasks/cancel`
//! - `follow`: a listening client is told

mod again;
mod answer;
mod begin;
mod follow;
mod log;

pub(crate) use again::{Again, run as run_again};
pub(super) use answer::{answer, undeclared};
pub(crate) use begin::run;
pub(super) use begin::{Course, TaskCall};
pub(super) use follow::{follow, known};
pub(super) use log::TaskLog;

use crate::{call::CallState, core::Core};
use bowline_proto::{cursor::StreamId, modern::tasks};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// The tasks that run on this backend.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<HashMap<StreamId, Running>>);

struct Running {
    principal: Option<Box<str>>,
    /// Not there while the task is being made.
    call: Option<Arc<CallState>>,
}

/// How many tasks may run.
#[derive(Clone, Copy)]
struct Bounds {
    all: usize,
    of_principal: usize,
}

impl Bounds {
    fn of(core: &Core) -> Self {
        Self { all: core.options.max_tasks, of_principal: core.options.max_calls_per_session }
    }
}

impl Tasks {
    /// Takes a place for a task that will be made; `false` where there is none.
    fn reserve(&self, stream: StreamId, principal: Option<&str>, bounds: Bounds) -> bool {
        let mut running = self.0.lock();
        if running.len() >= bounds.all {
            return false;
        }
        // A principal leaves places for the others.
        let of_principal = || running.values().filter(|task| task.principal.as_deref() == principal).count();
        if principal.is_some() && of_principal() >= bounds.of_principal {
            return false;
        }
        running.insert(stream, Running { principal: principal.map(Into::into), call: None });
        true
    }

    fn set(&self, stream: StreamId, call: &Arc<CallState>) {
        if let Some(task) = self.0.lock().get_mut(&stream) {
            task.call = Some(call.clone());
        }
    }

    fn get(&self, stream: StreamId) -> Option<Arc<CallState>> {
        self.0.lock().get(&stream)?.call.clone()
    }

    /// The task ended, or was not made.
    pub(super) fn remove(&self, stream: StreamId) {
        self.0.lock().remove(&stream);
    }
}

/// What streams of tasks have in the place of a session: no session has such an id.
pub(crate) const SESSION: &str = tasks::EXTENSION;
