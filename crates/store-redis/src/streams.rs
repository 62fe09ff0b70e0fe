//! Streams in Redis: the log as the store has it, and its writes.

mod reading;

use crate::{
    actions::Action,
    call::{Arg, Call, MOST, Reply, Strange},
    hints::Hint,
    link::strange,
    resend::Outcome,
    store::{Inner, RedisStore, later, millis},
    tails::Seal,
};
use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, CreateError, Event, EventClass, Figure, NewStream, Page, ReadError, ReadLimit,
    SealedStream, StoreFuture, StreamKind, StreamLog, TakeOver, TakenOver, Unavailable, WriteAt, WriteError,
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

impl StreamLog for RedisStore {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        later(self.inner.create(stream))
    }

    fn create_sealed(&self, stream: SealedStream) -> StoreFuture<'_, Result<(), CreateError>> {
        later(self.inner.create_sealed(stream))
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        later(self.inner.append(at, event))
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        later(self.inner.seal(Seal { at, last, keep }))
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        later(self.inner.take_over(by))
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        later(self.inner.read_after(stream, after, limit))
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        later(self.inner.attach(stream))
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        self.inner.hint(stream, Hint::delivered(generation, offset));
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        self.inner.hint(stream, Hint::trim(offset));
    }

    fn figures(&self) -> Vec<Figure> {
        let counts = &self.inner.link.counts;
        counts.subscriptions.set(self.inner.waiters.subscriptions());
        counts.figures(self.inner.link.up().is_some())
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        self.inner.tails.lock().kept(stream, after(ttl));
        self.inner.hint(stream, Hint::keep(ttl));
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        later(async move {
            self.inner.tails.lock().forget(stream);
            self.inner.remove_stream(stream).await
        })
    }
}

fn after(span: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(span).unwrap_or(now)
}

/// A number that may be larger than what is exact there.
const fn exact(number: u64) -> Option<u64> {
    if number <= MOST { Some(number) } else { None }
}

impl Inner {
    /// Notes something to be said when there is time.
    pub(crate) fn hint(&self, stream: StreamId, hint: Hint) {
        if !self.hints.add(stream, hint, self.link.options.pending_hints) {
            self.link.counts.hints_dropped.add(1);
        }
    }

    async fn create(self: &Arc<Self>, stream: NewStream) -> Result<(), CreateError> {
        let names = &self.names;
        let (id, epoch) = (stream.id, stream.epoch);
        let is_call = stream.kind == StreamKind::Call;
        if is_call {
            self.enlist(stream.owner).await?;
        }
        // One sign tells an empty text from none.
        let optional = |text: Option<String>| text.map_or_else(String::new, |text| format!("={text}"));
        let call = Call::new(Action::Create)
            .key(names.record(id))
            .key(names.events(id))
            .key(names.owned(names.partition(id), stream.owner))
            .key(names.rerun(id))
            .arg(format!("{id:?}"))
            .arg(self.nonce())
            .arg(epoch)
            .arg(stream.owner.to_string())
            .arg(!is_call)
            .arg(stream.max_events)
            .arg(stream.max_bytes)
            .arg(millis(stream.open_ttl, 1))
            .arg(self.tag.as_str())
            .arg(optional(stream.session))
            .arg(optional(stream.request_id))
            .arg(format!("{:x}", stream.incarnation))
            .args(stream.rerun);
        self.made(self.link.run(call).await, "create")?;
        if !self.link.options.tail.is_zero() {
            self.tails.lock().made(id, epoch, after(stream.open_ttl));
        }
        Ok(())
    }

    /// The stream is nobody's to end, so its owner has nothing to be enlisted for.
    async fn create_sealed(self: &Arc<Self>, stream: SealedStream) -> Result<(), CreateError> {
        let at = stream.place();
        let limit = self.link.options.event_bytes;
        if stream.last.len() > limit {
            self.link.counts.refused.add(1);
            return Err(CreateError::Full { what: "bytes of one event", limit: limit as u64 });
        }
        let call = Call::new(Action::CreateSealed)
            .key(self.names.record(at.stream))
            .key(self.names.events(at.stream))
            .arg(self.nonce())
            .arg(at.epoch)
            .arg(stream.owner.to_string())
            .arg(millis(stream.keep, 1))
            .arg(self.tag.as_str())
            .arg(stream.last.len() as u64)
            .arg(Arg::Event { epoch: at.epoch, offset: at.offset, payload: stream.last.clone() });
        self.made(self.link.run(call).await, "create_sealed")?;
        if !self.link.options.tail.is_zero() {
            let mut tails = self.tails.lock();
            tails.made(at.stream, at.epoch, after(stream.keep));
            tails.sealed(Seal { at, last: Some(stream.last), keep: stream.keep }, &self.link.options);
        }
        self.waiters.wake(at.stream);
        Ok(())
    }

    /// What came of making a stream.
    fn made(&self, reply: Result<Reply, Unavailable>, action: &'static str) -> Result<(), CreateError> {
        let mut reply = match reply {
            Err(error) if is_full(&error) => {
                self.link.counts.refused.add(1);
                return Err(CreateError::Full { what: FULL, limit: 0 });
            }
            other => other?,
        };
        match reply.text().as_deref() {
            Ok("ok") => Ok(()),
            Ok("exists") => Err(CreateError::Exists),
            _ => Err(strange(action).into()),
        }
    }

    async fn take_over(self: &Arc<Self>, by: TakeOver) -> Result<Option<TakenOver>, WriteError> {
        let (names, id) = (&self.names, by.stream);
        self.may_write(WriteAt { stream: id, epoch: by.epoch, offset: 0 })?;
        self.enlist(by.owner).await?;
        let call = Call::new(Action::TakeOver)
            .key(names.record(id))
            .key(names.events(id))
            .key(names.waiters(id))
            .key(names.owners(names.partition(id)))
            .key(names.rerun(id));
        let call = self
            .introduce(call, id)
            .arg(by.epoch)
            .arg(by.owner.to_string())
            .arg(millis(by.open_ttl, 1))
            .arg(self.tag.as_str());
        let mut reply = self.or_woken(id, self.link.run(call).await)?;
        match read_taken(&mut reply).map_err(|_| strange("take_over"))? {
            Ok(Some(taken)) => {
                if !self.link.options.tail.is_zero() {
                    self.tails.lock().taken(id, by.epoch, taken.tail, after(by.open_ttl));
                }
                self.waiters.wake(id);
                Ok(Some(taken))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.refused(id, error, false)),
        }
    }

    async fn append(self: &Arc<Self>, at: WriteAt, event: Event) -> Result<Appended, WriteError> {
        let droppable = event.class == EventClass::Droppable;
        self.fits(&event.payload)?;
        let mut completed = false;
        loop {
            self.may_write(at)?;
            let reply = self.link.run(self.append_call(at, event.payload.clone(), droppable)).await;
            let reply = match reply {
                Err(error) if droppable && is_full(&error) => {
                    self.link.counts.events_dropped.add(1);
                    return Err(WriteError::Full { what: FULL, limit: 0 });
                }
                other => self.or_woken(at.stream, other)?,
            };
            match self.written(reply, "append") {
                Ok(appended) => {
                    self.tails.lock().acked(at, event.payload, &self.link.options);
                    self.waiters.wake(at.stream);
                    return Ok(appended);
                }
                Err(WriteError::OutOfOrder { tail }) if !completed => {
                    completed = true;
                    self.complete_before(at, tail).await?;
                }
                Err(error) => return Err(self.refused(at.stream, error, droppable)),
            }
        }
    }

    async fn seal(self: &Arc<Self>, seal: Seal) -> Result<Appended, WriteError> {
        let at = seal.at;
        if let Some(last) = &seal.last {
            self.fits(last)?;
        }
        let mut completed = false;
        loop {
            self.may_write(at)?;
            let reply = self.or_woken(at.stream, self.link.run(self.seal_call(&seal)).await)?;
            match self.written(reply, "seal") {
                Ok(appended) => {
                    if appended == Appended::New {
                        self.tails.lock().sealed(seal, &self.link.options);
                    }
                    self.waiters.wake(at.stream);
                    return Ok(appended);
                }
                Err(WriteError::OutOfOrder { tail }) if !completed => {
                    completed = true;
                    self.complete_before(at, tail).await?;
                }
                Err(error) => return Err(self.refused(at.stream, error, false)),
            }
        }
    }

    /// A write whose outcome is not known may have had an effect: readers here look.
    fn or_woken(&self, stream: StreamId, reply: Result<Reply, Unavailable>) -> Result<Reply, WriteError> {
        reply.map_err(|error| {
            self.waiters.wake(stream);
            error.into()
        })
    }

    fn fits(&self, payload: &Bytes) -> Result<(), WriteError> {
        let limit = self.link.options.event_bytes;
        if payload.len() <= limit {
            return Ok(());
        }
        self.link.counts.refused.add(1);
        Err(WriteError::Full { what: "bytes of one event", limit: limit as u64 })
    }

    fn may_write(&self, at: WriteAt) -> Result<(), WriteError> {
        let is_impossible = exact(at.epoch).is_none() || exact(at.offset).is_none();
        if is_impossible || self.tails.lock().is_given_up(at.stream) {
            return Err(WriteError::Gone);
        }
        Ok(())
    }

    /// The log is not where its writer says. Where Redis lost some of it, it is completed; else the writer is wrong.
    async fn complete_before(&self, at: WriteAt, tail: u64) -> Result<(), WriteError> {
        let wrong = WriteError::OutOfOrder { tail };
        if tail + 1 >= at.offset {
            return Err(wrong);
        }
        match self.complete(at.stream, at.epoch, tail, false).await? {
            Outcome::Whole => Ok(()),
            Outcome::Nothing => Err(wrong),
            Outcome::GivenUp => Err(WriteError::Gone),
        }
    }

    fn written(&self, mut reply: Reply, action: &'static str) -> Result<Appended, WriteError> {
        let mut read = || {
            Ok(match reply.text()?.as_str() {
                "new" => Ok(Appended::New),
                "again" => Ok(Appended::Again),
                "gone" => Err(WriteError::Gone),
                "sealed" => Err(WriteError::Sealed),
                "fenced" => Err(WriteError::Fenced { epoch: reply.number()? }),
                "order" => Err(WriteError::OutOfOrder { tail: reply.number()? }),
                "full" => {
                    let what = match reply.text()?.as_str() {
                        "events" => "events of one stream",
                        _ => "bytes of one stream",
                    };
                    Err(WriteError::Full { what, limit: reply.number()? })
                }
                _ => return Err(Strange),
            })
        };
        read().unwrap_or_else(|_| Err(strange(action).into()))
    }

    /// Notes a refusal.
    fn refused(&self, stream: StreamId, error: WriteError, droppable: bool) -> WriteError {
        match &error {
            WriteError::Gone | WriteError::Sealed | WriteError::Fenced { .. } => {
                self.tails.lock().forget(stream);
            }
            WriteError::Full { .. } if droppable => self.link.counts.events_dropped.add(1),
            WriteError::Full { .. } => self.link.counts.refused.add(1),
            _ => {}
        }
        error
    }

    pub(crate) async fn remove_stream(&self, stream: StreamId) -> Result<(), Unavailable> {
        let names = &self.names;
        let call = Call::new(Action::Remove)
            .key(names.record(stream))
            .key(names.events(stream))
            .key(names.waiters(stream))
            .key(names.owners(names.partition(stream)))
            .key(names.rerun(stream));
        self.link.run(self.introduce(call, stream)).await?;
        self.waiters.wake(stream);
        Ok(())
    }
}

fn read_taken(reply: &mut Reply) -> Result<Result<Option<TakenOver>, WriteError>, Strange> {
    let optional = |text: String| text.strip_prefix('=').map(str::to_owned);
    Ok(match reply.text()?.as_str() {
        "taken" => Ok(Some(TakenOver {
            tail: reply.number()?,
            session: optional(reply.text()?),
            request_id: optional(reply.text()?),
            rerun: reply.next().ok_or(Strange)?,
        })),
        "none" => Ok(None),
        "gone" => Err(WriteError::Gone),
        "sealed" => Err(WriteError::Sealed),
        "fenced" => Err(WriteError::Fenced { epoch: reply.number()? }),
        _ => return Err(Strange),
    })
}

const FULL: &str = "the memory of the Redis server";

/// Whether the server has no memory left.
pub(crate) fn is_full(error: &Unavailable) -> bool {
    error.0.contains("OOM")
}
