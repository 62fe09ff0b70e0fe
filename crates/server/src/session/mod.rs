//! What this backend holds of a session beside its record: running calls, open questions, the standalone stream.

mod asks;
mod calls;
mod record;

pub(crate) use calls::AddCall;

use crate::{
    Metrics, clients::SessionPlace, core::Core, modern::Listener, outlet::Outlet, random, rare::Rare,
    results::Results, watched::Watched,
};
use bowline_proto::time::millis;
use bowline_proto::{
    cursor::{CursorCodec, Scope, StreamId},
    jsonrpc::Raw,
    legacy::Millis,
    modern::RequestMeta,
    revision::Revision,
};
use bowline_store::{Notes, SessionRecord, StreamKind, Version};
use calls::Calls;
use parking_lot::{Mutex, RwLock};
use record::Unstored;
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// A session as this backend serves it. The record in the store is the truth; this is what is running here.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) principal: Option<Box<str>>,
    pub(crate) revision: Revision,
    pub(crate) initialize: Raw,
    pub(crate) standalone_id: StreamId,
    /// A binding for one request, in the session mode `stateless`.
    pub(crate) stateless: bool,
    /// Whether streams can be resumed: always in a session, where the endpoint says so without one.
    pub(crate) resumable: bool,
    /// Derived when it is first needed, and again when the keys changed: most sessions and nearly all bindings never sign anything.
    cursors: Mutex<Option<(u64, Arc<CursorCodec>)>>,
    record: RwLock<(Version, Arc<SessionRecord>)>,
    /// Locked after the record or alone.
    unstored: Mutex<Unstored>,
    calls: Rare<Calls>,
    asks: Rare<HashMap<Box<str>, asks::Open>>,
    results: Rare<Results>,
    next_ask: AtomicU64,
    standalone: OnceLock<Arc<Outlet>>,
    /// Requests being answered and connections reading streams: what keeps the session alive.
    active: AtomicUsize,
    last_used: AtomicU64,
    last_touch: AtomicU64,
    initialized: Watched<bool>,
    /// When the store was last asked whether this is still how the session is.
    checked: AtomicU64,
    checking: OnceLock<Box<tokio::sync::Mutex<()>>>,
    /// Whether a task looks out for changes by other backends.
    pub(crate) watched: AtomicBool,
    /// Whether the handler knows the session.
    adopted: AtomicBool,
    adopting: Mutex<()>,
    ended: AtomicBool,
    /// The same for the streams whose results wait for a client: nobody can fetch those any more. Made for the first of them.
    told_end: OnceLock<Arc<AtomicBool>>,
    /// Whether it is only this backend that does not hold it any longer: for others it lives on.
    forgotten: AtomicBool,
    /// Its place among the sessions of its client, until it ends.
    place: Mutex<Option<SessionPlace>>,
    /// Where a binding is counted while it exists.
    counted: Option<Arc<Metrics>>,
    listener: Option<Arc<Listener>>,
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
    pub(crate) fn new(core: &Core, id: Arc<str>, version: Version, record: SessionRecord) -> Self {
        Self::made(core, id, version, record)
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
            notes: Notes::new(),
        };
        let mut session = Self::made(core, Arc::default(), Version(0), record);
        session.stateless = true;
        session.resumable = core.resumes_without_sessions();
        core.metrics.bindings.up();
        session.counted = Some(core.metrics.clone());
        session
    }

    /// A session that another backend began, or that this one had forgotten: its handler has not seen it.
    pub(crate) fn loaded(core: &Core, id: &str, version: Version, record: SessionRecord) -> Self {
        let session = Self::made(core, id.into(), version, record);
        session.adopted.store(false, Ordering::Relaxed);
        session
    }

    /// What one request of a modern client is bound to: it says of itself what it has to. Nothing of it can be resumed.
    pub(crate) fn modern(
        core: &Core,
        revision: Revision,
        principal: Option<&str>,
        meta: &RequestMeta,
    ) -> Self {
        let mut session =
            Self::binding(core, revision, principal).with_initialize(meta.as_initialize(revision));
        session.resumable = false;
        session
    }

    /// This binding, for a client that listens to these resources and more under an id of its own.
    pub(crate) fn listening(mut self, id: Arc<str>, uris: BTreeSet<String>, listener: Arc<Listener>) -> Self {
        self.id = id;
        Arc::make_mut(&mut self.record.get_mut().1).subscriptions = uris;
        self.listener = Some(listener);
        self
    }

    /// Where a modern client listens, if this is one that does.
    pub(crate) const fn listener(&self) -> Option<&Arc<Listener>> {
        self.listener.as_ref()
    }

    /// This binding, for a client that introduces itself.
    pub(crate) fn with_initialize(mut self, params: Raw) -> Self {
        self.initialize = params;
        self
    }

    fn made(core: &Core, id: Arc<str>, version: Version, record: SessionRecord) -> Self {
        let now = core.now().0;
        Self {
            cursors: Mutex::default(),
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
            calls: Rare::default(),
            asks: Rare::default(),
            results: Rare::default(),
            next_ask: AtomicU64::new(random::word() >> 8),
            standalone: OnceLock::new(),
            active: AtomicUsize::new(0),
            last_used: AtomicU64::new(now),
            last_touch: AtomicU64::new(now),
            checked: AtomicU64::new(now),
            checking: OnceLock::new(),
            watched: AtomicBool::new(false),
            adopted: AtomicBool::new(true),
            adopting: Mutex::default(),
            ended: AtomicBool::new(false),
            told_end: OnceLock::new(),
            forgotten: AtomicBool::new(false),
            place: Mutex::default(),
            counted: None,
            listener: None,
        }
    }

    /// What event ids and the ids of our own requests are bound to.
    fn scope(&self) -> Scope<'_> {
        Scope { session: (!self.stateless).then_some(&*self.id), principal: self.principal.as_deref() }
    }

    /// The event ids of this session.
    pub(crate) fn cursors(&self, core: &Core) -> Arc<CursorCodec> {
        let number = core.keys.number();
        let mut held = self.cursors.lock();
        match &*held {
            Some((of, codec)) if *of == number => codec.clone(),
            _ => {
                let (number, ring) = core.keys.ring();
                let codec = Arc::new(CursorCodec::new(&ring, self.scope()));
                *held = Some((number, codec.clone()));
                codec
            }
        }
    }

    // --- life ---

    /// Notes that the session is in use until the guard is dropped.
    pub(crate) fn use_now(self: &Arc<Self>, core: &Arc<Core>) -> InUse {
        self.enter();
        InUse { session: self.clone(), core: core.clone() }
    }

    /// The same without a guard: until [`Session::leave`].
    pub(crate) fn enter(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, core: &Core) {
        self.last_used.store(core.now().0, Ordering::Relaxed);
        self.active.fetch_sub(1, Ordering::Release);
    }

    /// Whether requests of the session are being answered, or its streams read.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire) > 0
    }

    /// Whether what the store last said of the session is more than `every` milliseconds old.
    pub(crate) fn check_due(&self, core: &Core, every: u64) -> bool {
        core.now().0.saturating_sub(self.checked.load(Ordering::Relaxed)) >= every
    }

    /// Held by the one who asks the store whether this is still how the session is: whoever comes meanwhile waits for what it says. Made
    /// when somebody asks, which only a shared store is.
    pub(crate) fn checking(&self) -> &tokio::sync::Mutex<()> {
        self.checking.get_or_init(Box::default)
    }

    /// Notes what the store was asked at `asked`, now that it has answered or has had its time.
    pub(crate) fn note_checked(&self, asked: Millis) {
        self.checked.fetch_max(asked.0, Ordering::Relaxed);
    }

    /// Shows the session to the handler, unless it knows it: whoever comes meanwhile waits until it does.
    pub(crate) fn adopt(&self, show: impl FnOnce()) {
        // Nearly always adopted: then nothing is locked.
        if self.is_adopted() {
            return;
        }
        let _adopting = self.adopting.lock();
        if !self.is_adopted() {
            show();
            self.adopted.store(true, Ordering::Release);
        }
    }

    /// Whether the handler knows the session.
    pub(crate) fn is_adopted(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
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

    /// The same for what this backend holds of it; the session lives on.
    pub(crate) fn forget(&self) -> bool {
        self.forgotten.store(true, Ordering::Release);
        self.end()
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

    // --- results ---

    /// Takes note of a stream of `bytes` whose result waits for its client; the session's oldest ones go where it has too many.
    pub(crate) fn keep_result(&self, core: &Arc<Core>, stream: StreamId, bytes: u64) {
        if self.stateless {
            return;
        }
        let now = core.now();
        let ttl = millis(core.options.sealed_ttl);
        let limit = core.options.max_session_bytes;
        let gone = self.results.lock().keep(stream, bytes, now, now.after(ttl), limit);
        for stream in gone {
            core.metrics.results_evicted.up();
            core.remove_stream(stream);
        }
    }

    // --- the standalone stream ---

    /// The session's standalone stream; made when it is first needed.
    pub(crate) fn standalone(&self, core: &Arc<Core>) -> &Arc<Outlet> {
        let outlet = self.standalone.get_or_init(|| {
            let outlet =
                Outlet::new(core, StreamKind::Standalone, self.standalone_id, Some(self), None, None);
            outlet.open();
            outlet
        });
        // Whoever ended the session meanwhile has not seen it. With the fence in `end` one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.has_ended() && !self.forgotten.load(Ordering::Acquire) {
            outlet.seal(None);
        }
        outlet
    }

    pub(crate) fn standalone_if_made(&self) -> Option<&Arc<Outlet>> {
        self.standalone.get()
    }
}

/// Keeps a session alive while it exists.
pub(crate) struct InUse {
    session: Arc<Session>,
    core: Arc<Core>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.session.leave(&self.core);
    }
}

impl fmt::Display for Session {
    /// A short hash: a session id in a log would be a key in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", random::short_hash(self.id.as_bytes()))
    }
}
