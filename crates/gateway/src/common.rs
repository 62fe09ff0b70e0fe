//! What all processes of a gateway share: options, ids, counters, the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bowline_proto::jsonrpc::{ErrorObject, Raw};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::child::Guard;
use crate::gate::Gate;
use crate::headers::Headers;
use crate::options::GatewayOptions;
use crate::repeatable::Repeatable;
use crate::stats::Counters;

pub(crate) struct Common {
    pub(crate) options: GatewayOptions,
    pub(crate) name: Arc<str>,
    pub(crate) guard: Guard,
    pub(crate) gate: Gate,
    pub(crate) counters: Counters,
    /// Places for processes.
    pub(crate) places: Arc<Semaphore>,
    /// The gateway is being shut down.
    pub(crate) closing: AtomicBool,
    /// The name and version of the server, once it has said them.
    pub(crate) server_info: Mutex<Option<Raw>>,
    /// What modern clients repeat in headers.
    pub(crate) headers: Headers,
    /// Which tools may run a second time.
    pub(crate) repeatable: Repeatable,
    alive: watch::Sender<usize>,
    ids: AtomicU64,
}

impl Common {
    pub(crate) fn new(options: GatewayOptions, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            name: options.child.name.as_str().into(),
            guard,
            gate: Gate::new(options.restart),
            counters: Counters::default(),
            places: Arc::new(Semaphore::new(options.max_children.min(Semaphore::MAX_PERMITS))),
            closing: AtomicBool::new(false),
            server_info: Mutex::new(None),
            headers: Headers::default(),
            repeatable: Repeatable::default(),
            alive: watch::Sender::new(0),
            ids: AtomicU64::new(1),
            options,
        })
    }

    /// An id for a request to a process, not used before by this gateway.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a process that exists until the guard is dropped.
    pub(crate) fn alive(self: &Arc<Self>) -> Alive {
        self.alive.send_modify(|alive| *alive += 1);
        Alive(self.clone())
    }

    pub(crate) fn children(&self) -> usize {
        *self.alive.borrow()
    }

    /// Waits until no process is left.
    pub(crate) async fn all_gone(&self) {
        // The sender lives in `self`.
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }

    /// A place for one more process.
    pub(crate) fn room(&self) -> Result<OwnedSemaphorePermit, ErrorObject> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            self.counters.refused.up();
            let text = format!(
                "{} server processes run already, the most that may; try again later",
                self.options.max_children
            );
            ErrorObject::internal("too_many_children", text)
        })
    }

    /// What a caller is told whose answer no client could read.
    pub(crate) fn invalid(&self, fault: &str) -> ErrorObject {
        let text = format!("{} answered with something that is not a valid response: {fault}", self.name);
        ErrorObject::outcome_unknown("upstream_invalid", text)
    }

    /// What a caller is told whose request was in the hands of a process that ended. How it ended, never what it said:
    /// its stderr may hold secrets.
    pub(crate) fn lost(&self, method: &str, how: &str) -> ErrorObject {
        ErrorObject::outcome_unknown(
            "upstream_lost",
            format!(
                "the server {} {how} while it worked on {method}; whether it had an effect is unknown",
                self.name
            ),
        )
    }

    /// What a caller is told who can have no process now.
    pub(crate) fn unavailable(&self, what: &str) -> ErrorObject {
        ErrorObject::internal(
            "upstream_unavailable",
            format!("the server {} {what}; the request was not sent, try again later", self.name),
        )
    }
}

/// A process that exists.
pub(crate) struct Alive(Arc<Common>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.send_modify(|alive| *alive -= 1);
    }
}
