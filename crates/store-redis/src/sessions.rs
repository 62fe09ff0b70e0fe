//! Sessions in Redis.

use crate::{
    actions::Action,
    call::{Call, Strange},
    hints::Hint,
    link::strange,
    listen::read_id,
    store::{Inner, RedisStore, later, millis},
    streams::is_full,
};
use bowline_store::{
    CreateError, SessionLookup, SessionRecord, SessionStore, StoreFuture, Unavailable, UpdateError, Version,
};
use bytes::Bytes;
use std::time::Duration;

impl SessionStore for RedisStore {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        let key = self.inner.names.session(id);
        later(self.inner.create_session(key, record, ttl))
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let key = self.inner.names.session(id);
        later(self.inner.load_session(key))
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let key = self.inner.names.session(id);
        later(self.inner.update_session(key, version, record))
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        let call = Call::new(Action::TouchSession).key(self.inner.names.session(id)).arg(millis(ttl, 1));
        later(async move { self.inner.link.run(call).await.map(|_| ()) })
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let key = self.inner.names.session(id);
        later(self.inner.delete_session(key, tombstone))
    }
}

fn written(record: &SessionRecord) -> Result<Bytes, Unavailable> {
    serde_json::to_vec(record)
        .map(Bytes::from)
        .map_err(|error| Unavailable(format!("a session record cannot be written: {error}")))
}

impl Inner {
    async fn create_session(
        &self,
        key: String,
        record: SessionRecord,
        ttl: Duration,
    ) -> Result<Version, CreateError> {
        let call = Call::new(Action::OpenSession)
            .key(key)
            .arg(self.nonce())
            .arg(format!("{:?}", record.standalone))
            .arg(written(&record)?)
            .arg(millis(ttl, 1));
        let mut reply = match self.link.run(call).await {
            Err(error) if is_full(&error) => {
                self.link.counts.refused.add(1);
                return Err(CreateError::Full { what: "the memory of the Redis server", limit: 0 });
            }
            other => other?,
        };
        match reply.text().as_deref() {
            Ok("ok") => Ok(Version(1)),
            Ok("exists") => Err(CreateError::Exists),
            _ => Err(strange("open_session").into()),
        }
    }

    async fn load_session(&self, key: String) -> Result<SessionLookup, Unavailable> {
        let mut reply = self.link.run(Call::new(Action::LoadSession).key(key)).await?;
        let mut read = || {
            Ok(match reply.text()?.as_str() {
                "unknown" => SessionLookup::Unknown,
                "ended" => SessionLookup::Ended,
                "live" => {
                    let version = Version(reply.number()?);
                    let record = reply.next().ok_or(Strange)?;
                    let record: SessionRecord = serde_json::from_slice(&record).map_err(|_| Strange)?;
                    SessionLookup::Live(version, record.into())
                }
                _ => return Err(Strange),
            })
        };
        read().map_err(|_: Strange| strange("load_session"))
    }

    async fn update_session(
        &self,
        key: String,
        version: Version,
        record: SessionRecord,
    ) -> Result<Version, UpdateError> {
        let call = Call::new(Action::UpdateSession)
            .key(key)
            .arg(self.nonce())
            .arg(version.0)
            .arg(format!("{:?}", record.standalone))
            .arg(written(&record)?);
        let mut reply = self.link.run(call).await?;
        match reply.text().as_deref() {
            Ok("ok") => {
                self.waiters.wake(record.standalone);
                // Its waiters are in another part of the cluster than the session.
                self.hint(record.standalone, Hint::wake());
                reply.number().map(Version).map_err(|_| strange("update_session").into())
            }
            Ok("conflict") => Err(UpdateError::Conflict),
            Ok("gone") => Err(UpdateError::Gone),
            _ => Err(strange("update_session").into()),
        }
    }

    async fn delete_session(&self, key: String, tombstone: Duration) -> Result<bool, Unavailable> {
        let call = Call::new(Action::EndSession).key(key).arg(self.nonce()).arg(millis(tombstone, 1));
        let mut reply = self.link.run(call).await?;
        match reply.text().as_deref() {
            Ok("ok") => {
                if let Some(standalone) = reply.next().and_then(|id| read_id(&id)) {
                    self.waiters.wake(standalone);
                    self.hint(standalone, Hint::wake());
                }
                Ok(true)
            }
            Ok("ended" | "unknown") => Ok(false),
            _ => Err(strange("end_session")),
        }
    }
}
