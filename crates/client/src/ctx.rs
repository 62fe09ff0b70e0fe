//! One call under way.

use crate::{CallOptions, Progress, options::OnToken};
use bowline_proto::{
    client::{ResumePlace, ResumeToken},
    jsonrpc::{Raw, RequestId},
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::{sync::watch, time::Instant};

/// When something was last heard of a call, and when it last progressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    pub(crate) life: Instant,
    pub(crate) progress: Instant,
}

pub(crate) struct Ctx {
    pub(crate) method: Box<str>,
    /// Whether it may run twice (SEMANTICS 7.5).
    pub(crate) repeatable: bool,
    pub(crate) options: CallOptions,
    pub(crate) url: Box<str>,
    pub(crate) signs: watch::Sender<Signs>,
    /// Whether a byte of it may have reached a server.
    sent: AtomicBool,
    /// The id under which the server knows it at the moment.
    current: Mutex<Option<RequestId>>,
    task: Mutex<Option<String>>,
}

impl Ctx {
    pub(crate) fn new(method: &str, url: String, repeatable: bool, options: CallOptions) -> Self {
        let now = Instant::now();
        Self {
            method: method.into(),
            repeatable,
            options,
            url: url.into(),
            signs: watch::Sender::new(Signs { life: now, progress: now }),
            sent: AtomicBool::new(false),
            current: Mutex::new(None),
            task: Mutex::new(None),
        }
    }

    pub(crate) fn alive(&self) {
        self.signs.send_modify(|signs| signs.life = Instant::now());
    }

    pub(crate) fn progressed(&self, params: Option<&Raw>) {
        self.signs.send_modify(|signs| signs.progress = Instant::now());
        if let (Some(show), Some(params)) = (&self.options.on_progress, params)
            && let Ok(progress) = params.to::<Progress>()
        {
            show(progress);
        }
    }

    pub(crate) fn sending(&self, id: &RequestId) {
        self.sent.store(true, Ordering::Relaxed);
        *self.current.lock() = Some(id.clone());
    }

    /// No byte of the last sending left.
    pub(crate) fn unsent(&self, earlier: bool) {
        self.sent.store(earlier, Ordering::Relaxed);
        *self.current.lock() = None;
    }

    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// The server has nothing of this call any more: there is nothing to cancel.
    pub(crate) fn answered(&self) {
        *self.current.lock() = None;
    }

    pub(crate) fn current(&self) -> Option<RequestId> {
        self.current.lock().clone()
    }

    pub(crate) fn task(&self) -> Option<String> {
        self.task.lock().clone()
    }

    pub(crate) fn set_task(&self, task: Option<&str>) {
        *self.task.lock() = task.map(str::to_owned);
        if let Some(task_id) = task {
            self.show_token(&RequestId::from(0), || ResumePlace::Task { task_id: task_id.to_owned() });
        }
    }

    pub(crate) fn show_token(&self, request: &RequestId, place: impl FnOnce() -> ResumePlace) {
        if let Some(show) = &self.options.on_token {
            let show: &OnToken = show;
            show(&ResumeToken { url: (*self.url).to_owned(), request: request.clone(), place: place() });
        }
    }
}
