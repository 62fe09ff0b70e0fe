//! Streams.

use super::SqliteStore;
use crate::{hints::Hint, tx::Write};
use bowline_proto::cursor::StreamId;
use bowline_store::{
    Appended, Attachment, CreateError, Event, EventClass, Figure, NewStream, Page, ReadError, ReadLimit,
    SealedStream, StoreFuture, StreamLog, TakeOver, TakenOver, Unavailable, WriteAt, WriteError,
};
use bytes::Bytes;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

impl StreamLog for SqliteStore {
    fn create(&self, stream: NewStream) -> StoreFuture<'_, Result<(), CreateError>> {
        StoreFuture::later(async move {
            self.change(stream.rerun.as_ref().map_or(0, Bytes::len), move |tx| tx.create(&stream)).await?
        })
    }

    fn create_sealed(&self, stream: SealedStream) -> StoreFuture<'_, Result<(), CreateError>> {
        StoreFuture::later(async move {
            self.change(stream.last.len(), move |tx| tx.create_sealed(&stream)).await?
        })
    }

    fn append(&self, at: WriteAt, event: Event) -> StoreFuture<'_, Result<Appended, WriteError>> {
        StoreFuture::later(self.write(at, Some(event.payload), event.class, None))
    }

    fn seal(
        &self,
        at: WriteAt,
        last: Option<Bytes>,
        keep: Duration,
    ) -> StoreFuture<'_, Result<Appended, WriteError>> {
        StoreFuture::later(self.write(at, last, EventClass::Kept, Some(keep)))
    }

    fn take_over(&self, by: TakeOver) -> StoreFuture<'_, Result<Option<TakenOver>, WriteError>> {
        StoreFuture::later(async move { self.change(0, move |tx| tx.take_over(by)).await? })
    }

    fn read_after(
        &self,
        stream: StreamId,
        after: u64,
        limit: ReadLimit,
    ) -> StoreFuture<'_, Result<Page, ReadError>> {
        StoreFuture::later(async move { self.read(move |view| view.page(stream, after, limit)).await? })
    }

    fn attach(&self, stream: StreamId) -> StoreFuture<'_, Result<Attachment, ReadError>> {
        StoreFuture::later(async move {
            // What the reader before reported has to be in the answer.
            let hint = self.shared().hints.take(stream);
            self.change(0, move |tx| tx.attach(stream, hint.as_ref())).await?
        })
    }

    fn delivered(&self, stream: StreamId, generation: u64, offset: u64) {
        self.hint(stream, |hint| hint.note_delivered(generation, offset));
    }

    fn trim(&self, stream: StreamId, offset: u64) {
        self.hint(stream, |hint| hint.note_trim(offset));
    }

    fn housekeep(&self, budget: usize) {
        self.shared().sweep.fetch_max(budget, Relaxed);
        self.shared().changes.nudge();
    }

    fn figures(&self) -> Vec<Figure> {
        let shared = self.shared();
        shared.counts.figures(shared.changes.len() as u64, shared.waiters.len() as u64)
    }

    fn keep(&self, stream: StreamId, ttl: Duration) {
        let until = self.shared().time.now().plus(ttl);
        self.hint(stream, |hint| hint.note_keep(until));
    }

    fn remove(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        StoreFuture::later(async move {
            // Nothing to remove, nothing to commit.
            if self.read(move |view| view.has_stream(stream).map(Ok)).await? {
                self.change(0, move |tx| tx.remove(stream)).await?;
            }
            Ok(())
        })
    }
}

impl SqliteStore {
    async fn write(
        &self,
        at: WriteAt,
        payload: Option<Bytes>,
        class: EventClass,
        keep: Option<Duration>,
    ) -> Result<Appended, WriteError> {
        self.change(payload.as_ref().map_or(0, Bytes::len), move |tx| {
            tx.append(&Write { at, payload: payload.as_deref(), class, keep })
        })
        .await?
    }

    fn hint(&self, stream: StreamId, change: impl FnOnce(&mut Hint)) {
        if self.shared().hints.note(stream, change) {
            self.shared().changes.nudge();
        }
    }
}
