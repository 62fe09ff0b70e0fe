//! Mailboxes in memory.

use super::{Inner, MemoryLimits, MemoryStore, waiters::wake};
use crate::{Letter, Mailbox, StoreFuture, Unavailable};
use bowline_proto::cursor::StreamId;
use bytes::Bytes;
use std::time::Duration;

/// One box. Letters stay until the box goes, so that their keys are known for as long.
#[derive(Default)]
pub(super) struct LetterBox {
    /// The letter at index `n` has number `n + 1`.
    letters: Vec<Letter>,
    bytes: u64,
}

impl Mailbox for MemoryStore {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        StoreFuture::ready(self.inner.put_letter(stream, key, payload, ttl))
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        let now = self.inner.origin.now();
        let shard = self.inner.shard(stream);
        let letters = shard.mailboxes.get(&stream, now).map_or(&[][..], |letters| &letters.letters);
        let start = usize::try_from(after).unwrap_or(usize::MAX).min(letters.len());
        StoreFuture::ready(Ok(letters[start..].to_vec()))
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        if let Some(letters) = self.inner.shard(stream).mailboxes.remove(&stream) {
            self.inner.forget_letters(&letters);
        }
        StoreFuture::ready(Ok(()))
    }
}

impl Inner {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> Result<bool, Unavailable> {
        let now = self.origin.now();
        let deadline = now.plus(ttl);
        let waker = {
            let mut shard = self.shard(stream);
            if shard.mailboxes.get(&stream, now).is_none() {
                // One that is past its time and not yet swept makes place for a new one.
                if let Some(ended) = shard.mailboxes.remove(&stream) {
                    self.forget_letters(&ended);
                }
                if !self.counts.mailboxes.reserve(1, self.limits.mailboxes) {
                    return Err(self.full("mailboxes", self.limits.mailboxes));
                }
                shard.mailboxes.insert(stream, LetterBox::default(), deadline);
            }
            let Some(letters) = shard.mailboxes.get_mut(&stream, now) else {
                // Only with a time to live of nothing.
                return Ok(true);
            };
            let is_new = letters.letters.iter().all(|letter| letter.key != key);
            if is_new && let Err(full) = self.add_letter(letters, key, payload) {
                if letters.letters.is_empty()
                    && let Some(empty) = shard.mailboxes.remove(&stream)
                {
                    self.forget_letters(&empty);
                }
                return Err(full);
            }
            shard.mailboxes.prolong(&stream, deadline, now);
            if !is_new {
                return Ok(false);
            }
            shard.waiter(stream)
        };
        waker.iter().for_each(wake);
        Ok(true)
    }

    fn add_letter(&self, to: &mut LetterBox, key: &str, payload: Bytes) -> Result<(), Unavailable> {
        let cost = (key.len() + payload.len()) as u64 + MemoryLimits::EVENT_OVERHEAD;
        let count = to.letters.len() as u64;
        if count >= self.limits.letters {
            return Err(self.full("letters of one mailbox", self.limits.letters));
        }
        if to.bytes + cost > self.limits.letter_bytes {
            return Err(self.full("bytes of one mailbox", self.limits.letter_bytes));
        }
        if !self.counts.letter_bytes.reserve(cost, self.limits.all_letter_bytes) {
            return Err(self.full("bytes of all mailboxes", self.limits.all_letter_bytes));
        }
        to.letters.push(Letter { number: count + 1, key: key.to_owned(), payload });
        to.bytes += cost;
        Ok(())
    }

    fn full(&self, what: &str, limit: u64) -> Unavailable {
        self.counts.refused.add(1);
        Unavailable(format!("no room for a message to a running call: {what} is limited to {limit}"))
    }

    /// Settles the accounts of a box that was taken out.
    pub(super) fn forget_letters(&self, letters: &LetterBox) {
        self.counts.mailboxes.sub(1);
        self.counts.letter_bytes.sub(letters.bytes);
    }
}
