//! Mailboxes.

use super::SqliteStore;
use bowline_proto::cursor::StreamId;
use bowline_store::{Letter, Mailbox, StoreFuture, Unavailable};
use bytes::Bytes;
use std::time::Duration;

impl Mailbox for SqliteStore {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let key = key.to_owned();
        StoreFuture::later(async move {
            let bytes = key.len() + payload.len();
            self.change(bytes, move |tx| tx.put_letter(stream, &key, &payload, ttl)).await?
        })
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        StoreFuture::later(async move { self.read(move |view| view.letters(stream, after).map(Ok)).await })
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        StoreFuture::later(async move {
            // Most calls get no letter: nothing to drop, nothing to commit.
            if self.read(move |view| view.has_mailbox(stream).map(Ok)).await? {
                self.change(0, move |tx| tx.drop_mailbox(stream)).await?;
            }
            Ok(())
        })
    }
}
