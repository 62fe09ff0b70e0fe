//! What this backend holds of a session beside its record: running calls, open questions, the standalone stream.

use crate::{
    CancelReason, Metrics, call::CallState, clients::SessionPlace, core::Core, outlet::Outlet,
    results::Results, watched::Watched,
};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::{CursorCodec, RequestToken, RequestTokenCodec, Scope, StreamId},
    jsonrpc::{Raw, Reply, RequestId},
    legacy::Millis,
    revision::Revision,
};
use bowline_store::{SessionLookup, SessionRecord, StreamKind, UpdateError, Version};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    future::Future as _,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    task::{Context, Waker},
};
use tokio::sync::oneshot;

/// The most subscriptions of one session that are remembered.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The longest URI of a subscription, and the longest name of a log level, that are remembered, in bytes.
const MAX_REMEMBERED_BYTES: usize = 8 * 1024;

/// How often in a row another backend may change the record first.
const MAX_LOST_RACES: u32 = 16;

/// A session as this backend serves it. The record in the store is the truth; this is what is running here.
pub(crate) struct Session {
    pub(crate) id: Box<str>,
    pub(crate) principal: Option<Box<str>>,
    pub(crate) revision: Revision,
    pub(crate) initialize: Raw,
    pub(crate) standalone_id: StreamId,
    /// A binding for one request, in the session mode `stateless`.
    pub(crate) stateless: bool,
    /// Whether streams can be resumed: always in a session, where the endpoint says so without one.
    pub(crate) resumable: bool,
    /// Derived when they are first needed: most sessions and nearly all bindings never sign anything.
    cursors: OnceLock<CursorCodec>,
    tokens: OnceLock<RequestTokenCodec>,
    record: RwLock<(Version, Arc<SessionRecord>)>,
    /// Locked after the record or alone.
    unstored: Mutex<Unstored>,
    calls: Mutex<Calls>,
    asks: Mutex<HashMap<Box<str>, oneshot::Sender<Reply>>>,
    results: Mutex<Results>,
    next_ask: AtomicU64,
    standalone: OnceLock<Arc<Outlet>>,
    /// Requests being answered and connections reading streams: what keeps the session alive.
    active: AtomicUsize,
    last_used: AtomicU64,
    last_touch: AtomicU64,
    initialized: Watched<bool>,
    /// The lists whose changes the server said it announces.
    lists: OnceLock<Vec<&'static str>>,
    ended: AtomicBool,
    /// The same for the streams whose results wait for a client: nobody can fetch those any more. Made for the first of them.
    told_end: OnceLock<Arc<AtomicBool>>,
    /// Its place among the sessions of its client, until it ends.
    place: Mutex<Option<SessionPlace>>,
    /// Where a binding is counted while it exists.
    counted: Option<Arc<Metrics>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(metrics) = &self.counted {
            metrics.bindings.down();
        }
    }
}

impl Session {
    /// A session that will be, or is, in the store.
    pub(crate) fn new(core: &Core, id: &str, version: Version, record: SessionRecord) -> Self {
        Self::made(core, id.into(), version, record)
    }

    /// What one request is bound to in the session mode `stateless`: a client that says nothing of itself. It is in no table
    /// and ends with the request.
    pub(crate) fn binding(core: &Core, revision: Revision, principal: Option<&str>) -> Self {
        let record = SessionRecord {
            principal: principal.map(Into::into),
            revision,
            initialize: Raw::empty_object(),
            initialized: true,
            log_level: None,
            subscriptions: BTreeSet::new(),
            standalone: StreamId::from_bytes([0; 16]),
        };
        let mut session = Self::made(core, Box::default(), Version(0), record);
        session.stateless = true;
        session.resumable = core.resumes_without_sessions();
        core.metrics.bindings.up();
        session.counted = Some(core.metrics.clone());
        session
    }

    /// This binding, for a client that introduces itself.
    pub(crate) fn with_initialize(mut self, params: Raw) -> Self {
        self.initialize = params;
        self
    }

    fn made(core: &Core, id: Box<str>, version: Version, record: SessionRecord) -> Self {
        let now = core.now().0;
        Self {
            cursors: OnceLock::new(),
            tokens: OnceLock::new(),
            principal: record.principal.as_deref().map(Into::into),
            revision: record.revision,
            initialize: record.initialize.clone(),
            standalone_id: record.standalone,
            stateless: false,
            resumable: true,
            initialized: Watched::new(record.initialized),
            record: RwLock::new((version, Arc::new(record))),
            unstored: Mutex::default(),
            id,
            calls: Mutex::default(),
            asks: Mutex::default(),
            results: Mutex::default(),
            next_ask: AtomicU64::new(1),
            standalone: OnceLock::new(),
            active: AtomicUsize::new(0),
            last_used: AtomicU64::new(now),
            last_touch: AtomicU64::new(now),
            lists: OnceLock::new(),
            ended: AtomicBool::new(false),
            told_end: OnceLock::new(),
            place: Mutex::default(),
            counted: None,
        }
    }

    /// What event ids and the ids of our own requests are bound to.
    fn scope(&self) -> Scope<'_> {
        Scope { session: (!self.stateless).then_some(&*self.id), principal: self.principal.as_deref() }
    }

    /// The event ids of this session.
    pub(crate) fn cursors(&self, core: &Core) -> &CursorCodec {
        self.cursors.get_or_init(|| CursorCodec::new(&core.keyring, self.scope()))
    }

    /// The record as this backend last saw it.
    pub(crate) fn record(&self) -> Arc<SessionRecord> {
        self.record.read().1.clone()
    }

    /// Notes the version under which the store has the record.
    pub(crate) fn set_version(&self, version: Version) {
        self.record.write().0 = version;
    }

    /// Changes the record: here at once, in the store soon, and there in the same order.
    pub(crate) fn change(
        self: &Arc<Self>,
        core: &Arc<Core>,
        change: impl Fn(&mut SessionRecord) + Send + Sync + 'static,
    ) {
        if self.stateless {
            return;
        }
        let first = {
            let mut held = self.record.write();
            change(Arc::make_mut(&mut held.1));
            let mut unstored = self.unstored.lock();
            unstored.changes.push_back(Box::new(change));
            !std::mem::replace(&mut unstored.storing, true)
        };
        if first {
            let (session, core) = (self.clone(), core.clone());
            let mut storing = Box::pin(async move { session.store_changes(&core).await });
            // A store that answers at once needs no task.
            if storing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(storing);
            }
        }
    }

    /// Brings changes into the store until there are none left; what another backend changed in between is kept.
    async fn store_changes(&self, core: &Core) {
        // Whoever loses a race loads again; each round somebody got through.
        let mut lost = 0;
        loop {
            let (version, record, count) = {
                let held = self.record.read();
                let mut unstored = self.unstored.lock();
                if unstored.changes.is_empty() || lost > MAX_LOST_RACES {
                    *unstored = Unstored::default();
                    break;
                }
                (held.0, SessionRecord::clone(&held.1), unstored.changes.len())
            };
            match core.store.update_session(&self.id, version, record).await {
                Ok(version) => {
                    self.set_version(version);
                    self.unstored.lock().changes.drain(..count);
                    lost = 0;
                }
                Err(UpdateError::Conflict) => {
                    lost += 1;
                    let loaded = core.store.load_session(&self.id).await;
                    let Ok(SessionLookup::Live(version, record)) = loaded else { return self.give_up() };
                    let mut record = SessionRecord::clone(&record);
                    // What was changed here meanwhile is among these.
                    let mut held = self.record.write();
                    for change in &self.unstored.lock().changes {
                        change(&mut record);
                    }
                    *held = (version, Arc::new(record));
                }
                Err(UpdateError::Gone) => return self.give_up(),
                Err(UpdateError::Unavailable(error)) => {
                    tracing::warn!(session = %self, %error, "the session record could not be updated");
                    return self.give_up();
                }
            }
        }
        if lost > 0 {
            tracing::warn!(session = %self, "the session record is changed too often by others; changes of ours were given up");
        }
    }

    /// The store does not get what it has not got yet.
    fn give_up(&self) {
        *self.unstored.lock() = Unstored::default();
    }

    /// Notes what `initialize` was answered.
    pub(crate) fn set_capabilities(&self, result: &Raw) {
        let Some(capabilities) = result.member("capabilities") else { return };
        let announced = |list: &&'static str| {
            capabilities
                .member(list)
                .and_then(|list| list.member("listChanged"))
                .is_some_and(|announced| announced.as_str() == "true")
        };
        let _ = self.lists.set(["tools", "resources", "prompts"].into_iter().filter(announced).collect());
    }

    /// The lists whose changes the server said it announces.
    pub(crate) fn advertised_lists(&self) -> &[&'static str] {
        self.lists.get().map_or(&[], Vec::as_slice)
    }

    /// Notes what a request that succeeded changed in the session, so that a replaced upstream can be brought to the same
    /// state.
    pub(crate) fn observe(self: &Arc<Self>, core: &Arc<Core>, method: &str, params: Option<&Raw>) {
        let text = |name: &str| {
            let value = params.and_then(|params| params.member(name)).and_then(|value| value.string());
            value.filter(|text| text.len() <= MAX_REMEMBERED_BYTES)
        };
        match method {
            "logging/setLevel" => {
                if let Some(level) = text("level") {
                    self.change(core, move |record| record.log_level = Some(level.clone()));
                }
            }
            "resources/subscribe" => {
                if let Some(uri) = text("uri") {
                    self.change(core, move |record| {
                        if record.subscriptions.len() < MAX_SUBSCRIPTIONS {
                            record.subscriptions.insert(uri.clone());
                        }
                    });
                }
            }
            "resources/unsubscribe" => {
                if let Some(uri) = text("uri") {
                    self.change(core, move |record| {
                        record.subscriptions.remove(&uri);
                    });
                }
            }
            _ => {}
        }
    }

    // --- life ---

    /// Notes that the session is in use until the guard is dropped.
    pub(crate) fn use_now(self: &Arc<Self>, core: &Arc<Core>) -> InUse {
        self.active.fetch_add(1, Ordering::Relaxed);
        InUse { session: self.clone(), core: core.clone() }
    }

    /// When the session ends for lack of use, if nothing happens: never while it is in use.
    pub(crate) fn idle_deadline(&self, core: &Core) -> Option<Millis> {
        // Who sees that the last user left sees when.
        if self.active.load(Ordering::Acquire) > 0 {
            return None;
        }
        let ttl = millis(core.options.session_ttl);
        Some(Millis(self.last_used.load(Ordering::Relaxed).saturating_add(ttl)))
    }

    /// Whether the store has to be told that the session is in use: once in a quarter of its time to live.
    pub(crate) fn touch_due(&self, core: &Core) -> bool {
        let now = core.now().0;
        let quarter = millis(core.options.session_ttl / 4);
        let last = self.last_touch.load(Ordering::Relaxed);
        now.saturating_sub(last) >= quarter
            && self.last_touch.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes the place that the session takes among those of its client.
    pub(crate) fn set_place(&self, place: Option<SessionPlace>) {
        *self.place.lock() = place;
    }

    /// Marks the session as ended; `true` for the one who did it.
    pub(crate) fn end(&self) -> bool {
        let first = !self.ended.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if let Some(told) = self.told_end.get() {
            told.store(true, Ordering::Release);
        }
        if first {
            drop(self.place.lock().take());
        }
        first
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Tells of the session's end without holding on to the session.
    pub(crate) fn ended(&self) -> Arc<AtomicBool> {
        let told = self.told_end.get_or_init(Arc::default).clone();
        // Whoever ended the session meanwhile has not seen it. With the fence in `end` one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.has_ended() {
            told.store(true, Ordering::Release);
        }
        told
    }

    pub(crate) fn set_initialized(&self) {
        self.initialized.set(true);
    }

    /// Waits until `notifications/initialized` came.
    pub(crate) async fn wait_initialized(&self) {
        self.initialized.wait_for(|came| came).await;
    }

    // --- calls ---

    /// Registers a call before it runs, so that a cancel, a poll and the end of the session find it. Either of the first and the
    /// last that came just before stops it now.
    pub(crate) fn add_call(&self, call: &Arc<CallState>, limit: usize) -> Result<(), AddCall> {
        let mut calls = self.calls.lock();
        if calls.running.contains_key(call.id()) {
            return Err(AddCall::Duplicate);
        }
        if calls.running.len() >= limit {
            return Err(AddCall::TooMany);
        }
        calls.running.insert(call.id().clone(), call.clone());
        let cancelled = calls.take_marker(call.id(), call.core.now());
        drop(calls);
        // Looked at after it was added: whoever ends the session meanwhile finds the call, or is seen here.
        if self.has_ended() {
            call.cancel(CancelReason::SessionEnded);
        } else if cancelled {
            call.cancel(CancelReason::Client);
        }
        Ok(())
    }

    pub(crate) fn remove_call(&self, call: &Arc<CallState>) {
        let mut calls = self.calls.lock();
        if calls.running.get(call.id()).is_some_and(|held| Arc::ptr_eq(held, call)) {
            calls.running.remove(call.id());
        }
    }

    /// Cancels a call because its client says so. A cancel that overtook its request on another connection leaves a marker
    /// that the call meets (SEMANTICS 6).
    pub(crate) fn cancel_call(&self, id: RequestId, now: Millis) {
        let mut calls = self.calls.lock();
        match calls.running.get(&id).cloned() {
            Some(call) => {
                drop(calls);
                call.cancel(CancelReason::Client);
            }
            None => calls.mark(id, now),
        }
    }

    /// Every running call, for the end of the session.
    pub(crate) fn take_calls(&self) -> Vec<Arc<CallState>> {
        self.calls.lock().running.drain().map(|(_, call)| call).collect()
    }

    /// Takes note of a result that waits for its client; the session's oldest ones go where it has too many.
    pub(crate) fn keep_result(&self, core: &Arc<Core>, outlet: &Outlet) {
        if self.stateless {
            return;
        }
        let now = core.now();
        let ttl = millis(core.options.sealed_ttl);
        let limit = core.options.max_session_bytes;
        let gone = self.results.lock().keep(outlet.stream, outlet.said(), now, now.after(ttl), limit);
        for stream in gone {
            core.metrics.results_evicted.up();
            core.remove_stream(stream);
        }
    }

    // --- requests of ours ---

    /// Mints the id of a request of ours on `stream`, and waits for its answer under it.
    pub(crate) fn open_ask(&self, core: &Core, stream: StreamId) -> (Box<str>, oneshot::Receiver<Reply>) {
        let mut id = String::new();
        self.tokens
            .get_or_init(|| RequestTokenCodec::new(&core.keyring, self.scope()))
            .mint(RequestToken { stream, serial: self.next_ask.fetch_add(1, Ordering::Relaxed) }, &mut id);
        let (sender, receiver) = oneshot::channel();
        let id = id.into_boxed_str();
        self.asks.lock().insert(id.clone(), sender);
        (id, receiver)
    }

    pub(crate) fn close_ask(&self, id: &str) {
        self.asks.lock().remove(id);
    }

    /// Ends the wait of every open question: the session ended.
    pub(crate) fn drop_asks(&self) {
        self.asks.lock().clear();
    }

    /// Hands a response to whoever waits for it; `false` where nobody does.
    pub(crate) fn answer_ask(&self, id: &RequestId, reply: Reply) -> bool {
        let RequestId::String(id) = id else { return false };
        let sender = self.asks.lock().remove(id);
        sender.is_some_and(|sender| sender.send(reply).is_ok())
    }

    // --- the standalone stream ---

    /// The session's standalone stream; made when it is first needed.
    pub(crate) fn standalone(&self, core: &Arc<Core>) -> &Arc<Outlet> {
        let outlet = self.standalone.get_or_init(|| {
            let outlet = Outlet::new(core, StreamKind::Standalone, self.standalone_id, Some(self), None);
            outlet.open();
            outlet
        });
        // Whoever ended the session meanwhile has not seen it. With the fence in `end` one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.has_ended() {
            outlet.seal(None);
        }
        outlet
    }

    pub(crate) fn standalone_if_made(&self) -> Option<&Arc<Outlet>> {
        self.standalone.get()
    }
}

/// A change of a record, which may have to be made again.
type Change = Box<dyn Fn(&mut SessionRecord) + Send + Sync>;

/// Changes of the record that the store does not have yet, in their order.
#[derive(Default)]
struct Unstored {
    changes: VecDeque<Change>,
    /// Whether a task brings them there.
    storing: bool,
}

/// The calls of a session, and cancels that came before theirs.
#[derive(Default)]
struct Calls {
    running: HashMap<RequestId, Arc<CallState>>,
    markers: VecDeque<(RequestId, Millis)>,
}

/// How long a cancel waits for its call, and how many do. One that waits is usually for a call that is over.
const MARKER_MS: u64 = 2_000;
const MARKERS: usize = 32;

impl Calls {
    fn mark(&mut self, id: RequestId, now: Millis) {
        if self.markers.len() >= MARKERS {
            self.markers.pop_front();
        }
        self.markers.push_back((id, now));
    }

    /// Takes a marker for `id` out; whether there was one.
    fn take_marker(&mut self, id: &RequestId, now: Millis) -> bool {
        // Nearly always empty: then nothing is compared.
        self.markers.retain(|(_, at)| now.0.saturating_sub(at.0) < MARKER_MS);
        let found = self.markers.iter().position(|(marked, _)| marked == id);
        found.is_some_and(|at| self.markers.remove(at).is_some())
    }
}

/// Why a call was not registered.
pub(crate) enum AddCall {
    /// A call of that id runs in this session.
    Duplicate,
    /// The session runs as many calls as it may.
    TooMany,
}

/// Keeps a session alive while it exists.
pub(crate) struct InUse {
    session: Arc<Session>,
    core: Arc<Core>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.session.last_used.store(self.core.now().0, Ordering::Relaxed);
        self.session.active.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Display for Session {
    /// A short hash: a session id in a log would be a key in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", crate::random::short_hash(self.id.as_bytes()))
    }
}
