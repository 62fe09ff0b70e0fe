//! The way of one process to the store.

use super::{
    Cluster, now,
    tails::{Tails, Written},
};
use crate::{host::Process, plan::Mutation};
use bowline_proto::cursor::StreamId;
use bowline_server::simulation::Admission;
use bowline_store::{
    Appended, Attachment, BackendId, BackendRegistry, BackendState, CreateError, Event, KeyStore, Letter,
    Mailbox, MemoryStore, NewStream, OpenStream, Page, ReadError, ReadLimit, SessionLookup, SessionRecord,
    SessionStore, StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, UpdateError, Version, WakeBus,
    Wakeups, WriteAt, WriteError,
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// What becomes of what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It arrives.
    Open,
    /// It is refused at once.
    Cut,
    /// It arrives, and is answered, when the way is open again.
    Silent,
}

pub(crate) struct Link {
    cluster: Arc<Cluster>,
    process: Arc<Process>,
    way: watch::Sender<Way>,
    tails: Tails,
}

impl Link {
    pub(crate) fn new(cluster: &Arc<Cluster>, process: &Arc<Process>) -> Arc<Self> {
        Arc::new(Self {
            cluster: cluster.clone(),
            process: process.clone(),
            way: watch::Sender::new(Way::Open),
            tails: Tails::default(),
        })
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Completes the logs of this process whenever the store has failed over. For a task of the process.
    pub(crate) async fn look_after(self: Arc<Self>) {
        let mut generations = self.cluster.generation.subscribe();
        while generations.changed().await.is_ok() {
            for stream in self.tails.streams() {
                let _ = self.pass(|link| Ok::<_, Unavailable>(link.complete(stream))).await;
            }
        }
    }

    /// Writes again what the log has lost of what this process wrote. Returns whether there was anything.
    fn complete(&self, stream: StreamId) -> bool {
        let one = ReadLimit { events: 1, bytes: 1 };
        // Asked from beyond its end, a log says where that is.
        let beyond = self.cluster.read(|store| now(store.read_after(stream, u64::MAX - 1, one)));
        let Err(ReadError::Lost { tail }) = beyond else {
            // Expired, removed, or its making was lost too: it is never begun again in silence.
            self.tails.forget(stream);
            return false;
        };
        let Ok(page) = self.cluster.read(|store| now(store.read_after(stream, tail, one))) else {
            return false;
        };
        if page.sealed {
            return false;
        }
        let missing = self.tails.after(stream, page.epoch, page.tail);
        for written in &missing {
            let done = match written.clone() {
                Written::Append(at, event) => self.cluster.append(at, event),
                Written::Seal(at, last, keep) => self.cluster.seal(at, last, keep),
            };
            if done.is_err() {
                return false;
            }
        }
        !missing.is_empty()
    }

    fn is_open(&self) -> bool {
        *self.way.borrow() == Way::Open && self.process.admission() != Admission::Dead
    }

    /// Asks the store: there, and the answer back.
    fn pass<'a, T: Send + 'a, E: From<Unavailable> + Send + 'a>(
        &'a self,
        ask: impl FnOnce(&'a Self) -> Result<T, E> + Send + 'a,
    ) -> StoreFuture<'a, Result<T, E>> {
        StoreFuture::later(async move {
            self.arrive().await?;
            let answer = ask(self);
            self.arrive().await?;
            answer
        })
    }

    async fn arrive(&self) -> Result<(), Unavailable> {
        let pause = self.cluster.pause();
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
        let mut ways = self.way.subscribe();
        // The sender lives in `self`.
        let way = ways.wait_for(|way| *way != Way::Silent).await.map_or(Way::Cut, |way| *way);
        if way == Way::Cut { Err(Unavailable("the way is cut".into())) } else { Ok(()) }
    }

    fn write(&self, written: Written) -> Result<Appended, WriteError> {
        let once = |written: Written| match written {
            Written::Append(at, event) => self.cluster.append(at, event),
            Written::Seal(at, last, keep) => self.cluster.seal(at, last, keep),
        };
        let (stream, offset) = match &written {
            Written::Append(at, _) | Written::Seal(at, ..) => (at.stream, at.offset),
        };
        let mut answer = once(written.clone());
        // The store has lost what came before.
        if matches!(&answer, Err(WriteError::OutOfOrder { tail }) if tail + 1 < offset)
            && self.complete(stream)
        {
            answer = once(written.clone());
        }
        // A store that forgets what it said does so behind everybody's back.
        if answer.is_ok() && self.cluster.mutation != Mutation::ForgetAppend {
            self.tails.remember(written);
        }
        answer
    }
}

impl StreamLog for Link {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        self.pass(move |link| link.cluster.create(stream))
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.pass(move |link| link.write(Written::Append(at, event)))
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        self.pass(move |link| link.write(Written::Seal(at, last, keep)))
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        self.pass(move |link| link.cluster.take_over(by))
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        self.pass(move |link| link.cluster.read_after(stream, after, limit))
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        self.pass(move |link| link.cluster.write(move |store| now(store.attach(stream))))
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        if self.is_open() {
            self.cluster.write(move |store| store.delivered(stream, generation, offset));
        }
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        if self.is_open() {
            self.cluster.write(move |store| store.trim(stream, offset));
        }
    }

    fn housekeep(&self, budget: usize) {
        self.cluster.write(move |store| store.housekeep(budget));
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        if self.is_open() {
            self.cluster.write(move |store| store.keep(stream, ttl));
        }
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |link| {
            link.tails.forget(stream);
            link.cluster.write(move |store| now(store.remove(stream)))
        })
    }
}

impl SessionStore for Link {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        let id = id.to_owned();
        self.pass(move |link| {
            link.cluster.write(move |store| now(store.create_session(&id, record.clone(), ttl)))
        })
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let id = id.to_owned();
        self.pass(move |link| link.cluster.read(|store| now(store.load_session(&id))))
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let id = id.to_owned();
        self.pass(move |link| {
            link.cluster.write(move |store| now(store.update_session(&id, version, record.clone())))
        })
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        let id = id.to_owned();
        self.pass(move |link| link.cluster.write(move |store| now(store.touch_session(&id, ttl))))
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let id = id.to_owned();
        self.pass(move |link| link.cluster.write(move |store| now(store.delete_session(&id, tombstone))))
    }
}

impl Mailbox for Link {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let key = key.to_owned();
        self.pass(move |link| {
            link.cluster.write(move |store| now(store.put_letter(stream, &key, payload.clone(), ttl)))
        })
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        self.pass(move |link| link.cluster.read(|store| now(store.letters_after(stream, after))))
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |link| link.cluster.write(move |store| now(store.drop_mailbox(stream))))
    }
}

impl BackendRegistry for Link {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        self.pass(move |link| link.cluster.write(move |store| now(store.renew(backend, draining, ttl))))
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        self.pass(move |link| {
            if link.cluster.mutation == Mutation::NoReaper {
                return Ok(BackendState::Alive);
            }
            link.cluster.read(|store| now(store.backend_state(backend)))
        })
    }

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        self.pass(|link| link.cluster.read(|store| now(store.backends())))
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        self.pass(move |link| link.cluster.read(|store| now(store.open_streams(backend, limit))))
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.pass(move |link| link.cluster.write(move |store| now(store.release(backend))))
    }
}

impl KeyStore for Link {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        self.pass(|link| link.cluster.read(|store| now(store.shared_keys())))
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        self.pass(move |link| {
            link.cluster.write(move |store| now(store.swap_keys(before.clone(), after.clone())))
        })
    }
}

impl WakeBus for Link {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        let (sender, receiver) = watch::channel(0);
        let task = tokio::spawn(forward(self.cluster.clone(), stream, sender));
        Wakeups::new(receiver, Some(Box::new(Forwarding(task))))
    }
}

/// Hands wake-ups on: some are lost, some come twice, some late.
async fn forward(cluster: Arc<Cluster>, stream: StreamId, sender: watch::Sender<u64>) {
    let mut generations = cluster.generation.subscribe();
    loop {
        let mut wakeups = cluster.read(|store: &MemoryStore| store.subscribe(stream));
        loop {
            tokio::select! {
                biased;
                changed = generations.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
                () = wakeups.changed() => {}
            }
            let (lost, doubled, late) = cluster.wakes;
            let (is_lost, is_doubled, delay) = {
                let chance = &mut cluster.inner.lock().chance;
                let delay = if chance.percent(late) { chance.ms(1, 2_000) } else { Duration::ZERO };
                (chance.percent(lost), chance.percent(doubled), delay)
            };
            if is_lost {
                continue;
            }
            tokio::time::sleep(delay).await;
            for _ in 0..=u8::from(is_doubled) {
                sender.send_modify(|count| *count += 1);
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Ends the forwarding when its subscription ends.
struct Forwarding(tokio::task::JoinHandle<()>);

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.0.abort();
    }
}
