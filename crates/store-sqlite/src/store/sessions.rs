//! Sessions.

use super::SqliteStore;
use bowline_store::{
    CreateError, SessionLookup, SessionRecord, SessionStore, StoreFuture, Unavailable, UpdateError, Version,
};
use std::time::Duration;

impl SessionStore for SqliteStore {
    fn create_session(
        &self,
        id: &str,
        record: SessionRecord,
        ttl: Duration,
    ) -> StoreFuture<'_, Result<Version, CreateError>> {
        let id = id.to_owned();
        StoreFuture::later(async move {
            let text = text(&record)?;
            let standalone = record.standalone;
            self.change(text.len(), move |tx| tx.create_session(&id, &text, standalone, ttl)).await?
        })
    }

    fn load_session(&self, id: &str) -> StoreFuture<'_, Result<SessionLookup, Unavailable>> {
        let id = id.to_owned();
        StoreFuture::later(async move { self.read(move |view| view.session(&id)).await })
    }

    fn update_session(
        &self,
        id: &str,
        version: Version,
        record: SessionRecord,
    ) -> StoreFuture<'_, Result<Version, UpdateError>> {
        let id = id.to_owned();
        StoreFuture::later(async move {
            let text = text(&record)?;
            let standalone = record.standalone;
            self.change(text.len(), move |tx| tx.update_session(&id, version, &text, standalone)).await?
        })
    }

    fn touch_session(&self, id: &str, ttl: Duration) -> StoreFuture<'_, Result<(), Unavailable>> {
        let id = id.to_owned();
        StoreFuture::later(async move { self.change(0, move |tx| tx.touch_session(&id, ttl)).await })
    }

    fn delete_session(&self, id: &str, tombstone: Duration) -> StoreFuture<'_, Result<bool, Unavailable>> {
        let id = id.to_owned();
        StoreFuture::later(async move { self.change(0, move |tx| tx.delete_session(&id, tombstone)).await })
    }
}

fn text(record: &SessionRecord) -> Result<String, Unavailable> {
    serde_json::to_string(record)
        .map_err(|error| Unavailable(format!("the record of a session cannot be written: {error}")))
}
