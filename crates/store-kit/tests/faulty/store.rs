//! A store with one fault.

use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, BackendId, BackendRegistry, BackendState, CreateError, Event, EventClass, KeyStore,
    Letter, Mailbox, MemoryStore, NewStream, OpenStream, Page, ReadError, ReadLimit, SealedStream,
    SessionLookup, SessionRecord, SessionStore, Store, StoreFuture, StreamLog, TakeOver, TakenOver,
    Unavailable, UpdateError, Version, WakeBus, Wakeups, WriteAt, WriteError,
};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::watch;

/// What a store may do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: the wrapper itself is right.
    Nothing,
    /// A second seal says that it won.
    SecondSealWins,
    /// A retried append is appended once more.
    AppendTwice,
    /// Writers of earlier epochs go on.
    NoFence,
    /// A take-over passes for a retry of what the former writer wrote.
    AnyEpochIsARetry,
    /// What was evicted is skipped in silence.
    HoleAfterEviction,
    /// A stream that is made with its seal stays open.
    MadeSealedStaysOpen,
    /// A stream that is gone reads as an empty one.
    GoneReadsEmpty,
    /// A position after the tail reads as the tail.
    LostReadsEmpty,
    /// The tail of a page is what the page shows.
    TailOfThePage,
    /// A page is cut to its bytes although that leaves it empty.
    EmptyPages,
    /// Nothing is trimmed.
    NoTrim,
    /// Sealed streams live as long as open ones.
    SealedLivesOn,
    /// An append that meets a gap fills it.
    GapsAreFilled,
    /// An update does not look at the version.
    NoConflict,
    /// A tombstone does not keep its session from being made again.
    TombstoneResurrected,
    /// An ended session is unknown at once.
    NoTombstone,
    /// Looking a session up prolongs its life.
    LoadTouches,
    /// A letter that is there comes again.
    LettersTwice,
    /// Letters come newest first.
    LettersBackwards,
    /// A box goes with its first look.
    LettersOnce,
    /// A lease never ends.
    LeaseForEver,
    /// Somebody always seems to have watched.
    BreaksAreForgotten,
    /// A draining backend seems alive.
    DrainingIsAlive,
    /// An older reader's deliveries count.
    AnyGeneration,
    /// Nobody is woken.
    NoWakes,
    /// A session that changes or ends wakes nobody.
    ChangesDoNotWake,
    /// A backend without a lease is listed although it owns nothing.
    SettledBackendsStay,
    /// A backend without a lease is not listed although it owns open streams.
    DeadBackendsVanish,
    /// Sealed streams count as open.
    SealedIsOpen,
    /// All open streams are returned, whatever the limit.
    LimitIsIgnored,
    /// Keys are replaced by anybody.
    AnySwapWins,
    /// Who loses a race for the keys is told its own.
    LosersKeepTheirKeys,
    /// A call is given to whoever asks, at whatever epoch.
    AnybodyTakesOver,
    /// A call that is over is given away all the same.
    SealedIsTakenOver,
    /// A stream that was made again passes for the one before it.
    IncarnationsAreForgotten,
    /// A subscription takes effect a moment after it was made.
    LateSubscription,
}

/// A memory store behind a wrapper with one fault.
pub(crate) struct Faulty {
    pub(crate) store: MemoryStore,
    pub(crate) fault: Fault,
    /// Every stream that was made.
    pub(crate) made: parking_lot::Mutex<Vec<NewStream>>,
}

const LONG: Duration = Duration::from_hours(100);

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

impl StreamLog for Faulty {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        self.made.lock().push(stream.clone());
        self.store.create(stream)
    }

    fn create_sealed(&self, stream: SealedStream) -> StoreFuture<'_, Result<(), CreateError>> {
        self.made.lock().push(stream.to_new());
        if !self.has(Fault::MadeSealedStaysOpen) {
            return self.store.create_sealed(stream);
        }
        StoreFuture::later(async move {
            self.store.create(stream.to_new()).await?;
            let last = Event { payload: stream.last.clone(), class: EventClass::Kept };
            let _ = self.store.append(stream.place(), last).await;
            Ok(())
        })
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        StoreFuture::later(async move {
            match self.store.append(at, event.clone()).await {
                Ok(Appended::Again) if self.has(Fault::AppendTwice) => {
                    let tail = self.tail(at.stream).await;
                    self.store.append(WriteAt { offset: tail + 1, ..at }, event).await
                }
                Err(WriteError::Fenced { epoch }) if self.has(Fault::NoFence) => {
                    self.store.append(WriteAt { epoch, ..at }, event).await
                }
                Err(WriteError::OutOfOrder { tail })
                    if self.has(Fault::AnyEpochIsARetry) && (1..=tail).contains(&at.offset) =>
                {
                    Ok(Appended::Again)
                }
                Err(WriteError::OutOfOrder { tail })
                    if self.has(Fault::GapsAreFilled) && at.offset > tail =>
                {
                    self.store.append(WriteAt { offset: tail + 1, ..at }, event).await
                }
                answer => answer,
            }
        })
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        StoreFuture::later(async move {
            let keep = if self.has(Fault::SealedLivesOn) { LONG } else { keep };
            match self.store.seal(at, last, keep).await {
                Err(WriteError::Sealed) if self.has(Fault::SecondSealWins) => Ok(Appended::New),
                answer => answer,
            }
        })
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        StoreFuture::later(async move {
            match self.store.take_over(by).await {
                Err(WriteError::Fenced { epoch }) if self.has(Fault::AnybodyTakesOver) => {
                    self.store.take_over(TakeOver { epoch: epoch + 1, ..by }).await
                }
                Err(WriteError::Sealed) if self.has(Fault::SealedIsTakenOver) => {
                    Ok(Some(TakenOver { tail: 1, session: None, request_id: None, rerun: Bytes::new() }))
                }
                answer => answer,
            }
        })
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        StoreFuture::later(async move {
            let mut page = match self.store.read_after(stream, after, limit).await {
                Err(ReadError::Evicted { oldest }) if self.has(Fault::HoleAfterEviction) => {
                    self.store.read_after(stream, oldest - 1, limit).await?
                }
                Err(ReadError::Gone) if self.has(Fault::GoneReadsEmpty) => Page {
                    events: Vec::new(),
                    tail: after,
                    sealed: false,
                    epoch: 1,
                    incarnation: 0,
                    owner: BackendId(0),
                    generation: 0,
                },
                Err(ReadError::Lost { tail }) if self.has(Fault::LostReadsEmpty) => {
                    self.store.read_after(stream, tail, limit).await?
                }
                answer => answer?,
            };
            if self.has(Fault::IncarnationsAreForgotten) {
                page.incarnation = 0;
            }
            if self.has(Fault::TailOfThePage) {
                page.tail = after + page.events.len() as u64;
            }
            if self.has(Fault::EmptyPages)
                && page.events.first().is_some_and(|event| event.len() > limit.bytes)
            {
                page.events.clear();
            }
            Ok(page)
        })
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        self.store.attach(stream)
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        let newer = if self.has(Fault::AnyGeneration) { 1..=generation + 3 } else { generation..=generation };
        for generation in newer {
            self.store.delivered(stream, generation, offset);
        }
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        if !self.has(Fault::NoTrim) {
            self.store.trim(stream, offset);
        }
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        self.store.keep(stream, ttl);
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.store.remove(stream)
    }
}

impl Faulty {
    async fn tail(&self, stream: StreamId) -> u64 {
        let limit = ReadLimit { events: 1, bytes: 1 };
        match self.store.read_after(stream, u64::MAX, limit).await {
            Err(ReadError::Lost { tail }) => tail,
            _ => 0,
        }
    }
}

impl SessionStore for Faulty {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        self.store.create_session(id, record, ttl)
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let id = id.to_owned();
        StoreFuture::later(async move {
            if self.has(Fault::LoadTouches) {
                self.store.touch_session(&id, LONG).await?;
            }
            self.store.load_session(&id).await
        })
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let id = id.to_owned();
        StoreFuture::later(async move {
            match self.store.update_session(&id, version, record.clone()).await {
                Err(UpdateError::Conflict) if self.has(Fault::NoConflict) => {
                    match self.store.load_session(&id).await? {
                        SessionLookup::Live(version, _) => {
                            self.store.update_session(&id, version, record).await
                        }
                        _ => Err(UpdateError::Gone),
                    }
                }
                answer => answer,
            }
        })
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.store.touch_session(id, ttl)
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let tombstone = match self.fault {
            Fault::NoTombstone => Duration::ZERO,
            // Long enough to be seen once, not as long as was asked for.
            Fault::TombstoneResurrected => tombstone.min(Duration::from_secs(5)),
            _ => tombstone,
        };
        self.store.delete_session(id, tombstone)
    }
}

impl Mailbox for Faulty {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let key = key.to_owned();
        StoreFuture::later(async move {
            let is_new = self.store.put_letter(stream, &key, payload.clone(), ttl).await?;
            if !is_new && self.has(Fault::LettersTwice) {
                self.store.put_letter(stream, &format!("{key} again"), payload, ttl).await?;
            }
            Ok(is_new)
        })
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        StoreFuture::later(async move {
            let mut letters = self.store.letters_after(stream, after).await?;
            if self.has(Fault::LettersBackwards) {
                letters.reverse();
            }
            if self.has(Fault::LettersOnce) {
                self.store.drop_mailbox(stream).await?;
            }
            Ok(letters)
        })
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.store.drop_mailbox(stream)
    }
}

impl BackendRegistry for Faulty {
    fn renew(
        &self,
        backend: BackendId,
        draining: bool,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Duration, Unavailable>> {
        let ttl = if self.has(Fault::LeaseForEver) { LONG } else { ttl };
        let renewed = self.store.renew(backend, draining && !self.has(Fault::DrainingIsAlive), ttl);
        StoreFuture::later(async move {
            let watched = renewed.await?;
            Ok(if self.has(Fault::BreaksAreForgotten) { LONG } else { watched })
        })
    }

    fn backend_state(&self, backend: BackendId) -> StoreFuture<'_, Result<BackendState, Unavailable>> {
        self.store.backend_state(backend)
    }

    fn backends(&self) -> StoreFuture<'_, Result<Vec<(BackendId, BackendState)>, Unavailable>> {
        StoreFuture::later(async move {
            let mut listed = self.store.backends().await?;
            if self.has(Fault::DeadBackendsVanish) {
                listed.retain(|(_, state)| *state != BackendState::Gone);
            }
            if self.has(Fault::SettledBackendsStay) {
                let mut made = self.made.lock().clone();
                made.retain(|stream| listed.iter().all(|(id, _)| *id != stream.owner));
                listed.extend(made.iter().map(|stream| (stream.owner, BackendState::Gone)));
            }
            Ok(listed)
        })
    }

    fn open_streams(
        &self,
        backend: BackendId,
        limit: usize,
    ) -> StoreFuture<'_, Result<Vec<OpenStream>, Unavailable>> {
        let limit = if self.has(Fault::LimitIsIgnored) { usize::MAX } else { limit };
        StoreFuture::later(async move {
            let mut found = self.store.open_streams(backend, limit).await?;
            if self.has(Fault::SealedIsOpen) {
                let made = self.made.lock();
                let missing = made
                    .iter()
                    .filter(|made| made.owner == backend && found.iter().all(|found| found.id != made.id));
                let missing: Vec<_> = missing
                    .map(|made| OpenStream {
                        id: made.id,
                        kind: made.kind,
                        epoch: made.epoch,
                        tail: 0,
                        session: made.session.clone(),
                        request_id: made.request_id.clone(),
                    })
                    .collect();
                found.extend(missing);
            }
            Ok(found)
        })
    }

    fn release(&self, backend: BackendId) -> StoreFuture<'_, Result<(), Unavailable>> {
        self.store.release(backend)
    }
}

impl KeyStore for Faulty {
    fn shared_keys(&self) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        self.store.shared_keys()
    }

    fn swap_keys(
        &self,
        before: Vec<Bytes>,
        after: Vec<Bytes>,
    ) -> StoreFuture<'_, Result<Vec<Bytes>, Unavailable>> {
        StoreFuture::later(async move {
            let before = if self.has(Fault::AnySwapWins) { self.store.shared_keys().await? } else { before };
            let in_force = self.store.swap_keys(before, after.clone()).await?;
            Ok(if self.has(Fault::LosersKeepTheirKeys) { after } else { in_force })
        })
    }
}

impl WakeBus for Faulty {
    fn subscribe(&self, stream: StreamId) -> Wakeups {
        // The standalone streams of the kit's sessions are not made: whoever waits for one waits for its session.
        let of_a_session = self.made.lock().iter().all(|made| made.id != stream);
        if self.has(Fault::NoWakes) || (self.has(Fault::ChangesDoNotWake) && of_a_session) {
            let (sender, receiver) = watch::channel(0);
            return Wakeups::new(receiver, Some(Box::new(sender)));
        }
        if self.has(Fault::LateSubscription) {
            let (sender, receiver) = watch::channel(0);
            let store = self.store.clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                let mut wakeups = store.subscribe(stream);
                while !sender.is_closed() {
                    wakeups.changed().await;
                    sender.send_modify(|version| *version += 1);
                }
            });
            return Wakeups::new(receiver, None);
        }
        self.store.subscribe(stream)
    }
}

const _: fn(Faulty) -> Box<dyn Store> = |faulty| Box::new(faulty);
