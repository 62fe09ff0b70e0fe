//! The store of a run: a primary, replicas that are behind, and a way to it for each backend. It can be slow, away, or fail over to a
//! replica which has not got the last writes.

mod link;
mod tails;

pub(crate) use link::{Link, Way};

use crate::{
    chance::Chance,
    plan::{Mutation, Plan},
    trace::{Trace, What, digest},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, BackendId, Event, MemoryLimits, MemoryStore, NewStream, ReadError, ReadLimit, StreamKind,
    StreamLog as _, TakeOver, TakenOver, WriteAt, WriteError,
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// The least that can be read.
const ONE: ReadLimit = ReadLimit { events: 1, bytes: 1 };

/// How many times a run can fail over.
const REPLICAS: usize = 3;

/// A write, to be done on a replica as it was done on the primary.
type Write = Arc<dyn Fn(&MemoryStore) + Send + Sync>;

pub(crate) struct Cluster {
    trace: Arc<Trace>,
    mutation: Mutation,
    latency: (u64, u64),
    slow: u64,
    lag: Duration,
    wakes: (u64, u64, u64),
    inner: Mutex<Inner>,
    /// Counts the failovers.
    generation: watch::Sender<u64>,
}

struct Inner {
    primary: MemoryStore,
    replicas: VecDeque<MemoryStore>,
    /// Writes that the replicas have not got yet, the oldest first.
    behind: VecDeque<(Instant, Write)>,
    chance: Chance,
    failed_over: Option<Instant>,
    /// Which streams are a session's own.
    standalone: BTreeMap<[u8; 16], bool>,
    /// The owners of calls that were given to others, for a store that does not say so.
    former: BTreeMap<[u8; 16], (BackendId, u64)>,
    appends: u64,
}

impl Cluster {
    pub(crate) fn new(plan: &Plan, trace: &Arc<Trace>) -> Arc<Self> {
        let store = || MemoryStore::new(MemoryLimits::default());
        Arc::new(Self {
            trace: trace.clone(),
            mutation: plan.mutation,
            latency: plan.store_latency,
            slow: plan.store_slow,
            lag: Duration::from_millis(plan.lag),
            wakes: plan.wakes,
            inner: Mutex::new(Inner {
                primary: store(),
                replicas: (0..REPLICAS).map(|_| store()).collect(),
                behind: VecDeque::new(),
                chance: Chance::of(plan.seed, "store"),
                failed_over: None,
                standalone: BTreeMap::new(),
                former: BTreeMap::new(),
                appends: 0,
            }),
            generation: watch::Sender::new(0),
        })
    }

    /// How long a question is on its way, one way.
    fn pause(&self) -> Duration {
        let mut inner = self.inner.lock();
        let (from, to) = self.latency;
        let slow = self.slow;
        if inner.chance.percent(slow) { inner.chance.ms(50, 400) } else { inner.chance.ms(from, to) }
    }

    /// Reads from the primary.
    fn read<R>(&self, ask: impl FnOnce(&MemoryStore) -> R) -> R {
        let primary = self.inner.lock().primary.clone();
        ask(&primary)
    }

    /// Writes to the primary now, and to the replicas later.
    fn write<R>(&self, write: impl Fn(&MemoryStore) -> R + Send + Sync + 'static) -> R {
        let (primary, due) = {
            let mut inner = self.inner.lock();
            (inner.primary.clone(), inner.due())
        };
        due.run();
        let answer = write(&primary);
        let again: Write = Arc::new(move |store| drop(write(store)));
        self.inner.lock().behind.push_back((Instant::now() + self.lag, again));
        answer
    }

    /// A replica takes over. What it had not got is lost.
    pub(crate) fn fail_over(&self) {
        let due = self.inner.lock().due();
        due.run();
        {
            let mut inner = self.inner.lock();
            let Some(next) = inner.replicas.pop_front() else { return };
            inner.behind.clear();
            inner.primary = next;
            inner.failed_over = Some(Instant::now());
        }
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Whether a failover was so short a time ago that a log may be completed by its writer.
    fn is_unsettled(&self) -> bool {
        let at = self.inner.lock().failed_over;
        at.is_some_and(|at| Instant::now() - at < Duration::from_secs(5))
    }

    /// The keys that the backends share.
    pub(crate) fn keys(&self) -> Vec<Bytes> {
        use bowline_store::KeyStore as _;
        self.read(|store| store.shared_keys().now()).and_then(Result::ok).unwrap_or_default()
    }

    fn create(&self, stream: NewStream) -> Result<(), bowline_store::CreateError> {
        let (id, standalone) = (stream.id, stream.kind == StreamKind::Standalone);
        let incarnation = stream.incarnation;
        let answer = self.write(move |store| now(store.create(stream.clone())));
        if answer.is_ok() {
            self.inner.lock().standalone.insert(*id.as_bytes(), standalone);
            self.note_durable(What::Made { stream: id.of_incarnation(incarnation), standalone });
        }
        answer
    }

    fn append(&self, at: WriteAt, event: Event) -> Result<Appended, WriteError> {
        if self.forgets(at.stream) {
            self.note_written(at, false, &event.payload, false);
            return Ok(Appended::New);
        }
        let payload = event.payload.clone();
        let mut answer = self.write(move |store| now(store.append(at, event.clone())));
        if self.mutation == Mutation::NoFence
            && matches!(answer, Err(WriteError::Fenced { .. } | WriteError::Sealed))
        {
            answer = Ok(Appended::New);
        }
        if let Ok(appended) = answer {
            self.note_written(at, false, &payload, appended == Appended::Again);
        }
        answer
    }

    fn seal(&self, at: WriteAt, last: Option<Bytes>, keep: Duration) -> Result<Appended, WriteError> {
        let written = last.clone();
        let mut answer = self.write({
            let last = last.clone();
            move |store| now(store.seal(at, last.clone(), keep))
        });
        if self.mutation == Mutation::NoFence
            && matches!(answer, Err(WriteError::Fenced { .. } | WriteError::Sealed))
        {
            answer = self.force_seal(at, last, keep);
        }
        if let Ok(appended) = answer {
            self.note_written(at, true, &written.unwrap_or_default(), appended == Appended::Again);
        }
        answer
    }

    /// What a store without a fence would do: the sleeper's end replaces the one that is there.
    fn force_seal(&self, at: WriteAt, last: Option<Bytes>, keep: Duration) -> Result<Appended, WriteError> {
        let all = ReadLimit { events: usize::MAX, bytes: usize::MAX };
        let Ok(page) = self.read(|store| now(store.read_after(at.stream, 0, all))) else {
            return Err(WriteError::Sealed);
        };
        self.write(move |store| {
            let _ = now(store.remove(at.stream));
            let new = NewStream {
                id: at.stream,
                kind: StreamKind::Call,
                owner: page.owner,
                epoch: at.epoch,
                incarnation: page.incarnation,
                session: None,
                request_id: None,
                rerun: None,
                open_ttl: keep,
                max_events: 1_000,
                max_bytes: 1 << 25,
            };
            let _ = now(store.create(new));
            for (event, offset) in page.events.iter().zip(1..at.offset) {
                let event = Event { payload: event.clone(), class: bowline_store::EventClass::Kept };
                let _ = now(store.append(WriteAt { offset, ..at }, event));
            }
            now(store.seal(at, last.clone(), keep))
        })
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> Result<bowline_store::Page, ReadError> {
        let page = self.read(|store| now(store.read_after(stream, after, limit)));
        match page {
            // A writer that lives completes it in a moment.
            Err(ReadError::Lost { tail }) if self.is_unsettled() => {
                Err(ReadError::Unavailable(bowline_store::Unavailable(format!(
                    "the log ends at {tail} and may be completed by its writer"
                ))))
            }
            Ok(mut page) if self.mutation == Mutation::AnyOwner && !page.sealed => {
                if let Some((owner, epoch)) = self.inner.lock().former.get(stream.as_bytes()) {
                    (page.owner, page.epoch) = (*owner, *epoch);
                }
                Ok(page)
            }
            Ok(mut page) if self.mutation == Mutation::Repeat && page.events.len() > 1 => {
                let first = page.events[0].clone();
                page.events[1] = first;
                Ok(page)
            }
            page => page,
        }
    }

    fn forgets(&self, stream: StreamId) -> bool {
        if self.mutation != Mutation::ForgetAppend {
            return false;
        }
        let mut inner = self.inner.lock();
        inner.appends += 1;
        inner.appends.is_multiple_of(5) && inner.standalone.get(stream.as_bytes()) == Some(&false)
    }

    fn take_over(&self, by: TakeOver) -> Result<Option<TakenOver>, WriteError> {
        self.hide_owner(by);
        let mut answer = self.write(move |store| now(store.take_over(by)));
        if let (Err(WriteError::Fenced { epoch }), Mutation::AnyOwner) = (&answer, self.mutation) {
            let by = TakeOver { epoch: epoch + 1, ..by };
            answer = self.write(move |store| now(store.take_over(by)));
        }
        if let Ok(Some(_)) = answer {
            self.note_durable(What::TakenOver { stream: by.stream, epoch: by.epoch });
        }
        answer
    }

    /// A store that gives a call to everybody shows it as that of the one who lost it.
    fn hide_owner(&self, by: TakeOver) {
        if self.mutation != Mutation::AnyOwner {
            return;
        }
        if let Ok(page) = self.read(|store| now(store.read_after(by.stream, 0, ONE))) {
            let mut inner = self.inner.lock();
            inner.former.entry(*by.stream.as_bytes()).or_insert((page.owner, page.epoch));
        }
    }

    /// Drops every log that is a session's own, as a store does that is short of memory.
    pub(crate) fn evict(&self) {
        let own: Vec<StreamId> = {
            let inner = self.inner.lock();
            inner
                .standalone
                .iter()
                .filter(|(_, own)| **own)
                .map(|(id, _)| StreamId::from_bytes(*id))
                .collect()
        };
        for stream in own {
            let name = self.name(stream, 0);
            if self.read(|store| now(store.read_after(stream, u64::MAX - 1, ONE))) != Err(ReadError::Gone) {
                let _ = self.write(move |store| now(store.remove(stream)));
                self.trace.note(What::Evicted { stream: name });
            }
        }
    }

    /// What a stream is called in the trace, of which there is an event after `after`, or an end there.
    fn name(&self, stream: StreamId, after: u64) -> StreamId {
        match self.read(|store| now(store.read_after(stream, after, ONE))) {
            Ok(page) => stream.of_incarnation(page.incarnation),
            Err(_) => stream,
        }
    }

    fn note_written(&self, at: WriteAt, seal: bool, payload: &[u8], again: bool) {
        self.note_durable(What::Written {
            stream: self.name(at.stream, at.offset.saturating_sub(1)),
            epoch: at.epoch,
            offset: at.offset,
            seal,
            digest: digest(payload),
            again,
        });
    }
}

impl Cluster {
    /// Notes that something is there for good. A store that answers too early makes it so a while later.
    fn note_durable(&self, what: What) {
        if self.mutation != Mutation::EarlyAck {
            return self.trace.note(what);
        }
        let trace = self.trace.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            trace.note(what);
        });
    }
}

impl Inner {
    fn due(&mut self) -> Due {
        let now = Instant::now();
        let count = self.behind.iter().take_while(|(at, _)| *at <= now).count();
        let writes = self.behind.drain(..count).map(|(_, write)| write).collect();
        Due { writes, replicas: self.replicas.iter().cloned().collect() }
    }
}

/// Writes that have arrived at the replicas.
struct Due {
    writes: Vec<Write>,
    replicas: Vec<MemoryStore>,
}

impl Due {
    fn run(self) {
        for write in self.writes {
            self.replicas.iter().for_each(|replica| write(replica));
        }
    }
}

/// The answer of a store that has it at once.
fn now<T>(answer: bowline_store::StoreFuture<'_, T>) -> T {
    answer.now().expect("the memory of this process answers at once")
}
