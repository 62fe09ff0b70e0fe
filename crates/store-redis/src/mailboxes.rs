//! Mailboxes in Redis.

use crate::{
    actions::Action,
    call::Call,
    link::strange,
    store::{Inner, RedisStore, later, millis},
};
use bowline_proto::cursor::StreamId;
use bowline_store::{Letter, Mailbox, StoreFuture, Unavailable};
use bytes::Bytes;
use std::time::Duration;

impl Mailbox for RedisStore {
    fn put_letter(
        &self,
        stream: StreamId,
        key: &str,
        payload: Bytes,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let names = &self.inner.names;
        let options = &self.inner.link.options;
        let call = Call::new(Action::Put)
            .key(names.letters(stream))
            .key(names.letter_keys(stream))
            .key(names.waiters(stream));
        let call = self
            .inner
            .introduce(call, stream)
            .arg(key)
            .arg(payload)
            .arg(millis(ttl, 1))
            .arg(options.letters)
            .arg(options.letter_bytes);
        later(self.inner.put(stream, call))
    }

    fn letters_after(
        &self,
        stream: StreamId,
        after: u64,
    ) -> StoreFuture<'_, Result<Vec<Letter>, Unavailable>> {
        let call = Call::new(Action::Letters).key(self.inner.names.letters(stream)).arg(after);
        later(async move {
            let mut reply = self.inner.link.run(call).await?;
            if reply.text().as_deref() != Ok("ok") {
                return Err(strange("letters"));
            }
            let mut letters = Vec::new();
            while let Some(key) = reply.next() {
                let number = after + 1 + letters.len() as u64;
                let key = String::from_utf8(key.into()).map_err(|_| strange("letters"))?;
                let payload = reply.next().ok_or_else(|| strange("letters"))?;
                letters.push(Letter { number, key, payload });
            }
            Ok(letters)
        })
    }

    fn drop_mailbox(&self, stream: StreamId) -> StoreFuture<'_, Result<(), Unavailable>> {
        let names = &self.inner.names;
        let call = Call::new(Action::Empty).key(names.letters(stream)).key(names.letter_keys(stream));
        later(async move { self.inner.link.run(call).await.map(|_| ()) })
    }
}

impl Inner {
    async fn put(&self, stream: StreamId, call: Call) -> Result<bool, Unavailable> {
        let mut reply = self.link.run(call).await?;
        match reply.text().as_deref() {
            Ok("new") => {
                self.waiters.wake(stream);
                Ok(true)
            }
            Ok("again") => Ok(false),
            Ok("full") => {
                self.link.counts.refused.add(1);
                let what = reply.text().map_err(|_| strange("put"))?;
                let limit = reply.number().map_err(|_| strange("put"))?;
                Err(Unavailable(format!(
                    "no room for a message to a running call: {what} of one mailbox is limited to {limit}"
                )))
            }
            _ => Err(strange("put")),
        }
    }
}
